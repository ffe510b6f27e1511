// Documents that describe data sets, in YAML and JSON, and what is made of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loader/dataset/formats/internal/energon_fields.h"
#include "loader/dataset/formats/internal/energon_metadataset.h"
#include "loader/dataset/formats/internal/energon_shards.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace {

int depth(const isocost::MetaValue& value) {
  int deepest = 0;
  for (const auto& item : value.items()) deepest = std::max(deepest, depth(item));
  for (const auto& [key, item] : value.members()) deepest = std::max(deepest, depth(item));
  return deepest + 1;
}

void use(const isocost::MetaValue& value) {
  if (depth(value) > isocost::kMaxMetaDepth + 1) std::abort();
  static_cast<void>(isocost::energon_fields(value).has_value());
  static_cast<void>(isocost::mixture_of_metadataset(value, "train").has_value());
  const auto counts = isocost::energon_counts(value);
  const auto splits = isocost::energon_splits(value);
  if (!splits) return;
  const auto part = splits->part("train");
  if (!part) return;
  const isocost::EnergonCounts none;
  static_cast<void>(
      isocost::energon_shards(counts ? *counts : none, *part, splits->exclude).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto value = isocost::parse_meta_yaml(text)) use(*value);
  if (const auto value = isocost::parse_meta_json(text)) use(*value);
  return 0;
}
