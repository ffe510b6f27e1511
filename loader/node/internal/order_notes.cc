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

// Returns how many requests servers get; nothing without servers.
std::optional<std::string> note_of_requests(const PlanOptions& options, const Dataset& dataset,
                                            const JobOrder& order) {
  if (dataset.samples_on_servers() == 0) return std::nullopt;
  const std::string remedy =
      ", one for each sample or more: --shuffle blocks with a cache asks fewer "
      "(docs/stores.md)";
  if (order.mixture != nullptr && !order.mixture->mixture().by_size()) {
    return "shuffle = global: each step asks servers for every sample that it draws from them" +
           remedy;
  }
  const std::uint64_t drawn =
      order.cursor.steps(0) * static_cast<std::uint64_t>(options.global_batch_size);
  const std::uint64_t requests = std::min(dataset.samples_on_servers(), drawn);
  return "shuffle = global: each epoch asks servers some " + std::to_string(requests) + " times" +
         remedy;
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
  if (options.shuffle == ShufflePolicy::kGlobal) {
    if (auto note = note_of_requests(options, dataset, order)) notes.push_back(*std::move(note));
  }
  return notes;
}

}  // namespace isocost
