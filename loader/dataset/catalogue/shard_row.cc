#include "loader/dataset/catalogue/shard_row.h"

#include <cstddef>

#include "base/fingerprint.h"
#include "loader/dataset/index/index_location.h"

namespace isocost {
namespace {

std::uint64_t hash_of_keys(const IndexView& index, const ShardSelection& selection) {
  Fingerprint keys;
  for (std::uint64_t i = 0; i < selection.size(); ++i) keys.add(index.key(selection.sample(i)));
  return keys.value();
}

std::uint64_t hash_of_cuts(const ShardSelection& selection) {
  Fingerprint hash;
  for (std::size_t i = 0; i < selection.cuts(); ++i) {
    hash.add(selection.cut_sample(i));
    hash.add(selection.cut(i).end.ids);
  }
  return hash.value();
}

WeightedSamples weighted_of(const Shard& shard, const ShardSelection& selection) {
  WeightedSamples weighted;
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    const std::uint64_t number = selection.sample(i);
    const float weight = shard.view().weight(number);
    if (weight == 0 ||
        (weight == 1 && !shard.parts(number, selection.cut_of(number)).has_weighted_turns())) {
      continue;
    }
    if (weighted.count++ == 0) {
      weighted.first = i;
      weighted.weight = weight;
    }
  }
  return weighted;
}

std::uint64_t text_tokens_of(const Shard& shard, const ShardSelection& selection) {
  if (!shard.tokens()) return 0;
  std::uint64_t tokens = 0;
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    const std::uint64_t number = selection.sample(i);
    const TurnCut* const cut = selection.cut_of(number);
    tokens += cut != nullptr
                  ? cut->end.ids - cut->end.placeholders
                  : static_cast<std::uint64_t>(shard.tokens()->shape(number).text_tokens);
  }
  return tokens;
}

// Returns which of the root's directories has the index of a shard; 0: it is in no file.
std::uint8_t directory_of(const Shard& shard) {
  const auto& directories = shard.place().root->index_directories;
  for (std::size_t i = 0; i < directories.size(); ++i) {
    if (index_path(directories[i], shard.place().name) == shard.index().file()) {
      return static_cast<std::uint8_t>(i);
    }
  }
  return 0;
}

// Returns the stamp of the file of an index, which is not mapped where it has just been built.
FileStamp stamp_of_index(const ShardIndex& index) {
  if (!index.kept() || index.stamp() != FileStamp{}) return index.stamp();
  return stamp_of(index.file()).value_or(FileStamp{});
}

// Sets the facts that the header of the index, and its texts on the shard, hold.
void add_condition(ShardRow& row, const IndexView& view) {
  row.content_hash = view.content_hash();
  row.condition = view.condition();
  row.has_end_mark = view.has_end_mark();
  row.samples = view.samples();
  row.bad = view.bad();
  row.samples_when_whole = view.samples_when_whole();
  row.problem = view.problem();
  row.unread = view.unread();
  row.remarks.reserve(view.remarks());
  for (std::uint64_t i = 0; i < view.remarks(); ++i) row.remarks.push_back(view.remark(i));
}

}  // namespace

ShardRow row_of(const Shard& shard, const ShardSelection& selection) {
  ShardRow row;
  row.identity = shard.view().identity();
  const StoredFile file = shard.place().file();
  // Known from the listing; a failure leaves the index's, which is compared again.
  if (file.objects) row.identity.stamp = stamp_of(file).value_or(row.identity.stamp);
  row.directory = directory_of(shard);
  row.index = stamp_of_index(shard.index());
  add_condition(row, shard.view());
  if (shard.tokens()) {
    row.tokens = shard.tokens()->stamp();
    row.tokenizer = std::make_shared<const TokenizerIdentity>(shard.tokens()->identity().tokenizer);
  }
  row.usable = selection.size();
  row.keys_hash = hash_of_keys(shard.view(), selection);
  row.cuts = selection.cuts();
  row.cuts_hash = hash_of_cuts(selection);
  row.text_tokens = text_tokens_of(shard, selection);
  row.weighted = weighted_of(shard, selection);
  return row;
}

bool is_of_row(const IndexView& index, const ShardRow& row, const ShardPlace& place) {
  const bool is_same = place.root->objects ? may_be_same_object(index.identity(), row.identity)
                                           : same_identity(index.identity(), row.identity);
  return is_same && index.content_hash() == row.content_hash && index.samples() == row.samples &&
         index.bad() == row.bad;
}

}  // namespace isocost
