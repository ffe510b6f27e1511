#include "loader/dataset/formats/shard_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/utf8.h"

namespace isocost {
namespace {

struct ShardEnding {
  std::string_view ending;
  bool compressed;
};

constexpr std::array kEndings = {
    ShardEnding{".tar", false},    ShardEnding{".tar.gz", true}, ShardEnding{".tgz", true},
    ShardEnding{".tar.zst", true}, ShardEnding{".tzst", true},
};

// Returns the entry of a name's ending; null if it is no shard's.
const ShardEnding* ending_of(std::string_view name) {
  const std::string lower = lower_ascii(name);
  const auto* const found = std::ranges::find_if(
      kEndings, [&](const ShardEnding& each) { return lower.ends_with(each.ending); });
  return found == kEndings.end() ? nullptr : found;
}

bool has_number_behind(std::string_view lower) {
  const std::size_t dot = lower.find_last_not_of("0123456789");
  return dot != std::string_view::npos && dot + 1 < lower.size() && lower[dot] == '.' &&
         ending_of(lower.substr(0, dot)) != nullptr;
}

}  // namespace

bool has_shard_ending(std::string_view name) { return ending_of(name) != nullptr; }

bool is_shard_name(std::string_view name) {
  return !name.starts_with('.') && has_shard_ending(name);
}

std::string_view why_no_shard(std::string_view name) {
  static constexpr std::array<std::string_view, 18> kOtherArchives = {
      ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tbz", ".tar.lz4", ".tar.lzma", ".tlz",  ".tar.lz",
      ".tar.br", ".taz", ".tar.z",   ".zip",  ".7z",  ".rar",     ".tar.sz",   ".cpio", ".tar.lzo"};
  static constexpr std::array<std::string_view, 7> kUnfinished = {
      ".part", ".partial", ".incomplete", ".crdownload", ".download", ".tmp", ".aria2"};
  const std::string lower = lower_ascii(name);
  const auto ends_in = [](std::string_view text) {
    return [text](std::string_view ending) { return text.ends_with(ending); };
  };
  if (std::ranges::any_of(kOtherArchives, ends_in(lower))) {
    return "an archive of a format that is not read; pack its files as a tar, as it is or "
           "compressed by gzip or zstd";
  }
  for (const std::string_view ending : kUnfinished) {
    if (lower.ends_with(ending) && ending_of(lower.substr(0, lower.size() - ending.size()))) {
      return "a shard whose download was not completed; fetch it again, or remove it";
    }
  }
  if (lower.ends_with(".tar.zstd")) {
    return "a shard with an ending that is not read; rename it to .tar.zst";
  }
  if (has_number_behind(lower)) {
    return "a shard with a number behind its ending, as of a second download or of a split "
           "archive; remove it, rename it, or join the pieces";
  }
  return "";
}

bool names_compressed_shard(std::string_view name) {
  const ShardEnding* ending = ending_of(name);
  return ending != nullptr && ending->compressed;
}

bool is_records_name(std::string_view name) {
  if (name.starts_with('.')) return false;
  return name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") || name.ends_with(".jsonl.zst");
}

}  // namespace isocost
