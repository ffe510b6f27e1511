#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "loader/dataset/dataset.h"
#include "loader/node/internal/sealed_step.h"
#include "loader/plan/step_plan.h"

namespace isocost {

/// A step in which each rank has `microbatches` microbatches of one sample and, as predicted, one
/// second of the LLM each.
inline std::shared_ptr<SealedStep> make_step(std::uint32_t epoch, std::uint32_t step,
                                             std::uint32_t ranks, std::uint32_t microbatches) {
  auto sealed = std::make_shared<SealedStep>();
  sealed->epoch = epoch;
  sealed->step = step;
  sealed->plan.microbatches = microbatches;
  for (std::uint32_t i = 0; i < ranks * microbatches; ++i) {
    StepSample& sample = sealed->samples.emplace_back();
    sample.id = i;
    sample.load[CostModule::kLlm].add_sequence(100);
    PlannedMicrobatch& bin = sealed->plan.bins.emplace_back();
    bin.samples.push_back({i, 1.0F});
    bin.load = bin.run_load = sample.load;
    bin.predicted = {0, 0, 1};
  }
  sealed->count_readers();
  return sealed;
}

inline EpochEnd end_of_epoch(std::uint32_t epoch, bool last) {
  EpochEnd end;
  end.epoch = epoch;
  end.last_epoch = last;
  return end;
}

/// Samples of one text each, in memory. A text that is not UTF-8 is a bad sample when it is
/// decoded.
class TextDataset final : public Dataset {
 public:
  explicit TextDataset(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::size_t i = 0; i < texts_.size(); ++i) keys_.push_back("key" + std::to_string(i));
    sources_.emplace_back().size = texts_.size();
  }

  std::uint64_t size() const override { return texts_.size(); }
  SampleShape shape(SampleId id) const override {
    PartShape part;
    part.text_bytes = part.encoded_bytes = static_cast<std::int64_t>(texts_.at(id).size());
    return {{part}, 1.0F};
  }
  std::string key(SampleId id) const override { return keys_.at(id); }
  std::string_view shard(SampleId /*id*/) const override { return "shard.tar"; }
  std::size_t shard_number(SampleId id) const override { return shard_of ? shard_of(id) : 0; }
  std::string part_name(SampleId /*id*/, std::size_t /*part*/) const override { return "txt"; }
  using Dataset::open_json;
  using Dataset::open_part;
  Result<std::unique_ptr<ByteSource>> open_part(SampleId id, std::size_t /*part*/,
                                                const BytesAhead& /*ahead*/) const override {
    if (refused_opens > 0 && refused_opens-- > 0) {
      return Error(refusal, "shard.tar: cannot open");
    }
    return std::make_unique<MemoryByteSource>(std::as_bytes(std::span(texts_.at(id))));
  }
  Status check_index(SampleId) const override { return index; }
  Result<std::unique_ptr<ByteSource>> open_json(SampleId id,
                                                const BytesAhead& /*ahead*/) const override {
    const auto found = json.find(id);
    if (found == json.end()) return std::unique_ptr<ByteSource>();
    return std::make_unique<MemoryByteSource>(std::as_bytes(std::span(found->second)));
  }
  BytesAhead read_ahead(SampleId id, const std::stop_token& /*stop*/) const override {
    if (on_read_ahead) on_read_ahead(id);
    return nullptr;
  }
  bool reads_servers() const override { return on_servers > 0; }
  bool is_on_server(SampleId /*id*/) const override { return on_hold_shard != nullptr; }
  std::vector<std::pair<std::string, StoreCounts>> server_counts() const override { return {}; }
  std::optional<CacheCounts> cache_counts() const override { return std::nullopt; }
  std::uint64_t samples_on_servers() const override { return on_servers; }
  std::int64_t read_ahead_bytes(SampleId id) const override {
    return static_cast<std::int64_t>(texts_.at(id).size());
  }
  void hold_shard(std::size_t i, const std::stop_token& /*stop*/) const override {
    if (on_hold_shard) on_hold_shard(i);
  }
  std::size_t open_shards() const override { return shards_open; }
  const std::vector<BadSample>& bad() const override { return bad_; }
  const std::vector<Remark>& remarks() const override { return remarks_; }
  const WeightedSamples& weighted() const override { return weighted_; }
  std::optional<MediaFormat> format_that_needs_worker() const override { return std::nullopt; }
  std::size_t shards() const override { return 1; }
  const std::string& shard_name(std::size_t /*i*/) const override { return name_; }
  std::uint64_t usable_samples(std::size_t /*i*/) const override { return texts_.size(); }
  ShardFacts shard_facts(std::size_t /*i*/) const override { return {}; }
  ShardTokenFacts shard_tokens(std::size_t /*i*/, const TokenizerIdentity*) const override {
    return {};
  }
  Result<bool> is_as_last_checked(std::size_t /*i*/, const std::stop_token&) const override {
    return true;
  }
  const std::vector<DatasetSource>& sources() const override { return sources_; }
  const ShardFindings& findings() const override { return findings_; }
  std::size_t indexes_not_kept() const override { return 0; }
  std::uint64_t fingerprint() const override { return 1; }

  std::map<SampleId, std::string> json;           ///< JSON parts, for samples that have one.
  Status index;                                   ///< The answer of check_index for all.
  std::function<void(SampleId)> on_read_ahead;    ///< May be empty; called on several threads.
  std::function<std::size_t(SampleId)> shard_of;  ///< Empty: all are in the first one.
  /// If it is set, all samples are on a server, and a cache keeps its shards.
  std::function<void(std::size_t)> on_hold_shard;
  std::size_t shards_open = 256;
  std::uint64_t on_servers = 0;  ///< Samples that are said to lie on servers.
  /// So many calls of open_part fail, as if the machine refused to read.
  mutable std::atomic<int> refused_opens = 0;
  ErrorCode refusal = ErrorCode::kIo;  ///< The error of those calls.

 private:
  std::vector<std::string> texts_;
  std::vector<std::string> keys_;
  std::vector<BadSample> bad_;
  std::vector<DatasetSource> sources_;  // one, of all samples
  ShardFindings findings_;
  WeightedSamples weighted_;
  std::vector<Remark> remarks_;
  std::string name_ = "shard.tar";
};

inline constexpr char kNotUtf8[] = "\xff\xfe";

}  // namespace isocost
