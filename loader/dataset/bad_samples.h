#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/count_or_share.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/internal/bad_sample_file.h"

namespace isocost {

enum class BadSamplePolicy : std::uint8_t { kSkip, kReplace, kFail };

/// Treatment of samples that cannot be used. See docs/config.md.
struct BadSampleOptions {
  BadSamplePolicy policy = BadSamplePolicy::kSkip;
  /// Limit of a source beyond which training ends: a count, or a percentage of the examined
  /// samples. Fewer than ten bad samples exceed only the percentage 0%.
  std::string max = "1%";
  std::filesystem::path file = "bad_samples.jsonl";
};

/// Counts bad samples, each once however many epochs meet it, and lists them in a file of JSON
/// lines that is created with the first one. Logs the first one and each doubling of their number.
/// A file that cannot be written is logged once, and training continues. `count` is thread-safe;
/// the other functions belong to one thread at a time, because they write to the file.
class BadSampleList {
 public:
  /// Creates the list. Errors: kInvalidArgument if options.max is neither a count nor a percentage,
  /// or if options.file exists and is not the list of an earlier run.
  static Result<std::unique_ptr<BadSampleList>> create(const BadSampleOptions& options,
                                                       LogSink log);

  /// Begins to count for each of these sources, by whose names their shards begin; before, all
  /// samples are of one.
  void count_by(std::span<const DatasetSource> sources);

  /// Counts and lists the samples that indexing found bad. Errors: those of `add`.
  Status add_indexed(std::span<const BadSample> bad);

  /// Removes the list of an earlier run, unless this one has begun its own.
  void remove_earlier_list() const { file_.remove_earlier(); }

  /// Counts samples that decoding has examined.
  void look_at(std::span<const SampleId> ids);
  /// Counts and lists a sample that decoding found bad. An error ends training: kCorrupt, with the
  /// sample's name, if the policy is kFail or its source has more than options.max.
  Status add(const BadSample& bad);

  std::uint64_t count() const { return count_; }

  /// Returns the last sample added, if any. Belongs to the thread of `add`.
  const std::optional<BadSample>& last() const { return last_; }

 private:
  BadSampleList(const BadSampleOptions& options, BadSampleFile file, CountOrShare limit,
                LogSink log);
  // Counts of a source.
  struct OfSource {
    std::string name;
    SampleId first = 0;
    std::uint64_t samples = std::numeric_limits<std::uint64_t>::max();  // usable ones
    std::uint64_t indexed = 0;                                          // all that were indexed
    std::uint64_t seen = 0;
    std::uint64_t decoded = 0;  // samples that decoding looked at
    std::uint64_t bad_decoded = 0;
  };

  OfSource& source_of(const BadSample& bad);
  bool take(const BadSample& bad);
  void list(const BadSample& bad);
  bool is_exceeded(const OfSource& source, std::uint64_t bad, std::uint64_t of) const;
  Status check(const BadSample& last, const OfSource& source, std::uint64_t bad,
               std::uint64_t of) const;

  const BadSampleOptions options_;
  const CountOrShare limit_;
  const LogSink log_;
  BadSampleFile file_;
  bool file_failed_ = false;
  std::set<std::string, std::less<>> seen_;  // shard, key and part
  std::vector<OfSource> sources_ = {{}};     // in the order of their samples
  std::optional<BadSample> last_;
  std::atomic<std::uint64_t> count_ = 0;  // size of seen_
};

/// Returns {"shard": ..., "key": ..., "part": ..., "reason": ...} on one line, without a newline.
std::string to_json_line(const BadSample& bad);

/// Returns "shard/key.part: reason", for messages.
std::string describe(const BadSample& bad);

/// Returns the first bad sample of a data set, or else its first broken shard, for messages; empty:
/// it has neither.
std::string first_fault(const Dataset& dataset);

}  // namespace isocost
