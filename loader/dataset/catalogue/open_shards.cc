#include "loader/dataset/catalogue/open_shards.h"

#include <utility>

#include "loader/dataset/catalogue/internal/reopened_shard.h"

namespace isocost {

OpenShards::OpenShards(std::vector<KnownShard> shards, LogSink log, std::size_t most_open)
    : shards_(std::move(shards)),
      log_(std::move(log)),
      most_open_(most_open),
      states_(shards_.size()) {
  names_.reserve(shards_.size());
  for (const KnownShard& shard : shards_) {
    names_.push_back(name_in_source(shard.source->name, shard.place.name));
  }
}

Result<std::shared_ptr<const Shard>> OpenShards::open(std::size_t shard) const {
  const KnownShard& known = shards_[shard];
  if (known.held) return known.held;
  CheckedFiles checked;
  {
    const MutexLock lock(mutex_);
    State& state = states_[shard];
    if (state.damage) return *state.damage;
    if (state.open) {
      used_.splice(used_.begin(), used_, state.used);
      return state.open;
    }
    checked = {state.checked_index, state.checked_tokens};
  }
  // Several threads may open one shard at once; the first one's stays.
  ISOCOST_ASSIGN(Opened opened, reopen_shard(known, checked, log_));
  return keep(shard, opened);
}

OpenShards::Opened OpenShards::keep(std::size_t shard, const Opened& opened) const {
  std::vector<std::pair<std::size_t, Opened>> closed;  // outside of the lock
  Opened kept;
  {
    const MutexLock lock(mutex_);
    State& state = states_[shard];
    if (!state.open) {
      state.open = opened;
      state.checked_index = opened->index().stamp();
      if (opened->tokens()) state.checked_tokens = opened->tokens()->stamp();
      used_.push_front(shard);
      state.used = used_.begin();
    }
    kept = state.open;
    while (used_.size() > most_open_) {
      const std::size_t last = used_.back();
      used_.pop_back();
      closed.emplace_back(last, std::move(states_[last].open));
      states_[last].open = nullptr;
    }
  }
  for (const auto& [number, unused] : closed) note_damage(*unused, number);
  return kept;
}

// Remembers that a file was cut, since values that came of it may be wrong. Whoever has them asks
// for the shard again.
void OpenShards::note_damage(const Shard& closed, std::size_t shard) const {
  const Status whole = closed.check_mapped_files();
  if (whole) return;
  const MutexLock lock(mutex_);
  states_[shard].damage = std::make_shared<const Error>(whole.error());
}

}  // namespace isocost
