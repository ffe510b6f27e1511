#include "loader/dataset/formats/internal/energon_shards.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "loader/dataset/formats/internal/shown_begin.h"
#include "loader/dataset/formats/member_name.h"

namespace isocost {
namespace {

constexpr std::string_view kPrepareAgain = "run 'energon prepare' again";

Result<const MetaValue*> map_member(const MetaValue& value, std::string_view name) {
  const MetaValue* found = value.find(name);
  if (found == nullptr || !found->is(MetaValue::Kind::kMap)) {
    return corrupt(fmt::format("'{}' is no map; {}", name, kPrepareAgain));
  }
  return found;
}

Result<std::vector<std::string>> texts(const MetaValue& list, std::string_view name) {
  if (!list.is(MetaValue::Kind::kList)) return corrupt(fmt::format("'{}' is no list", name));
  std::vector<std::string> found;
  for (const MetaValue& each : list.items()) {
    // A shard may be called "7": a name without quotes, which reads as a number.
    if (!each.is(MetaValue::Kind::kText) && !each.is(MetaValue::Kind::kNumber)) {
      return corrupt(fmt::format("'{}' holds what is no name of a shard", name));
    }
    found.push_back(each.scalar());
  }
  return found;
}

Status check_path(std::string_view path) {
  if (!path.empty() && path.front() != '/' && !has_parent_component(path) &&
      printable_utf8(path) == path) {
    return {};
  }
  return corrupt(fmt::format("the shard '{}' is outside of the data set", shown_begin(path)));
}

// An entry of `exclude` that names a sample.
struct ExcludedSample {
  std::string shard;
  std::string key;
};

// Splits "shard/key" at the first slash after the name of a shard: both may hold slashes.
std::optional<ExcludedSample> excluded_sample(const EnergonCounts& counts, std::string_view entry) {
  for (std::size_t slash = entry.find('/'); slash != entry.npos;
       slash = entry.find('/', slash + 1)) {
    const std::string_view shard = entry.substr(0, slash);
    if (counts.contains(shard)) {
      return ExcludedSample{std::string(shard), std::string(entry.substr(slash + 1))};
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<std::string>> EnergonSplits::part(std::string_view name) const {
  std::string there;
  for (const auto& [part, patterns] : parts) {
    if (part == name) return patterns;
    there += (there.empty() ? "" : ", ") + printable_utf8(part);
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("the split '{}' is not among those of the data set: {}",
                           shown_begin(name), there.empty() ? "there are none" : there));
}

Result<EnergonCounts> energon_counts(const MetaValue& info) {
  ISOCOST_ASSIGN(const MetaValue* found, map_member(info, "shard_counts"));
  EnergonCounts counts;
  for (const auto& [shard, count] : found->members()) {
    ISOCOST_TRY(check_path(shard));
    const auto number = count.whole();
    if (!number || *number < 0) {
      return corrupt(fmt::format("the count of the shard '{}' is no number of samples; {}",
                                 shown_begin(shard), kPrepareAgain));
    }
    counts.emplace(shard, *number);
  }
  return counts;
}

Result<EnergonSplits> energon_splits(const MetaValue& split) {
  for (const auto& [key, value] : split.members()) {
    if (key != "split_parts" && key != "exclude") {
      return corrupt(fmt::format("'{}' is not a known key", shown_begin(key)));
    }
  }
  ISOCOST_ASSIGN(const MetaValue* parts, map_member(split, "split_parts"));
  EnergonSplits splits;
  for (const auto& [name, list] : parts->members()) {
    ISOCOST_ASSIGN(auto patterns, texts(list, "split_parts." + shown_begin(name)));
    splits.parts.emplace_back(name, std::move(patterns));
  }
  const MetaValue* exclude = split.find("exclude");
  if (exclude != nullptr && !exclude->is(MetaValue::Kind::kNull)) {
    ISOCOST_ASSIGN(splits.exclude, texts(*exclude, "exclude"));
  }
  return splits;
}

Result<EnergonShards> energon_shards(const EnergonCounts& counts,
                                     const std::vector<std::string>& part,
                                     const std::vector<std::string>& exclude) {
  EnergonShards result;
  const std::set<std::string, std::less<>> excluded(exclude.begin(), exclude.end());
  for (const std::string& entry : excluded) {
    if (counts.contains(entry)) continue;
    auto sample = excluded_sample(counts, entry);
    if (sample) {
      result.excluded_keys[sample->shard].push_back(std::move(sample->key));
    } else {
      result.excludes_nothing.push_back(entry);
    }
  }
  std::set<std::string_view> seen;
  for (const std::string& shard : part) {
    ISOCOST_TRY(check_path(shard));
    if (excluded.contains(shard)) continue;
    const auto count = counts.find(shard);
    if (count == counts.end()) {
      return corrupt(fmt::format("the split names '{}', whose samples were not counted; {}",
                                 shown_begin(shard), kPrepareAgain));
    }
    if (!seen.insert(count->first).second) {
      return corrupt(fmt::format("the split names '{}' twice; remove one", shown_begin(shard)));
    }
    result.shards.push_back(shard);
    result.counts.push_back(count->second);
  }
  if (result.shards.empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "the split has no shards, or 'exclude' leaves none of them");
  }
  return result;
}

}  // namespace isocost
