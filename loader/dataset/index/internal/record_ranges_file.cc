#include "loader/dataset/index/internal/record_ranges_file.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <sstream>

#include "base/fingerprint.h"

namespace isocost {
namespace {

constexpr const char* kMagic = "isocost-records-1";

// Returns whether the ranges follow each other from the begin of a file to its end.
bool follow_each_other(const std::vector<RecordRange>& ranges) {
  std::int64_t end = 0;
  for (const RecordRange& range : ranges) {
    if (range.begin != end || range.end < range.begin) return false;
    if (range.is_array != ranges.front().is_array) return false;
    end = range.end;
  }
  return !ranges.empty();
}

}  // namespace

std::string encode_record_ranges(const FileStamp& stamp, const std::vector<RecordRange>& ranges) {
  std::string text;
  for (const RecordRange& range : ranges) {
    text += fmt::format("{} {} {} {} {} {}\n", range.begin, range.end, range.line, range.number,
                        static_cast<int>(range.form), range.is_array ? 1 : 0);
  }
  return fmt::format("{} {} {} {} {:016x}\n", kMagic, stamp.bytes, stamp.mtime_ns, ranges.size(),
                     Fingerprint::of(text)) +
         text;
}

std::optional<std::vector<RecordRange>> decode_record_ranges(const std::string& text,
                                                             const FileStamp& stamp) {
  std::istringstream lines(text);
  std::string magic;
  FileStamp found;
  std::size_t count = 0;
  std::uint64_t checksum = 0;
  lines >> magic >> found.bytes >> found.mtime_ns >> count >> std::hex >> checksum >> std::dec;
  if (!lines || magic != kMagic || found != stamp || count > text.size()) return std::nullopt;
  const std::size_t line_end = text.find('\n');
  if (line_end == std::string::npos || Fingerprint::of(text.substr(line_end + 1)) != checksum) {
    return std::nullopt;
  }
  std::vector<RecordRange> ranges(count);
  for (RecordRange& range : ranges) {
    unsigned form = 0;
    unsigned is_array = 0;
    lines >> range.begin >> range.end >> range.line >> range.number >> form >> is_array;
    if (!lines || form > static_cast<unsigned>(kLastRecordForm) || is_array > 1)
      return std::nullopt;
    range.form = static_cast<RecordForm>(form);
    range.is_array = is_array == 1;
    range.is_last = &range == &ranges.back();
  }
  if (!follow_each_other(ranges)) return std::nullopt;
  return ranges;
}

}  // namespace isocost
