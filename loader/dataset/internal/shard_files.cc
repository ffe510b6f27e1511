#include "loader/dataset/internal/shard_files.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "loader/dataset/formats/mds_json.h"
#include "loader/dataset/formats/tar_choice.h"  // IWYU pragma: keep (the type of `tar`)
#include "loader/dataset/index/checked_shard.h"
#include "loader/dataset/index/record_shard.h"  // IWYU pragma: keep (the type of `records`)
#include "loader/dataset/records/field_sample.h"
#include "loader/dataset/records/made_part.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

// Bytes that were made for one part.
class MadeSource final : public ByteSource {
 public:
  explicit MadeSource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override {
    return MemoryByteSource(std::as_bytes(std::span(bytes_))).read_at(offset, to);
  }

 private:
  const std::string bytes_;
};

// Has the next start index a shard again if a file is not the one that was indexed.
template <typename T>
Result<T> refused(Result<T> result, const Shard& shard) {
  if (!result && result.error().code() == ErrorCode::kUnavailable) shard.index().make_stale();
  return result;
}

// Returns the file of a part, which starts at the directory of the shard's media if it is relative.
fs::path path_of(const Shard& shard, PartSource source) {
  const fs::path path(shard.view().file_path(source - 1));
  const auto& records = shard.place().records;
  return records ? records->media_root() / path : path;
}

// Returns the records of a shard in its file; nothing for a shard that is a file of its own.
std::optional<ByteRange> range_of(const IndexView& view) {
  if (view.kind() != ShardKind::kRecords) return std::nullopt;
  if (view.samples() == 0) return ByteRange{};
  return ByteRange{view.record(0).begin, view.record(view.samples() - 1).end};
}

Result<std::string> make_of_fields(const Shard& shard,
                                   const std::shared_ptr<const ByteSource>& file,
                                   const ByteRange& range) {
  const auto& choice = shard.place().tar;
  if (!choice || !choice->fields) return Error(ErrorCode::kInternal, "no fields of a tar");
  const ProbeLimits limits = shard.view().identity().limits;
  return make_field_json(*choice->fields, file, {range.begin, range.end},
                         {limits.max_json_bytes, limits.max_text_bytes});
}

// Compares all files of media, and names the first that differs with their number.
Status compare_media(const Shard& shard, const std::stop_token& stop) {
  std::size_t differ = 0;
  std::optional<Error> first;
  const auto files = static_cast<PartSource>(shard.view().files());
  for (PartSource source = 1; source <= files; ++source) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while comparing media");
    Status same = compare_stamp(path_of(shard, source), shard.view().file_stamp(source - 1));
    if (same) continue;
    ++differ;
    if (same.error().code() == ErrorCode::kUnavailable) shard.index().make_stale();
    if (!first) first = std::move(same).error();
  }
  if (!first) return {};
  if (differ == 1) return *first;
  return Error(first->code(), fmt::format("{}; and {} more files of media of {} are absent or have "
                                          "changed",
                                          first->message(), differ - 1, shard.name()));
}

}  // namespace

Result<std::shared_ptr<const ShardFile>> ShardFiles::open(const Shard& shard) {
  return refused(cache_.get(shard.place().file(), shard.view().file_identity()), shard);
}

Result<std::unique_ptr<ByteSource>> ShardFiles::open_part(
    const Shard& shard, std::uint64_t sample, const PartPlace& place,
    const std::shared_ptr<const ByteSource>& ahead) {
  if (place.source == kMade) {
    ISOCOST_ASSIGN(std::string bytes, make(shard, sample, place, ahead));
    return std::make_unique<MadeSource>(std::move(bytes));
  }
  if (place.source == kInShard) {
    std::shared_ptr<const ByteSource> file = ahead;
    if (!file) {
      ISOCOST_ASSIGN(file, open(shard));
    }
    return std::make_unique<MemberSource>(std::move(file), place.offset, place.bytes);
  }
  return refused(
      media_.open(path_of(shard, place.source), shard.view().file_stamp(place.source - 1)), shard);
}

// Makes the bytes of a part of the sample's record, or of its key, again.
Result<std::string> ShardFiles::make(const Shard& shard, std::uint64_t sample,
                                     const PartPlace& place,
                                     const std::shared_ptr<const ByteSource>& ahead) {
  const IndexView& view = shard.view();
  auto made = [&]() -> Result<std::string> {
    if (view.kind() == ShardKind::kDirectory) return make_class_part(view.key(sample));
    const ByteRange range = view.record(sample);
    std::shared_ptr<const ByteSource> file = ahead;
    if (!file) {
      ISOCOST_ASSIGN(file, open(shard));
    }
    if (view.kind() == ShardKind::kMds) {
      return make_mds_json(*file, {range.begin, range.end - range.begin});
    }
    if (view.kind() == ShardKind::kFieldTar) return make_of_fields(shard, file, range);
    std::string record(static_cast<std::size_t>(range.end - range.begin), '\0');
    ISOCOST_ASSIGN(const std::size_t read,
                   file->read_at(range.begin, std::as_writable_bytes(std::span(record))));
    record.resize(read);
    return make_part(std::move(record), static_cast<RecordForm>(view.form()),
                     static_cast<std::size_t>(place.offset));
  }();
  if (!made && made.error().code() != ErrorCode::kCorrupt) return made;
  if (made && static_cast<std::int64_t>(made->size()) == place.bytes) return made;
  shard.index().make_stale();
  return Error(ErrorCode::kUnavailable,
               fmt::format("{}: the record of {} is not the one that was indexed: put it back, or "
                           "start again with what it is now",
                           shard.path().string(), view.key(sample)));
}

Result<std::shared_ptr<const ByteSource>> ShardFiles::pass(const Shard& shard) {
  if (!shard.place().root->objects) return std::shared_ptr<const ByteSource>();
  ISOCOST_ASSIGN(const auto file, open(shard));
  return file->pass();
}

std::shared_ptr<const ByteSource> ShardFiles::read_ahead(const Shard& shard,
                                                         std::span<const ByteRange> ranges,
                                                         const std::stop_token& stop) {
  return cache_.fetch(shard.place().file(), shard.view().file_identity(), ranges, stop);
}

void ShardFiles::read_ahead_media(const Shard& shard, std::span<const FileAhead> files) {
  for (const FileAhead& file : files) {
    MediaFiles::read_ahead(path_of(shard, file.source), file.bytes);
  }
}

Result<bool> ShardFiles::is_as_last_checked(const Shard& shard, const std::stop_token& stop) {
  ISOCOST_TRY(compare_media(shard, stop));
  if (shard.view().kind() == ShardKind::kDirectory) return true;
  ISOCOST_ASSIGN(const auto file, open(shard));
  if (!shard.index().kept() || shard.place().root->objects) return true;
  fs::path record = shard.index().file();
  auto same = isocost::is_as_last_checked(*file, range_of(shard.view()),
                                          record.replace_extension(".checked"), stop);
  if (!same) return std::move(same).error().with_context(shard.path().string());
  return same;
}

}  // namespace isocost
