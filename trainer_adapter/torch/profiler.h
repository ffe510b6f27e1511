#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "costmodel/architecture.h"
#include "costmodel/profile.h"

namespace isocost {

/// Runs a module; what it returns is differentiated if it requires gradients.
using ProfiledForward = std::function<at::Tensor()>;
/// Makes inputs for packed sequences of these lengths.
using PrepareForward = std::function<ProfiledForward(std::span<const std::int64_t> lengths)>;

/// A module cut otherwise: as one of `tensor` ranks that share its layers, each in a process of its
/// own (see ProfilerOptions::agree), or with so many of its layers alone (0: all).
struct ProfiledCut {
  PrepareForward prepare;
  std::int64_t tensor = 1;
  std::int64_t layers = 0;
};

/// One module to measure: the twin of Python's isocost.ProfiledModule.
struct ProfiledModule {
  PrepareForward prepare = {};
  std::int64_t shortest = 1;
  std::int64_t longest = 1;
  std::int64_t most_units = 1;  ///< In one microbatch.
  std::int64_t multiple = 1;    ///< Lengths are multiples of this.
  /// What memory and layouts follow from; empty: not said.
  std::optional<Architecture> architecture = {};
  std::vector<ProfiledCut> cuts = {};  ///< Measured at the largest loads.
};

struct ProfilerOptions {
  /// Every load of the first grid is run at least 5 times regardless, twice to warm up.
  std::chrono::duration<double> budget{60};
  std::function<void(const std::string&)> progress = {};  ///< A line for each point; may be empty.
  /// Gives the processes that measure together the first one's value (a broadcast), so that all of
  /// them decide alike; empty: this one measures alone.
  std::function<double(double)> agree = {};
};

/// Measures forward and backward over a grid of lengths and counts, and where the curve bends, as
/// docs/profile.md says: seconds by a monotonic clock around work that the device has finished,
/// peaks of memory by what libtorch's allocators say. Blocks for the budget. What libtorch throws
/// is thrown on, but for running out of memory. Errors: kInvalidArgument for bounds or cuts that
/// cannot be, kResourceExhausted where the smallest load runs out of memory.
Result<ModuleProfile> profile_module(const std::string& name, const ProfiledModule& module,
                                     const ProfilerOptions& options);

}  // namespace isocost
