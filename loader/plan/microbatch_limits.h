#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "balancer/partition/balance.h"
#include "base/fingerprint.h"
#include "base/load.h"
#include "base/result.h"
#include "costmodel/profile.h"
#include "loader/plan/plan_options.h"

namespace isocost {

/// Upper limits of a microbatch's contents: max_tokens, max_vision_tokens, max_memory and
/// microbatch_memory of PlanOptions, as resources of the balancer. Whether a sample or a microbatch
/// fits is decided here, whoever asks: the data set when it is opened, the decoder, the composer of
/// batches and the planner. Immutable; const-safe.
class MicrobatchLimits {
 public:
  /// Checks the values of the four options, and that the policy keeps limits. Errors:
  /// kInvalidArgument.
  static Status validate(const PlanOptions& options);
  /// Returns whether any of the four options is given.
  static bool any_given(const PlanOptions& options);
  /// Adds the given options to the hash of what decides which samples share a batch.
  static void add_to(Fingerprint& hash, const PlanOptions& options);

  /// Makes an object without limits.
  MicrobatchLimits() = default;
  /// Takes the bytes of activations from `profile`. Errors: kInvalidArgument if max_memory is given
  /// and the profile does not contain them.
  static Result<MicrobatchLimits> create(const PlanOptions& options, const CostProfile& profile);

  /// Returns the limits less what `load` takes, of each at least 1.
  MicrobatchLimits without(const Load& load) const;

  bool empty() const { return limits_.empty(); }
  std::vector<Resource> resources() const;
  /// Appends the amount of each resource that a sample takes, in the order of the resources. Its
  /// LLM tokens count with the padding that brings them to PlanOptions::padded_multiple.
  void append_sizes(const Load& load, std::vector<std::int64_t>& sizes) const;
  /// Appends the same amounts, each limited to the cap: the room that a sample takes in a
  /// microbatch. A sample beyond a limit takes all of it.
  void append_room_taken(const Load& load, std::vector<std::int64_t>& sizes) const;
  /// Returns whether a microbatch can hold the load.
  bool holds(const Load& load) const { return broken(load) == nullptr; }
  /// Returns why no microbatch can hold the load, with its numbers; nothing if one can.
  std::optional<std::string> why_too_large(const Load& load) const;
  /// Returns whether a microbatch of these samples, as they are run, keeps the limits. A single
  /// sample that exceeds a limit is allowed if no other sample uses what the limit counts.
  bool keeps(const std::vector<Load>& run) const;
  /// Returns a number of microbatches (of all ranks) below which the limits cannot be kept. It
  /// follows from the sums, and from the samples larger than half a limit, no two of which share a
  /// microbatch.
  std::int64_t least_microbatches(const std::vector<Load>& loads) const;
  /// Returns the error for a step of `loads` that does not fit into `microbatches` (of all ranks):
  /// it says by how much, and what would help.
  Error too_full(const std::vector<Load>& loads, std::size_t microbatches) const;

 private:
  friend class MicrobatchRoom;
  enum class Measure : std::uint8_t { kTokens, kVisionTokens, kMemory, kTensorBytes };
  struct Option;
  struct Limit {
    Measure measure;
    const char* option;
    const char* unit;
    std::int64_t cap;
  };
  static const std::array<Option, 4>& all_options();
  /// Returns the first limit that the load exceeds; null: none.
  const Limit* broken(const Load& load) const;
  /// Returns advice for a limit that is too low: `otherwise`, preceded by measuring the model's
  /// memory if that is only assumed.
  std::string remedy(const Limit& limit, const std::string& otherwise) const;
  std::int64_t units(const Load& load, CostModule module) const;
  std::int64_t size(const Load& load, Measure measure) const;
  std::int64_t sum(const std::vector<Load>& loads, Measure measure) const;

  std::vector<Limit> limits_;
  std::int64_t padded_multiple_ = 1;                 // for lengths of the LLM's sequences
  bool assumes_model_ = false;                       // whether the profile is the built-in one
  std::array<double, kModules> activation_bytes_{};  // per unit, by module
};

/// The room that is left in a microbatch while it is filled. Single-thread; `limits` must outlive
/// it.
class MicrobatchRoom {
 public:
  explicit MicrobatchRoom(const MicrobatchLimits& limits);
  /// Takes the room of a sample. Returns false if it has none; then nothing is to be added.
  bool add(const Load& load);

 private:
  const MicrobatchLimits& limits_;
  std::vector<std::int64_t> left_;  // by limit
};

}  // namespace isocost
