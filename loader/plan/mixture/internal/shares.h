#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/plan/mixture/proportion_schedule.h"

namespace isocost {

/// Shares are whole numbers of this part of a step: the shares of a step add up to exactly
/// 2^kShareBits. So one mixture has the same shares on every machine, each with an error below
/// 2e-12. With it a step's 10^7 samples fit into 63 bits.
inline constexpr int kShareBits = 39;
inline constexpr std::int64_t kWholeShare = std::int64_t{1} << kShareBits;

/// The shares of sources at one step after the other. Those of step k depend on breakpoints up to k
/// and on the ends of ramps that have begun by then, and on no source whose proportion was 0 until
/// then. Single-thread.
///
/// A *turn* is a step at which a source's proportion jumps, or a ramp begins or ends. At a turn the
/// proportions are normalised. They are held until the next turn, unless a ramp runs: then they are
/// also normalised as they will be at the end of the first ramp that ends, if nothing else changes,
/// and the shares run linearly from one to the other. A ramp that a turn interrupts goes on from
/// the proportion that it has reached.
class Shares {
 public:
  /// The schedules must be valid, outlive this object, and stand in the order of the sources'
  /// names. Begins at step 0.
  explicit Shares(std::span<const ProportionSchedule> schedules);

  /// Goes to any step.
  void move_to(std::uint64_t step);
  /// Goes to the next step.
  void advance();

  std::uint64_t step() const { return step_; }
  /// Returns the share of each source at this step; all are 0 if no proportion is positive.
  std::span<const std::int64_t> now() const { return shares_; }
  /// Returns whether `advance` has changed the shares.
  bool changed() const { return changed_; }
  /// Returns the turns in ascending order, step 0 first.
  std::span<const std::uint64_t> turns() const { return turns_; }

 private:
  // The sum of the shares up to a source: floor(first + slope * (step - begin) / length), kept as
  // quotient and remainder, so that a step costs no division.
  struct Line {
    std::int64_t sum = 0;
    std::int64_t rest = 0;
    std::int64_t sum_slope = 0;
    std::int64_t rest_slope = 0;
  };
  void find_turns();
  void begin_stretch(std::uint64_t turn);
  void set_line(Line& line, std::int64_t from, std::int64_t to, std::uint64_t steps) const;
  void update();

  std::span<const ProportionSchedule> schedules_;
  std::vector<std::uint64_t> turns_;
  std::uint64_t step_ = 0;
  std::uint64_t next_turn_ = 0;  // the first one after step_
  std::int64_t length_ = 1;      // steps of the ramp that ends first
  bool ramps_ = false;
  bool changed_ = true;
  std::vector<Line> lines_;
  std::vector<std::int64_t> shares_;
};

}  // namespace isocost
