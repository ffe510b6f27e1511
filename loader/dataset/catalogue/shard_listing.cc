#include "loader/dataset/catalogue/shard_listing.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

#include "loader/dataset/catalogue/internal/absent_shards.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/stores/directory_listing.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

bool is_shown(std::string_view name) { return !name.starts_with('.'); }

// Returns why an entry that is not a shard holds samples that are not read; empty: it holds none.
std::string why_unread(const ListedFile& entry) {
  if (!entry.is_directory) return std::string(why_no_shard(entry.name));
  const fs::path shard = find_below(entry.path, is_shard_name);
  if (shard.empty()) return "";
  return fmt::format(
      "a directory that holds shards ({}), which are not read; move them, or make "
      "it a data set of its own",
      shard.filename().string());
}

Error no_shards(const fs::path& directory, const std::vector<std::string>& unread) {
  std::string instead = "'isocost make-shards' writes them";
  if (!unread.empty()) {
    instead = "there is " + unread.front();
    if (unread.size() > 1)
      instead += fmt::format("; and {} more that are not read", unread.size() - 1);
  }
  return {ErrorCode::kNotFound,
          fmt::format("{}: no shards ({}) in it; {}", directory.string(), kShardNames, instead)};
}

}  // namespace

Result<ShardListing> list_shards(const fs::path& directory,
                                 std::span<const fs::path> index_directories) {
  auto entries = list_directory(directory, is_shown);
  if (!entries && entries.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound, fmt::format("{}; give the one that holds the shards ({})",
                                                   entries.error().message(), kShardNames));
  }
  if (!entries) return std::move(entries).error();
  ShardListing listing;
  std::set<std::string> names;
  for (ListedFile& entry : *entries) {
    if (!is_shard_name(entry.name)) {
      const std::string reason = why_unread(entry);
      if (!reason.empty()) listing.unread.push_back(entry.name + ": " + reason);
      continue;
    }
    names.insert(entry.name);
    if (entry.problem.empty()) {
      listing.shards.push_back(std::move(entry.path));
    } else {
      listing.lost.push_back(
          {.name = entry.name,
           .lost = true,
           .reason = std::move(entry.problem),
           .samples_when_whole = samples_when_whole(index_directories, entry.name)});
    }
  }
  for (BrokenShard& absent : absent_shards(index_directories, names)) {
    listing.lost.push_back(std::move(absent));
  }
  if (listing.shards.empty() && listing.lost.empty()) return no_shards(directory, listing.unread);
  return listing;
}

}  // namespace isocost
