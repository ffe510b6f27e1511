#include "loader/dataset/dataset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "loader/dataset/catalogue/catalogue.h"
#include "loader/dataset/catalogue/open_shards.h"
#include "loader/dataset/catalogue/remarks.h"
#include "loader/dataset/internal/cache_needs.h"
#include "loader/dataset/internal/dataset_table.h"
#include "loader/dataset/internal/indexed_dataset.h"
#include "loader/dataset/internal/listed_source.h"
#include "loader/dataset/internal/select_shards.h"
#include "loader/dataset/internal/selected_shards.h"
#include "loader/dataset/internal/shared_shards.h"
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

// Returns the samples that cannot be used, of all shards: those that indexing found bad, then those
// without tokens, and those over a limit.
std::vector<BadSample> in_order(SelectedShards& shards) {
  const auto kind_of = [&](std::size_t shard, std::size_t i) {
    if (i < shards.rows[shard].bad) return 0;
    return shards.bad[shard][i].over_limit ? 2 : 1;
  };
  std::vector<BadSample> all;
  for (int kind = 0; kind < 3; ++kind) {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      for (std::size_t i = 0; i < shards.bad[s].size(); ++i) {
        if (kind_of(s, i) != kind) continue;
        all.push_back(std::move(shards.bad[s][i]));
      }
    }
  }
  shards.bad = {};
  return all;
}

// Puts together the shards of all sources.
class Opening {
 public:
  Opening(const DataSources& data, const DatasetOptions& options)
      : data_(data), options_(options), stores_(store_options(options)) {}

  Result<std::unique_ptr<Dataset>> open() &&;

 private:
  Status set_tokens();
  Status list();
  bool lists_objects() const;
  void log_server_bytes() const;
  Status select();
  void log_start(std::span<const Remark> remarks) const;
  std::unique_ptr<const OpenShards> known_shards();
  // Numbers the samples of the sources, and counts what is bad.
  std::vector<DatasetSource> sources(const Catalogue& catalogue);

  const DataSources& data_;
  const DatasetOptions& options_;
  Stores stores_;
  std::optional<WantedTokens> tokens_;  // nothing: no tokens are used
  SelectedShards shards_;
  std::vector<ListedSource> listed_;     // the sources
  std::vector<ShardFindings> findings_;  // of each source
};

Result<std::unique_ptr<Dataset>> Opening::open() && {
  ISOCOST_TRY(set_tokens());
  ISOCOST_TRY(list());
  ISOCOST_TRY(select());
  std::vector<Remark> remarks = remarks_of(shards_.rows);
  log_start(remarks);
  const auto format = format_that_needs_worker(shards_.rows);
  std::vector<BadSample> bad = in_order(shards_);
  std::vector<ShardSelection> selections = std::move(shards_.selections);
  Catalogue catalogue(CatalogueShards{known_shards(), std::move(selections)});
  std::vector<DatasetSource> sources = this->sources(catalogue);
  const std::shared_ptr<ObjectCache> cache = stores_.opened_cache();
  // Not before: what a start reads of a shard is little.
  if (cache && options_.window_shards > 0) cache->keep_pieces();
  return std::make_unique<IndexedDataset>(std::move(catalogue), std::move(sources),
                                          StartFindings{std::move(bad), std::move(remarks), format},
                                          cache);
}

Status Opening::set_tokens() {
  if (options_.model.empty()) return {};
  ISOCOST_ASSIGN(TokenizerIdentity tokenizer, TokenizerIdentity::of_model(options_.model));
  tokens_ = {std::move(tokenizer),
             "isocost tokenize " + data_arguments(data_.given, options_) + " makes them"};
  return {};
}

Status Opening::list() {
  for (const DataSource& source : data_.sources) {
    ISOCOST_ASSIGN(ListedSource listed, list_source(source, options_, stores_));
    listed_.push_back(std::move(listed));
  }
  if (options_.log_server_bytes) log_server_bytes();
  if (!options_.stores.cache.empty() && !lists_objects()) {
    log(options_.log, LogLevel::kInfo,
        "the cache " + options_.stores.cache.string() +
            ": no shard lies on a server, so that it is not used");
  }
  ISOCOST_TRY(check_cache_needs(listed_, options_));
  return check_shared_shards(listed_);
}

bool Opening::lists_objects() const {
  return std::ranges::any_of(listed_, [](const ListedSource& source) {
    return std::ranges::any_of(source.listing.shards, [](const ShardPlace& place) {
      return place.root->objects != nullptr;
    });
  });
}

// Their stamps are known from the listing.
void Opening::log_server_bytes() const {
  std::size_t shards = 0;
  std::int64_t bytes = 0;
  for (const ListedSource& source : listed_) {
    for (const ShardPlace& place : source.listing.shards) {
      if (!place.root->objects) continue;
      const auto stamp = place.root->objects->stamp(place.name, options_.stop);
      if (!stamp) continue;
      ++shards;
      bytes += stamp->bytes;
    }
  }
  if (shards == 0) return;
  log(options_.log, LogLevel::kInfo,
      counted(shards, "shard") + " on servers: " + std::to_string(bytes) +
          " bytes are downloaded, those of shards without a current index twice; no cache is used");
}

// Takes what an earlier start found from its table, and the rest from the shards.
Status Opening::select() {
  DatasetTable table(listed_, options_, tokens_ ? &tokens_->tokenizer : nullptr);
  for (const ListedSource& source : listed_) {
    const std::size_t first = shards_.size();
    const auto take = [&](std::size_t i, SelectedShards& shards) {
      return table.take(first + i, source, shards, i);
    };
    ISOCOST_ASSIGN(SelectedShards selected, select_shards(source, options_, tokens_, take));
    findings_.push_back(shard_findings(source.listing, selected.rows, source.reading->name));
    shards_.append(std::move(selected));
  }
  table.keep(shards_);
  return {};
}

void Opening::log_start(std::span<const Remark> remarks) const {
  std::map<std::string_view, std::size_t> tokenized;  // shards by the options of their tokens
  std::size_t cuts = 0;
  for (const ShardRow& row : shards_.rows) {
    if (row.tokenizer) ++tokenized[row.tokenizer->options];
    cuts += row.cuts;
  }
  log_tokenizer_options(tokenized, options_.log);
  log_cuts(cuts, options_.log);
  if (options_.log_remarks) log_remarks(remarks, data_.given, options_.log);
}

// The texts of the rows are let go: they have been told.
std::unique_ptr<const OpenShards> Opening::known_shards() {
  std::vector<KnownShard> known;
  known.reserve(shards_.size());
  for (ListedSource& source : listed_) {
    for (ShardPlace& place : source.listing.shards) {
      const std::size_t shard = known.size();
      ShardRow row = std::move(shards_.rows[shard]);
      row.remarks = {};
      row.problem = {};
      row.unread = {};
      known.push_back({.place = std::move(place),
                       .source = source.reading,
                       .row = std::move(row),
                       .held = std::move(shards_.held[shard])});
    }
  }
  return std::make_unique<const OpenShards>(std::move(known), options_.log);
}

std::vector<DatasetSource> Opening::sources(const Catalogue& catalogue) {
  std::vector<DatasetSource> sources;
  std::size_t shard = 0;
  for (std::size_t s = 0; s < listed_.size(); ++s) {
    const std::size_t end = shard + listed_[s].listing.shards.size();
    DatasetSource source{.name = data_.sources[s].name,
                         .first = catalogue.first(shard),
                         .size = catalogue.first(end) - catalogue.first(shard),
                         .fingerprint = listed_.size() == 1 ? catalogue.fingerprint()
                                                            : catalogue.fingerprint(shard, end),
                         .bad = 0,
                         .findings = std::move(findings_[s])};
    for (; shard < end; ++shard) {
      const ShardRow& row = catalogue.shards().known(shard).row;
      source.bad += row.samples + row.bad;
    }
    source.bad -= source.size;
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace

std::string data_arguments(std::string_view data, const DatasetOptions& options) {
  std::string arguments = for_shell(data);
  const auto add = [&arguments](std::string_view flag, const std::string& value,
                                std::string_view standard = "") {
    if (value != standard) arguments += " " + std::string(flag) + " " + for_shell(value);
  };
  add("--model", options.model.string());
  add("--index-dir", options.index_dir.string());
  add("--ca-file", options.stores.ca_file);
  const ReadingOptions& reading = options.reading;
  add("--ignore-parts", reading.ignore_parts);
  add("--weight-key", reading.weight_key, ReadingOptions{}.weight_key);
  add("--media-root", reading.media_root);
  if (reading.number_keys) arguments += " --number-keys";
  add("--text", reading.text);
  add("--format", reading.format);
  add("--split", reading.split);
  if (options.limits.max_pixels != ProbeLimits{}.max_pixels) {
    arguments += " --max-decoded-pixels " + std::to_string(options.limits.max_pixels);
  }
  return arguments;
}

Result<SampleShape> Dataset::checked_shape(SampleId id) const {
  SampleShape found = shape(id);
  if (!found.parts.empty()) return found;
  ISOCOST_TRY(check_index(id));
  return Error(ErrorCode::kUnavailable, std::string(shard(id)) + ": its index cannot be opened");
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
