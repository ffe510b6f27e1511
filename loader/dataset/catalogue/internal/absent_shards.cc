#include "loader/dataset/catalogue/internal/absent_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

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

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
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

AbsentShards::AbsentShards(std::shared_ptr<const ShardRoot> root,
                           std::function<bool(const std::string& name)> is_listed)
    : root_(std::move(root)), is_listed_(std::move(is_listed)) {}

// A shard that is there is not absent, even if a pattern does not reach it, as behind a link.
const AbsentShards::Indexes& AbsentShards::indexes() {
  if (indexes_) return *indexes_;
  indexes_.emplace();
  for (const fs::path& directory : root_->index_directories) {
    std::error_code failed;  // there need not be any index yet
    fs::recursive_directory_iterator file(directory, failed);
    for (; !failed && file != fs::recursive_directory_iterator(); file.increment(failed)) {
      const std::string shard = shard_of_index(directory, file->path());
      if (!is_shard_name(fs::path(shard).filename().string()) || is_listed_(shard)) continue;
      if (!is_there(root_->directory / shard)) (*indexes_)[shard].push_back(file->path());
    }
  }
  return *indexes_;
}

std::vector<BrokenShard> AbsentShards::meant_by(const NamedPart& part) {
  std::vector<BrokenShard> absent;
  const bool names_files =
      part.kind == NamedPart::Kind::kFile || part.kind == NamedPart::Kind::kRecords;
  if (names_files) return absent;
  const auto is_meant = part.meaning();
  for (const auto& [name, files] : indexes()) {
    if (!is_meant(name) || is_listed_(name)) continue;
    std::string named;
    for (const fs::path& file : files) {
      if (never_had_a_sample(file)) continue;
      named += (named.empty() ? "" : " and ") + file.string();
    }
    if (named.empty()) continue;
    absent.push_back({.name = name,
                      .lost = true,
                      .reason = fmt::format("it is absent, while its index is there; put it back, "
                                            "or delete {} if it was meant to go",
                                            named),
                      .samples_when_whole = samples_when_whole(*root_, name)});
  }
  return absent;
}

}  // namespace isocost
