#include "loader/dataset/formats/mds_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/formats/internal/shown_begin.h"

namespace isocost {
namespace {

struct Named {
  std::string_view name;
  MdsEncoding encoding;
};

constexpr std::array kRead = {
    Named{"bytes", MdsEncoding::kBytes},
    Named{"str", MdsEncoding::kStr},
    Named{"json", MdsEncoding::kJson},
    Named{"jpeg", MdsEncoding::kJpeg},
    Named{"png", MdsEncoding::kPng},
    Named{"int", MdsEncoding::kInt64},
    Named{"int8", MdsEncoding::kInt8},
    Named{"int16", MdsEncoding::kInt16},
    Named{"int32", MdsEncoding::kInt32},
    Named{"int64", MdsEncoding::kInt64},
    Named{"uint8", MdsEncoding::kUint8},
    Named{"uint16", MdsEncoding::kUint16},
    Named{"uint32", MdsEncoding::kUint32},
    Named{"uint64", MdsEncoding::kUint64},
    Named{"float16", MdsEncoding::kFloat16},
    Named{"float32", MdsEncoding::kFloat32},
    Named{"float64", MdsEncoding::kFloat64},
    Named{"str_int", MdsEncoding::kNumberText},
    Named{"str_float", MdsEncoding::kNumberText},
    Named{"str_decimal", MdsEncoding::kNumberText},
};

// Returns why an encoding is not read, and what to do.
std::string_view why_refused(std::string_view encoding) {
  const std::string_view kind = encoding.substr(0, encoding.find(':'));
  if (kind == "pkl") {
    return "Python's pickle, which runs code when it is read; write the data set again with the "
           "value as json, str or bytes";
  }
  if (kind == "pil" || kind == "list[pil]") {
    return "pixels without compression; write the data set again with the column as png or jpeg";
  }
  if (kind == "ndarray") {
    return "an array, which no model of ours sees; write the data set again without the column, or "
           "with its values as json";
  }
  if (kind == "jpeg_array" || kind == "jpegarray" || kind.starts_with("list[")) {
    return "a list of images in one value; write the data set again with a column for each image";
  }
  return "not an encoding of MDS 2; write the data set again with bytes, str, json, jpeg, png or "
         "numbers";
}

bool is_part_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  return !name.empty() && name.size() <= kLongest && name.find('/') == name.npos &&
         printable_utf8(name) == name;
}

}  // namespace

MdsUse MdsColumn::use() const {
  const bool is_text = encoding == MdsEncoding::kStr || encoding == MdsEncoding::kBytes;
  if (name == "json" && (is_text || encoding == MdsEncoding::kJson)) return MdsUse::kObject;
  if (encoding == MdsEncoding::kStr && modality_from_name(name) == Modality::kText) {
    return MdsUse::kText;
  }
  const bool is_medium = encoding == MdsEncoding::kBytes || encoding == MdsEncoding::kJpeg ||
                         encoding == MdsEncoding::kPng;
  return is_medium ? MdsUse::kMedium : MdsUse::kMember;
}

std::optional<std::int64_t> MdsColumn::size() const {
  switch (encoding) {
    case MdsEncoding::kInt8:
    case MdsEncoding::kUint8:
      return 1;
    case MdsEncoding::kInt16:
    case MdsEncoding::kUint16:
    case MdsEncoding::kFloat16:
      return 2;
    case MdsEncoding::kInt32:
    case MdsEncoding::kUint32:
    case MdsEncoding::kFloat32:
      return 4;
    case MdsEncoding::kInt64:
    case MdsEncoding::kUint64:
    case MdsEncoding::kFloat64:
      return 8;
    default:
      return std::nullopt;
  }
}

Result<MdsColumn> mds_column(std::string_view name, std::string_view encoding) {
  const std::string shown = shown_begin(name);
  if (!is_part_name(name)) {
    return corrupt(fmt::format(
        "the column '{}' has a name that no part can have; rename it to printable text of up to "
        "200 bytes without '/'",
        shown));
  }
  const auto* const found = std::ranges::find(kRead, encoding, &Named::name);
  if (found != kRead.end()) return MdsColumn{std::string(name), found->encoding};
  return Error(ErrorCode::kUnsupported,
               fmt::format("the column '{}' has the encoding '{}', which is not read: it is {}",
                           shown, shown_begin(encoding), why_refused(encoding)));
}

}  // namespace isocost
