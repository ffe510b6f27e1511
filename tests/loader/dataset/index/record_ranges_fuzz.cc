#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/fingerprint.h"
#include "loader/dataset/index/internal/record_ranges_file.h"

namespace {

const isocost::FileStamp kStamp{1000, 7};

// Reads a file that is given; its ranges must follow each other.
void decode(const std::string& text) {
  const auto ranges = isocost::decode_record_ranges(text, kStamp);
  if (!ranges) return;
  if (ranges->empty()) std::abort();
  std::int64_t end = 0;
  for (const isocost::RecordRange& range : *ranges) {
    if (range.begin != end || range.end < range.begin) std::abort();
    if (range.form > isocost::kLastRecordForm) std::abort();
    if (range.is_last != (&range == &ranges->back())) std::abort();
    end = range.end;
  }
  // They are read as they were when they are written again.
  const auto again =
      isocost::decode_record_ranges(isocost::encode_record_ranges(kStamp, *ranges), kStamp);
  if (!again || again->size() != ranges->size() || again->back().end != end) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  decode(text);
  // With a header that fits, the lines after it are looked at.
  const auto lines = std::count(text.begin(), text.end(), '\n');
  decode(fmt::format("isocost-records-1 {} {} {} {:016x}\n", kStamp.bytes, kStamp.mtime_ns, lines,
                     isocost::Fingerprint::of(text)) +
         text);
  return 0;
}
