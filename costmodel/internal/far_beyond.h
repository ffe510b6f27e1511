#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isocost {

/// Multiple of what is expected beyond which a module's time is far beyond it.
inline constexpr double kFarBeyond = 100;

/// Decides whether a time of one module counts that is far beyond its prediction. The first of its
/// kind does not: a process that was stopped, or a clock that jumped, measures one. If the next of
/// its kind is far beyond too, the expectation is wrong, and it counts.
///
/// Before any time has counted, only the profile is known, whose scale may be wrong on all ranks.
/// A kind is then any rank's time, so a job on hardware far slower than the profile's loses one
/// measurement altogether. Afterwards a kind is one rank's time, and a time is expected to be what
/// is predicted or what the latest times say, whichever is larger: predictions follow measurements
/// only when a step is complete.
class FarBeyond {
 public:
  /// Takes a time, its prediction (0: there is none), and the profile's uncorrected seconds, which
  /// are above 0. Returns what is expected if the time is far beyond it and does not count; 0 if it
  /// counts.
  double take(std::int32_t rank, double seconds, double predicted_s, double profile_s);
  /// Forgets all ranks and times: the next job may run on other hardware.
  void forget();

 private:
  // Enough for the median to ignore several absurd times.
  static constexpr std::size_t kLatest = 15;

  double median() const;

  std::array<double, kLatest> latest_{};  // seconds over the profile's, of times that counted
  std::size_t counted_ = 0;
  bool first_was_far_ = false;  // the last time, while none has counted
  std::vector<bool> was_far_;   // by rank: its last time, afterwards
};

}  // namespace isocost
