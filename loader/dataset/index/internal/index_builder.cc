#include "loader/dataset/index/internal/index_builder.h"

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

#include "loader/dataset/formats/member_name.h"
#include "loader/dataset/formats/tar_listing.h"
#include "loader/dataset/index/internal/sample_indexer.h"
#include "loader/dataset/index/internal/shard_condition.h"
#include "loader/dataset/stores/read_windows.h"
#include "loader/dataset/stores/watched_source.h"

namespace isocost {
namespace {

class TarIndexBuilder {
 public:
  TarIndexBuilder(const std::shared_ptr<const ShardFile>& shard, std::string name,
                  const ProbeLimits& limits, const SampleReading& reading,
                  std::uint64_t samples_when_whole)
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
  void end(const TarEnd& end);
  std::string unread_behind(const TarEnd& end) const;

  const std::shared_ptr<const ShardFile> shard_;
  const std::shared_ptr<const WatchedSource> bytes_;
  const std::string name_;
  const ProbeLimits limits_;
  const SampleReading& reading_;
  IndexContents contents_;
  SampleIndexer samples_{contents_, limits_, reading_};
};

Result<IndexContents> TarIndexBuilder::run(const std::stop_token& stop) {
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
  if (!samples_.has_open(key) && !samples_.open(std::string(key))) {
    samples_.refuse("", fmt::format("the key '{}' occurs earlier in {}; give each sample its own "
                                    "key, and keep its parts together (tar --sort=name)",
                                    key, name_));
  }
  if (samples_.ignores(part)) return;
  if (!member.problem.empty()) {
    samples_.refuse(part, member.problem);
    return;
  }
  samples_.add(std::string(part), MemberSource(bytes_, member.offset, member.size), kInShard,
               member.offset);
}

// Records a file without a dot, or a hidden one, which names no sample.
void TarIndexBuilder::add_nameless(const TarMember& member) {
  if (member.problem.empty()) {
    samples_.remark(RemarkKind::kPart, "without an extension");
    return;
  }
  samples_.close();
  contents_.bad.push_back({member.name, "", member.problem});
}

void TarIndexBuilder::end(const TarEnd& end) {
  // Damage in the compressed stream is the reason why the tar in it breaks off.
  const std::string& damage = shard_->problem().empty() ? end.problem : shard_->problem();
  const bool is_cut = !end.problem.empty() || (!damage.empty() && !end.has_mark);
  if (is_cut) samples_.discard();  // it may lack members
  samples_.close();
  contents_.archive.unread = unread_behind(end);
  judge(contents_.archive, {.damage = damage,
                            .has_end_mark = end.has_mark,
                            .samples = contents_.samples.size() + contents_.bad.size()});
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
                                  const std::string& name, const ProbeLimits& limits,
                                  const SampleReading& reading, std::uint64_t samples_when_whole,
                                  const std::stop_token& stop) {
  return TarIndexBuilder(shard, name, limits, reading, samples_when_whole).run(stop);
}

}  // namespace isocost
