#include "loader/dataset/bad_samples.h"

#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/counted.h"

namespace isocost {
namespace {

// "25" or "1.5%" of `dataset_size`.
Result<std::uint64_t> parse_limit(std::string_view text, std::uint64_t dataset_size) {
  const bool share = text.ends_with('%');
  const std::string_view digits = share ? text.substr(0, text.size() - 1) : text;
  double number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = code == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  if (!whole || !(number >= 0 && number < 1e18) || (share && number > 100)) {
    return Error(ErrorCode::kInvalidArgument,
                 "max_bad_samples: '" + std::string(text) +
                     "' is neither a count nor a percentage (0% to 100%)");
  }
  if (share) number = std::floor(number / 100 * static_cast<double>(dataset_size));
  return static_cast<std::uint64_t>(number);
}

}  // namespace

std::string to_json_line(const BadSample& bad) {
  const nlohmann::ordered_json line = {
      {"shard", bad.shard}, {"key", bad.key}, {"part", bad.part}, {"reason", bad.reason}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string describe(const BadSample& bad) {
  std::string text = bad.shard;
  if (!bad.key.empty()) text += ": " + bad.key;
  if (!bad.part.empty()) text += "." + bad.part;
  return text + ": " + bad.reason;
}

Status check_bad_sample_limit(const BadSampleOptions& options) {
  ISOCOST_TRY(parse_limit(options.max, 0));
  return {};
}

BadSampleList::BadSampleList(const BadSampleOptions& options, std::uint64_t limit, LogSink log)
    : policy_(options.policy), file_name_(options.file), limit_(limit), log_(std::move(log)) {}

Result<std::unique_ptr<BadSampleList>> BadSampleList::create(const BadSampleOptions& options,
                                                             std::uint64_t dataset_size,
                                                             LogSink log) {
  ISOCOST_ASSIGN(const std::uint64_t limit, parse_limit(options.max, dataset_size));
  std::error_code ignored;  // if it cannot be removed, writing fails and reports it
  std::filesystem::remove(options.file, ignored);  // list of an earlier run
  return std::unique_ptr<BadSampleList>(new BadSampleList(options, limit, std::move(log)));
}

Status BadSampleList::add(const BadSample& bad) {
  if (!seen_.insert(bad.shard + '\0' + bad.key + '\0' + bad.part).second) return {};
  count_ = seen_.size();
  last_ = bad;
  ISOCOST_TRY(write(bad));
  if (policy_ == BadSamplePolicy::kFail) {
    return Error(ErrorCode::kCorrupt,
                 describe(bad) + " (on_bad_sample = fail; skip leaves such samples out)");
  }
  if (seen_.size() > limit_) {
    return Error(ErrorCode::kCorrupt,
                 counted(seen_.size(), "bad sample") + ", " + std::to_string(limit_) +
                     " are allowed (max_bad_samples); the last one: " + describe(bad));
  }
  return {};
}

Status BadSampleList::write(const BadSample& bad) {
  if (file_name_.empty()) return {};
  if (!file_.is_open()) {
    file_.open(file_name_, std::ios::trunc);
    log(log_, LogLevel::kWarning, "bad samples are listed in " + file_name_.string());
  }
  file_ << to_json_line(bad) << '\n' << std::flush;  // the list survives a crash
  if (!file_) {
    return Error(ErrorCode::kIo, "cannot write " + file_name_.string() +
                                     ": name another place with bad_samples_file");
  }
  return {};
}

}  // namespace isocost
