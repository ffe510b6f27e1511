#include "loader/dataset/catalogue/shard_facts.h"

#include "loader/dataset/tokens/token_file.h"

namespace isocost {
namespace {

const char* kind_name(ShardKind kind) {
  switch (kind) {
    case ShardKind::kTar:
    case ShardKind::kFieldTar:
      return "tar";
    case ShardKind::kRecords:
      return "records";
    case ShardKind::kDirectory:
      return "files";
    case ShardKind::kMds:
      return "mds";
  }
  return "";
}

// Returns the bytes of a shard. The file of records has those of several shards.
std::int64_t bytes_of(const IndexView& view) {
  std::int64_t bytes = 0;
  const bool is_file = view.kind() == ShardKind::kTar || view.kind() == ShardKind::kFieldTar ||
                       view.kind() == ShardKind::kMds;
  if (is_file) {
    bytes = view.identity().stamp.bytes;
  } else if (view.kind() == ShardKind::kRecords) {
    for (std::uint64_t i = 0; i < view.samples(); ++i) {
      const ByteRange record = view.record(i);
      bytes += record.end - record.begin;
    }
  }
  for (std::uint64_t file = 0; file < view.files(); ++file) bytes += view.file_stamp(file).bytes;
  return bytes;
}

}  // namespace

ShardFacts shard_facts(const Shard& shard) {
  const IndexView& view = shard.view();
  return {.format = kind_name(view.kind()),
          .bytes = bytes_of(view),
          .usable = view.samples(),
          .bad = view.bad()};
}

ShardTokenFacts shard_token_facts(const Shard& shard, const TokenizerIdentity* tokenizer) {
  ShardTokenFacts facts;
  if (!shard.index().kept()) return facts;
  const auto file = TokenFile::map(token_file_name(shard.index().file()));
  if (!file) {
    facts.are_there = file.error().code() != ErrorCode::kNotFound;
    if (facts.are_there) facts.problem = "cannot be read: " + file.error().message();
    return facts;
  }
  const TokenFileIdentity& identity = (*file)->identity();
  facts.are_there = true;
  facts.options = identity.tokenizer.options;
  facts.problem = identity.difference(
      TokenFileIdentity::of(shard.view(), tokenizer != nullptr ? *tokenizer : identity.tokenizer));
  return facts;
}

}  // namespace isocost
