#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/probe.h"
#include "decode/shape/sample_shape.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

struct IndexHeader;

/// The inputs of an index. Another shard, other limits, other parts that are left out, or another
/// version make it stale.
struct IndexIdentity {
  FileStamp stamp;
  ProbeLimits limits;
  std::uint64_t reading = 0;  ///< SampleReading::hash.
  /// Hash of what else decides which samples the shard has: for records, their range in the file
  /// and the directory of their media; for a directory, the names of its files; for a shard that a
  /// data set describes, what it states of it. 0: nothing else does.
  std::uint64_t origin = 0;
};
bool same_identity(const IndexIdentity& a, const IndexIdentity& b);
/// Returns whether two identities are the same but for the times of their stamps: they may be of
/// one object under two stamps, and are if its content is the same.
bool may_be_same_object(const IndexIdentity& a, const IndexIdentity& b);

/// The kind of a shard: how samples are found in it.
enum class ShardKind : std::uint8_t {
  kTar = 0,
  kRecords = 1,    ///< Records of a JSON file, with media in files of their own.
  kDirectory = 2,  ///< Files, grouped into samples by their names.
  kMds = 3,        ///< A shard of Mosaic Streaming.
  kFieldTar = 4,   ///< A tar of which fields say what its samples are (SampleFields).
};

/// Says which bytes a part has: those of the shard's file (kInShard); those of file n - 1 of the
/// index (n >= 1); or bytes that are made of the sample's record (kMade).
using PartSource = std::uint32_t;
inline constexpr PartSource kInShard = 0;
inline constexpr PartSource kMade = ~PartSource{0};

struct IndexedPart {
  std::string name;
  /// Offset in the plain shard; 0 in a file; for a made part, its number among the record's parts.
  std::int64_t offset = 0;
  PartShape shape;  ///< `encoded_bytes` is the size of the part.
  PartSource source = kInShard;
};

/// A file with the bytes of a part, as it was when it was indexed.
struct IndexedFile {
  std::string path;  ///< Absolute, or relative to the directory of the media.
  FileStamp stamp;
};

/// The place of a part's bytes.
struct PartPlace {
  PartSource source = kInShard;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct IndexedSample {
  std::string key;
  float weight = 1.0F;
  std::vector<IndexedPart> parts;
  /// The JSON part, which is one of `parts` only if a model sees it.
  std::int64_t json_offset = 0;  ///< See IndexedPart::offset.
  std::int64_t json_bytes = 0;   ///< 0: the sample has no JSON.
  PartSource json_source = kInShard;
  /// Its record in the plain file of records; in a kFieldTar, the headers and bytes of its members.
  ByteRange record = {};
};

struct IndexedBad {
  std::string key;
  std::string part;
  std::string reason;
};

enum class ShardCondition : std::uint8_t {
  kWhole,
  kDamaged,  ///< The shard cannot be followed to its end; a whole sample precedes the damage.
  kLost,     ///< No sample of it can be read.
};

/// A shard's archive as indexing found it.
struct ArchiveState {
  ShardCondition condition = ShardCondition::kWhole;
  std::string problem;       ///< Why it is not whole, and what to do.
  std::string unread;        ///< The bytes after the shard's end, which are not read; empty: none.
  bool has_end_mark = true;  ///< Whether there is the mark that ends a tar file.
  /// Number of samples, good and bad, when the shard was last found whole; 0: it never was.
  std::uint64_t samples_when_whole = 0;
};

/// Kinds of remarks on the parts of a shard.
enum class RemarkKind : std::uint8_t {
  kFormat = 0,   ///< Media by extension and format: "jpg", "GIF".
  kPart = 1,     ///< Parts that no model sees, by extension; JSON but the part `json` by name.
  kIgnored = 2,  ///< Parts that ignore_parts leaves out, by extension.
  kJsonKey = 3,  ///< Members of the JSON part that no model sees, by name.
};

/// A remark on parts of a shard: their format, or that no model sees them, and their number.
struct IndexedRemark {
  RemarkKind kind = RemarkKind::kFormat;
  std::string name;
  std::string detail;       ///< The format, or why no model sees it; may be empty.
  std::uint64_t count = 0;  ///< Number of parts, or of samples with the member.
};

/// The contents of an index before they are encoded.
struct IndexContents {
  IndexIdentity identity;
  std::uint64_t content_hash = 0;  ///< ShardFile::content_hash.
  std::int64_t tar_bytes = 0;      ///< Size of the plain tar, or of the plain file of records.
  ShardKind kind = ShardKind::kTar;
  std::uint8_t form = 0;        ///< RecordForm of its records; 0: not known.
  std::uint64_t file_hash = 0;  ///< ShardFile::content_hash of the file of records.
  std::vector<IndexedFile> files = {};
  ArchiveState archive;
  std::vector<IndexedSample> samples;
  std::vector<IndexedBad> bad;
  std::vector<IndexedRemark> remarks;
};

/// Returns the bytes of an index file, as docs/index_format.md describes them.
std::vector<std::byte> encode_index(const IndexContents& contents);

/// Reads an index in place. `parse` checks every offset, count and enumerator; bytes that change
/// later may give wrong values, but no access beyond the view. A view: the bytes must outlive it
/// and be 8-byte aligned. Immutable; const-safe.
class IndexView {
 public:
  static constexpr std::uint32_t kVersion = 12;
  static constexpr std::uint32_t kOldestVersion = 11;  ///< The oldest that is read.
  /// Largest size of a made part: records are at most 64 MiB long.
  static constexpr std::int64_t kMaxMadeBytes = std::int64_t{256} << 20;

  IndexView() = default;
  /// Checks and reads an index. Errors: kCorrupt, kUnsupported (another version).
  static Result<IndexView> parse(std::span<const std::byte> bytes);
  /// Reads an index whose bytes `parse` has accepted before, in time that does not depend on its
  /// samples. Bytes that differ give wrong values, but no access beyond the view. Errors: kCorrupt,
  /// kUnsupported, by the header alone.
  static Result<IndexView> parse_again(std::span<const std::byte> bytes);

  IndexIdentity identity() const;
  std::uint64_t content_hash() const;
  ShardKind kind() const { return kind_; }
  std::uint8_t form() const;
  /// Returns the size, the time and the hash that the shard's file must have when it is opened.
  ShardIdentity file_identity() const;
  std::uint64_t samples() const { return samples_; }
  std::uint64_t parts() const { return parts_; }
  std::uint64_t bad() const { return bad_; }
  std::uint64_t remarks() const { return remarks_; }
  std::int64_t tar_bytes() const { return tar_bytes_; }
  ShardCondition condition() const;
  std::string_view problem() const { return text(archive_texts()); }
  std::string_view unread() const { return text(archive_texts() + 1); }
  bool has_end_mark() const;
  std::uint64_t samples_when_whole() const;

  std::string_view key(std::uint64_t sample) const { return text(sample); }
  float weight(std::uint64_t sample) const;
  /// Return the place of the JSON part; 0 bytes: there is none.
  std::int64_t json_offset(std::uint64_t sample) const;
  std::int64_t json_bytes(std::uint64_t sample) const;
  PartPlace json_place(std::uint64_t sample) const;
  /// Returns the bytes of a sample's record in the plain file of records.
  ByteRange record(std::uint64_t sample) const;
  /// Returns the first part of a sample; its parts are [first_part(i), first_part(i + 1)).
  std::uint64_t first_part(std::uint64_t sample) const;
  std::string_view part_name(std::uint64_t part) const;
  std::int64_t part_offset(std::uint64_t part) const;
  PartPlace part_place(std::uint64_t part) const;
  PartShape part_shape(std::uint64_t part) const;

  std::string_view bad_key(std::uint64_t i) const { return text(samples_ + names_ + 3 * i); }
  std::string_view bad_part(std::uint64_t i) const { return text(samples_ + names_ + 3 * i + 1); }
  std::string_view bad_reason(std::uint64_t i) const { return text(samples_ + names_ + 3 * i + 2); }
  IndexedRemark remark(std::uint64_t i) const;
  /// Return the files of parts: a part of the source n has file n - 1.
  std::uint64_t files() const { return files_; }
  std::string_view file_path(std::uint64_t file) const;
  FileStamp file_stamp(std::uint64_t file) const;

 private:
  // Positions of the columns in the file.
  struct Columns {
    std::uint64_t first_part, weight, json_offset, json_bytes, text_end, name, offset, bytes,
        frames, duration_us, text_bytes, width, height, sample_rate, channels, modality, format,
        orientation, remark_count, remark_kind, json_source, record_begin, record_end, source,
        file_bytes, file_mtime, text, end;
  };
  std::optional<Columns> lay_out() const;
  Status check_samples() const;
  Status check_parts() const;
  Status check_texts() const;
  Status check_remarks() const;
  Status check_files() const;
  bool is_place(const PartPlace& place) const;
  // Numbers of entries in the columns that a tar has not.
  std::uint64_t samples_of_records() const { return kind_ == ShardKind::kTar ? 0 : samples_; }
  std::uint64_t parts_of_records() const { return kind_ == ShardKind::kTar ? 0 : parts_; }
  IndexHeader header() const;
  std::uint64_t archive_texts() const { return samples_ + names_ + 3 * bad_; }
  std::uint64_t remark_texts() const { return archive_texts() + 2; }
  std::uint64_t file_texts() const { return remark_texts() + 2 * remarks_; }
  std::uint64_t texts() const { return file_texts() + files_; }
  std::string_view text(std::uint64_t i) const;
  template <typename T>
  T load(std::uint64_t column, std::uint64_t i) const;

  std::span<const std::byte> bytes_;
  std::uint64_t samples_ = 0;
  std::uint64_t parts_ = 0;
  std::uint64_t bad_ = 0;
  std::uint64_t remarks_ = 0;
  std::uint64_t names_ = 0;
  std::uint64_t text_size_ = 0;
  std::uint64_t files_ = 0;
  std::int64_t tar_bytes_ = 0;
  ShardKind kind_ = ShardKind::kTar;
  Columns at_{};
};

}  // namespace isocost
