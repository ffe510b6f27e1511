#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "loader/plan/mixture/proportion_schedule.h"
#include "loader/plan/mixture/step_ranges.h"

namespace isocost {

/// Most sources of a mixture.
inline constexpr std::size_t kMostSources = 256;

/// A data set of a mixture.
struct MixtureSource {
  std::string name;
  std::uint64_t size = 0;         ///< Usable samples.
  std::uint64_t fingerprint = 0;  ///< The hash of its samples.
  ProportionSchedule schedule;    ///< Without breakpoints: in proportion to its size.
  std::uint64_t epochs = 0;       ///< Times that each sample is drawn at most; 0: without limit, or
                                  ///< once without breakpoints.

  bool operator==(const MixtureSource&) const = default;
};

/// Options of a mixture, which decide the samples of every step.
struct MixtureOptions {
  std::vector<MixtureSource> sources;  ///< In any order.
  std::uint64_t seed = 0;
  bool shuffled = true;  ///< Whether sources are drawn in random order.
  /// With shuffle = blocks, the shards of a window; 0: sources are permuted as a whole.
  std::uint64_t shuffle_shards = 0;
  std::uint64_t global_batch_size = 1;  ///< Samples.
  std::uint64_t steps = 0;              ///< Limit of positions; 0: none.
  SkippedSteps skipped;

  bool operator==(const MixtureOptions&) const = default;
};

/// The samples that each source gives to a step.
struct StepDraws {
  std::vector<std::uint64_t> before;  ///< Samples drawn from each source in earlier positions.
  std::vector<std::uint64_t> counts;  ///< Samples of this one; all 0 behind the end.
  /// The sources that have got all of their `epochs` with this position. The others share their
  /// proportions from here on.
  std::vector<std::size_t> ended;

  /// Returns the number of samples.
  std::uint64_t size() const;
};

/// Returns the seed of a source's order, which follows from the job's seed and the source's name.
std::uint64_t source_seed(std::uint64_t seed, std::string_view name);

/// How many samples each source gives to each global batch. This is arithmetic in integers: it is
/// the same on every machine, for any order of the sources in a file, and for any number of ranks.
/// The draw of a position depends only on sources whose proportion has been positive by then, and
/// on no breakpoint behind it (but for the end of a ramp that has begun).
///
/// A source whose proportion is 0 gives nothing. Otherwise the samples drawn from a source so far
/// stay close to its cumulative share: with two sources within 1/2 at any step, and with n within
/// 1 + log2 n: see internal/draw_walk.h.
///
/// Internally synchronised: it remembers some positions, so that neighbours cost no walk from the
/// start. A walk over 10^6 positions takes some 0.1 s with 3 sources, and 0.4 s with 17.
class Mixture {
 public:
  /// Errors: kInvalidArgument that names the source and a remedy.
  static Result<std::shared_ptr<const Mixture>> create(MixtureOptions options);
  ~Mixture();
  Mixture(const Mixture&) = delete;
  Mixture& operator=(const Mixture&) = delete;

  /// Returns the options, with the sources in the order of their names. Counts of StepDraws are in
  /// this order.
  const MixtureOptions& options() const { return options_; }
  std::span<const MixtureSource> sources() const { return options_.sources; }
  /// Returns whether no source has a proportion: then the mixture is one pass over all samples.
  bool by_size() const;
  /// Returns the number of positions; nothing if the mixture has no end.
  std::optional<std::uint64_t> length() const { return length_; }
  /// Returns the samples of a position, which are a batch but for the last one.
  std::uint64_t batch_size(std::uint64_t position) const;
  /// Returns the draws of a position. Skipped positions have draws as well, so that the others keep
  /// theirs.
  StepDraws draws(std::uint64_t position) const ISOCOST_EXCLUDES(mutex_);

 private:
  struct Walked;
  explicit Mixture(MixtureOptions options);

  void count_positions();
  bool always_fed(bool last) const;
  std::uint64_t first_empty(std::uint64_t most);

  MixtureOptions options_;
  std::vector<ProportionSchedule>
      schedules_;                      // of the sources; sizes stand for proportions by size
  std::vector<std::uint64_t> limits_;  // most samples of each source
  std::optional<std::uint64_t> length_;
  std::uint64_t last_size_ = 0;  // samples of the last position, if there is one
  mutable Mutex mutex_;
  const std::unique_ptr<Walked> walked_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
