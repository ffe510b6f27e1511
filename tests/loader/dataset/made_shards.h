#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/scratch_directory.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/index_format.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/tokens/token_file.h"
#include "loader/dataset/tokens/tokenized_sample.h"
#include "tests/support/tar_files.h"

namespace isocost {

/// Returns a part of an index; its format follows from the name.
inline IndexedPart indexed_part(const std::string& name, std::int64_t offset = 512) {
  IndexedPart part{name, offset, {}};
  part.shape.format = format_from_extension(name).value();
  part.shape.modality = modality_of(part.shape.format);
  part.shape.encoded_bytes = 10;
  if (part.shape.modality == Modality::kText) part.shape.text_bytes = 10;
  return part;
}

/// Returns the contents of the index of a shard; each sample of `keys` has one text.
inline IndexContents contents_of(const std::vector<std::string>& keys) {
  IndexContents contents;
  contents.identity.stamp = {1 << 20, 7};
  contents.tar_bytes = 1 << 20;
  for (const std::string& key : keys) {
    IndexedSample sample;
    sample.key = key;
    sample.parts.push_back(indexed_part("txt"));
    contents.samples.push_back(std::move(sample));
  }
  return contents;
}

/// Returns an index that is in no file.
inline std::unique_ptr<const ShardIndex> index_in_memory(const IndexContents& contents) {
  return ShardIndex::in_memory(encode_index(contents), {}).value();
}

/// Returns the place of a shard in "data".
inline ShardPlace made_place(const std::string& name) { return {shard_root("data", {}), name}; }

/// Returns a shard without a file, whose samples have these keys.
inline Shard made_shard(const std::string& name, const std::vector<std::string>& keys,
                        std::shared_ptr<const TokenFile> tokens = nullptr) {
  return {made_place(name), index_in_memory(contents_of(keys)), std::move(tokens)};
}

/// Returns tokens of these samples, mapped from a file in `scratch`, which may be removed.
inline std::shared_ptr<const TokenFile> made_tokens(const ScratchDirectory& scratch,
                                                    std::span<const TokenizedSample> samples,
                                                    const TokenFileIdentity& identity = {}) {
  const std::vector<std::byte> bytes =
      encode_token_file(identity, samples, std::vector<std::uint32_t>(samples.size()));
  write_file(scratch / "made.tokens", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return TokenFile::map(scratch / "made.tokens").value();
}

}  // namespace isocost
