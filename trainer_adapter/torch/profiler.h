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

/// Runs a module and returns its output, which is differentiated if it requires gradients.
using ProfiledForward = std::function<at::Tensor()>;
/// Makes inputs for packed sequences of these lengths (patches, audio positions or tokens), and
/// returns the forward pass over them.
using PrepareForward = std::function<ProfiledForward(std::span<const std::int64_t> lengths)>;

/// A part of a module, measured in addition to the whole: the part of one of `tensor` ranks that
/// share its layers, each in a process of its own (see ProfilerOptions::agree), or only `layers` of
/// its layers.
struct ProfiledCut {
  PrepareForward prepare;
  std::int64_t tensor = 1;
  std::int64_t layers = 0;  ///< Layers that run; 0: all.
};

/// One module to measure: the counterpart of Python's isocost.ProfiledModule.
struct ProfiledModule {
  PrepareForward prepare = {};
  std::int64_t shortest = 1;    ///< Units of the shortest sequence.
  std::int64_t longest = 1;     ///< Units of the longest sequence.
  std::int64_t most_units = 1;  ///< Units of the largest microbatch.
  std::int64_t multiple = 1;    ///< Every length is a multiple of this.
  /// The module's dimensions, from which memory and layouts follow; empty: unknown.
  std::optional<Architecture> architecture = {};
  std::vector<ProfiledCut> cuts = {};  ///< Measured at the largest loads.
};

struct ProfilerOptions {
  /// Time to spend. Every load of the first grid and of the cuts runs at least 5 times regardless,
  /// twice to warm up.
  std::chrono::duration<double> budget{60};
  std::function<void(const std::string&)> progress = {};  ///< A line for each load; may be empty.
  /// Returns the first process's value in all processes that measure together (a broadcast), so
  /// that all of them decide alike; empty: only this process measures.
  std::function<double(double)> agree = {};
};

/// Measures forward and backward seconds and peak memory of a module by the method of
/// costmodel/profiling_method.h. Returns the module's part of a model profile. Seconds are those of
/// a monotonic clock around work that the device has finished; peak memory is what libtorch's
/// allocators report. Leaves gradients in the module's parameters. Blocks for the budget. Errors:
/// kInvalidArgument for impossible limits or cuts and for a clock that stands still,
/// kResourceExhausted if the smallest load runs out of memory. Exceptions of `prepare` and of
/// the module reach the caller, except for running out of memory.
Result<ModuleProfile> profile_module(const std::string& name, const ProfiledModule& module,
                                     const ProfilerOptions& options);

}  // namespace isocost
