#include "loader/dataset/catalogue/shard_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/utf8.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/catalogue/internal/absent_shards.h"
#include "loader/dataset/formats/directory_format.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/names/named_files.h"
#include "loader/dataset/stores/directory_listing.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

using Roots = std::map<std::string, std::shared_ptr<const ShardRoot>>;

bool is_shown(std::string_view name) { return !name.starts_with('.'); }

// Returns why an entry of a directory that is not a shard holds samples that are not read; empty:
// it holds none.
std::string why_unread(const ListedFile& entry) {
  if (!entry.is_directory) return std::string(why_no_shard(entry.name));
  const fs::path shard = find_below(entry.path, is_shard_name);
  if (shard.empty()) return "";
  return fmt::format(
      "a directory that holds shards ({}), which are not read; name them too, as by the pattern "
      "'**/*.tar', or make it a data set of its own",
      shard.filename().string());
}

Error no_shards(const NamedFiles& entry, const std::vector<std::string>& unread) {
  const std::string named =
      entry.is_directory
          ? fmt::format("{}: no shards ({}) in it", entry.root.string(), kShardNames)
          : fmt::format("{}: no shard ({}) matches it", printable_utf8(entry.given), kShardNames);
  if (!unread.empty()) {
    return {ErrorCode::kNotFound,
            fmt::format("{}; there is {}{}", named, unread.front(),
                        unread.size() == 1
                            ? ""
                            : fmt::format("; and {} more that are not read", unread.size() - 1))};
  }
  return {ErrorCode::kNotFound, fmt::format("{}; {}", named,
                                            entry.is_directory ? "'isocost make-shards' writes them"
                                                               : what_lies_beside(entry.root))};
}

Error two_of_one_name(const NamedFiles& entry, const fs::path& one, const fs::path& other,
                      std::string_view name) {
  const std::string given = printable_utf8(entry.given);
  if (one == other) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("{}: {} is named twice; name it once", given, one.string())};
  }
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {} and {} would both be called {}; name them by one pattern, as in "
                      "data/{{a,b}}/*.tar, and they are called by their paths from there",
                      given, one.string(), other.string(), printable_utf8(name))};
}

// Returns whether a directory without shards may be one of samples: there is a file that is read,
// or a directory that may hold some.
bool holds_samples(const std::vector<ListedFile>& files) {
  return std::ranges::any_of(files, [](const ListedFile& file) {
    return file.is_directory || modality_from_name(file.name).has_value();
  });
}

// Returns how the shards of a directory of files are called.
std::string name_of_directory(const fs::path& directory) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(directory, ignored);
  return whole.filename().empty() ? "files" : whole.filename().string();
}

class Lister {
 public:
  Lister(const fs::path& index_dir, const RecordListingOptions& records)
      : index_dir_(index_dir), records_(records) {}

  // Adds the shards that an entry names. Returns their number.
  Result<std::size_t> add(const NamedFiles& entry);
  // Adds the shards that an entry means and that are absent, when all are added that are named.
  // Returns their number.
  std::size_t add_absent(const NamedFiles& entry);
  ShardListing& listing() { return listing_; }

 private:
  Status check_format(const fs::path& directory, const std::vector<ListedFile>& files);
  Result<std::size_t> add_directory(const NamedFiles& entry);
  Result<std::size_t> add_without_shards(const NamedFiles& entry,
                                         const std::vector<ListedFile>& files);
  Result<std::size_t> add_records(const NamedFiles& entry, const fs::path& path,
                                  const std::string& name);
  Status reserve_name(const NamedFiles& entry, const std::string& name,
                      const std::shared_ptr<const ShardRoot>& root);
  Status add_shard(const NamedFiles& entry, std::string name, std::string problem);
  std::shared_ptr<const ShardRoot> root_of(const NamedFiles& entry);

  const fs::path& index_dir_;
  const RecordListingOptions& records_;
  Roots roots_;  // by directory
  Roots named_;  // by the name of each shard
  ShardListing listing_;
};

std::shared_ptr<const ShardRoot> Lister::root_of(const NamedFiles& entry) {
  std::shared_ptr<const ShardRoot>& root = roots_[entry.root.string()];
  if (!root) root = shard_root(entry.root, index_dir_);
  return root;
}

Result<std::size_t> Lister::add(const NamedFiles& entry) {
  if (entry.is_directory) return add_directory(entry);
  if (entry.is_records) return add_records(entry, entry.root / entry.names[0], entry.names[0]);
  for (const std::string& name : entry.names) {
    if (is_records_name(fs::path(name).filename().string())) {
      ISOCOST_TRY(add_records(entry, entry.root / name, name));
      continue;
    }
    ISOCOST_TRY(add_shard(entry, name, why_no_file(entry.root / name)));
  }
  listing_.unread.insert(listing_.unread.end(), entry.unread.begin(), entry.unread.end());
  return entry.names.size();
}

// Refuses a directory of a format that is not read, and notes what is read in another way than its
// own loader reads it.
Status Lister::check_format(const fs::path& directory, const std::vector<ListedFile>& files) {
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const ListedFile& file : files) names.push_back(file.name);
  ISOCOST_ASSIGN(const DirectoryFormat format, recognise_directory(directory, names));
  if (format == DirectoryFormat::kMds) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("{} is a data set of Mosaic Streaming (MDS), which is not read; write "
                             "its samples as JSON lines with media files (docs/records.md)",
                             printable_utf8(directory.string())));
  }
  if (format == DirectoryFormat::kEnergon) {
    listing_.notes.push_back(fmt::format(
        "{}: it has a folder .nv-meta of Energon, and all its shards are read as they lie, "
        "whatever "
        "split they belong to; name those of one split, as in '{}/train-{{000..099}}.tar'",
        printable_utf8(directory.string()), printable_utf8(directory.string())));
  }
  return {};
}

Result<std::size_t> Lister::add_directory(const NamedFiles& entry) {
  ISOCOST_ASSIGN(std::vector<ListedFile> files, list_directory(entry.root, is_shown));
  ISOCOST_TRY(check_format(entry.root, files));
  const std::size_t unread_before = listing_.unread.size();
  std::size_t added = 0;
  for (ListedFile& file : files) {
    if (is_shard_name(file.name)) {
      ISOCOST_TRY(add_shard(entry, std::move(file.name), std::move(file.problem)));
      ++added;
    } else if (const std::string reason = why_unread(file); !reason.empty()) {
      listing_.unread.push_back(file.name + ": " + reason);
    }
  }
  // Files beside archives, or beside the indexes of shards that are gone, are no samples.
  const bool had_shards =
      added > 0 || listing_.unread.size() > unread_before ||
      !absent_shards(entry, *root_of(entry), [](const std::string&) { return false; }).empty();
  return had_shards ? added : add_without_shards(entry, files);
}

// Adds the records of a directory without shards: those of its *.jsonl files, or else its files.
Result<std::size_t> Lister::add_without_shards(const NamedFiles& entry,
                                               const std::vector<ListedFile>& files) {
  std::size_t added = 0;
  for (const ListedFile& file : files) {
    if (file.is_directory || !is_records_name(file.name)) continue;
    ISOCOST_ASSIGN(const std::size_t shards, add_records(entry, file.path, file.name));
    added += shards;
  }
  if (added > 0 || !holds_samples(files)) return added;
  auto shards = add_records(entry, entry.root, name_of_directory(entry.root));
  if (!shards && shards.error().code() == ErrorCode::kNotFound) return std::size_t{0};
  if (shards) {
    log(records_.input.log, LogLevel::kWarning,
        fmt::format("{}: no shards in it, so its files are read as samples", entry.root.string()));
  }
  return shards;
}

// Adds the shards of a file of records, or of a directory of files.
Result<std::size_t> Lister::add_records(const NamedFiles& entry, const fs::path& path,
                                        const std::string& name) {
  const std::shared_ptr<const ShardRoot> root = root_of(entry);
  RecordListingOptions options = records_;
  options.directories = root->index_directories;
  ISOCOST_ASSIGN(const auto shards, list_record_shards(path, name, options));
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::string shard = record_shard_name(name, i);
    ISOCOST_TRY(reserve_name(entry, shard, root));
    listing_.shards.push_back({root, std::move(shard), shards[i]});
  }
  return shards.size();
}

Status Lister::reserve_name(const NamedFiles& entry, const std::string& name,
                            const std::shared_ptr<const ShardRoot>& root) {
  const auto [other, is_new] = named_.emplace(name, root);
  if (is_new) return {};
  return two_of_one_name(entry, other->second->directory / name, root->directory / name, name);
}

Status Lister::add_shard(const NamedFiles& entry, std::string name, std::string problem) {
  std::shared_ptr<const ShardRoot> root = root_of(entry);
  ISOCOST_TRY(reserve_name(entry, name, root));
  if (problem.empty()) {
    listing_.shards.push_back({std::move(root), std::move(name)});
    return {};
  }
  const std::uint64_t samples = samples_when_whole(*root, name);
  listing_.lost.push_back({.name = std::move(name),
                           .lost = true,
                           .reason = std::move(problem),
                           .samples_when_whole = samples});
  return {};
}

std::size_t Lister::add_absent(const NamedFiles& entry) {
  if (!entry.is_directory && entry.patterns.empty()) return 0;
  const std::shared_ptr<const ShardRoot> root = root_of(entry);
  std::vector<BrokenShard> absent = absent_shards(
      entry, *root, [this](const std::string& name) { return named_.contains(name); });
  for (BrokenShard& shard : absent) {
    named_.emplace(shard.name, root);
    listing_.lost.push_back(std::move(shard));
  }
  return absent.size();
}

}  // namespace

Result<ShardListing> list_shards(std::string_view data, const fs::path& index_dir,
                                 const fs::path& base, const RecordListingOptions& records) {
  ISOCOST_ASSIGN(const std::vector<NamedFiles> entries, resolve_names(data, base));
  Lister lister(index_dir, records);
  std::vector<std::size_t> counts;
  for (const NamedFiles& entry : entries) {
    ISOCOST_ASSIGN(const std::size_t count, lister.add(entry));
    counts.push_back(count);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (counts[i] + lister.add_absent(entries[i]) > 0) continue;
    return no_shards(entries[i], lister.listing().unread);
  }
  return std::move(lister.listing());
}

}  // namespace isocost
