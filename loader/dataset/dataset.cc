#include "loader/dataset/dataset.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

void log_cuts(std::size_t cuts, const LogSink& sink) {
  if (cuts == 0) return;
  log(sink, LogLevel::kInfo,
      counted(cuts, "sample") + " cut at the end of a turn, to keep the limits of a microbatch");
}

// Says first that a shard is broken: its tokens were made of the whole one, and are refused.
Error of_shard(Error error, const ShardPlace& shard, const IndexView& view) {
  if (view.condition() == ShardCondition::kWhole) return error;
  const std::string broken = shard.name + ": " + std::string(view.problem());
  return std::move(error).with_context(broken);
}

// Puts together the shards of all sources.
class Opening {
 public:
  Opening(const DataSources& data, const DatasetOptions& options)
      : data_(data), options_(options) {}

  Result<std::unique_ptr<Dataset>> open() &&;

 private:
  Status add(const DataSource& source);
  // Opens the tokens of a shard; null if the shard's own text is used.
  Result<std::shared_ptr<const TokenFile>> tokens_of(const ShardPlace& shard,
                                                     const ShardIndex& index) const;
  // Numbers the samples of the sources, and counts what is bad.
  std::vector<DatasetSource> sources(const Catalogue& catalogue) &&;

  const DataSources& data_;
  const DatasetOptions& options_;
  std::optional<TokenizerIdentity> tokenizer_;  // nothing: no tokens are used
  std::vector<Shard> shards_;
  std::vector<std::shared_ptr<const TokenFile>> tokens_;  // for the log
  std::vector<std::size_t> counts_;                       // shards of each source
  std::vector<ShardFindings> findings_;                   // of each source
};

Result<std::unique_ptr<Dataset>> Opening::open() && {
  if (!options_.model.empty()) {
    ISOCOST_ASSIGN(tokenizer_, TokenizerIdentity::of_model(options_.model));
  }
  for (const DataSource& source : data_.sources) ISOCOST_TRY(add(source));
  if (tokenizer_) log_tokenizer_options(tokens_, options_.log);
  Selection selection = select_samples(shards_, {options_.check_shape, options_.truncate});
  log_cuts(cut_samples(selection.shards), options_.log);
  std::vector<Remark> remarks = remarks_of(shards_);
  if (options_.log_remarks) log_remarks(remarks, data_.given, options_.log);
  Catalogue catalogue(std::move(shards_), std::move(selection.shards));
  std::vector<DatasetSource> sources = std::move(*this).sources(catalogue);
  return std::make_unique<IndexedDataset>(std::move(catalogue), std::move(sources),
                                          std::move(selection.bad), std::move(remarks));
}

Status Opening::add(const DataSource& source) {
  ISOCOST_ASSIGN(IndexedShards indexed, index_shards(source, options_));
  ShardListing& listing = indexed.listing;
  const std::size_t first = shards_.size();
  for (std::size_t i = 0; i < listing.shards.size(); ++i) {
    ISOCOST_ASSIGN(auto tokens, tokens_of(listing.shards[i], *indexed.indexes[i]));
    if (tokens) tokens_.push_back(tokens);
    shards_.emplace_back(std::move(listing.shards[i]), std::move(indexed.indexes[i]),
                         std::move(tokens), source.name);
  }
  counts_.push_back(shards_.size() - first);
  findings_.push_back(
      shard_findings(listing, std::span<const Shard>(shards_).subspan(first), source.name));
  return {};
}

Result<std::shared_ptr<const TokenFile>> Opening::tokens_of(const ShardPlace& shard,
                                                            const ShardIndex& index) const {
  if (!tokenizer_) return std::shared_ptr<const TokenFile>();
  const std::string remedy =
      "isocost tokenize " + data_arguments(data_.given, options_) + " makes them";
  auto opened = open_shard_tokens(shard.path(), index, *tokenizer_, remedy);
  if (!opened) return of_shard(std::move(opened).error(), shard, index.view());
  return opened;
}

std::vector<DatasetSource> Opening::sources(const Catalogue& catalogue) && {
  std::vector<DatasetSource> sources;
  std::size_t shard = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const std::size_t end = shard + counts_[s];
    DatasetSource source{.name = data_.sources[s].name,
                         .first = catalogue.first(shard),
                         .size = catalogue.first(end) - catalogue.first(shard),
                         .fingerprint = catalogue.fingerprint(shard, end),
                         .bad = 0,
                         .findings = std::move(findings_[s])};
    for (; shard < end; ++shard) {
      const IndexView& view = catalogue.shards()[shard].view();
      source.bad += view.samples() + view.bad();
    }
    source.bad -= source.size;
    sources.push_back(std::move(source));
  }
  return sources;
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
  if (!reading.media_root.empty()) arguments += " --media-root " + for_shell(reading.media_root);
  if (reading.number_keys) arguments += " --number-keys";
  if (!reading.text.empty()) arguments += " --text " + for_shell(reading.text);
  if (!reading.format.empty()) arguments += " --format " + reading.format;
  if (!reading.split.empty()) arguments += " --split " + for_shell(reading.split);
  if (options.limits.max_pixels != ProbeLimits{}.max_pixels) {
    arguments += " --max-decoded-pixels " + std::to_string(options.limits.max_pixels);
  }
  return arguments;
}

Result<std::unique_ptr<Dataset>> Dataset::open(const std::string& data,
                                               const DatasetOptions& options) {
  return open(DataSources::of_text(data, options.reading), options);
}

Result<std::unique_ptr<Dataset>> Dataset::open(const DataSources& data,
                                               const DatasetOptions& options) {
  return Opening(data, options).open();
}

}  // namespace isocost
