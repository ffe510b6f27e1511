#include "loader/dataset/catalogue/internal/absent_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/index/index_location.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

// Returns whether the shard of an index never had a sample, so that none is missing without it. An
// index that cannot be read, as one of another version, does not say.
bool never_had_a_sample(const fs::path& file) {
  const auto index = ShardIndex::map(file);
  if (!index) return false;
  const IndexView& view = (*index)->view();
  return view.samples_when_whole() == 0 && view.condition() == ShardCondition::kLost;
}

// Returns whether an entry would have a shard of this name if it existed.
bool is_meant(const NamedFiles& entry, const std::string& shard) {
  if (!is_shard_name(fs::path(shard).filename().string())) return false;
  return entry.is_directory ? shard.find('/') == std::string::npos : entry.means(shard);
}

}  // namespace

std::uint64_t samples_when_whole(const ShardRoot& root, const std::string& shard) {
  std::uint64_t samples = 0;
  for (const fs::path& directory : root.index_directories) {
    const auto index = ShardIndex::map(index_path(directory, shard));
    if (index) samples = std::max(samples, (*index)->view().samples_when_whole());
  }
  return samples;
}

std::vector<BrokenShard> absent_shards(
    const NamedFiles& entry, const ShardRoot& root,
    const std::function<bool(const std::string& name)>& is_listed) {
  std::map<std::string, std::string> indexes;  // of each shard, joined
  for (const fs::path& directory : root.index_directories) {
    std::error_code failed;  // there need not be any index yet
    fs::recursive_directory_iterator file(directory, failed);
    for (; !failed && file != fs::recursive_directory_iterator(); file.increment(failed)) {
      const std::string shard = shard_of_index(directory, file->path());
      if (!is_meant(entry, shard) || is_listed(shard)) continue;
      if (never_had_a_sample(file->path())) continue;
      std::string& files = indexes[shard];
      files += (files.empty() ? "" : " and ") + file->path().string();
    }
  }
  std::vector<BrokenShard> absent;
  absent.reserve(indexes.size());
  for (const auto& [name, files] : indexes) {
    absent.push_back({.name = name,
                      .lost = true,
                      .reason = fmt::format("it is absent, while its index is there; put it back, "
                                            "or delete {} if it was meant to go",
                                            files),
                      .samples_when_whole = samples_when_whole(root, name)});
  }
  return absent;
}

}  // namespace isocost
