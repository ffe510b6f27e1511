#include "cli/data/priced_samples.h"

#include <numeric>

#include "cli/common/exit_status.h"
#include "cli/common/setting_flags.h"
#include "loader/config/option_table.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/sample_name.h"

namespace isocost::cli {

void PriceFlags::add_to(CLI::App& command) {
  add_setting_flags(
      command, recipe, NodeOptions{},
      {"model", "image_size", "max_decoded_pixels", "ca_file", "cache", "cache_size"});
  command
      .add_option("--profile", profile,
                  "Model profile (docs/model_profile.md) that predicts seconds; with --model alone "
                  "the built-in one")
      ->type_name("FILE");
}

double SamplePrice::total_s() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

Result<std::unique_ptr<PricedSamples>> PricedSamples::open(const PriceFlags& flags,
                                                           const DataSources& data,
                                                           DatasetOptions options,
                                                           const Dataset& plain) {
  NodeOptions node;
  ISOCOST_TRY(as_usage_error(apply(flags.recipe, node)));
  options.model = model_directory(node.decode.recipe);
  if (options.model.empty() && flags.profile.empty()) return std::unique_ptr<PricedSamples>();
  CostProfile profile = CostProfile::stated_default();
  if (!flags.profile.empty()) {
    ISOCOST_ASSIGN(profile, as_usage_error(CostProfile::load(flags.profile)));
  }
  ISOCOST_ASSIGN(Recipe recipe, Recipe::create(node.decode.recipe));
  std::unique_ptr<PricedSamples> priced(new PricedSamples(profile, std::move(recipe), plain));
  if (options.model.empty()) return priced;
  options.log_remarks = false;  // those of the plain data set are logged
  ISOCOST_ASSIGN(priced->tokens_, Dataset::open(data, options));
  return priced;
}

// Returns the same sample of the data set with tokens.
Result<SampleId> PricedSamples::tokenized(SampleId id) {
  if (tokens_ == nullptr) return id;
  const std::string_view shard = plain_.shard(id);
  const std::string key = plain_.key(id);
  const auto is_meant = [&](SampleId other) {
    return other < tokens_->size() && tokens_->key(other) == key && tokens_->shard(other) == shard;
  };
  if (is_meant(next_)) return next_++;
  for (std::size_t i = 0; i < tokens_->shards(); ++i) {
    if (tokens_->shard_name(i) != shard) continue;
    const ShardFacts facts = tokens_->shard_facts(i);
    for (SampleId other = facts.first; other < facts.first + facts.usable; ++other) {
      if (tokens_->key(other) != key) continue;
      next_ = other + 1;
      return other;
    }
  }
  for (const BadSample& bad : tokens_->bad()) {
    if (bad.shard == shard && bad.key == key) return Error(ErrorCode::kNotFound, describe(bad));
  }
  return Error(ErrorCode::kNotFound, sample_name(shard, key) + " has no tokens");
}

Result<SamplePrice> PricedSamples::price(SampleId id) {
  ISOCOST_ASSIGN(const SampleId meant, tokenized(id));
  const Dataset& dataset = tokens_ != nullptr ? *tokens_ : plain_;
  SamplePrice price;
  ISOCOST_ASSIGN(price.explanation, explain_sample(recipe_, dataset, meant));
  price.seconds = model_.predict_sample(price.explanation.load);
  return price;
}

}  // namespace isocost::cli
