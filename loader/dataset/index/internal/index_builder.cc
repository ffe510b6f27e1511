#include "loader/dataset/index/internal/index_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "decode/bytes/sample_json.h"
#include "decode/bytes/sniff.h"
#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/formats/tar_listing.h"
#include "loader/dataset/index/internal/shard_condition.h"
#include "loader/dataset/stores/read_windows.h"
#include "loader/dataset/stores/watched_source.h"

namespace isocost {
namespace {

// A sample whose members are being read. After its first fault, later parts are skipped.
struct OpenSample {
  IndexedSample sample;
  std::unordered_set<std::string> names;  // of all parts that Isocost reads
  std::vector<std::string> texts;         // names of those that are text
  bool has_medium = false;
  bool is_conversation = false;
  std::vector<std::string> unread_keys;  // of its JSON
  std::optional<IndexedBad> bad;
};

class Builder {
 public:
  Builder(const std::shared_ptr<const ShardFile>& shard, std::string name,
          const ProbeLimits& limits, const SampleReading& reading, std::uint64_t samples_when_whole)
      : shard_(shard),
        bytes_(std::make_shared<const WatchedSource>(std::make_unique<ReadWindows>(
            std::make_unique<MemberSource>(shard, 0, shard->size())))),
        name_(std::move(name)),
        limits_(limits),
        reading_(reading) {
    contents_.archive.samples_when_whole = samples_when_whole;
  }

  Result<IndexContents> run(const std::stop_token& stop);

 private:
  void add(const TarMember& member);
  void add_nameless(const TarMember& member);
  void add_part(const TarMember& member, const std::string& part);
  void add_json(const TarMember& member, IndexedPart part);
  void refuse(std::string_view part, std::string reason);
  void leave_out(std::string_view part);
  void remark(RemarkKind kind, std::string_view name, std::string_view detail = "");
  void prefer_text();
  void remark_keys();
  void open_sample(const std::string& key);
  void close_sample();
  void end(const TarEnd& end);
  std::string unread_behind(const TarEnd& end) const;

  const std::shared_ptr<const ShardFile> shard_;
  const std::shared_ptr<const WatchedSource> bytes_;
  const std::string name_;
  const ProbeLimits limits_;
  const SampleReading& reading_;
  IndexContents contents_;
  std::unique_ptr<OpenSample> current_;
  std::unordered_set<std::string> keys_;
  // Counts by kind, name and detail.
  std::map<std::tuple<RemarkKind, std::string, std::string>, std::uint64_t> remarks_;
};

Result<IndexContents> Builder::run(const std::stop_token& stop) {
  contents_.identity = {shard_->state().stamp, limits_, reading_.hash()};
  contents_.tar_bytes = shard_->size();
  ISOCOST_ASSIGN(contents_.content_hash, shard_->content_hash());
  ISOCOST_ASSIGN(TarListing listing, TarListing::open(*bytes_));
  while (const auto member = listing.next()) {
    add(*member);
    if (bytes_->failure()) break;
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
  }
  if (auto failure = bytes_->failure()) return *std::move(failure);
  end(listing.end());
  for (auto& [key, count] : remarks_) {
    const auto& [kind, name, detail] = key;
    contents_.remarks.push_back({kind, name, detail, count});
  }
  return std::move(contents_);
}

void Builder::add(const TarMember& member) {
  if (is_metadata_member(member.name)) {
    remark(RemarkKind::kPart, member.name.substr(0, member.name.find('/')),
           "(metadata of WebDataset)");
    return;
  }
  const auto [key, part] = split_member_name(member.name);
  if (key.empty() || key.ends_with('/') || part.empty()) {
    add_nameless(member);
    return;
  }
  if (!current_ || current_->sample.key != key) {
    close_sample();
    open_sample(std::string(key));
  }
  if (reading_.ignored.contains(part)) {
    remark(RemarkKind::kIgnored, part_extension(part));
  } else if (!member.problem.empty()) {
    refuse(part, member.problem);
  } else if (modality_from_name(part)) {
    add_part(member, std::string(part));
  } else {
    leave_out(part);
  }
}

// Records a file without a dot, or a hidden one, which names no sample.
void Builder::add_nameless(const TarMember& member) {
  if (member.problem.empty()) {
    remark(RemarkKind::kPart, "without an extension");
    return;
  }
  close_sample();
  contents_.bad.push_back({member.name, "", member.problem});
}

void Builder::open_sample(const std::string& key) {
  current_ = std::make_unique<OpenSample>();
  current_->sample.key = key;
  if (keys_.insert(key).second) return;
  refuse("", fmt::format("the key '{}' occurs earlier in {}; give each sample its own key, and "
                         "keep its parts together (tar --sort=name)",
                         key, name_));
}

void Builder::add_part(const TarMember& member, const std::string& part) {
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
  IndexedPart indexed{part, member.offset, {}};
  const MemberSource source(bytes_, member.offset, member.size);
  if (format_from_extension(part) == MediaFormat::kJson) {
    add_json(member, std::move(indexed));
    return;
  }
  auto shape = probe(source, part, limits_);
  if (!shape) {
    refuse(part, shape.error().message());
    return;
  }
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
void Builder::add_json(const TarMember& member, IndexedPart part) {
  if (member.size > limits_.max_json_bytes) {
    refuse(part.name, fmt::format("{} bytes of JSON are more than the limit of {}", member.size,
                                  limits_.max_json_bytes));
    return;
  }
  std::string text(static_cast<std::size_t>(member.size), '\0');
  const auto read =
      bytes_->read_at(member.offset, std::as_writable_bytes(std::span(text.data(), text.size())));
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
  current_->sample.json_offset = member.offset;
  current_->sample.json_bytes = member.size;
  current_->sample.weight = json->weight;
  current_->is_conversation = json->is_conversation;
  if (json->text.empty() && !json->is_conversation) return;
  part.shape.modality = Modality::kText;
  part.shape.format = MediaFormat::kJson;
  part.shape.text_bytes = static_cast<std::int64_t>(json->text.size());
  part.shape.encoded_bytes = member.size;
  current_->sample.parts.push_back(std::move(part));
}

void Builder::refuse(std::string_view part, std::string reason) {
  if (current_->bad) return;
  current_->bad = IndexedBad{current_->sample.key, std::string(part), std::move(reason)};
}

// Counts a part that no model sees.
void Builder::leave_out(std::string_view part) {
  const std::string extension = part_extension(part);
  // "meta.json" says more than "json", which is read.
  remark(RemarkKind::kPart, extension == "json" ? part : extension);
}

void Builder::remark(RemarkKind kind, std::string_view name, std::string_view detail) {
  constexpr std::size_t kMaxNames = 1000;
  constexpr std::size_t kMaxName = 100;
  std::tuple key(kind, printable_utf8(name.substr(0, kMaxName)), std::string(detail));
  if (remarks_.size() >= kMaxNames && !remarks_.contains(key)) std::get<1>(key) = "others";
  ++remarks_[std::move(key)];
}

// Leaves out the second text of a sample that has text parts beside its JSON: captions are often
// kept in both. The text parts count, but for a model a conversation goes before them.
void Builder::prefer_text() {
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
void Builder::remark_keys() {
  constexpr std::array<std::string_view, 7> kOfFiles = {"file_name", "image", "images", "video",
                                                        "videos",    "audio", "audios"};
  for (const std::string& key : current_->unread_keys) {
    const bool names_parts =
        current_->has_medium && std::ranges::find(kOfFiles, key) != kOfFiles.end();
    if (!names_parts) remark(RemarkKind::kJsonKey, key);
  }
}

void Builder::close_sample() {
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

void Builder::end(const TarEnd& end) {
  // Damage in the compressed stream is the reason why the tar in it breaks off.
  const std::string& damage = shard_->problem().empty() ? end.problem : shard_->problem();
  const bool is_cut = !end.problem.empty() || (!damage.empty() && !end.has_mark);
  if (is_cut) current_.reset();  // it may lack members
  close_sample();
  contents_.archive.unread = unread_behind(end);
  judge(contents_.archive, {.damage = damage,
                            .has_end_mark = end.has_mark,
                            .samples = contents_.samples.size() + contents_.bad.size()});
}

std::string Builder::unread_behind(const TarEnd& end) const {
  if (end.unread_bytes > 0) {
    return fmt::format(
        "{} bytes from byte {} on, behind the mark that ends the archive, are not read; keep "
        "shards "
        "apart that were joined with cat, or join them with tar --concatenate; copy one again that "
        "ends in zeros, as an unfinished download does",
        end.unread_bytes, end.unread_offset);
  }
  return shard_->unread();
}

}  // namespace

Result<IndexContents> build_index(const std::shared_ptr<const ShardFile>& shard,
                                  const std::string& name, const ProbeLimits& limits,
                                  const SampleReading& reading, std::uint64_t samples_when_whole,
                                  const std::stop_token& stop) {
  return Builder(shard, name, limits, reading, samples_when_whole).run(stop);
}

}  // namespace isocost
