#include "loader/dataset/index/index_format.h"

#include <fmt/format.h>
#include <algorithm>

#include <bit>
#include <cmath>
#include <cstring>

#include "loader/dataset/index/internal/index_layout.h"
#include "loader/dataset/records/record_range.h"

namespace isocost {
namespace {

static_assert(std::endian::native == std::endian::little, "the index is read in place");

Error broken(std::string_view what) {
  return {ErrorCode::kCorrupt, fmt::format("broken index: {}", what)};
}

// Returns whether a range lies within a tar of this size.
bool is_inside(std::int64_t offset, std::int64_t bytes, std::int64_t tar_bytes) {
  return offset >= 0 && bytes >= 0 && offset <= tar_bytes && bytes <= tar_bytes - offset;
}

}  // namespace

bool same_identity(const IndexIdentity& a, const IndexIdentity& b) {
  return a.stamp == b.stamp && a.limits.max_pixels == b.limits.max_pixels &&
         a.limits.max_json_bytes == b.limits.max_json_bytes &&
         a.limits.max_text_bytes == b.limits.max_text_bytes && a.reading == b.reading &&
         a.origin == b.origin;
}

bool may_be_same_object(const IndexIdentity& a, const IndexIdentity& b) {
  IndexIdentity other = b;
  other.stamp.mtime_ns = a.stamp.mtime_ns;
  return same_identity(a, other);
}

template <typename T>
T IndexView::load(std::uint64_t column, std::uint64_t i) const {
  T value{};
  // `i` may come from bytes that changed since they were checked.
  if (i >= bytes_.size() || column + (i + 1) * sizeof(T) > bytes_.size()) return value;
  std::memcpy(&value, bytes_.data() + column + i * sizeof(T), sizeof(T));
  return value;
}

Result<IndexView> IndexView::parse(std::span<const std::byte> bytes) {
  ISOCOST_ASSIGN(IndexView view, parse_again(bytes));
  if (view.header().crc != index_crc(bytes)) return broken("checksum");
  ISOCOST_TRY(view.check_texts());
  ISOCOST_TRY(view.check_files());
  ISOCOST_TRY(view.check_samples());
  ISOCOST_TRY(view.check_parts());
  ISOCOST_TRY(view.check_remarks());
  return view;
}

Result<IndexView> IndexView::parse_again(std::span<const std::byte> bytes) {
  if (bytes.size() < index_header_bytes(kOldestVersion)) return broken("shorter than its header");
  IndexView view;
  view.bytes_ = bytes;
  const IndexHeader header = view.header();
  if (header.magic != kIndexMagic) return broken("not an index file");
  if (header.version != kVersion && header.version != kOldestVersion) {
    return Error(ErrorCode::kUnsupported, fmt::format("index of version {}", header.version));
  }
  if (bytes.size() < index_header_bytes(header.version)) return broken("shorter than its header");
  if (header.file_bytes != bytes.size()) return broken("its size is not what it says");
  if (header.kind > static_cast<std::uint8_t>(ShardKind::kFieldTar)) {
    return broken("an unknown kind of shard");
  }
  if (header.form > static_cast<std::uint8_t>(kLastRecordForm)) {
    return broken("an unknown form of records");
  }
  view.kind_ = static_cast<ShardKind>(header.kind);
  view.files_ = header.files;
  view.samples_ = header.samples;
  view.parts_ = header.parts;
  view.bad_ = header.bad;
  view.remarks_ = header.remarks;
  view.names_ = header.names;
  view.text_size_ = header.text_bytes;
  view.tar_bytes_ = header.tar_bytes;
  const auto columns = view.lay_out();
  if (!columns || columns->end != bytes.size()) return broken("its columns do not fit");
  view.at_ = *columns;
  return view;
}

std::optional<IndexView::Columns> IndexView::lay_out() const {
  // No count can exceed the file's bytes, so that no sum below overflows.
  const std::uint64_t limit = bytes_.size();
  if (samples_ > limit || parts_ > limit || bad_ > limit || names_ > limit || remarks_ > limit ||
      text_size_ > limit || files_ > limit) {
    return std::nullopt;
  }
  IndexLayout layout(index_header_bytes(header().version));
  Columns at{};
  at.first_part = layout.add(samples_ + 1, sizeof(std::uint64_t));
  at.weight = layout.add(samples_, sizeof(float));
  at.json_offset = layout.add(samples_, sizeof(std::int64_t));
  at.json_bytes = layout.add(samples_, sizeof(std::int64_t));
  at.text_end = layout.add(texts() + 1, sizeof(std::uint64_t));
  at.name = layout.add(parts_, sizeof(std::uint32_t));
  for (std::uint64_t* column :
       {&at.offset, &at.bytes, &at.frames, &at.duration_us, &at.text_bytes}) {
    *column = layout.add(parts_, sizeof(std::int64_t));
  }
  for (std::uint64_t* column : {&at.width, &at.height, &at.sample_rate, &at.channels}) {
    *column = layout.add(parts_, sizeof(std::int32_t));
  }
  for (std::uint64_t* column : {&at.modality, &at.format, &at.orientation}) {
    *column = layout.add(parts_, sizeof(std::uint8_t));
  }
  at.remark_count = layout.add(remarks_, sizeof(std::uint64_t));
  at.remark_kind = layout.add(remarks_, sizeof(std::uint8_t));
  at.json_source = layout.add(samples_of_records(), sizeof(PartSource));
  at.record_begin = layout.add(samples_of_records(), sizeof(std::int64_t));
  at.record_end = layout.add(samples_of_records(), sizeof(std::int64_t));
  at.source = layout.add(parts_of_records(), sizeof(PartSource));
  at.file_bytes = layout.add(files_, sizeof(std::int64_t));
  at.file_mtime = layout.add(files_, sizeof(std::int64_t));
  at.text = layout.add(text_size_, 1);
  at.end = layout.end();
  return at;
}

Status IndexView::check_samples() const {
  if (tar_bytes_ < 0) return broken("negative size");
  if (condition() > ShardCondition::kLost) return broken("an unknown condition of its shard");
  if (first_part(0) != 0 || load<std::uint64_t>(at_.first_part, samples_) != parts_)
    return broken("part counts");
  for (std::uint64_t i = 0; i < samples_; ++i) {
    if (first_part(i) >= first_part(i + 1)) return broken("a sample without parts");
    if (!std::isfinite(weight(i)) || weight(i) < 0) return broken("a sample's weight");
    const ByteRange place = record(i);
    // A sample of a tar may hold a large medium, which nothing is made of.
    const bool may_be_large = kind_ == ShardKind::kFieldTar;
    if (place.begin < 0 || place.end < place.begin || place.end > tar_bytes_ ||
        (place.end - place.begin > kMaxMadeBytes && !may_be_large)) {
      return broken("a record beyond its file");
    }
    if (!is_place(json_place(i))) return broken("a JSON part beyond its shard");
  }
  return {};
}

Status IndexView::check_texts() const {
  if (load<std::uint64_t>(at_.text_end, 0) != 0) return broken("text offsets");
  for (std::uint64_t i = 0; i < texts(); ++i) {
    if (load<std::uint64_t>(at_.text_end, i) > load<std::uint64_t>(at_.text_end, i + 1)) {
      return broken("text offsets");
    }
  }
  if (load<std::uint64_t>(at_.text_end, texts()) != text_size_) return broken("text offsets");
  return {};
}

Status IndexView::check_parts() const {
  for (std::uint64_t i = 0; i < parts_; ++i) {
    const PartShape shape = part_shape(i);
    if (!is_place(part_place(i))) return broken("a part beyond its shard");
    if (shape.modality > Modality::kVideo || shape.format > kLastFormat ||
        modality_of(shape.format) != shape.modality || shape.orientation < 1 ||
        shape.orientation > 8) {
      return broken("an unknown kind of part");
    }
    if (shape.width < 0 || shape.height < 0 || shape.sample_rate < 0 || shape.channels < 0 ||
        shape.frames < 0 || shape.duration_us < 0 || shape.text_bytes < 0) {
      return broken("a negative shape");
    }
    if (shape.modality == Modality::kVideo &&
        (shape.frames == 0 || shape.sample_rate == 0 || shape.channels == 0)) {
      return broken("a video without frames");
    }
    if (load<std::uint32_t>(at_.name, i) >= names_) return broken("a part's name");
  }
  return {};
}

Status IndexView::check_remarks() const {
  for (std::uint64_t i = 0; i < remarks_; ++i) {
    if (remark(i).kind > RemarkKind::kJsonKey) return broken("an unknown kind of remark");
  }
  return {};
}

Status IndexView::check_files() const {
  if (kind_ == ShardKind::kTar && files_ > 0) return broken("files of a tar");
  for (std::uint64_t i = 0; i < files_; ++i) {
    const std::string_view path = file_path(i);
    if (path.empty() || path.find('\0') != std::string_view::npos) return broken("a file's path");
    if (file_stamp(i).bytes < 0) return broken("a file's size");
  }
  return {};
}

// Returns whether the bytes of a part exist.
bool IndexView::is_place(const PartPlace& place) const {
  if (place.source == kInShard) return is_inside(place.offset, place.bytes, tar_bytes_);
  if (place.source == kMade) {
    return place.offset >= 0 && place.bytes >= 0 && place.bytes <= kMaxMadeBytes;
  }
  return place.source <= files_ && place.offset == 0 &&
         place.bytes == file_stamp(place.source - 1).bytes;
}

IndexHeader IndexView::header() const {
  // The bytes that follow an older header are those of its columns.
  std::uint32_t version = 0;
  std::memcpy(&version, bytes_.data() + offsetof(IndexHeader, version), sizeof(version));
  IndexHeader header;
  std::memcpy(&header, bytes_.data(), std::min(bytes_.size(), index_header_bytes(version)));
  return header;
}

IndexIdentity IndexView::identity() const {
  const IndexHeader header = this->header();
  IndexIdentity identity;
  identity.stamp = {header.shard_bytes, header.shard_mtime_ns};
  identity.limits.max_pixels = header.max_pixels;
  identity.limits.max_json_bytes = header.max_json_bytes;
  identity.limits.max_text_bytes = header.max_text_bytes;
  identity.reading = header.reading;
  identity.origin = header.origin;
  return identity;
}

std::uint64_t IndexView::content_hash() const { return header().content_hash; }

std::uint8_t IndexView::form() const { return header().form; }

ShardIdentity IndexView::file_identity() const {
  const IndexHeader header = this->header();
  const bool is_tar = kind_ == ShardKind::kTar;
  return {{header.shard_bytes, header.shard_mtime_ns},
          is_tar ? header.content_hash : header.file_hash};
}

ShardCondition IndexView::condition() const {
  return static_cast<ShardCondition>(header().condition);
}

bool IndexView::has_end_mark() const { return header().has_end_mark != 0; }

std::uint64_t IndexView::samples_when_whole() const { return header().samples_when_whole; }

std::string_view IndexView::text(std::uint64_t i) const {
  const auto begin = load<std::uint64_t>(at_.text_end, i);
  const auto end = load<std::uint64_t>(at_.text_end, i + 1);
  if (begin > end || end > text_size_) return {};  // cut since it was checked
  return {reinterpret_cast<const char*>(bytes_.data() + at_.text + begin), end - begin};
}

float IndexView::weight(std::uint64_t sample) const { return load<float>(at_.weight, sample); }

std::int64_t IndexView::json_offset(std::uint64_t sample) const {
  return load<std::int64_t>(at_.json_offset, sample);
}

std::int64_t IndexView::json_bytes(std::uint64_t sample) const {
  return load<std::int64_t>(at_.json_bytes, sample);
}

PartPlace IndexView::json_place(std::uint64_t sample) const {
  const PartSource source =
      kind_ == ShardKind::kTar ? kInShard : load<PartSource>(at_.json_source, sample);
  return {source, json_offset(sample), json_bytes(sample)};
}

ByteRange IndexView::record(std::uint64_t sample) const {
  if (kind_ == ShardKind::kTar) return {};
  return {load<std::int64_t>(at_.record_begin, sample), load<std::int64_t>(at_.record_end, sample)};
}

std::uint64_t IndexView::first_part(std::uint64_t sample) const {
  return std::min(load<std::uint64_t>(at_.first_part, sample), parts_);
}

std::string_view IndexView::part_name(std::uint64_t part) const {
  const std::uint64_t name = load<std::uint32_t>(at_.name, part);
  return name < names_ ? text(samples_ + name) : std::string_view();
}

std::int64_t IndexView::part_offset(std::uint64_t part) const {
  return load<std::int64_t>(at_.offset, part);
}

PartPlace IndexView::part_place(std::uint64_t part) const {
  const PartSource source =
      kind_ == ShardKind::kTar ? kInShard : load<PartSource>(at_.source, part);
  return {source, part_offset(part), load<std::int64_t>(at_.bytes, part)};
}

std::string_view IndexView::file_path(std::uint64_t file) const {
  return file < files_ ? text(file_texts() + file) : std::string_view();
}

FileStamp IndexView::file_stamp(std::uint64_t file) const {
  return {load<std::int64_t>(at_.file_bytes, file), load<std::int64_t>(at_.file_mtime, file)};
}

IndexedRemark IndexView::remark(std::uint64_t i) const {
  const std::uint64_t first = remark_texts() + 2 * i;
  return {static_cast<RemarkKind>(load<std::uint8_t>(at_.remark_kind, i)), std::string(text(first)),
          std::string(text(first + 1)), load<std::uint64_t>(at_.remark_count, i)};
}

PartShape IndexView::part_shape(std::uint64_t part) const {
  PartShape shape;
  shape.modality = static_cast<Modality>(load<std::uint8_t>(at_.modality, part));
  shape.format = static_cast<MediaFormat>(load<std::uint8_t>(at_.format, part));
  shape.orientation = load<std::uint8_t>(at_.orientation, part);
  shape.width = load<std::int32_t>(at_.width, part);
  shape.height = load<std::int32_t>(at_.height, part);
  shape.sample_rate = load<std::int32_t>(at_.sample_rate, part);
  shape.channels = load<std::int32_t>(at_.channels, part);
  shape.frames = load<std::int64_t>(at_.frames, part);
  shape.duration_us = load<std::int64_t>(at_.duration_us, part);
  shape.text_bytes = load<std::int64_t>(at_.text_bytes, part);
  shape.encoded_bytes = load<std::int64_t>(at_.bytes, part);
  return shape;
}

}  // namespace isocost
