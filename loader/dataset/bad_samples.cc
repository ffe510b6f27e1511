#include "loader/dataset/bad_samples.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/counted.h"

namespace isocost {
namespace {

// Least number of bad samples for which a percentage is meaningful: one bad sample among the first
// ten is a tenth of them.
constexpr std::uint64_t kFewestForAShare = 10;

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

// Parses a limit like "25" or "1.5%".
Result<BadSampleList::Limit> BadSampleList::parse(const BadSampleOptions& options) {
  const std::string_view text = options.max;
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
  if (share && number > 0) return Limit{std::nullopt, number / 100};
  return Limit{static_cast<std::uint64_t>(number), 0};
}

BadSampleList::BadSampleList(const BadSampleOptions& options, BadSampleFile file, Limit limit,
                             LogSink log)
    : options_(options), limit_(limit), log_(std::move(log)), file_(std::move(file)) {}

Result<std::unique_ptr<BadSampleList>> BadSampleList::create(const BadSampleOptions& options,
                                                             LogSink log) {
  ISOCOST_ASSIGN(const Limit limit, parse(options));
  ISOCOST_ASSIGN(BadSampleFile file, BadSampleFile::create(options.file));
  return std::unique_ptr<BadSampleList>(
      new BadSampleList(options, std::move(file), limit, std::move(log)));
}

Status BadSampleList::add_indexed(std::span<const BadSample> bad, std::uint64_t samples) {
  std::uint64_t added = 0;
  for (const BadSample& sample : bad) {
    if (!take(sample)) continue;
    ISOCOST_TRY(check(sample, ++added, samples));
  }
  return {};
}

void BadSampleList::look_at(std::uint64_t samples, std::uint64_t of) {
  decoded_ = std::min(decoded_ + samples, of);
}

Status BadSampleList::add(const BadSample& bad) {
  if (!take(bad)) return {};
  return check(bad, ++bad_decoded_, decoded_);
}

// Counts a bad sample. Returns whether it is new.
bool BadSampleList::take(const BadSample& bad) {
  if (!seen_.insert(bad.shard + '\0' + bad.key + '\0' + bad.part).second) return false;
  count_ = seen_.size();
  last_ = bad;
  list(bad);
  if (std::has_single_bit(seen_.size())) {
    log(log_, LogLevel::kWarning,
        counted(seen_.size(), "bad sample") + " so far" +
            (options_.file.empty() || file_failed_ ? "" : " (" + options_.file.string() + ")") +
            ", the last one: " + describe(bad));
  }
  return true;
}

void BadSampleList::list(const BadSample& bad) {
  if (file_failed_) return;
  const Status written = file_.append(to_json_line(bad) + '\n');
  if (written) return;
  file_failed_ = true;
  log(log_, LogLevel::kWarning,
      "bad_samples_file: " + written.error().message() +
          ": bad samples are counted, and no longer listed");
}

bool BadSampleList::is_exceeded(std::uint64_t bad, std::uint64_t of) const {
  if (limit_.count) return seen_.size() > *limit_.count;
  return bad >= kFewestForAShare &&
         static_cast<double>(bad) > limit_.share * static_cast<double>(of);
}

Status BadSampleList::check(const BadSample& last, std::uint64_t bad, std::uint64_t of) const {
  if (options_.policy == BadSamplePolicy::kFail) {
    return Error(ErrorCode::kCorrupt,
                 describe(last) + " (on_bad_sample = fail; skip leaves such samples out)");
  }
  if (!is_exceeded(bad, of)) return {};
  const std::string found = limit_.count
                                ? counted(seen_.size(), "bad sample")
                                : counted(bad, "bad sample") + " among " + std::to_string(of);
  return Error(
      last.over_limit ? ErrorCode::kResourceExhausted : ErrorCode::kCorrupt,
      found + ", max_bad_samples allows " + options_.max + "; the last one: " + describe(last));
}

}  // namespace isocost
