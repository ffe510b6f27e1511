#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/dataset/catalogue/broken_shard.h"
#include "loader/dataset/index/index_location.h"
#include "loader/dataset/names/named_files.h"

namespace isocost {

/// Returns how many samples a shard had when it was whole, by its index; 0: no index says.
std::uint64_t samples_when_whole(const ShardRoot& root, const std::string& shard);

/// The shards below a root that have an index and are gone. Single-thread.
class AbsentShards {
 public:
  /// `is_listed` says whether a shard of a name is among the data set's.
  AbsentShards(std::shared_ptr<const ShardRoot> root,
               std::function<bool(const std::string& name)> is_listed);

  /// Returns those that a part of an entry means and that are not listed, by name. Left out are
  /// those that never had a sample.
  std::vector<BrokenShard> meant_by(const NamedPart& part);

 private:
  using Indexes = std::map<std::string, std::vector<std::filesystem::path>>;  // by shard
  const Indexes& indexes();

  const std::shared_ptr<const ShardRoot> root_;
  const std::function<bool(const std::string& name)> is_listed_;
  std::optional<Indexes> indexes_;  // of shards that are not there; nothing: not looked for yet
};

}  // namespace isocost
