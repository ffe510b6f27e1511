#include "loader/dataset/catalogue/remarks.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "base/counted.h"
#include "decode/sample_decoder.h"

namespace isocost {
namespace {

constexpr std::string_view kFormat = "format";
constexpr std::string_view kPart = "part";
constexpr std::string_view kIgnored = "ignored part";
constexpr std::string_view kJsonKey = "JSON key";

std::string_view kind_name(RemarkKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {kFormat, kPart, kIgnored, kJsonKey};
  return kNames.at(static_cast<std::size_t>(kind));
}

// Returns whether media of this extension are expected to have this format.
bool is_format_of(std::string_view extension, std::string_view format) {
  const auto named = format_from_extension(extension);
  return named && format_name(*named) == format;
}

std::string phrase(const Remark& remark) {
  const std::string detail = remark.detail.empty() ? "" : " " + remark.detail;
  if (remark.kind == kFormat) {
    return fmt::format("{} of {} .{} are {}", remark.count, remark.of, remark.name, remark.detail);
  }
  if (remark.kind == kJsonKey) {
    return fmt::format("'{}'{} in the JSON of {}", remark.name, detail,
                       counted(remark.count, "sample"));
  }
  return fmt::format("{} '{}'{}", counted(remark.count, "part"), remark.name, detail);
}

// Returns the phrases of the remarks of some kinds, the first ones if there are many.
std::string phrases(std::span<const Remark> remarks, std::string_view kind,
                    std::string_view other_kind = "") {
  constexpr std::size_t kMost = 20;
  std::string text;
  std::size_t found = 0;
  for (const Remark& remark : remarks) {
    if (remark.kind != kind && remark.kind != other_kind) continue;
    if (++found <= kMost) text += (text.empty() ? "" : ", ") + phrase(remark);
  }
  if (found > kMost) text += fmt::format(", and {} more (--json of isocost index)", found - kMost);
  return text;
}

using RemarkKey = std::tuple<RemarkKind, std::string, std::string>;  // kind, name, detail

// Counts of remarks. Many shards may have many thousand of them together.
class RemarkCounts {
 public:
  void add(IndexedRemark remark) {
    constexpr std::size_t kMost = 1000;
    const bool is_format = remark.kind == RemarkKind::kFormat;
    // Media of the format that they are named by are no finding, so must not become one as others.
    const bool is_usual = is_format && is_format_of(remark.name, remark.detail);
    RemarkKey key(remark.kind, std::move(remark.name), std::move(remark.detail));
    if (counts_.size() >= kMost && !is_usual && !counts_.contains(key)) std::get<1>(key) = "others";
    if (is_format) media_[std::get<1>(key)] += remark.count;
    counts_[std::move(key)] += remark.count;
  }

  const std::map<RemarkKey, std::uint64_t>& counts() const { return counts_; }
  std::uint64_t media(const std::string& extension) const { return media_.at(extension); }

 private:
  std::map<RemarkKey, std::uint64_t> counts_;
  std::map<std::string, std::uint64_t> media_;  // by extension
};

}  // namespace

std::vector<Remark> remarks_of(std::span<const ShardRow> shards) {
  RemarkCounts all;
  for (const ShardRow& shard : shards) {
    for (const IndexedRemark& remark : shard.remarks) all.add(remark);
  }
  std::vector<Remark> remarks;
  for (const auto& [key, count] : all.counts()) {
    const auto& [kind, name, detail] = key;
    const bool is_format = kind == RemarkKind::kFormat;
    if (is_format && is_format_of(name, detail)) continue;
    remarks.push_back(
        {std::string(kind_name(kind)), name, detail, count, is_format ? all.media(name) : 0});
  }
  return remarks;
}

std::optional<MediaFormat> format_that_needs_worker(std::span<const ShardRow> shards) {
  constexpr auto kFormats = static_cast<std::size_t>(kLastFormat) + 1;
  std::map<std::string, MediaFormat> guarded;  // by name
  for (std::size_t i = 0; i < kFormats; ++i) {
    const auto format = static_cast<MediaFormat>(i);
    if (needs_worker(format)) guarded.emplace(format_name(format), format);
  }
  for (const ShardRow& shard : shards) {
    for (const IndexedRemark& remark : shard.remarks) {
      if (remark.kind != RemarkKind::kFormat) continue;
      if (const auto found = guarded.find(remark.detail); found != guarded.end()) {
        return found->second;
      }
    }
  }
  return std::nullopt;
}

std::string describe_unread(std::span<const Remark> remarks) {
  const std::string unread = phrases(remarks, kPart, kJsonKey);
  return unread.empty() ? "" : "no model sees " + unread + "; docs/formats.md says what is read";
}

void log_remarks(std::span<const Remark> remarks, std::string_view data, const LogSink& sink) {
  if (const std::string unread = describe_unread(remarks); !unread.empty()) {
    log(sink, LogLevel::kWarning, fmt::format("{}: {}", data, unread));
  }
  if (const std::string formats = phrases(remarks, kFormat); !formats.empty()) {
    log(sink, LogLevel::kInfo,
        fmt::format("{}: {}; media are read by their content", data, formats));
  }
  if (const std::string ignored = phrases(remarks, kIgnored); !ignored.empty()) {
    log(sink, LogLevel::kInfo, fmt::format("{}: left out by ignore_parts: {}", data, ignored));
  }
}

}  // namespace isocost
