#include "loader/dataset/bad_samples.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/utf8.h"
#include "loader/dataset/sample_name.h"

namespace isocost {
namespace {

// Least number of bad samples for which a percentage is meaningful: one bad sample among the first
// ten is a tenth of them.
constexpr std::uint64_t kFewestForAShare = 10;

}  // namespace

std::string to_json_line(const BadSample& bad) {
  // JSON has escapes of its own for control characters, and none for bytes that are no UTF-8.
  const auto text = [](const std::string& name) {
    return is_utf8(name) ? name : printable_name(name);
  };
  const nlohmann::ordered_json line = {{"shard", text(bad.shard)},
                                       {"key", text(bad.key)},
                                       {"part", text(bad.part)},
                                       {"reason", bad.reason}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string describe(const BadSample& bad) {
  std::string text = bad.key.empty() ? printable_name(bad.shard) : sample_name(bad.shard, bad.key);
  if (!bad.part.empty()) text += "." + printable_name(bad.part);
  return text + ": " + bad.reason;
}

std::string first_fault(const Dataset& dataset) {
  if (!dataset.bad().empty()) return describe(dataset.bad().front());
  const std::vector<BrokenShard>& broken = dataset.findings().broken;
  return broken.empty() ? "" : describe(broken.front());
}

BadSampleList::BadSampleList(const BadSampleOptions& options, BadSampleFile file,
                             CountOrShare limit, LogSink log)
    : options_(options), limit_(limit), log_(std::move(log)), file_(std::move(file)) {}

Result<std::unique_ptr<BadSampleList>> BadSampleList::create(const BadSampleOptions& options,
                                                             LogSink log) {
  ISOCOST_ASSIGN(const CountOrShare limit, CountOrShare::parse("max_bad_samples", options.max));
  ISOCOST_ASSIGN(BadSampleFile file, BadSampleFile::create(options.file));
  return std::unique_ptr<BadSampleList>(
      new BadSampleList(options, std::move(file), limit, std::move(log)));
}

void BadSampleList::count_by(std::span<const DatasetSource> sources) {
  sources_.clear();
  for (const DatasetSource& source : sources) {
    sources_.push_back({.name = source.name,
                        .first = source.first,
                        .samples = source.size,
                        .indexed = source.size + source.bad});
  }
}

// A shard's name begins with its source's, which holds no slash.
BadSampleList::OfSource& BadSampleList::source_of(const BadSample& bad) {
  const std::string_view name = std::string_view(bad.shard).substr(0, bad.shard.find('/'));
  const auto found = std::ranges::find(sources_, name, &OfSource::name);
  return found == sources_.end() ? sources_.front() : *found;
}

Status BadSampleList::add_indexed(std::span<const BadSample> bad) {
  std::map<std::string_view, std::uint64_t> added;  // by source
  for (const BadSample& sample : bad) {
    if (!take(sample)) continue;
    const OfSource& source = source_of(sample);
    ISOCOST_TRY(check(sample, source, ++added[source.name], source.indexed));
  }
  return {};
}

void BadSampleList::look_at(std::span<const SampleId> ids) {
  for (const SampleId id : ids) {
    const auto after = std::ranges::upper_bound(sources_, id, {}, &OfSource::first);
    OfSource& source = after == sources_.begin() ? *after : *std::prev(after);
    source.decoded = std::min(source.decoded + 1, source.samples);
  }
}

Status BadSampleList::add(const BadSample& bad) {
  if (!take(bad)) return {};
  OfSource& source = source_of(bad);
  return check(bad, source, ++source.bad_decoded, source.decoded);
}

// Counts a bad sample. Returns whether it is new.
bool BadSampleList::take(const BadSample& bad) {
  if (!seen_.insert(bad.shard + '\0' + bad.key + '\0' + bad.part).second) return false;
  count_ = seen_.size();
  ++source_of(bad).seen;
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

bool BadSampleList::is_exceeded(const OfSource& source, std::uint64_t bad, std::uint64_t of) const {
  if (limit_.count) return !limit_.allows(source.seen, of);
  return bad >= kFewestForAShare && !limit_.allows(bad, of);
}

Status BadSampleList::check(const BadSample& last, const OfSource& source, std::uint64_t bad,
                            std::uint64_t of) const {
  if (options_.policy == BadSamplePolicy::kFail) {
    return Error(ErrorCode::kCorrupt,
                 describe(last) + " (on_bad_sample = fail; skip leaves such samples out)");
  }
  if (!is_exceeded(source, bad, of)) return {};
  const std::string found = limit_.count
                                ? counted(source.seen, "bad sample")
                                : counted(bad, "bad sample") + " among " + std::to_string(of);
  return Error(last.over_limit ? ErrorCode::kResourceExhausted : ErrorCode::kCorrupt,
               (source.name.empty() ? "" : "source " + source.name + ": ") + found +
                   ", max_bad_samples allows " + options_.max +
                   "; the last one: " + describe(last));
}

}  // namespace isocost
