#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/shape/sample_shape.h"
#include "loader/dataset/index/guarded_mapping.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/stores/file_stamp.h"
#include "loader/dataset/tokens/tokenized_sample.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {

/// The inputs on which the tokens of a shard depend.
struct TokenFileIdentity {
  std::uint64_t content_hash = 0;  ///< Hash of the shard: ShardFile::content_hash.
  std::uint64_t samples = 0;       ///< Samples in the shard's index.
  /// Hash of the samples' keys, since limits decide which samples are in the index, and of what is
  /// read of them (IndexIdentity::reading).
  std::uint64_t keys = 0;
  TokenizerIdentity tokenizer;
  bool operator==(const TokenFileIdentity&) const = default;

  /// Returns the difference (except in options) as a phrase that follows "its tokens ...". Empty:
  /// there is none.
  std::string difference(const TokenFileIdentity& wanted) const;
  static TokenFileIdentity of(const IndexView& index, TokenizerIdentity tokenizer);
};

/// Returns the file that holds the tokens of a shard: beside its index.
std::filesystem::path token_file_name(const std::filesystem::path& index);

/// Returns the bytes of the file, as docs/token_format.md describes them. `media`: number of
/// placeholders among each sample's tokens.
std::vector<std::byte> encode_token_file(const TokenFileIdentity& identity,
                                         std::span<const TokenizedSample> samples,
                                         std::span<const std::uint32_t> media);

/// The tokens of a shard, mapped from their file: an entry for each sample of the shard's index.
/// Opening reads the counts, not the tokens. Immutable; const-safe.
class TokenFile {
 public:
  /// Maps a file. Errors: kNotFound, kIo; kCorrupt; kUnsupported (another version).
  static Result<std::shared_ptr<const TokenFile>> map(const std::filesystem::path& path);
  /// Maps a file that this process has mapped before, with the stamp `checked`: if the file still
  /// has it, its contents are not checked again.
  static Result<std::shared_ptr<const TokenFile>> map_again(const std::filesystem::path& path,
                                                            const FileStamp& checked);

  const TokenFileIdentity& identity() const { return identity_; }
  /// Returns why a sample has no tokens; empty: it has some.
  std::string_view reason(std::uint64_t sample) const;
  /// Returns the shape of the part that takes the place of the sample's text.
  PartShape shape(std::uint64_t sample) const;
  std::span<const std::byte> entry(std::uint64_t sample) const;
  /// Returns whether the file has been cut since it was opened.
  bool damaged() const { return mapping_.damaged(); }
  const std::filesystem::path& path() const { return path_; }
  /// Returns the size and the time that the file had when it was mapped.
  const FileStamp& stamp() const { return mapping_.stamp(); }

 private:
  TokenFile() = default;
  Status parse(bool checked_before);
  Status check_ends(std::uint64_t reasons_bytes) const;
  template <typename T>
  T load(std::uint64_t column, std::uint64_t i) const;

  std::filesystem::path path_;
  GuardedMapping mapping_;
  TokenFileIdentity identity_;
  std::uint64_t entry_ends_ = 0;  // positions of the columns in the file
  std::uint64_t text_tokens_ = 0;
  std::uint64_t label_tokens_ = 0;
  std::uint64_t weights_ = 0;
  std::uint64_t reason_ends_ = 0;
  std::uint64_t reasons_ = 0;
  std::uint64_t entries_ = 0;
};

}  // namespace isocost
