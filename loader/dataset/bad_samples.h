#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/dataset.h"

namespace isocost {

enum class BadSamplePolicy : std::uint8_t { kSkip, kReplace, kFail };

/// What becomes of samples that cannot be used. See docs/config.md.
struct BadSampleOptions {
  BadSamplePolicy policy = BadSamplePolicy::kSkip;
  std::string max = "100%";  ///< A count, or a percentage of the data set.
  std::filesystem::path file = "bad_samples.jsonl";
};

/// Counts the bad samples of a run, each once however many epochs meet it, writes each to a
/// JSON-lines file (opened with the first one), and says when the policy ends training. `add`
/// belongs to one thread at a time, because it writes to the file; `count` may be called from any.
class BadSampleList {
 public:
  /// `dataset_size` is what a percentage refers to. Errors: kInvalidArgument for a limit that is no
  /// count and no percentage.
  static Result<std::unique_ptr<BadSampleList>> create(const BadSampleOptions& options,
                                                       std::uint64_t dataset_size, LogSink log);

  /// Errors: kCorrupt where the policy is to fail, kResourceExhausted where there are more than
  /// allowed, kIo where the file cannot be written. Each names the sample.
  Status add(const BadSample& bad);

  std::uint64_t count() const { return count_; }

 private:
  BadSampleList(const BadSampleOptions& options, std::uint64_t limit, LogSink log);
  Status write(const BadSample& bad);

  const BadSamplePolicy policy_;
  const std::filesystem::path file_name_;
  const std::uint64_t limit_;
  const LogSink log_;
  std::ofstream file_;
  std::set<std::string, std::less<>> seen_;  // shard, key and part
  std::atomic<std::uint64_t> count_ = 0;     // of seen_
};

/// Errors: kInvalidArgument where options.max is no count and no percentage.
Status check_bad_sample_limit(const BadSampleOptions& options);

/// {"shard": ..., "key": ..., "part": ..., "reason": ...}, one line without its end.
std::string to_json_line(const BadSample& bad);

/// "shard: key: part: reason", for messages.
std::string describe(const BadSample& bad);

}  // namespace isocost
