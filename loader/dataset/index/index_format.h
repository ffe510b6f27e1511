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

/// The inputs of an index. Another shard, other limits or another version make it stale.
struct IndexIdentity {
  FileStamp stamp;
  ProbeLimits limits;
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
  /// The first JSON part, which is one of `parts` only if it has a text.
  std::int64_t json_offset = 0;  ///< Offset in the plain tar.
  std::int64_t json_bytes = 0;   ///< 0: there is none.
};

struct IndexedBad {
  std::string key;  ///< Empty: the shard as a whole.
  std::string part;
  std::string reason;
};

/// The contents of an index before they are encoded.
struct IndexContents {
  IndexIdentity identity;
  std::uint64_t content_hash = 0;  ///< ShardFile::content_hash.
  std::int64_t tar_bytes = 0;      ///< Size of the plain tar.
  std::vector<IndexedSample> samples;
  std::vector<IndexedBad> bad;
};

/// Returns the bytes of an index file, as docs/index_format.md describes them.
std::vector<std::byte> encode_index(const IndexContents& contents);

/// Reads an index in place. `parse` checks every offset, count and enumerator; bytes that change
/// later may give wrong values, but no access beyond the view. A view: the bytes must outlive it
/// and be 8-byte aligned. Immutable; const-safe.
class IndexView {
 public:
  static constexpr std::uint32_t kVersion = 7;

  IndexView() = default;
  /// Checks and reads an index. Errors: kCorrupt, kUnsupported (another version).
  static Result<IndexView> parse(std::span<const std::byte> bytes);

  IndexIdentity identity() const;
  std::uint64_t content_hash() const;
  std::uint64_t samples() const { return samples_; }
  std::uint64_t parts() const { return parts_; }
  std::uint64_t bad() const { return bad_; }
  std::int64_t tar_bytes() const { return tar_bytes_; }

  std::string_view key(std::uint64_t sample) const { return text(sample); }
  float weight(std::uint64_t sample) const;
  /// Return the place of the first JSON part; 0 bytes: there is none.
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

 private:
  // Positions of the columns in the file.
  struct Columns {
    std::uint64_t first_part, weight, json_offset, json_bytes, text_end, name, offset, bytes,
        frames, duration_us, text_bytes, width, height, sample_rate, channels, modality, format,
        orientation, text, end;
  };
  std::optional<Columns> lay_out() const;
  Status check_samples() const;
  Status check_parts() const;
  Status check_texts() const;
  std::string_view text(std::uint64_t i) const;
  template <typename T>
  T load(std::uint64_t column, std::uint64_t i) const;

  std::span<const std::byte> bytes_;
  std::uint64_t samples_ = 0;
  std::uint64_t parts_ = 0;
  std::uint64_t bad_ = 0;
  std::uint64_t names_ = 0;
  std::uint64_t text_size_ = 0;
  std::int64_t tar_bytes_ = 0;
  Columns at_{};
};

}  // namespace isocost
