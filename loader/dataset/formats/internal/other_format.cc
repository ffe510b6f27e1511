#include "loader/dataset/formats/internal/other_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace isocost {
namespace {

struct Format {
  std::string_view begin;
  std::string_view name;
  std::string_view remedy;
};

constexpr std::string_view kCopyOrRemove = "copy the shard again or remove it";
constexpr std::string_view kPackAgain =
    "pack its files as a tar, as it is or compressed by gzip or zstd";

constexpr std::array kFormats = {
    Format{"PK\x03\x04", "it is a ZIP archive", kPackAgain},
    Format{"\xFD"
           "7zXZ",
           "it is compressed by xz", kPackAgain},
    Format{"BZh", "it is compressed by bzip2", kPackAgain},
    Format{"7z\xBC\xAF\x27\x1C", "it is a 7z archive", kPackAgain},
    Format{"\x04\x22\x4D\x18", "it is compressed by lz4", kPackAgain},
    Format{"PAR1", "it is a Parquet file", "make shards of its records"},
    Format{"version https://git-lfs", "it is a pointer of Git LFS", "fetch the file: git lfs pull"},
    Format{"<", "it is an HTML or XML page, as a failed download leaves one", kCopyOrRemove},
    Format{"{", "it is JSON, as a failed download may leave it", kCopyOrRemove},
};

}  // namespace

std::string why_no_tar(const ByteSource& source, std::string_view detail) {
  std::array<char, 64> room{};
  const auto read = source.read_at(0, std::as_writable_bytes(std::span(room)));
  const std::string_view begin(room.data(), read.value_or(0));
  std::string_view text = begin;  // without what may stand before a page
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\xEF\xBB\xBF"), text.size()));
  const auto* const found = std::ranges::find_if(kFormats, [&](const Format& format) {
    return begin.starts_with(format.begin) || text.starts_with(format.begin);
  });
  const bool is_known = found != kFormats.end();
  return fmt::format("not a tar file ({}); {}", is_known ? found->name : detail,
                     is_known ? found->remedy : kCopyOrRemove);
}

}  // namespace isocost
