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

/// The inputs of an index. Another shard, other limits, other parts that are left out, or another
/// version make it stale.
struct IndexIdentity {
  FileStamp stamp;
  ProbeLimits limits;
  std::uint64_t reading = 0;  ///< SampleReading::hash.
};
bool same_identity(const IndexIdentity& a, const IndexIdentity& b);

struct IndexedPart {
  std::string name;
  std::int64_t offset = 0;  ///< Offset in the plain tar.
  PartShape shape;          ///< `encoded_bytes` is the size of the member.
};

struct IndexedSample {
  std::string key;
  float weight = 1.0F;
  std::vector<IndexedPart> parts;
  /// The JSON part, which is one of `parts` only if a model sees it.
  std::int64_t json_offset = 0;  ///< Offset in the plain tar.
  std::int64_t json_bytes = 0;   ///< 0: the sample has no JSON.
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
  std::int64_t tar_bytes = 0;      ///< Size of the plain tar.
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
  static constexpr std::uint32_t kVersion = 11;

  IndexView() = default;
  /// Checks and reads an index. Errors: kCorrupt, kUnsupported (another version).
  static Result<IndexView> parse(std::span<const std::byte> bytes);

  IndexIdentity identity() const;
  std::uint64_t content_hash() const;
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
  /// Returns the first part of a sample; its parts are [first_part(i), first_part(i + 1)).
  std::uint64_t first_part(std::uint64_t sample) const;
  std::string_view part_name(std::uint64_t part) const;
  std::int64_t part_offset(std::uint64_t part) const;
  PartShape part_shape(std::uint64_t part) const;

  std::string_view bad_key(std::uint64_t i) const { return text(samples_ + names_ + 3 * i); }
  std::string_view bad_part(std::uint64_t i) const { return text(samples_ + names_ + 3 * i + 1); }
  std::string_view bad_reason(std::uint64_t i) const { return text(samples_ + names_ + 3 * i + 2); }
  IndexedRemark remark(std::uint64_t i) const;

 private:
  // Positions of the columns in the file.
  struct Columns {
    std::uint64_t first_part, weight, json_offset, json_bytes, text_end, name, offset, bytes,
        frames, duration_us, text_bytes, width, height, sample_rate, channels, modality, format,
        orientation, remark_count, remark_kind, text, end;
  };
  std::optional<Columns> lay_out() const;
  Status check_samples() const;
  Status check_parts() const;
  Status check_texts() const;
  Status check_remarks() const;
  std::uint64_t archive_texts() const { return samples_ + names_ + 3 * bad_; }
  std::uint64_t remark_texts() const { return archive_texts() + 2; }
  std::uint64_t texts() const { return remark_texts() + 2 * remarks_; }
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
  std::int64_t tar_bytes_ = 0;
  Columns at_{};
};

}  // namespace isocost
