#include "transport/protocol/rank_holders.h"

namespace isocost {

std::optional<std::int32_t> RankHolders::heard(const std::string& address, Time now) {
  const auto rank = rank_of(address);
  if (rank) holders_[*rank].heard = now;
  return rank;
}

std::optional<std::int32_t> RankHolders::rank_of(const std::string& address) const {
  const auto found = ranks_.find(address);
  if (found == ranks_.end()) return std::nullopt;
  return found->second;
}

const std::string* RankHolders::address_of(std::int32_t rank) const {
  const auto found = holders_.find(rank);
  if (found == holders_.end() || found->second.address.empty()) return nullptr;
  return &found->second.address;
}

std::uint64_t RankHolders::session_of(std::int32_t rank) const {
  const auto found = holders_.find(rank);
  return found == holders_.end() ? 0 : found->second.session;
}

std::vector<std::pair<std::int32_t, std::string>> RankHolders::all() const {
  std::vector<std::pair<std::int32_t, std::string>> all;
  for (const auto& [rank, holder] : holders_) {
    if (!holder.address.empty()) all.emplace_back(rank, holder.address);
  }
  return all;
}

bool RankHolders::is_same_client(const Hello& hello) const {
  const auto found = holders_.find(hello.rank);
  return found != holders_.end() && found->second.id == hello.client_id;
}

bool RankHolders::is_held_by_another(const Hello& hello) const {
  return address_of(hello.rank) != nullptr && !is_same_client(hello);
}

std::optional<std::int32_t> RankHolders::held_by_another(const Hello& hello) const {
  for (const auto& [rank, holder] : holders_) {
    const bool itself = rank == hello.rank && holder.id == hello.client_id;
    if (!holder.address.empty() && !itself) return rank;
  }
  return std::nullopt;
}

bool RankHolders::challenge(std::int32_t rank, Time now) {
  Holder& holder = holders_[rank];
  if (!holder.challenged) holder.challenged = now;
  return holder.heard > *holder.challenged;
}

std::uint64_t RankHolders::join(const std::string& address, const Hello& hello, Time now) {
  Holder& holder = holders_[hello.rank];
  ranks_.erase(holder.address);
  ranks_[address] = hello.rank;
  holder = {address, hello.client_id, ++sessions_, now, {}};
  return holder.session;
}

void RankHolders::leave(std::int32_t rank) {
  Holder& holder = holders_[rank];
  ranks_.erase(holder.address);
  holder.address.clear();
}

bool RankHolders::is_silent(std::int32_t rank, Time now, std::chrono::nanoseconds timeout) const {
  const auto found = holders_.find(rank);
  return found != holders_.end() && now - found->second.heard > timeout;
}

}  // namespace isocost
