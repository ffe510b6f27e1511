#include "loader/dataset/index/internal/index_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/counted.h"
#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/formats/tar_choice.h"
#include "loader/dataset/formats/tar_listing.h"
#include "loader/dataset/index/internal/sample_indexer.h"
#include "loader/dataset/index/internal/shard_condition.h"
#include "loader/dataset/records/field_sample.h"
#include "loader/dataset/stores/watched_source.h"

namespace isocost {
namespace {

class TarIndexBuilder {
 public:
  TarIndexBuilder(const std::shared_ptr<const ShardFile>& shard, const ShardPlace& place,
                  const ProbeLimits& limits, const SampleReading& reading,
                  std::uint64_t samples_when_whole)
      : shard_(shard),
        bytes_(std::make_shared<const WatchedSource>(
            std::make_unique<MemberSource>(shard->pass(), 0, shard->size()))),
        name_(place.name),
        choice_(place.tar ? *place.tar : TarChoice()),
        limits_(limits),
        reading_(reading) {
    contents_.archive.samples_when_whole = samples_when_whole;
  }

  Result<IndexContents> run(const std::stop_token& stop);

 private:
  void add(const TarMember& member);
  void open(std::string_view key);
  void close();
  void add_part(const TarMember& member, std::string_view part);
  void add_fields();
  void add_member(const FieldMember& member, MemberUse use);
  void add_nameless(const TarMember& member);
  void end(const TarEnd& end);
  void compare_count();
  std::string unread_behind(const TarEnd& end) const;

  const std::shared_ptr<const ShardFile> shard_;
  const std::shared_ptr<const WatchedSource> bytes_;
  const std::string name_;
  const TarChoice choice_;
  const ProbeLimits limits_;
  const SampleReading& reading_;
  std::string excluded_key_;          // of the sample that is being left out; empty: none is
  std::uint64_t excluded_ = 0;        // samples
  std::vector<FieldMember> members_;  // of the open sample, if fields say what it is
  RecordBytes record_;                // their headers and bytes
  IndexContents contents_;
  SampleIndexer samples_{contents_, limits_, reading_};
};

Result<IndexContents> TarIndexBuilder::run(const std::stop_token& stop) {
  contents_.identity = {shard_->state().stamp, limits_, reading_.hash(), choice_.origin()};
  if (choice_.fields) contents_.kind = ShardKind::kFieldTar;
  contents_.tar_bytes = shard_->size();
  ISOCOST_ASSIGN(contents_.content_hash, shard_->content_hash());
  if (choice_.fields) contents_.file_hash = contents_.content_hash;
  ISOCOST_ASSIGN(TarListing listing, TarListing::open(*bytes_));
  while (const auto member = listing.next()) {
    add(*member);
    if (bytes_->failure()) break;
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while indexing");
  }
  if (auto failure = bytes_->failure()) return *std::move(failure);
  end(listing.end());
  samples_.finish();
  return std::move(contents_);
}

void TarIndexBuilder::add(const TarMember& member) {
  if (is_metadata_member(member.name)) {
    samples_.remark(RemarkKind::kPart, member.name.substr(0, member.name.find('/')),
                    "(metadata of WebDataset)");
    return;
  }
  const auto [key, part] = split_member_name(member.name);
  if (key.empty() || key.ends_with('/') || part.empty()) {
    add_nameless(member);
    return;
  }
  if (!samples_.has_open(key) && excluded_key_ != key) open(key);
  if (excluded_key_.empty()) add_part(member, part);
}

// Begins a sample, unless it is one that is left out.
void TarIndexBuilder::open(std::string_view key) {
  close();
  if (std::ranges::binary_search(choice_.excluded, key)) {
    excluded_key_ = key;
    ++excluded_;
    return;
  }
  if (samples_.open(std::string(key))) return;
  samples_.refuse("", fmt::format("the key '{}' occurs earlier in {}; give each sample its own "
                                  "key, and keep its parts together (tar --sort=name)",
                                  key, name_));
}

void TarIndexBuilder::close() {
  excluded_key_.clear();
  if (!members_.empty()) add_fields();
  members_.clear();
  samples_.close();
}

void TarIndexBuilder::add_part(const TarMember& member, std::string_view part) {
  if (choice_.fields && member.problem.empty()) {
    if (members_.empty()) record_.begin = member.header;
    record_.end = member.offset + member.size;
    members_.push_back({std::string(part), member.offset, member.size});
    return;
  }
  if (samples_.ignores(part)) return;
  if (!member.problem.empty()) {
    samples_.refuse(part, member.problem);
    return;
  }
  samples_.add(std::string(part), MemberSource(bytes_, member.offset, member.size), kInShard,
               member.offset);
}

// Adds the parts of a sample whose members are known.
void TarIndexBuilder::add_fields() {
  if (samples_.is_bad()) return;
  const FieldLimits limits{limits_.max_json_bytes, limits_.max_text_bytes};
  const auto read = read_fields(*choice_.fields, members_, *bytes_, limits);
  if (!read) {
    samples_.refuse("", read.error().message());
    return;
  }
  samples_.set_record({record_.begin, record_.end}, "");
  for (std::size_t i = 0; i < members_.size(); ++i) add_member(members_[i], read->uses[i]);
  for (const std::string& key : read->seen_keys) samples_.see_key(key);
  for (const std::string& key : read->left_out_keys) {
    samples_.remark(RemarkKind::kJsonKey, key, "beside the text that is named");
  }
  if (const auto& json = read->json; json && !samples_.ignores("json")) {
    samples_.add("json", MemoryByteSource(std::as_bytes(std::span(*json))), kMade, 0);
  }
}

void TarIndexBuilder::add_member(const FieldMember& member, MemberUse use) {
  if (use == MemberUse::kRead || samples_.ignores(member.part)) return;
  if (use == MemberUse::kPart) {
    samples_.add(member.part, MemberSource(bytes_, member.offset, member.bytes), kInShard,
                 member.offset);
    return;
  }
  samples_.remark(RemarkKind::kPart, member.part,
                  use == MemberUse::kBeside ? "beside those that are named"
                                            : "that dataset.yaml does not name");
}

// Records a file without a dot, or a hidden one, which names no sample.
void TarIndexBuilder::add_nameless(const TarMember& member) {
  if (member.problem.empty()) {
    samples_.remark(RemarkKind::kPart, "without an extension");
    return;
  }
  close();
  contents_.bad.push_back({member.name, "", member.problem});
}

void TarIndexBuilder::end(const TarEnd& end) {
  // Damage in the compressed stream is the reason why the tar in it breaks off.
  const std::string& damage = shard_->problem().empty() ? end.problem : shard_->problem();
  const bool is_cut = !end.problem.empty() || (!damage.empty() && !end.has_mark);
  if (is_cut) {  // the last sample may lack members
    members_.clear();
    samples_.discard();
  }
  close();
  contents_.archive.unread = unread_behind(end);
  judge(contents_.archive,
        {.damage = damage,
         .has_end_mark = end.has_mark,
         .samples = contents_.samples.size() + contents_.bad.size() + excluded_});
  compare_count();
}

// Finds a shard that has another number of samples than its data set states.
void TarIndexBuilder::compare_count() {
  ArchiveState& archive = contents_.archive;
  const std::uint64_t found = contents_.samples.size() + contents_.bad.size() + excluded_;
  if (!choice_.samples || archive.condition != ShardCondition::kWhole) return;
  const auto stated = static_cast<std::uint64_t>(*choice_.samples);
  if (found == stated) return;
  archive.condition = ShardCondition::kDamaged;
  archive.samples_when_whole = std::max(found, stated);
  archive.problem = fmt::format(
      "it has {}, and {} says {}; copy it again if it is another shard, or run 'energon prepare' "
      "again",
      counted(found, "sample"), choice_.stated_in, stated);
}

std::string TarIndexBuilder::unread_behind(const TarEnd& end) const {
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
                                  const ShardPlace& place, const ProbeLimits& limits,
                                  const SampleReading& reading, std::uint64_t samples_when_whole,
                                  const std::stop_token& stop) {
  return TarIndexBuilder(shard, place, limits, reading, samples_when_whole).run(stop);
}

}  // namespace isocost
