#include "loader/node/internal/batch_sequence.h"

namespace isocost {

Result<std::span<const SampleId>> BatchSequence::move_to(std::uint64_t epoch, std::uint64_t step) {
  const auto is_there = [&](const Batch& batch) {
    return batch.epoch == epoch && batch.step == step;
  };
  while (!batches_.empty() && !is_there(batches_.front())) batches_.pop_front();
  if (batches_.empty()) {
    ISOCOST_ASSIGN(std::vector<SampleId> ids, context_.compose(epoch, step));
    batches_.push_back({epoch, step, std::move(ids)});
  }
  return std::span<const SampleId>(batches_.front().ids);
}

std::optional<SampleId> BatchSequence::within(std::size_t steps, std::size_t index) {
  for (std::size_t i = 1; i <= steps; ++i) {
    if (i >= batches_.size() && !extend()) return std::nullopt;
    const std::vector<SampleId>& ids = batches_[i].ids;
    if (index < ids.size()) return ids[index];
    index -= ids.size();
  }
  return std::nullopt;
}

// Adds the batch after the last one. Returns false if there is none.
bool BatchSequence::extend() {
  if (batches_.empty()) return false;
  Batch next{batches_.back().epoch, batches_.back().step + 1, {}};
  if (next.step >= context_.steps(next.epoch)) next = {next.epoch + 1, 0, {}};
  if (context_.epochs > 0 && next.epoch >= context_.epochs) return false;
  auto ids = context_.compose(next.epoch, next.step);
  if (!ids) return false;  // sealing that step reports why
  next.ids = *std::move(ids);
  batches_.push_back(std::move(next));
  return true;
}

}  // namespace isocost
