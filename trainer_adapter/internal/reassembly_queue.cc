#include "trainer_adapter/internal/reassembly_queue.h"

#include <algorithm>
#include <utility>

namespace isocost {

ReassemblyQueue::ReassemblyQueue(const ClientOptions& options, BufferPool& pool, HandOut& hand_out)
    : max_microbatch_bytes_(options.max_microbatch_bytes), pool_(pool), hand_out_(hand_out) {}

void ReassemblyQueue::restart() {
  pending_.clear();
  early_blocks_.clear();
}

Status ReassemblyQueue::add(MicrobatchHeader header) {
  if (is_received(header.position)) {
    hand_out_.return_credit();
    return {};
  }
  if (find(header.position) != nullptr) return {};
  if (count_assemblies() >= hand_out_.prefetch()) {
    return Error(ErrorCode::kCorrupt,
                 "the node announces more microbatches than it has credit for");
  }
  ISOCOST_ASSIGN(auto begun, Assembly::begin(std::move(header), pool_, max_microbatch_bytes_));
  auto& assembly = std::get<Assembly>(pending_.emplace_back(std::move(begun)));
  if (const auto early = early_blocks_.extract(assembly.position())) {
    ISOCOST_TRY(use_block(assembly, early.mapped()));
  }
  return hand_over_complete();  // complete at once if all of its tensors are empty
}

Status ReassemblyQueue::add(const FragmentHeader& header,
                            std::span<const std::span<const std::byte>> frames) {
  Assembly* assembly = find(header.position);
  if (assembly == nullptr) return {};
  ISOCOST_ASSIGN(const std::int64_t copied, assembly->add(header, frames));
  bytes_copied_ += copied;
  return hand_over_complete();
}

Status ReassemblyQueue::add(BlockReceiver::Delivered block) {
  if (Assembly* assembly = find(block.position)) {
    ISOCOST_TRY(use_block(*assembly, block));
    return hand_over_complete();
  }
  if (is_received(block.position)) return {};
  if (early_blocks_.size() >= hand_out_.prefetch()) {
    return Error(ErrorCode::kCorrupt, "the node delivers more microbatches than it has credit for");
  }
  early_blocks_.insert_or_assign(block.position, std::move(block));
  return {};
}

Status ReassemblyQueue::add(const EpochEnd& end) {
  // At most `prefetch` microbatches are pending, with few ends of epoch between them.
  if (pending_.size() > 2 * std::size_t{hand_out_.prefetch()}) {
    return Error(ErrorCode::kCorrupt, "the node announces too many ends of epochs");
  }
  pending_.emplace_back(end);
  return hand_over_complete();
}

bool ReassemblyQueue::is_received(const Position& position) const {
  return received_ && position <= *received_;
}

Assembly* ReassemblyQueue::find(const Position& position) {
  for (auto& pending : pending_) {
    auto* assembly = std::get_if<Assembly>(&pending);
    if (assembly != nullptr && assembly->position() == position) return assembly;
  }
  return nullptr;
}

std::uint32_t ReassemblyQueue::count_assemblies() const {
  return static_cast<std::uint32_t>(
      std::count_if(pending_.begin(), pending_.end(),
                    [](const auto& pending) { return std::holds_alternative<Assembly>(pending); }));
}

Status ReassemblyQueue::use_block(Assembly& assembly, const BlockReceiver::Delivered& block) {
  return assembly.use_block(block.bytes, count_bytes(block.bytes, block.owner), block.offsets,
                            pin_failures_.watch(block.pin));
}

// Returns an owner that keeps the block, and counts its bytes as long as it lives.
std::shared_ptr<const void> ReassemblyQueue::count_bytes(std::span<const std::byte> block,
                                                         std::shared_ptr<const void> owner) const {
  const auto bytes = static_cast<std::int64_t>(block.size());
  *block_bytes_in_use_ += bytes;
  return {block.data(),
          [owner = std::move(owner), counter = block_bytes_in_use_, bytes](const void*) mutable {
            owner = nullptr;
            *counter -= bytes;
          }};
}

Status ReassemblyQueue::hand_over_complete() {
  while (!pending_.empty()) {
    if (auto* assembly = std::get_if<Assembly>(&pending_.front())) {
      if (!assembly->complete()) return {};
      auto microbatch = assembly->finish();
      pending_.pop_front();
      if (!microbatch) return std::move(microbatch).error();
      hand_over(*std::move(microbatch));
    } else {
      hand_over(std::get<EpochEnd>(pending_.front()));
      pending_.pop_front();
    }
  }
  return {};
}

void ReassemblyQueue::hand_over(Microbatch microbatch) {
  const Position position = microbatch.header.position;
  if (hand_out_.add(std::move(microbatch))) received_ = position;
}

void ReassemblyQueue::hand_over(const EpochEnd& end) {
  if (last_epoch_end_ && end.epoch <= *last_epoch_end_) return;  // repeated after a reconnect
  if (hand_out_.add(end)) last_epoch_end_ = end.epoch;
}

}  // namespace isocost
