#include "loader/dataset/catalogue/internal/dataset_fingerprint.h"

#include <cstddef>

#include "base/fingerprint.h"
#include "loader/dataset/formats/sample_reading.h"

namespace isocost {
namespace {

void add(Fingerprint& fingerprint, const TokenizerIdentity& tokenizer) {
  fingerprint.add(tokenizer.tokenizer);
  fingerprint.add(tokenizer.chat_template);
  fingerprint.add(tokenizer.placeholders);
  fingerprint.add(tokenizer.text_settings);
  fingerprint.add(tokenizer.version);
  fingerprint.add(tokenizer.options);
}

std::uint64_t hash_of_keys(const Shard& shard, const ShardSelection& selection) {
  Fingerprint keys;
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    keys.add(shard.view().key(selection.sample(i)));
  }
  return keys.value();
}

std::uint64_t hash_of_cuts(const ShardSelection& selection) {
  Fingerprint cuts;
  for (const auto& [sample, cut] : selection.cuts()) {
    cuts.add(sample);
    cuts.add(cut.end.ids);
  }
  return cuts.value();
}

void add(Fingerprint& fingerprint, const Shard& shard, const ShardSelection& selection) {
  fingerprint.add(shard.place().name);
  fingerprint.add(shard.view().identity().stamp.bytes);
  fingerprint.add(shard.view().content_hash());
  fingerprint.add(shard.view().identity().reading);
  fingerprint.add(selection.size());
  if (shard.tokens()) add(fingerprint, shard.tokens()->identity().tokenizer);
  fingerprint.add(hash_of_keys(shard, selection));
  fingerprint.add(hash_of_cuts(selection));
}

}  // namespace

std::uint64_t dataset_fingerprint(std::span<const Shard> shards,
                                  std::span<const ShardSelection> selections) {
  Fingerprint fingerprint;
  fingerprint.add(kReadingVersion);
  for (std::size_t s = 0; s < shards.size(); ++s) add(fingerprint, shards[s], selections[s]);
  return fingerprint.value();
}

}  // namespace isocost
