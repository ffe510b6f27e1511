#include "loader/dataset/names/internal/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/utf8.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/stores/file_source.h"
#include "loader/dataset/stores/sequential_reader.h"

namespace isocost {
namespace {

constexpr std::size_t kTarBlock = 512;

// Returns whether the numbers of a tar header add up: its checksum field holds the sum of all
// bytes, with blanks in place of the field (POSIX.1-2008, pax, "ustar Interchange Format").
bool is_tar_header(std::string_view block) {
  constexpr std::size_t kField = 148;
  constexpr std::size_t kFieldBytes = 8;
  if (block.size() < kTarBlock) return false;
  unsigned sum = 0;
  unsigned stated = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    const bool in_field = i >= kField && i < kField + kFieldBytes;
    sum += in_field ? ' ' : static_cast<unsigned char>(block[i]);
    if (in_field && block[i] >= '0' && block[i] <= '7') stated = stated * 8 + (block[i] - '0');
  }
  return sum == stated;
}

bool is_compressed_stream(std::string_view begin) {
  return begin.starts_with("\x1F\x8B") || begin.starts_with("\x28\xB5\x2F\xFD");
}

// Returns whether the first two marks are those of an object, or of an array of objects, arrays or
// texts. A list may begin with a pattern such as "{a,b}/*.tar" or "[ab].tar".
bool is_json(std::string_view begin) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::string_view text = without_byte_order_mark(begin);
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '[')) return false;
  const std::size_t second = text.find_first_not_of(kBlanks, first + 1);
  const char mark = second == std::string_view::npos ? '"' : text[second];
  return text[first] == '{' ? mark == '"' || mark == '}'
                            : std::string_view("{[\"]").find(mark) != std::string_view::npos;
}

// Names of files may be no UTF-8.
bool is_text(std::string_view begin) {
  return std::ranges::none_of(begin, [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\r' && c != '\n';
  });
}

// A compressed stream is taken for a shard unless it begins as JSON.
FileKind kind_of_compressed(const std::filesystem::path& file) {
  std::array<char, kTarBlock> bytes{};
  const auto plain = SequentialReader::open(file);
  if (!plain) return FileKind::kShard;
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const auto read = (*plain)->read(std::as_writable_bytes(std::span(bytes).subspan(filled)));
    if (!read || *read == 0) break;
    filled += *read;
  }
  const std::string_view begin(bytes.data(), filled);
  return is_json(begin) && !is_tar_header(begin) ? FileKind::kRecords : FileKind::kShard;
}

}  // namespace

Result<FileKind> kind_of_file(const std::filesystem::path& file) {
  if (has_shard_ending(file.filename().string())) return FileKind::kShard;
  ISOCOST_ASSIGN(const auto source, FileSource::open(file));
  std::array<char, kTarBlock> bytes{};
  ISOCOST_ASSIGN(const std::size_t read,
                 source->read_at(0, std::as_writable_bytes(std::span(bytes))));
  const std::string_view begin(bytes.data(), read);
  if (is_compressed_stream(begin)) return kind_of_compressed(file);
  if (is_tar_header(begin)) return FileKind::kShard;
  if (is_json(begin)) return FileKind::kRecords;
  if (!begin.empty() && is_text(begin)) return FileKind::kList;
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: it is {}; give a shard ({}), a directory of shards, a pattern as in "
                  "shards/{{000..099}}.tar, or a text file with one path per line",
                  printable_path(file.string()),
                  begin.empty() ? "empty" : "no tar file, no JSON and no text", kShardNames));
}

}  // namespace isocost
