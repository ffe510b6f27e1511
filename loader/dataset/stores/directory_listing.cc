#include "loader/dataset/stores/directory_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace isocost {
namespace fs = std::filesystem;
namespace {

// Returns why an entry is no file to read; empty: it is one.
std::string why_no_file(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (entry.is_regular_file(ignored)) return "";
  if (entry.is_directory(ignored)) return "a directory; pack it, or give it another name";
  if (!entry.exists(ignored)) return "a broken link; repair or remove it";
  return "not a file; remove it, or give it another name";
}

}  // namespace

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
    files.push_back({entry->path(), std::move(name), why_no_file(*entry)});
  }
  if (failed) {
    return Error(ErrorCode::kIo,
                 fmt::format("{}: cannot be listed: {}", directory.string(), failed.message()));
  }
  std::ranges::sort(files, {}, &ListedFile::name);
  return files;
}

}  // namespace isocost
