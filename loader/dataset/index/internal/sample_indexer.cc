#include "loader/dataset/index/internal/sample_indexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/sample_json.h"
#include "decode/bytes/sniff.h"

namespace isocost {

bool SampleIndexer::open(const std::string& key) {
  close();
  current_ = std::make_unique<OpenSample>();
  current_->sample.key = key;
  return keys_.insert(key).second;
}

bool SampleIndexer::ignores(std::string_view part) {
  if (!reading_.ignored.contains(part)) return false;
  remark(RemarkKind::kIgnored, part_extension(part));
  return true;
}

void SampleIndexer::add(const std::string& part, const ByteSource& bytes, PartSource source,
                        std::int64_t offset) {
  last_.reset();
  if (!modality_from_name(part)) {
    leave_out(part);
    return;
  }
  if (current_->bad) return;
  if (!current_->names.insert(part).second) {
    refuse(part, fmt::format("the part name '{}' occurs twice in the sample; rename one (as in "
                             "1.{})",
                             part, part));
    return;
  }
  if (format_from_extension(part) == MediaFormat::kJson && current_->sample.json_bytes > 0) {
    leave_out(part);  // "JSON" in addition to "json"
    return;
  }
  IndexedPart indexed{part, offset, {}, source};
  if (format_from_extension(part) == MediaFormat::kJson) {
    add_json(bytes, std::move(indexed));
    return;
  }
  auto shape = probe(bytes, part, limits_);
  if (!shape) {
    refuse(part, shape.error().message());
    return;
  }
  last_ = *shape;
  indexed.shape = *shape;
  if (shape->modality == Modality::kText) current_->texts.push_back(part);
  if (shape->modality != Modality::kText) {
    current_->has_medium = true;
    remark(RemarkKind::kFormat, part_extension(part), format_name(shape->format));
  }
  current_->sample.parts.push_back(std::move(indexed));
}

// Reads JSON whole, because its weight is part of the index. JSON without a text or a conversation
// is seen by no model.
void SampleIndexer::add_json(const ByteSource& bytes, IndexedPart part) {
  if (bytes.size() > limits_.max_json_bytes) {
    refuse(part.name, fmt::format("{} bytes of JSON are more than the limit of {}", bytes.size(),
                                  limits_.max_json_bytes));
    return;
  }
  std::string text(static_cast<std::size_t>(bytes.size()), '\0');
  const auto read = bytes.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  if (!read) {
    refuse(part.name, read.error().message());
    return;
  }
  text.resize(*read);
  auto json = parse_sample_json(text, reading_.weight_key);
  if (!json) {
    // Says where another format than JSON is meant by it, such as UTF-16.
    const Status is_text =
        check_is_text(ByteView(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
                      MediaFormat::kJson);
    refuse(part.name, (is_text ? json.error() : is_text.error()).message());
    return;
  }
  current_->unread_keys = std::move(json->unread);
  current_->sample.json_offset = part.offset;
  current_->sample.json_bytes = bytes.size();
  current_->sample.json_source = part.source;
  current_->sample.weight = json->weight;
  current_->is_conversation = json->is_conversation;
  if (json->text.empty() && !json->is_conversation) return;
  part.shape.modality = Modality::kText;
  part.shape.format = MediaFormat::kJson;
  part.shape.text_bytes = static_cast<std::int64_t>(json->text.size());
  part.shape.encoded_bytes = bytes.size();
  current_->sample.parts.push_back(std::move(part));
}

void SampleIndexer::refuse(std::string_view part, std::string reason) {
  if (current_->bad) return;
  for (const std::string* where : {&current_->file, &current_->location}) {
    if (!where->empty()) reason.insert(0, *where + ": ");
  }
  current_->bad = IndexedBad{current_->sample.key, std::string(part), std::move(reason)};
}

// Counts a part that no model sees.
void SampleIndexer::leave_out(std::string_view part) {
  const std::string extension = part_extension(part);
  // "meta.json" says more than "json", which is read.
  remark(RemarkKind::kPart, extension == "json" ? part : extension);
}

void SampleIndexer::remark(RemarkKind kind, std::string_view name, std::string_view detail) {
  constexpr std::size_t kMaxNames = 1000;
  constexpr std::size_t kMaxName = 100;
  std::tuple key(kind, printable_utf8(name.substr(0, kMaxName)), std::string(detail));
  if (remarks_.size() >= kMaxNames && !remarks_.contains(key)) std::get<1>(key) = "others";
  ++remarks_[std::move(key)];
}

// Leaves out the second text of a sample that has text parts beside its JSON: captions are often
// kept in both. The text parts count, but for a model a conversation goes before them.
void SampleIndexer::prefer_text() {
  if (current_->bad || current_->texts.empty()) return;
  if (current_->is_conversation) {
    for (const std::string& text : current_->texts) {
      remark(RemarkKind::kPart, part_extension(text), "beside a conversation");
    }
  }
  const std::size_t left_out = std::erase_if(current_->sample.parts, [](const IndexedPart& part) {
    return part.shape.format == MediaFormat::kJson && part.shape.text_bytes > 0;
  });
  if (left_out > 0) remark(RemarkKind::kJsonKey, "text", "beside a text part");
}

// Counts the JSON keys that no model sees. Records of make-shards name files that became parts.
void SampleIndexer::remark_keys() {
  constexpr std::array<std::string_view, 7> kOfFiles = {"file_name", "image", "images", "video",
                                                        "videos",    "audio", "audios"};
  for (const std::string& key : current_->unread_keys) {
    if (std::ranges::find(current_->seen_keys, key) != current_->seen_keys.end()) continue;
    const bool names_parts =
        current_->has_medium && std::ranges::find(kOfFiles, key) != kOfFiles.end();
    if (!names_parts) remark(RemarkKind::kJsonKey, key);
  }
}

void SampleIndexer::close() {
  if (!current_) return;
  prefer_text();
  remark_keys();
  if (!current_->bad && current_->sample.parts.empty()) {
    refuse("", current_->names.empty()
                   ? "no part that Isocost reads; add an image, audio, video or text"
                   : "no part that a model sees, only JSON without \"text\", \"messages\" or "
                     "\"conversations\"");
  }
  if (auto& bad = current_->bad) {
    contents_.bad.push_back(*std::move(bad));
  } else {
    contents_.samples.push_back(std::move(current_->sample));
  }
  current_.reset();
}

void SampleIndexer::finish() {
  close();
  for (auto& [key, count] : remarks_) {
    const auto& [kind, name, detail] = key;
    contents_.remarks.push_back({kind, name, detail, count});
  }
}

}  // namespace isocost
