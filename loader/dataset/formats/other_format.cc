#include "loader/dataset/formats/other_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace isocost {
namespace {

struct Format {
  std::string_view begin;
  std::string_view name;
  std::string_view remedy;             // for a shard
  std::string_view remedy_of_records;  // empty: the file may be one of records
};

constexpr std::string_view kCopyOrRemove = "copy the shard again or remove it";
constexpr std::string_view kPackAgain =
    "pack its files as a tar, as it is or compressed by gzip or zstd";
constexpr std::string_view kUnpack = "unpack it, or compress its JSON by gzip or zstd";
constexpr std::string_view kCopyRecords = "copy the file of records again";

constexpr std::array kOtherFormats = {
    Format{"PK\x03\x04", "it is a ZIP archive", kPackAgain, kUnpack},
    Format{"\xFD"
           "7zXZ",
           "it is compressed by xz", kPackAgain, kUnpack},
    Format{"BZh", "it is compressed by bzip2", kPackAgain, kUnpack},
    Format{"7z\xBC\xAF\x27\x1C", "it is a 7z archive", kPackAgain, kUnpack},
    Format{"\x04\x22\x4D\x18", "it is compressed by lz4", kPackAgain, kUnpack},
    Format{"PAR1", "it is a Parquet file", "make shards of its records",
           "write its rows as JSON lines, media as files or in base64"},
    Format{"ARROW1", "it is an Arrow file", "make shards of its records",
           "write its rows as JSON lines, media as files or in base64"},
    Format{"version https://git-lfs", "it is a pointer of Git LFS", "fetch the file: git lfs pull",
           "fetch the file: git lfs pull"},
    Format{"<", "it is an HTML or XML page, as a failed download leaves one", kCopyOrRemove,
           kCopyRecords},
    Format{"{", "it is JSON, as a failed download may leave it", kCopyOrRemove, ""},
};

// Returns the format whose marks stand at the beginning; null for none.
const Format* format_of(std::string_view begin) {
  std::string_view text = begin;  // without what may stand before a page
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\xEF\xBB\xBF"), text.size()));
  const auto* const found = std::ranges::find_if(kOtherFormats, [&](const Format& format) {
    return begin.starts_with(format.begin) || text.starts_with(format.begin);
  });
  return found == kOtherFormats.end() ? nullptr : found;
}

bool is_tar(std::string_view begin) {
  constexpr std::size_t kMark = 257;
  return begin.size() > kMark && begin.substr(kMark).starts_with("ustar");
}

}  // namespace

std::string why_no_tar(const ByteSource& source, std::string_view detail) {
  std::array<char, 64> room{};
  const auto read = source.read_at(0, std::as_writable_bytes(std::span(room)));
  const Format* found = format_of({room.data(), read.value_or(0)});
  return fmt::format("not a tar file ({}); {}", found != nullptr ? found->name : detail,
                     found != nullptr ? found->remedy : kCopyOrRemove);
}

std::optional<std::string> why_no_records(std::string_view begin) {
  if (is_tar(begin)) {
    return "it is a tar archive; if it holds samples it is a shard, which needs no make-shards";
  }
  const Format* found = format_of(begin);
  if (found == nullptr || found->remedy_of_records.empty()) return std::nullopt;
  return fmt::format("{}; {}", found->name, found->remedy_of_records);
}

}  // namespace isocost
