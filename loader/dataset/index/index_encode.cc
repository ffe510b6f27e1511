#include <zlib.h>

#include <cstring>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/internal/index_layout.h"

namespace isocost {
namespace {

// Appends columns in the order of docs/index_format.md, each from a multiple of 8.
class Encoder {
 public:
  Encoder() { bytes_.resize(sizeof(IndexHeader)); }

  template <typename T>
  void add(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void add_text(std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
  }
  void end_column() { bytes_.resize((bytes_.size() + 7) / 8 * 8); }

  std::vector<std::byte> finish(IndexHeader header) {
    header.version = IndexView::kVersion;
    header.file_bytes = bytes_.size();
    std::memcpy(bytes_.data(), &header, sizeof(header));
    header.crc = index_crc(bytes_);
    std::memcpy(bytes_.data(), &header, sizeof(header));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

// Part names such as "jpg" repeat: each is stored once and numbered by first occurrence.
struct Names {
  std::vector<std::string_view> list;
  std::unordered_map<std::string_view, std::uint32_t> numbers;

  explicit Names(const IndexContents& contents) {
    for (const IndexedSample& sample : contents.samples) {
      for (const IndexedPart& part : sample.parts) {
        if (numbers.emplace(part.name, static_cast<std::uint32_t>(list.size())).second) {
          list.emplace_back(part.name);
        }
      }
    }
  }
};

using PartVisitor = std::function<void(const IndexedPart&)>;

void for_each_part(const IndexContents& contents, const PartVisitor& visit) {
  for (const IndexedSample& sample : contents.samples) {
    for (const IndexedPart& part : sample.parts) visit(part);
  }
}

std::vector<std::string_view> texts_of(const IndexContents& contents, const Names& names) {
  std::vector<std::string_view> texts;
  texts.reserve(contents.samples.size() + names.list.size() + 3 * contents.bad.size() + 2 +
                2 * contents.remarks.size() + contents.files.size());
  for (const IndexedSample& sample : contents.samples) texts.emplace_back(sample.key);
  texts.insert(texts.end(), names.list.begin(), names.list.end());
  for (const IndexedBad& bad : contents.bad) {
    texts.insert(texts.end(), {std::string_view(bad.key), bad.part, bad.reason});
  }
  texts.insert(texts.end(), {std::string_view(contents.archive.problem), contents.archive.unread});
  for (const IndexedRemark& remark : contents.remarks) {
    texts.insert(texts.end(), {std::string_view(remark.name), remark.detail});
  }
  for (const IndexedFile& file : contents.files) texts.emplace_back(file.path);
  return texts;
}

template <typename Get>
void add_part_column(Encoder& encoder, const IndexContents& contents, Get get) {
  for_each_part(contents, [&](const IndexedPart& part) { encoder.add(get(part)); });
  encoder.end_column();
}

void add_part_columns(Encoder& encoder, const IndexContents& contents, const Names& names) {
  const auto column = [&](auto get) { add_part_column(encoder, contents, get); };
  column([&](const IndexedPart& part) { return names.numbers.at(part.name); });
  column([](const IndexedPart& part) { return part.offset; });
  column([](const IndexedPart& part) { return part.shape.encoded_bytes; });
  column([](const IndexedPart& part) { return part.shape.frames; });
  column([](const IndexedPart& part) { return part.shape.duration_us; });
  column([](const IndexedPart& part) { return part.shape.text_bytes; });
  column([](const IndexedPart& part) { return part.shape.width; });
  column([](const IndexedPart& part) { return part.shape.height; });
  column([](const IndexedPart& part) { return part.shape.sample_rate; });
  column([](const IndexedPart& part) { return part.shape.channels; });
  column([](const IndexedPart& part) { return part.shape.modality; });
  column([](const IndexedPart& part) { return part.shape.format; });
  column([](const IndexedPart& part) { return part.shape.orientation; });
}

template <typename Get>
void add_sample_column(Encoder& encoder, const IndexContents& contents, Get get) {
  for (const IndexedSample& sample : contents.samples) encoder.add(get(sample));
  encoder.end_column();
}

// Adds the columns that say where the parts of records lie, which those of a tar need not.
void add_place_columns(Encoder& encoder, const IndexContents& contents) {
  if (contents.kind != ShardKind::kTar) {
    const auto column = [&](auto get) { add_sample_column(encoder, contents, get); };
    column([](const IndexedSample& sample) { return sample.json_source; });
    column([](const IndexedSample& sample) { return sample.record.begin; });
    column([](const IndexedSample& sample) { return sample.record.end; });
    add_part_column(encoder, contents, [](const IndexedPart& part) { return part.source; });
  }
  for (const IndexedFile& file : contents.files) encoder.add(file.stamp.bytes);
  for (const IndexedFile& file : contents.files) encoder.add(file.stamp.mtime_ns);
}

IndexHeader header_of(const IndexContents& contents) {
  IndexHeader header;
  header.shard_bytes = contents.identity.stamp.bytes;
  header.shard_mtime_ns = contents.identity.stamp.mtime_ns;
  header.max_pixels = contents.identity.limits.max_pixels;
  header.max_json_bytes = contents.identity.limits.max_json_bytes;
  header.max_text_bytes = contents.identity.limits.max_text_bytes;
  header.content_hash = contents.content_hash;
  header.tar_bytes = contents.tar_bytes;
  header.samples = contents.samples.size();
  header.bad = contents.bad.size();
  header.samples_when_whole = contents.archive.samples_when_whole;
  header.condition = static_cast<std::uint8_t>(contents.archive.condition);
  header.has_end_mark = contents.archive.has_end_mark ? 1 : 0;
  header.reading = contents.identity.reading;
  header.remarks = contents.remarks.size();
  header.files = contents.files.size();
  header.origin = contents.identity.origin;
  header.file_hash = contents.file_hash;
  header.kind = static_cast<std::uint8_t>(contents.kind);
  header.form = contents.form;
  return header;
}

}  // namespace

std::uint32_t index_crc(std::span<const std::byte> bytes) {
  const auto covered = bytes.subspan(offsetof(IndexHeader, file_bytes));
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(covered.data()), covered.size()));
}

std::vector<std::byte> encode_index(const IndexContents& contents) {
  const Names names(contents);
  const auto texts = texts_of(contents, names);
  Encoder encoder;
  IndexHeader header = header_of(contents);
  header.names = names.list.size();
  encoder.add(std::uint64_t{0});
  for (const IndexedSample& sample : contents.samples) {
    encoder.add(header.parts += sample.parts.size());
  }
  encoder.end_column();
  const auto column = [&](auto get) { add_sample_column(encoder, contents, get); };
  column([](const IndexedSample& sample) { return sample.weight; });
  column([](const IndexedSample& sample) { return sample.json_offset; });
  column([](const IndexedSample& sample) { return sample.json_bytes; });
  encoder.add(std::uint64_t{0});
  for (const std::string_view text : texts) encoder.add(header.text_bytes += text.size());
  encoder.end_column();
  add_part_columns(encoder, contents, names);
  for (const IndexedRemark& remark : contents.remarks) encoder.add(remark.count);
  encoder.end_column();
  for (const IndexedRemark& remark : contents.remarks) encoder.add(remark.kind);
  encoder.end_column();
  add_place_columns(encoder, contents);
  for (const std::string_view text : texts) encoder.add_text(text);
  encoder.end_column();
  return encoder.finish(header);
}

}  // namespace isocost
