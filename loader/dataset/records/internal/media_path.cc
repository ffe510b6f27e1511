#include "loader/dataset/records/internal/media_path.h"

#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/utf8.h"
#include "loader/dataset/records/internal/json_records.h"
#include "loader/dataset/records/internal/percents.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPath = 4096;
constexpr std::string_view kFileUrl = "file:";
constexpr std::string_view kOtherForm = "another Unicode form";
constexpr std::string_view kWindows =
    " is a path of Windows: name files relative to one directory, and give that directory as "
    "--media-root";

// Returns whether the name begins with "scheme://".
bool is_url(std::string_view name) {
  const std::size_t end = name.find("://");
  if (end == std::string_view::npos || end == 0) return false;
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
  });
}

// Returns whether a path begins with a drive letter or the name of a host, as in Windows.
bool is_of_windows(std::string_view path) {
  if (path.starts_with("\\\\")) return true;
  return path.size() >= 3 && std::isalpha(static_cast<unsigned char>(path[0])) != 0 &&
         path[1] == ':' && (path[2] == '\\' || path[2] == '/');
}

std::optional<std::string_view> refuse_path(std::string_view name) {
  if (name.empty()) return " names no file";
  if (name.size() > kMaxPath) return ": longer than a path can be, and no base64 of a medium";
  const bool control = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (control) return ": control character in the path";
  return std::nullopt;
}

bool leaves(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.is_relative() && *normal.begin() == "..";
}

// Returns the text in Unicode's composed or decomposed form; the text itself if it is no UTF-8.
std::string normalised(const std::string& text, bool composed) {
  if (!is_utf8(text)) return text;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.c_str());
  struct Free {
    void operator()(utf8proc_uint8_t* found) const { std::free(found); }
  };
  const std::unique_ptr<utf8proc_uint8_t, Free> found(composed ? utf8proc_NFC(bytes)
                                                               : utf8proc_NFD(bytes));
  return found == nullptr ? text : std::string(reinterpret_cast<const char*>(found.get()));
}

// Adds each path below `directory` that exists and has the components in any of their forms.
// NOLINTNEXTLINE(misc-no-recursion): a path has 4096 bytes at most, and only what exists is
// followed.
void walk(const fs::path& directory, fs::path::iterator at, const fs::path::iterator& end,
          std::set<fs::path>& found) {
  constexpr std::size_t kMost = 8;
  if (found.size() >= kMost) return;
  if (at == end) {
    std::error_code ignored;
    if (fs::is_regular_file(directory, ignored)) found.insert(directory);
    return;
  }
  const std::string name = at->string();
  ++at;
  for (const std::string& form : std::set{name, normalised(name, true), normalised(name, false)}) {
    const fs::path next = directory / form;
    std::error_code ignored;
    if (fs::exists(next, ignored)) walk(next, at, end, found);
  }
}

// A spelling of a path to try, and what is different from how it is written.
struct Spelling {
  std::string path;
  std::string change;
};

std::vector<Spelling> spellings_of(std::string_view written) {
  std::vector<Spelling> spellings = {{std::string(written), ""}};
  const auto add = [&](std::string path, std::string change) {
    const bool is_new =
        std::ranges::none_of(spellings, [&](const Spelling& other) { return other.path == path; });
    if (is_new) spellings.push_back({std::move(path), std::move(change)});
  };
  std::string slashes(written);
  std::ranges::replace(slashes, '\\', '/');
  add(slashes, "Windows separators");
  const std::string decoded = decode_percents(written);
  add(decoded, "escapes of URLs");
  std::string both = decoded;
  std::ranges::replace(both, '\\', '/');
  add(both, "Windows separators and escapes of URLs");
  return spellings;
}

// Returns the path of a file:// URL: after the host, which may be "localhost". A URL without three
// slashes is written for relative paths.
std::string_view path_of_url(std::string_view url) {
  url.remove_prefix(kFileUrl.size());
  if (!url.starts_with("//")) return url;
  url.remove_prefix(2);
  constexpr std::string_view kLocal = "localhost/";
  if (starts_with_ignoring_case(url, kLocal)) url.remove_prefix(kLocal.size() - 1);
  // "/C:/a.jpg" has the slash of the URL before its drive.
  if (url.starts_with('/') && is_of_windows(url.substr(1))) url.remove_prefix(1);
  return url;
}

}  // namespace

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kMost = 80;
  const bool cut = name.size() > kMost;
  if (cut) {
    name = name.substr(0, kMost);
    while (!name.empty() && !is_utf8(name)) name.remove_suffix(1);
  }
  return "'" + printable_utf8(name) + (cut ? "...'" : "'");
}

bool MediaPaths::is_file(std::string_view name) const {
  if (!looks_) return false;
  std::error_code ignored;
  const bool can_be = !refuse_path(name) && (may_leave_ || !leaves(name));
  return can_be && fs::is_regular_file(root_ / fs::path(name).lexically_normal(), ignored);
}

Result<fs::path> MediaPaths::find(std::string_view name) {
  if (!looks_) return fs::path(name);
  const bool is_file_url = starts_with_ignoring_case(name, kFileUrl) && !is_file(name);
  const std::string_view written = is_file_url ? path_of_url(name) : name;
  if (is_file(written)) return root_ / fs::path(written).lexically_normal();
  if (is_of_windows(written)) return corrupt_record(quoted_name(name).append(kWindows));
  if (is_url(written)) {
    return corrupt_record(quoted_name(name) + " is a URL: download it first and name the file");
  }
  if (const auto why = refuse_path(written)) return corrupt_record(quoted_name(name).append(*why));
  const Search search = search_all(written);
  if (search.found.empty()) return corrupt_record(quoted_name(name) + why_none(written, search));
  const auto& [file, change] = *search.found.begin();
  if (search.found.size() > 1) {
    return corrupt_record(quoted_name(name) + " may be several files, such as " +
                          quoted_name(file.string()) + " and " +
                          quoted_name(std::next(search.found.begin())->first.string()) +
                          ": name one of them as it is written");
  }
  changed_[change] += 1;
  return file;
}

// Looks for the files that a path may mean.
MediaPaths::Search MediaPaths::search_all(std::string_view written) const {
  Search search;
  for (const auto& [spelling, change] : spellings_of(written)) {
    const fs::path path = fs::path(spelling).lexically_normal();
    // A relative path stays one, whatever its escapes are.
    const bool is_moved = path.is_absolute() && !fs::path(written).is_absolute();
    if (is_moved || (!may_leave_ && leaves(path))) {
      search.leaves = true;
      continue;
    }
    if (refuse_path(spelling)) continue;
    if (!change.empty()) search.tried.push_back(quoted_name(spelling));
    const fs::path start = path.is_absolute() ? path.root_path() : root_;
    const fs::path below = path.relative_path();
    std::set<fs::path> files;
    walk(start, below.begin(), below.end(), files);
    for (const fs::path& file : files) {
      std::string what = change;
      if (file != start / below) what += (what.empty() ? "" : " and ") + std::string(kOtherForm);
      search.found.emplace(file, std::move(what));
    }
  }
  return search;
}

// Returns why no file was found, as a predicate, with what was tried.
std::string MediaPaths::why_none(std::string_view written, const Search& search) const {
  if (search.leaves) {
    return " leaves the directory that paths start at (--media-root sets another)";
  }
  std::vector<std::string> tried = search.tried;
  const bool is_ascii =
      std::ranges::all_of(written, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (!is_ascii) tried.emplace_back("its composed and decomposed Unicode forms");
  std::string why = ": there is no such file";
  if (!fs::path(written).is_absolute()) {
    why += " in " + quoted_name(root_.empty() ? "." : root_.string());
  }
  for (std::size_t i = 0; i < tried.size(); ++i)
    why += (i == 0 ? "; tried too: " : ", ") + tried[i];
  return why;
}

}  // namespace isocost
