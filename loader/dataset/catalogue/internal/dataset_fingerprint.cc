#include "loader/dataset/catalogue/internal/dataset_fingerprint.h"

#include "loader/dataset/formats/sample_reading.h"

namespace isocost {
namespace {

void add_tokenizer(Fingerprint& fingerprint, const TokenizerIdentity& tokenizer) {
  fingerprint.add(tokenizer.tokenizer);
  fingerprint.add(tokenizer.chat_template);
  fingerprint.add(tokenizer.placeholders);
  fingerprint.add(tokenizer.text_settings);
  fingerprint.add(tokenizer.version);
  fingerprint.add(tokenizer.options);
}

}  // namespace

DatasetFingerprint::DatasetFingerprint() { hash_.add(kReadingVersion); }

void DatasetFingerprint::add(std::string_view shard, const ShardRow& row) {
  hash_.add(shard);
  hash_.add(row.identity.stamp.bytes);
  hash_.add(row.content_hash);
  hash_.add(row.identity.reading);
  hash_.add(row.usable);
  if (row.tokenizer) add_tokenizer(hash_, *row.tokenizer);
  hash_.add(row.keys_hash);
  hash_.add(row.cuts_hash);
}

}  // namespace isocost
