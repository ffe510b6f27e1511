#include "loader/dataset/internal/dataset_table.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "base/fingerprint.h"
#include "loader/dataset/formats/sample_reading.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/index/open_indexes.h"
#include "loader/dataset/stores/file_stamp.h"
#include "loader/dataset/tokens/token_file.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

/// Version of the rules by which samples count, cuts and what the rows say of them. A change raises
/// it, so that tables of before are made again.
constexpr std::uint64_t kSelectionVersion = 1;

// Returns a hash of all that decides what is found of a shard, beside its files and its source's
// reading, which the identity of its index has.
std::uint64_t hash_of_options(const DatasetOptions& options, const TokenizerIdentity* tokenizer) {
  Fingerprint hash;
  hash.add(kSelectionVersion);
  hash.add(kReadingVersion);
  hash.add(options.limits.max_pixels);
  hash.add(options.limits.max_json_bytes);
  hash.add(options.limits.max_text_bytes);
  hash.add(options.check_shape ? options.check_identity : 0);
  hash.add(options.check_shape && options.truncate);
  if (tokenizer == nullptr) return hash.value();
  for (const std::uint64_t part :
       {tokenizer->tokenizer, tokenizer->chat_template, tokenizer->placeholders,
        tokenizer->text_settings, tokenizer->version}) {
    hash.add(part);
  }
  return hash.value();
}

// Returns a hash of the place of each shard, in their order.
std::vector<std::uint64_t> keys_of(std::span<const ListedSource> sources) {
  std::vector<std::uint64_t> keys;
  for (const ListedSource& source : sources) {
    const ShardRoot* root = nullptr;
    std::uint64_t of_root = 0;
    for (const ShardPlace& shard : source.listing.shards) {
      if (shard.root.get() != root) {
        root = shard.root.get();
        std::error_code ignored;
        Fingerprint hash;
        hash.add(source.reading->name);
        hash.add(fs::weakly_canonical(root->directory, ignored).string());
        of_root = hash.value();
      }
      Fingerprint key;
      key.add(of_root);
      key.add(shard.name);
      keys.push_back(key.value());
    }
  }
  return keys;
}

bool has_stamp(const fs::path& file, const FileStamp& stamp) {
  const auto found = stamp_of(file);
  return found && *found == stamp;
}

// Returns whether the files of a shard are those that a row was made of.
bool is_current(const ShardRow& row, const ShardPlace& shard, const SourceReading& source) {
  const auto& directories = shard.root->index_directories;
  if (row.directory >= directories.size()) return false;
  const auto identity = identity_of(shard, source.limits, source.reading);
  if (!identity || !same_identity(*identity, row.identity)) return false;
  const fs::path index = index_path(directories[row.directory], shard.name);
  if (!has_stamp(index, row.index)) return false;
  return !row.tokenizer || has_stamp(token_file_name(index), row.tokens);
}

// Waits until a file that is written from now on has a later time than these, since the times of
// files have steps of up to 10 ms.
void wait_for_later_times(std::int64_t latest_ns) {
  using std::chrono::nanoseconds;
  constexpr nanoseconds kStep = std::chrono::milliseconds(12);
  const nanoseconds age =
      std::chrono::system_clock::now().time_since_epoch() - nanoseconds(latest_ns);
  if (age < kStep) std::this_thread::sleep_for(std::min(kStep, kStep - age));
}

}  // namespace

DatasetTable::DatasetTable(std::span<const ListedSource> sources, const DatasetOptions& options,
                           const TokenizerIdentity* tokenizer)
    : options_(options), keys_(keys_of(sources)), taken_(keys_.size()) {
  const bool knows_check = !options.check_shape || options.check_identity != 0;
  if (!knows_check || keys_.empty()) return;
  Fingerprint list;
  for (const std::uint64_t key : keys_) list.add(key);
  identity_ = {hash_of_options(options, tokenizer), list.value()};
  const auto first = std::ranges::find_if(
      sources, [](const ListedSource& source) { return !source.listing.shards.empty(); });
  files_.emplace(first->listing.shards.front().root->index_directories, identity_, options.log);
  auto known = files_->read(options.limits);
  if (!known) return;
  known_ = *std::move(known);
  rows_.reserve(known_.keys.size());
  for (std::size_t row = 0; row < known_.keys.size(); ++row) rows_.emplace(known_.keys[row], row);
}

bool DatasetTable::take(std::size_t shard, const ListedSource& source, SelectedShards& shards,
                        std::size_t at) {
  const auto found = rows_.find(keys_[shard]);
  if (found == rows_.end()) return false;
  const ShardPlace& place = source.listing.shards[at];
  const std::size_t row = found->second;
  if (!is_current(known_.shards.rows[row], place, *source.reading)) return false;
  shards.rows[at] = std::move(known_.shards.rows[row]);
  shards.selections[at] = std::move(known_.shards.selections[row]);
  shards.bad[at] = std::move(known_.shards.bad[row]);
  for (BadSample& bad : shards.bad[at]) {
    bad.shard = name_in_source(source.reading->name, place.name);
  }
  taken_[shard] = 1;
  return true;
}

void DatasetTable::keep(const SelectedShards& all) {
  if (!files_) return;
  std::size_t kept = 0;
  bool is_new = known_.identity != identity_;
  std::int64_t latest_ns = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ShardRow& row = all.rows[i];
    if (!row.has_index_file()) continue;
    ++kept;
    if (taken_[i] != 0) continue;
    is_new = true;
    latest_ns = std::max({latest_ns, row.index.mtime_ns, row.tokens.mtime_ns});
  }
  if (kept > 0 && is_new) {
    wait_for_later_times(latest_ns);
    files_->write(encode_table(identity_, keys_, all));
  }
  if (options_.prune_tables) files_->prune();
}

}  // namespace isocost
