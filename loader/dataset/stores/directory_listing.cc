#include "loader/dataset/stores/directory_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace isocost {
namespace fs = std::filesystem;
namespace {

std::string why_no_file(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (entry.is_regular_file(ignored)) return "";
  if (entry.is_directory(ignored)) return "a directory; pack it, or give it another name";
  if (entry.is_symlink(ignored) && !entry.exists(ignored)) {
    return "a broken link; repair or remove it";
  }
  if (!entry.exists(ignored)) return "it is absent; put it back, or take its name off the data";
  return "not a file; remove it, or give it another name";
}

}  // namespace

Result<std::string> why_no_file(const fs::path& path) {
  std::error_code failed;
  const fs::file_status status = fs::symlink_status(path, failed);
  if (status.type() == fs::file_type::none) {
    return Error(ErrorCode::kIo,
                 fmt::format("{}: cannot be looked at: {}", path.string(), failed.message()));
  }
  return why_no_file(fs::directory_entry(path, failed));
}

Result<std::vector<ListedFile>> list_directory(
    const fs::path& directory, const std::function<bool(std::string_view name)>& is_wanted) {
  std::error_code failed;
  if (!fs::is_directory(directory, failed)) {
    return Error(ErrorCode::kNotFound, directory.string() + ": no such directory");
  }
  std::vector<ListedFile> files;
  fs::directory_iterator entry(directory, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (!is_wanted(name)) continue;
    std::error_code ignored;
    const bool is_directory = entry->is_directory(ignored);
    files.push_back({entry->path(), std::move(name), is_directory, why_no_file(*entry)});
  }
  if (failed) {
    return Error(ErrorCode::kIo,
                 fmt::format("{}: cannot be listed: {}", directory.string(), failed.message()));
  }
  std::ranges::sort(files, {}, &ListedFile::name);
  return files;
}

fs::path find_below(const fs::path& directory,
                    const std::function<bool(std::string_view name)>& is_wanted) {
  // Enough for directories of shards; trees of loose pictures have millions of entries.
  constexpr int kMostEntries = 20'000;
  std::error_code failed;
  fs::recursive_directory_iterator entry(directory, fs::directory_options::skip_permission_denied,
                                         failed);
  for (int seen = 0; seen < kMostEntries; ++seen) {
    if (failed || entry == fs::recursive_directory_iterator()) return {};
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (is_wanted(name) && entry->is_regular_file(ignored)) {
      return entry->path();
    }
    entry.increment(failed);
  }
  return {};
}

}  // namespace isocost
