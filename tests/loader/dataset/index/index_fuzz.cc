#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/internal/index_layout.h"

namespace {

using isocost::IndexHeader;
using isocost::IndexView;

// Adds up all bytes, so that each is read.
std::uint64_t sum_of(std::string_view text) {
  std::uint64_t sum = 0;
  for (const char c : text) sum += static_cast<unsigned char>(c);
  return sum;
}

// Ends the program if the bytes of a part lie nowhere.
void check(const IndexView& view, const isocost::PartPlace& place) {
  if (place.offset < 0 || place.bytes < 0) std::abort();
  if (place.source == isocost::kMade) {
    if (place.bytes > IndexView::kMaxMadeBytes) std::abort();
  } else if (place.source == isocost::kInShard) {
    if (place.offset > view.tar_bytes() - place.bytes) std::abort();
  } else if (place.source > view.files() || place.offset != 0 ||
             place.bytes != view.file_stamp(place.source - 1).bytes) {
    std::abort();
  }
}

std::uint64_t read_everything(const IndexView& view) {
  std::uint64_t sum = static_cast<std::uint64_t>(view.identity().stamp.bytes);
  for (std::uint64_t i = 0; i < view.samples(); ++i) {
    sum += sum_of(view.key(i));
    if (!(view.weight(i) >= 0)) std::abort();
    check(view, view.json_place(i));
    const isocost::ByteRange record = view.record(i);
    if (record.begin < 0 || record.end < record.begin || record.end > view.tar_bytes()) {
      std::abort();
    }
    if (view.first_part(i) >= view.first_part(i + 1)) std::abort();
    if (view.first_part(i + 1) > view.parts()) std::abort();
  }
  for (std::uint64_t i = 0; i < view.parts(); ++i) {
    const isocost::PartShape shape = view.part_shape(i);
    sum += sum_of(view.part_name(i));
    check(view, view.part_place(i));
    if (isocost::modality_of(shape.format) != shape.modality) std::abort();
  }
  for (std::uint64_t i = 0; i < view.bad(); ++i) {
    sum += sum_of(view.bad_key(i)) + sum_of(view.bad_part(i)) + sum_of(view.bad_reason(i));
  }
  for (std::uint64_t i = 0; i < view.remarks(); ++i) {
    const isocost::IndexedRemark remark = view.remark(i);
    sum += sum_of(remark.name) + sum_of(remark.detail) + remark.count;
    if (remark.kind > isocost::RemarkKind::kJsonKey) std::abort();
  }
  for (std::uint64_t i = 0; i < view.files(); ++i) {
    if (view.file_path(i).empty() || view.file_stamp(i).bytes < 0) std::abort();
    sum += sum_of(view.file_path(i));
  }
  if (view.condition() > isocost::ShardCondition::kLost) std::abort();
  return sum + sum_of(view.problem()) + sum_of(view.unread()) + view.samples_when_whole();
}

void open_index(std::span<const std::byte> bytes) {
  const auto view = IndexView::parse(bytes);
  if (!view) return;
  volatile std::uint64_t sum = read_everything(*view);
  static_cast<void>(sum);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A vector's own bytes are aligned, and a read beyond them is noticed.
  const auto given = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(given.begin(), given.end());
  open_index(bytes);
  // With size and checksum mended the columns after them are looked at.
  for (const std::uint32_t version : {IndexView::kOldestVersion, IndexView::kVersion}) {
    const std::size_t header_bytes = isocost::index_header_bytes(version);
    if (bytes.size() < header_bytes) continue;
    IndexHeader header;
    std::memcpy(&header, bytes.data(), header_bytes);
    header.magic = isocost::kIndexMagic;
    header.version = version;
    header.file_bytes = bytes.size();
    std::memcpy(bytes.data(), &header, header_bytes);
    header.crc = isocost::index_crc(bytes);
    std::memcpy(bytes.data(), &header, header_bytes);
    open_index(bytes);
  }
  return 0;
}
