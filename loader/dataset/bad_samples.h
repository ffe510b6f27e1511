#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/dataset.h"

namespace isocost {

enum class BadSamplePolicy : std::uint8_t { kSkip, kReplace, kFail };

/// What happens to samples that cannot be used. See docs/config.md.
struct BadSampleOptions {
  BadSamplePolicy policy = BadSamplePolicy::kSkip;
  std::string max = "100%";  ///< A count, or a percentage of the data set.
  std::filesystem::path file = "bad_samples.jsonl";
};

/// Counts bad samples, each once however many epochs meet it, and lists them in a file of JSON
/// lines that is created with the first one. `add` belongs to one thread at a time, because it
/// writes to the file; `count` is thread-safe.
class BadSampleList {
 public:
  /// A percentage in options.max refers to `dataset_size`. Errors: kInvalidArgument if options.max
  /// is neither a count nor a percentage.
  static Result<std::unique_ptr<BadSampleList>> create(const BadSampleOptions& options,
                                                       std::uint64_t dataset_size, LogSink log);

  /// Counts and lists a bad sample. An error ends training: kCorrupt if the policy is kFail or
  /// there are more than options.max, kIo if the file cannot be written. Each names the sample.
  Status add(const BadSample& bad);

  std::uint64_t count() const { return count_; }

  /// Returns the last sample added, if any. Belongs to the thread of `add`.
  const std::optional<BadSample>& last() const { return last_; }

 private:
  BadSampleList(const BadSampleOptions& options, std::uint64_t limit, LogSink log);
  Status write(const BadSample& bad);

  const BadSamplePolicy policy_;
  const std::filesystem::path file_name_;
  const std::uint64_t limit_;
  const LogSink log_;
  std::ofstream file_;
  std::set<std::string, std::less<>> seen_;  // shard, key and part
  std::optional<BadSample> last_;
  std::atomic<std::uint64_t> count_ = 0;  // of seen_
};

/// Errors: kInvalidArgument if options.max is neither a count nor a percentage.
Status check_bad_sample_limit(const BadSampleOptions& options);

/// Returns {"shard": ..., "key": ..., "part": ..., "reason": ...} on one line, without a newline.
std::string to_json_line(const BadSample& bad);

/// Returns "shard: key: part: reason", for messages.
std::string describe(const BadSample& bad);

}  // namespace isocost
