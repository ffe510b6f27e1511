#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace isocost {

/// A value of a document in YAML or JSON that describes a data set. Maps keep the order of the
/// document.
class MetaValue {
 public:
  enum class Kind : std::uint8_t { kNull, kText, kBoolean, kNumber, kList, kMap };
  using Member = std::pair<std::string, MetaValue>;

  static MetaValue null() { return {}; }
  static MetaValue text(std::string text) { return {Kind::kText, std::move(text)}; }
  static MetaValue boolean(bool value) { return {Kind::kBoolean, value ? "true" : "false"}; }
  /// `text` is the number as the document writes it.
  static MetaValue number(std::string text) { return {Kind::kNumber, std::move(text)}; }
  static MetaValue list() { return {Kind::kList, ""}; }
  static MetaValue map() { return {Kind::kMap, ""}; }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  /// Returns the text, or a number or boolean as the document writes it; empty for others.
  const std::string& scalar() const { return scalar_; }
  /// Returns a number that is an integer of up to 18 digits; nothing for other values.
  std::optional<std::int64_t> whole() const;
  const std::vector<MetaValue>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  /// Returns the value of a map; null if there is none.
  const MetaValue* find(std::string_view key) const;

  void append(MetaValue item) { items_.push_back(std::move(item)); }
  void append(std::string key, MetaValue value) {
    members_.emplace_back(std::move(key), std::move(value));
  }

 private:
  MetaValue() = default;
  MetaValue(Kind kind, std::string scalar) : kind_(kind), scalar_(std::move(scalar)) {}

  Kind kind_ = Kind::kNull;
  std::string scalar_;
  std::vector<MetaValue> items_;
  std::vector<Member> members_;
};

/// Limits of a document.
inline constexpr int kMaxMetaDepth = 32;
inline constexpr std::size_t kMaxMetaValues = 4'000'000;

/// Reads one YAML document without anchors, aliases and tags, which are refused, as are two keys of
/// one map that are equal, and a second document. Scalars without quotes become null, booleans and
/// numbers as Energon's reader has them. Errors: kCorrupt with the line; kResourceExhausted over
/// the limits.
Result<MetaValue> parse_meta_yaml(std::string_view text);

/// Reads a JSON document likewise. Errors: as above.
Result<MetaValue> parse_meta_json(std::string_view text);

}  // namespace isocost
