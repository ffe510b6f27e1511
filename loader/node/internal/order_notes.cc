#include "loader/node/internal/order_notes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/counted.h"
#include "loader/node/internal/blocks_of_sources.h"

namespace isocost {
namespace {

// Returns that a source is permuted whole; nothing if it has more than one window.
std::optional<std::string> note_of_window(const PlanOptions& options, const Dataset& dataset,
                                          const DatasetSource& source) {
  const std::size_t shards = usable_by_shard(dataset, source.first, source.size).size();
  if (shards > static_cast<std::uint64_t>(options.shuffle_shards)) return std::nullopt;
  return (source.name.empty() ? "" : "source '" + source.name + "': ") +
         "shuffle = blocks: a window has " + counted(options.shuffle_shards, "shard") +
         " (shuffle_shards), and there " + (shards == 1 ? "is " : "are ") +
         counted(shards, "shard") +
         " with samples: the samples of all are permuted, as shuffle = global does";
}

// Returns how many requests servers get, one for each sample; nothing without servers, or where a
// cache answers in their place.
std::optional<std::string> note_of_requests(const PlanOptions& options, const Dataset& dataset,
                                            const JobOrder& order) {
  const bool has_cache = dataset.cache_counts().has_value();
  const bool asks_for_pieces = has_cache && options.shuffle == ShufflePolicy::kBlocks;
  if (dataset.samples_on_servers() == 0 || asks_for_pieces) return std::nullopt;
  const auto name = kShufflePolicyNames.at(static_cast<std::size_t>(options.shuffle));
  const std::string shuffle = "shuffle = " + std::string(name) + ": ";
  const std::string remedy =
      ", one for each sample or more: --shuffle blocks with a cache asks "
      "for pieces of 16 MiB (docs/stores.md)";
  const std::string first = has_cache ? " that the cache has not" : "";
  if (order.mixture != nullptr && !order.mixture->mixture().by_size()) {
    return shuffle + "each step asks servers for every sample" + first +
           " that it draws from them" + remedy;
  }
  const std::uint64_t drawn =
      order.cursor.steps(0) * static_cast<std::uint64_t>(options.global_batch_size);
  const std::uint64_t requests = std::min(dataset.samples_on_servers(), drawn);
  return shuffle + (has_cache ? "the first epoch" : "each epoch") + " asks servers some " +
         std::to_string(requests) + " times" + remedy;
}

}  // namespace

std::vector<std::string> order_notes(const PlanOptions& options, const Dataset& dataset,
                                     const JobOrder& order) {
  std::vector<std::string> notes;
  if (options.shuffle == ShufflePolicy::kBlocks) {
    for (const DatasetSource& source : dataset.sources()) {
      if (auto note = note_of_window(options, dataset, source)) notes.push_back(*std::move(note));
    }
  }
  if (auto note = note_of_requests(options, dataset, order)) notes.push_back(*std::move(note));
  return notes;
}

}  // namespace isocost
