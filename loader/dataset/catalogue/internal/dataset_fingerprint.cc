#include "loader/dataset/catalogue/internal/dataset_fingerprint.h"

#include <cstddef>

#include "base/fingerprint.h"

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

void add(Fingerprint& fingerprint, const Shard& shard, const ShardSelection& selection) {
  fingerprint.add(shard.name());
  fingerprint.add(shard.view().identity().stamp.bytes);
  fingerprint.add(shard.view().content_hash());
  fingerprint.add(shard.view().identity().reading);
  fingerprint.add(selection.size());
  if (shard.tokens()) add(fingerprint, shard.tokens()->identity().tokenizer);
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    fingerprint.add(shard.view().key(selection.sample(i)));
  }
  for (const auto& [sample, cut] : selection.cuts()) {
    fingerprint.add(sample);
    fingerprint.add(cut.end.ids);
  }
}

}  // namespace

std::uint64_t dataset_fingerprint(std::span<const Shard> shards,
                                  std::span<const ShardSelection> selections) {
  Fingerprint fingerprint;
  fingerprint.add(IndexView::kOldestVersion);
  for (std::size_t s = 0; s < shards.size(); ++s) add(fingerprint, shards[s], selections[s]);
  return fingerprint.value();
}

}  // namespace isocost
