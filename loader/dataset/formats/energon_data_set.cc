#include "loader/dataset/formats/energon_data_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <system_error>
#include <utility>

#include "base/read_file.h"
#include "base/utf8.h"
#include "loader/dataset/formats/internal/energon_fields.h"
#include "loader/dataset/formats/internal/energon_shards.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxMetaBytes = std::size_t{256} << 20;
constexpr std::string_view kAsTheyLie = "format = \"webdataset\" reads all its shards as they lie";

// A document, and its file.
struct Document {
  fs::path file;
  MetaValue value;
};

// Reads the first of some files that is there.
Result<Document> read_first(const fs::path& meta, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const fs::path file = meta / name;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    ISOCOST_ASSIGN(const std::string text, read_file("Energon's", file, kMaxMetaBytes));
    const bool is_json = file.extension() == ".json";
    auto value = is_json ? parse_meta_json(text) : parse_meta_yaml(text);
    if (!value) return std::move(value).error().with_context(printable_utf8(file.string()));
    return Document{file, *std::move(value)};
  }
  return Error(ErrorCode::kNotFound,
               fmt::format("{}: it is not there; run 'energon prepare', or {}",
                           printable_utf8((meta / names.front()).string()), kAsTheyLie));
}

// Says which file is wrong.
template <typename T>
Result<T> of_file(Result<T> result, const fs::path& file) {
  if (result) return result;
  return std::move(result).error().with_context(printable_utf8(file.string()));
}

Result<std::vector<std::string>> expanded(const std::vector<std::string>& patterns,
                                          const ExpandBraces& expand) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    ISOCOST_ASSIGN(auto words, expand(pattern));
    std::ranges::move(words, std::back_inserter(all));
  }
  return all;
}

SampleField field_of(const EnergonFields& fields, std::string_view name) {
  const auto found = fields.fields.find(name);
  if (found == fields.fields.end()) return {};
  return {fmt::format("field_map.{}", name), found->second};
}

Status refuse_media_in_json(const SampleField& medium) {
  for (const FieldAccess& place : medium.places) {
    if (place.keys.empty()) continue;
    return Error(ErrorCode::kUnsupported,
                 fmt::format("{}: a medium within JSON ({}) is not read; name a member of the tar, "
                             "as in jpg",
                             medium.name, field_access_text({place})));
  }
  return {};
}

// Returns the fields of samples; null: all parts are read as they lie.
Result<std::shared_ptr<const SampleFields>> sample_fields(const EnergonFields& fields) {
  SampleFields result;
  if (fields.type == EnergonType::kCrude) {
    if (fields.part_filter.empty()) return std::shared_ptr<const SampleFields>();
    result.parts = fields.part_filter;
    return std::make_shared<const SampleFields>(std::move(result));
  }
  result.alone = true;
  result.medium = field_of(fields, "image");
  ISOCOST_TRY(refuse_media_in_json(result.medium));
  result.question = field_of(fields, "context");
  result.answer = field_of(fields, "answers");
  result.text = field_of(fields, fields.type == EnergonType::kCaptioning ? "caption" : "text");
  std::set<std::string> parts;
  for (const auto& [name, places] : fields.fields) {
    for (const FieldAccess& place : places) parts.insert(place.part);
  }
  result.parts.assign(parts.begin(), parts.end());
  return std::make_shared<const SampleFields>(std::move(result));
}

// Returns the shards of a split, and what it leaves out.
Result<EnergonShards> shards_of(const Document& split, const EnergonCounts& counts,
                                std::string_view name, const ExpandBraces& expand) {
  ISOCOST_ASSIGN(const EnergonSplits splits, energon_splits(split.value));
  ISOCOST_ASSIGN(const auto patterns, splits.part(name));
  ISOCOST_ASSIGN(const auto part, expanded(patterns, expand));
  ISOCOST_ASSIGN(const auto exclude, expanded(splits.exclude, expand));
  return energon_shards(counts, part, exclude);
}

}  // namespace

Result<EnergonDataSet> open_energon_data_set(const fs::path& directory, std::string_view split,
                                             const ExpandBraces& expand) {
  constexpr std::array<std::string_view, 2> kInfo = {".info.json", ".info.yaml"};
  constexpr std::array<std::string_view, 2> kSplit = {"split.yaml", "split.json"};
  constexpr std::array<std::string_view, 1> kDataset = {"dataset.yaml"};
  const fs::path meta = directory / ".nv-meta";
  ISOCOST_ASSIGN(const Document info, read_first(meta, kInfo));
  ISOCOST_ASSIGN(const Document splits, read_first(meta, kSplit));
  ISOCOST_ASSIGN(const Document dataset, read_first(meta, kDataset));
  ISOCOST_ASSIGN(const EnergonCounts counts, of_file(energon_counts(info.value), info.file));
  ISOCOST_ASSIGN(EnergonShards shards,
                 of_file(shards_of(splits, counts, split, expand), splits.file));
  ISOCOST_ASSIGN(EnergonFields fields, of_file(energon_fields(dataset.value), dataset.file));
  ISOCOST_ASSIGN(const auto places, of_file(sample_fields(fields), dataset.file));
  EnergonDataSet result;
  result.all_shards = counts.size();
  result.excludes_nothing = std::move(shards.excludes_nothing);
  result.without_effect = std::move(fields.without_effect);
  for (std::size_t i = 0; i < shards.shards.size(); ++i) {
    TarChoice choice{places, shards.counts[i], info.file.filename().string(),
                     std::move(shards.excluded_keys[shards.shards[i]])};
    std::ranges::sort(choice.excluded);
    result.shards.push_back(
        {std::move(shards.shards[i]), std::make_shared<const TarChoice>(std::move(choice))});
  }
  return result;
}

}  // namespace isocost
