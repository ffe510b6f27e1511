#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/dataset/formats/field_access.h"
#include "loader/dataset/formats/internal/meta_value.h"

namespace isocost {

/// Energon's types of samples that are read.
enum class EnergonType : std::uint8_t { kCrude, kCaptioning, kVqa, kText, kImage };

/// The samples of a data set, as Energon's `dataset.yaml` describes them.
struct EnergonFields {
  EnergonType type = EnergonType::kCrude;
  /// Places of the fields "image", "caption", "context", "answers", "text". None of kCrude,
  /// whose parts are read as they lie.
  std::map<std::string, std::vector<FieldAccess>, std::less<>> fields;
  /// Names of parts that alone are read of kCrude; empty: all.
  std::vector<std::string> part_filter;
  /// Settings that have no effect here, for the log: "decoder: ...".
  std::vector<std::string> without_effect;
};

/// Reads a dataset.yaml. Errors: kUnsupported for what needs code of the data set (`sample_loader`,
/// another class), with what to do; kCorrupt for a document that is not of this form, or lacks a
/// field of its type.
Result<EnergonFields> energon_fields(const MetaValue& dataset);

}  // namespace isocost
