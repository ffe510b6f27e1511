#include "transport/protocol/internal/reassembly_order.h"

#include <algorithm>

namespace isocost {

void ReassemblyOrder::restart() {
  pending_.clear();
  early_blocks_.clear();
}

Status ReassemblyOrder::announce(const Position& position, RankActions& actions) {
  if (find(position) != nullptr) return {};
  if (count_announced() >= prefetch_) {
    return Error(ErrorCode::kCorrupt,
                 "the node announces more microbatches than it has credit for");
  }
  pending_.emplace_back(Announced{position});
  actions.emplace_back(BeginAssembly{position, early_blocks_.erase(position) > 0});
  return {};
}

Status ReassemblyOrder::announce(const EpochEnd& end) {
  // At most `prefetch` microbatches are pending, with few ends of epoch between them.
  if (pending_.size() > 2 * std::size_t{prefetch_}) {
    return Error(ErrorCode::kCorrupt, "the node announces too many ends of epochs");
  }
  pending_.emplace_back(end);
  return {};
}

Result<BlockUse> ReassemblyOrder::place_block(const Position& position) {
  if (const Announced* announced = find(position)) {
    return announced->assembled ? BlockUse::kRelease : BlockUse::kAssemble;
  }
  if (is_received(position)) return BlockUse::kRelease;
  if (early_blocks_.size() >= prefetch_) {
    return Error(ErrorCode::kCorrupt, "the node delivers more microbatches than it has credit for");
  }
  early_blocks_.insert(position);
  return BlockUse::kKeep;
}

void ReassemblyOrder::complete(const Position& position, const Status& assembled) {
  if (Announced* announced = find(position)) announced->assembled = assembled;
}

Status ReassemblyOrder::hand_over(std::uint32_t& handed, RankActions& actions) {
  while (!pending_.empty()) {
    if (const auto* announced = std::get_if<Announced>(&pending_.front())) {
      if (!announced->assembled) return {};
      if (!*announced->assembled) return *announced->assembled;
      received_ = announced->position;
      actions.emplace_back(HandOver{announced->position});
      handed += 1;
    } else if (const auto& end = std::get<EpochEnd>(pending_.front());
               !last_epoch_end_ ||
               end.epoch > *last_epoch_end_) {  // else repeated after a reconnect
      last_epoch_end_ = end.epoch;
      last_epoch_ended_ = end.last_epoch;
      actions.emplace_back(HandOver{end});
    }
    pending_.pop_front();
  }
  return {};
}

bool ReassemblyOrder::is_received(const Position& position) const {
  return received_ && position <= *received_;
}

ReassemblyOrder::Announced* ReassemblyOrder::find(const Position& position) {
  for (auto& pending : pending_) {
    auto* announced = std::get_if<Announced>(&pending);
    if (announced != nullptr && announced->position == position) return announced;
  }
  return nullptr;
}

std::size_t ReassemblyOrder::count_announced() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      pending_, [](const auto& pending) { return std::holds_alternative<Announced>(pending); }));
}

}  // namespace isocost
