#include "loader/dataset/internal/select_shards.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "loader/dataset/catalogue/select_samples.h"
#include "loader/dataset/catalogue/shard.h"
#include "loader/dataset/index/index_beside.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/open_indexes.h"
#include "loader/dataset/index/record_shard.h"  // IWYU pragma: keep (the type of `records`)
#include "loader/dataset/tokens/shard_tokens.h"
#include "loader/dataset/tokens/token_file.h"

namespace isocost {
namespace {

// Says first that a shard is broken: its tokens were made of the whole one, and are refused.
Error of_shard(Error error, const ShardPlace& shard, const IndexView& view) {
  if (view.condition() == ShardCondition::kWhole) return error;
  const std::string broken = shard.name + ": " + std::string(view.problem());
  return std::move(error).with_context(broken);
}

// Opens the tokens of a shard; null if the shard's own text is used.
Result<std::shared_ptr<const TokenFile>> open_tokens_of(const ShardPlace& shard,
                                                        const ShardIndex& index,
                                                        const std::optional<WantedTokens>& tokens,
                                                        const DatasetOptions& options) {
  if (!tokens) return std::shared_ptr<const TokenFile>();
  if (index.kept()) {
    ISOCOST_TRY(
        copy_tokens_beside(shard, token_file_name(index.file()), options.log, options.stop));
  }
  auto opened = open_shard_tokens(shard.path(), index, tokens->tokenizer, tokens->remedy);
  if (!opened) return of_shard(std::move(opened).error(), shard, index.view());
  return opened;
}

// Selects the samples of a shard, and keeps what the start needs of it.
void select(Shard shard, const DatasetOptions& options, SelectedShards& all, std::size_t i) {
  Selection selection =
      select_samples(std::span(&shard, 1), {options.check_shape, options.truncate});
  all.selections[i] = std::move(selection.shards.front());
  all.bad[i] = std::move(selection.bad);
  all.rows[i] = row_of(shard, all.selections[i]);
  if (!shard.index().kept()) all.held[i] = std::make_shared<const Shard>(std::move(shard));
}

Result<SelectedShards> select_all(const ListedSource& source, const DatasetOptions& options,
                                  const std::optional<WantedTokens>& tokens,
                                  const TakeKnown& take_known) {
  const std::vector<ShardPlace>& places = source.listing.shards;
  SelectedShards selected;
  selected.resize(places.size());
  IndexUse use;
  if (take_known) use.is_known = [&](std::size_t i) { return take_known(i, selected); };
  use.take = [&](std::size_t i, std::unique_ptr<const ShardIndex> index) -> Status {
    ISOCOST_ASSIGN(auto tokens_of_shard, open_tokens_of(places[i], *index, tokens, options));
    select(Shard(places[i], std::move(index), std::move(tokens_of_shard), source.reading->name),
           options, selected, i);
    return {};
  };
  ISOCOST_TRY(for_each_index(places,
                             {.limits = options.limits,
                              .reading = source.reading->reading,
                              .workers = options.workers,
                              .progress = options.progress,
                              .log = options.log,
                              .stop = options.stop},
                             use));
  for (const ShardPlace& shard : places) {
    if (shard.records) shard.records->let_go();
  }
  return selected;
}

}  // namespace

Result<SelectedShards> select_shards(const ListedSource& source, const DatasetOptions& options,
                                     const std::optional<WantedTokens>& tokens,
                                     const TakeKnown& take_known) {
  auto selected = select_all(source, options, tokens, take_known);
  const std::string& name = source.reading->name;
  if (selected || name.empty()) return selected;
  return std::move(selected).error().with_context("source " + name);
}

}  // namespace isocost
