#include "loader/dataset/dataset.h"

#include <cstddef>
#include <span>
#include <utility>

#include "base/counted.h"
#include "loader/dataset/catalogue/catalogue.h"
#include "loader/dataset/catalogue/remarks.h"
#include "loader/dataset/catalogue/select_samples.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/catalogue/shard_listing.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/internal/indexed_dataset.h"
#include "loader/dataset/internal/indexed_shards.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/tokens/shard_tokens.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {
namespace {

using Indexes = std::vector<std::unique_ptr<const ShardIndex>>;
using TokenFiles = std::vector<std::shared_ptr<const TokenFile>>;

// Says first that a shard is broken: its tokens were made of the whole one, and are refused.
Error of_shard(Error error, const ShardPlace& shard, const IndexView& view) {
  if (view.condition() == ShardCondition::kWhole) return error;
  const std::string broken = shard.name + ": " + std::string(view.problem());
  return std::move(error).with_context(broken);
}

// Opens the tokens of all shards; each is null if the shards' own text is used.
Result<TokenFiles> open_all_tokens(std::span<const ShardPlace> shards, const Indexes& indexes,
                                   std::string_view data, const DatasetOptions& options) {
  TokenFiles tokens(shards.size());
  if (options.model.empty()) return tokens;
  ISOCOST_ASSIGN(const TokenizerIdentity tokenizer, TokenizerIdentity::of_model(options.model));
  const std::string remedy = "isocost tokenize " + data_arguments(data, options) + " makes them";
  for (std::size_t i = 0; i < shards.size(); ++i) {
    auto opened = open_shard_tokens(shards[i].path(), *indexes[i], tokenizer, remedy);
    if (!opened) return of_shard(std::move(opened).error(), shards[i], indexes[i]->view());
    tokens[i] = *std::move(opened);
  }
  log_tokenizer_options(tokens, options.log);
  return tokens;
}

void log_cuts(std::size_t cuts, const LogSink& sink) {
  if (cuts == 0) return;
  log(sink, LogLevel::kInfo,
      counted(cuts, "sample") + " cut at the end of a turn, to keep the limits of a microbatch");
}

}  // namespace

std::string data_arguments(std::string_view data, const DatasetOptions& options) {
  std::string arguments = for_shell(data);
  if (!options.model.empty()) arguments += " --model " + options.model.string();
  if (!options.index_dir.empty()) arguments += " --index-dir " + options.index_dir.string();
  const ReadingOptions& reading = options.reading;
  if (!reading.ignore_parts.empty()) arguments += " --ignore-parts " + reading.ignore_parts;
  if (reading.weight_key != ReadingOptions{}.weight_key) {
    arguments += " --weight-key '" + reading.weight_key + "'";
  }
  if (options.limits.max_pixels != ProbeLimits{}.max_pixels) {
    arguments += " --max-decoded-pixels " + std::to_string(options.limits.max_pixels);
  }
  return arguments;
}

Result<std::unique_ptr<Dataset>> Dataset::open(const std::string& data,
                                               const DatasetOptions& options) {
  ISOCOST_ASSIGN(IndexedShards indexed, index_shards(data, options));
  ShardListing& listing = indexed.listing;
  Indexes& indexes = indexed.indexes;
  ISOCOST_ASSIGN(TokenFiles tokens, open_all_tokens(listing.shards, indexes, data, options));
  std::vector<Shard> shards;
  shards.reserve(listing.shards.size());
  for (std::size_t i = 0; i < listing.shards.size(); ++i) {
    shards.emplace_back(std::move(listing.shards[i]), std::move(indexes[i]), std::move(tokens[i]));
  }
  Selection selection = select_samples(shards, {options.check_shape, options.truncate});
  log_cuts(cut_samples(selection.shards), options.log);
  ShardFindings findings = shard_findings(listing, shards);
  std::vector<Remark> remarks = remarks_of(shards);
  if (options.log_remarks) log_remarks(remarks, data, options.log);
  return std::make_unique<IndexedDataset>(Catalogue(std::move(shards), std::move(selection.shards)),
                                          std::move(selection.bad), std::move(findings),
                                          std::move(remarks));
}

}  // namespace isocost
