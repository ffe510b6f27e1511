#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace isocost {

/// How Mosaic Streaming stores the values of a column.
enum class MdsEncoding : std::uint8_t {
  kBytes,
  kStr,
  kJson,
  kJpeg,
  kPng,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kNumberText,  ///< Digits as text: str_int, str_float, str_decimal.
};

/// The role of a column's values in a sample.
enum class MdsUse : std::uint8_t {
  kMedium,  ///< A part, which its first bytes tell.
  kText,    ///< A text part: a column `str` whose name has the extension of one ("txt", "text").
  kObject,  ///< The sample's JSON itself: a column called "json".
  kMember,  ///< A member of the sample's JSON.
};

struct MdsColumn {
  std::string name;
  MdsEncoding encoding = MdsEncoding::kBytes;

  bool operator==(const MdsColumn&) const = default;

  MdsUse use() const;
  /// Returns the bytes of each value, if all values have as many.
  std::optional<std::int64_t> size() const;
};

/// Returns a column from its name and the name of its encoding. Errors: kUnsupported for an
/// encoding that is not read, kCorrupt for a name that no part can have; they name the column and
/// say what to do.
Result<MdsColumn> mds_column(std::string_view name, std::string_view encoding);

}  // namespace isocost
