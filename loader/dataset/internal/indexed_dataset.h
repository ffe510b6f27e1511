#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/catalogue/catalogue.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/internal/shard_files.h"

namespace isocost {

/// The findings of a start, beside the samples.
struct StartFindings {
  std::vector<BadSample> bad;
  std::vector<Remark> remarks;
  std::optional<MediaFormat> format_that_needs_worker;
};

/// A data set of indexed shards: the catalogue has its samples, the files their bytes.
class IndexedDataset final : public Dataset {
 public:
  /// `cache`: that of the shards on servers; null: none.
  IndexedDataset(Catalogue catalogue, std::vector<DatasetSource> sources, StartFindings found,
                 std::shared_ptr<const ObjectCache> cache);

  std::uint64_t size() const override { return catalogue_.size(); }
  SampleShape shape(SampleId id) const override;
  std::string key(SampleId id) const override;
  std::string_view shard(SampleId id) const override;
  std::size_t shard_number(SampleId id) const override { return catalogue_.shard_of(id); }
  std::string part_name(SampleId id, std::size_t part) const override;
  Result<std::unique_ptr<ByteSource>> open_part(SampleId id, std::size_t part,
                                                const BytesAhead& ahead) const override;
  Result<std::unique_ptr<ByteSource>> open_json(SampleId id,
                                                const BytesAhead& ahead) const override;
  Status check_index(SampleId id) const override;
  BytesAhead read_ahead(SampleId id, const std::stop_token& stop) const override;
  bool reads_servers() const override { return !servers_.empty(); }
  bool is_on_server(SampleId id) const override {
    return !servers_.empty() &&
           catalogue_.shards().known(catalogue_.shard_of(id)).place.root->objects != nullptr;
  }
  std::vector<std::pair<std::string, StoreCounts>> server_counts() const override;
  std::optional<CacheCounts> cache_counts() const override {
    return cache_ ? std::optional(cache_->counts()) : std::nullopt;
  }
  std::uint64_t samples_on_servers() const override { return samples_on_servers_; }
  std::int64_t read_ahead_bytes(SampleId id) const override;
  void hold_shard(std::size_t i, const std::stop_token& stop) const override;
  std::size_t open_shards() const override { return files_.max_open(); }
  const std::vector<DatasetSource>& sources() const override { return sources_; }
  const std::vector<BadSample>& bad() const override { return found_.bad; }
  const ShardFindings& findings() const override { return findings_; }
  const std::vector<Remark>& remarks() const override { return found_.remarks; }
  const WeightedSamples& weighted() const override { return catalogue_.weighted(); }
  std::optional<MediaFormat> format_that_needs_worker() const override {
    return found_.format_that_needs_worker;
  }
  std::size_t shards() const override { return catalogue_.shards().size(); }
  const std::string& shard_name(std::size_t i) const override;
  std::uint64_t usable_samples(std::size_t i) const override {
    return catalogue_.first(i + 1) - catalogue_.first(i);
  }
  ShardFacts shard_facts(std::size_t i) const override;
  ShardTokenFacts shard_tokens(std::size_t i, const TokenizerIdentity* tokenizer) const override;
  Result<bool> is_as_last_checked(std::size_t i, const std::stop_token& stop) const override;
  std::size_t indexes_not_kept() const override;
  std::uint64_t fingerprint() const override { return catalogue_.fingerprint(); }

 private:
  const Catalogue catalogue_;
  const std::vector<DatasetSource> sources_;
  const StartFindings found_;
  const ShardFindings findings_;
  const std::shared_ptr<const ObjectCache> cache_;
  std::map<std::string, std::shared_ptr<StoredObjects>> servers_;  // one of each
  std::uint64_t samples_on_servers_ = 0;
  mutable ShardFiles files_;
};

}  // namespace isocost
