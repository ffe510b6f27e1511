#include "loader/dataset/catalogue/shard_listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "base/log.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/catalogue/internal/absent_shards.h"
#include "loader/dataset/formats/directory_format.h"
#include "loader/dataset/formats/energon_data_set.h"
#include "loader/dataset/formats/mds_data_set.h"
#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/names/brace_expansion.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/names/named_files.h"
#include "loader/dataset/stores/directory_listing.h"
#include "loader/dataset/stores/stored_objects.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

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

// Says that a part of an entry has no shard, neither one that is there nor a lost one.
Error no_shards(const NamedFiles& entry, const NamedPart& part,
                const std::vector<std::string>& unread) {
  const bool is_directory = part.kind == NamedPart::Kind::kDirectory;
  const fs::path directory = entry.root / (is_directory ? part.path : "");
  std::string given = is_directory && part.path.empty() ? entry.root.string() : entry.given;
  if (!part.path.empty() && entry.parts.size() > 1) given += ": " + part.path;
  if (entry.objects) {
    given = entry.given;
    if (!part.path.empty() && entry.parts.size() > 1) given += ": " + part.path;
  }
  std::string text =
      fmt::format("{}: {} ({}) {}", printable_path(given), is_directory ? "no shards" : "no shard",
                  kShardNames, is_directory ? "in it" : "matches it");
  if (!unread.empty()) {
    text += "; there is " + unread.front();
    if (unread.size() > 1)
      text += fmt::format("; and {} more that are not read", unread.size() - 1);
    return {ErrorCode::kNotFound, std::move(text)};
  }
  if (entry.objects) return {ErrorCode::kNotFound, std::move(text)};
  text += is_directory ? "; 'isocost make-shards' writes them" : "; " + what_lies_beside(directory);
  const fs::path below = find_below(directory, is_shard_name);
  if (!is_directory && below.has_parent_path() &&
      below.parent_path().lexically_normal() != (directory / "").lexically_normal().parent_path()) {
    text += fmt::format("; shards lie below it: '{}' names them",
                        printable_path((directory / "**/*.tar").string()));
  }
  return {ErrorCode::kNotFound, std::move(text)};
}

// Says that two paths are one shard, or would have one name.
Error named_before(const NamedFiles& entry, const fs::path& before, const fs::path& path,
                   std::string_view name) {
  const std::string given = printable_path(entry.given);
  std::error_code ignored;
  if (before == path || fs::equivalent(before, path, ignored)) {
    return {ErrorCode::kInvalidArgument, fmt::format("{}: {} is named twice; name it once", given,
                                                     printable_path(path.string()))};
  }
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {} and {} would both be called {}; name them by one pattern, in quotes "
                      "so that a shell leaves it, as in 'data/{{a,b}}/*.tar': they are then called "
                      "by their paths from there",
                      given, printable_path(before.string()), printable_path(path.string()),
                      printable_path(name))};
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
  Lister(const fs::path& index_dir, const RecordListingOptions& records,
         const DirectoryReading& directories)
      : index_dir_(index_dir), records_(records), directories_(directories) {}

  // Asks for the objects of all entries. To be called first.
  Status ask_for_objects(const std::vector<NamedFiles>& entries);
  // Adds the shards that an entry names.
  Status add(const NamedFiles& entry);
  // Adds the shards that entries mean and that are absent, when all are added that are named.
  // Errors: kNotFound for a directory or pattern that has none of either.
  Status add_absent(const std::vector<NamedFiles>& entries);
  ShardListing& listing() { return listing_; }

 private:
  struct Root {
    std::shared_ptr<const ShardRoot> root;
    fs::path canonical;
  };

  Result<DirectoryFormat> format_of(const fs::path& directory,
                                    const std::vector<ListedFile>& files);
  Status add_directory(const NamedFiles& entry, const NamedPart& part);
  Status add_files(const NamedFiles& entry, const NamedPart& part);
  std::vector<std::string> named_objects(const NamedPart& part);
  Status check_settings_of_objects(const NamedFiles& entry) const;
  Status add_objects(const NamedFiles& entry);
  Status add_without_shards(const NamedFiles& entry, const fs::path& directory,
                            const std::vector<ListedFile>& files, const std::string& below);
  Status add_records(const NamedFiles& entry, const fs::path& path, const std::string& name);
  Status reserve_name(const NamedFiles& entry, const std::string& name);
  Status add_mds(const NamedFiles& entry, const fs::path& directory, const std::string& below);
  Status add_energon(const NamedFiles& entry, const fs::path& directory, const std::string& below);
  Status add_tars(const NamedFiles& entry, const NamedPart& part, const fs::path& directory,
                  std::vector<ListedFile>& files);
  Status check_split(const fs::path& directory, const std::vector<ListedFile>& files) const;
  Status check_file(const fs::path& file, bool is_records) const;
  Status add_shard(const NamedFiles& entry, ShardPlace shard, std::string problem);
  Status check_path(const NamedFiles& entry, const std::string& name);
  const Root& root_of(const NamedFiles& entry);

  const fs::path& index_dir_;
  const RecordListingOptions& records_;
  const DirectoryReading& directories_;
  std::map<std::pair<std::string, const StoredObjects*>, Root> roots_;  // by directory
  std::map<std::string, std::shared_ptr<const ShardRoot>> named_;       // by the shard's name
  std::map<std::string, fs::path> paths_;                               // by canonical path
  std::vector<std::size_t> counts_;                                     // of each part, in order
  std::set<const NamedPart*> stated_;  // parts whose data set states its shards
  // Objects of entries, whether they are there, and counts of parts.
  std::map<const NamedFiles*, std::vector<std::pair<std::string, bool>>> objects_;
  std::map<const NamedPart*, std::size_t> object_counts_;
  ShardListing listing_;
};

const Lister::Root& Lister::root_of(const NamedFiles& entry) {
  // Addresses that differ in a query have one name, and are asked apart.
  Root& root = roots_[{entry.root.string(), entry.objects.get()}];
  if (root.root) return root;
  std::error_code ignored;
  root.root = shard_root(entry.root, index_dir_, entry.objects);
  root.canonical = entry.objects ? entry.root : fs::weakly_canonical(entry.root, ignored);
  return root;
}

Status Lister::add(const NamedFiles& entry) {
  if (entry.objects) return add_objects(entry);
  for (const NamedPart& part : entry.parts) {
    const std::size_t before = named_.size();
    ISOCOST_TRY(part.kind == NamedPart::Kind::kDirectory ? add_directory(entry, part)
                                                         : add_files(entry, part));
    counts_.push_back(named_.size() - before);
  }
  return {};
}

// Returns the shards that a part names on a server, and notes what is not read beside them.
std::vector<std::string> Lister::named_objects(const NamedPart& part) {
  if (part.kind == NamedPart::Kind::kFile) return {part.path};
  std::vector<std::string> shards;
  for (const std::string& file : part.files) {
    const std::string last = fs::path(file).filename().string();
    if (is_shard_name(last)) {
      shards.push_back(file);
    } else if (const std::string_view reason = why_no_shard(last); !reason.empty()) {
      listing_.unread.push_back(fmt::format("{}: {}", file, reason));
    }
  }
  return shards;
}

// Refuses settings that say how a directory on a disk is read.
Status Lister::check_settings_of_objects(const NamedFiles& entry) const {
  const bool has_split = !directories_.split.empty();
  const bool has_format =
      directories_.format.value_or(DirectoryFormat::kShards) != DirectoryFormat::kShards;
  if (!has_split && !has_format) return {};
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{}: {}: of servers only shards are read; leave it out, or copy the "
                           "data to a disk",
                           printable_path(entry.given), has_split ? "split" : "format"));
}

// Asks for all objects of the entries, many at once.
Status Lister::ask_for_objects(const std::vector<NamedFiles>& entries) {
  std::vector<ObjectName> names;
  std::vector<std::size_t> ends;  // of the names of each entry
  for (const NamedFiles& entry : entries) {
    if (entry.objects) ISOCOST_TRY(check_settings_of_objects(entry));
    for (const NamedPart& part : entry.parts) {
      if (!entry.objects) break;
      const std::size_t before = names.size() + listing_.unread.size();
      for (std::string& name : named_objects(part)) {
        names.push_back({entry.objects, std::move(name)});
      }
      object_counts_[&part] = names.size() + listing_.unread.size() - before;
    }
    ends.push_back(names.size());
  }
  std::atomic<std::uint64_t> asked = 0;
  const auto tell = [&] {
    const std::uint64_t done = ++asked;
    if (records_.progress) records_.progress(done, names.size(), "objects asked for");
  };
  ISOCOST_ASSIGN(const std::vector<bool> are_there, ask_for_stamps(names, tell, records_.stop));
  for (std::size_t at = 0, i = 0; i < entries.size(); ++i) {
    for (; at < ends[i]; ++at) {
      objects_[&entries[i]].emplace_back(std::move(names[at].key), are_there[at]);
    }
  }
  return {};
}

// Adds the objects of an entry, which were asked for.
Status Lister::add_objects(const NamedFiles& entry) {
  for (const NamedPart& part : entry.parts) counts_.push_back(object_counts_[&part]);
  for (const auto& [name, is_there] : objects_[&entry]) {
    std::string problem;
    if (!is_there) {
      problem = fmt::format("{} is absent; put it back, or take its name off the data",
                            printable_path((entry.root / name).string()));
    }
    ISOCOST_TRY(add_shard(entry, {.root = nullptr, .name = name}, std::move(problem)));
  }
  return {};
}

Status Lister::add_files(const NamedFiles& entry, const NamedPart& part) {
  if (part.kind == NamedPart::Kind::kFile) {
    ISOCOST_TRY(check_file(entry.root / part.path, false));
    ISOCOST_ASSIGN(std::string problem, why_no_file(entry.root / part.path));
    if (!problem.empty() && entry.is_line) problem += " (" + printable_path(entry.given) + ")";
    return add_shard(entry, {.root = nullptr, .name = part.path}, std::move(problem));
  }
  if (part.kind == NamedPart::Kind::kRecords) {
    ISOCOST_TRY(check_file(entry.root / part.path, true));
    return add_records(entry, entry.root / part.path, part.path);
  }
  for (const std::string& file : part.files) {
    const std::string last = fs::path(file).filename().string();
    if (is_records_name(last)) {
      ISOCOST_TRY(check_file(entry.root / file, true));
      ISOCOST_TRY(add_records(entry, entry.root / file, file));
    } else if (is_shard_name(last)) {
      ISOCOST_TRY(check_file(entry.root / file, false));
      ISOCOST_ASSIGN(std::string problem, why_no_file(entry.root / file));
      ISOCOST_TRY(add_shard(entry, {.root = nullptr, .name = file}, std::move(problem)));
    } else if (const std::string_view reason = why_no_shard(last); !reason.empty()) {
      listing_.unread.push_back(fmt::format("{}: {}", file, reason));
    }
  }
  return {};
}

// Refuses a format and a split of directories where a file is named.
Status Lister::check_file(const fs::path& file, bool is_records) const {
  const auto wrong = [&](std::string_view setting, std::string_view remedy) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: it says how a directory is read, and {} is a file; {}", setting,
                             printable_path(file.string()), remedy));
  };
  if (!directories_.split.empty()) return wrong("split", "name the directory, or leave it out");
  const DirectoryFormat own = is_records ? DirectoryFormat::kRecords : DirectoryFormat::kShards;
  if (directories_.format.value_or(own) == own) return {};
  return wrong("format", "name the directory, or leave it out");
}

// Returns the format of a directory, by the setting or by its files.
Result<DirectoryFormat> Lister::format_of(const fs::path& directory,
                                          const std::vector<ListedFile>& files) {
  if (directories_.format) return *directories_.format;
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const ListedFile& file : files) names.push_back(file.name);
  return recognise_directory(directory, names);
}

// Refuses a split of a directory that has none, and names the splits that there are.
Status Lister::check_split(const fs::path& directory, const std::vector<ListedFile>& files) const {
  std::string splits;
  for (const ListedFile& file : files) {
    std::error_code ignored;
    if (!file.is_directory || !is_mds_directory(directory / file.name)) continue;
    splits += (splits.empty() ? "" : ", ") + printable_path(file.name);
  }
  const std::string where = printable_path(directory.string());
  if (!splits.empty()) {
    const std::string given =
        directories_.split.empty()
            ? "it has no index.json, and its data are"
            : fmt::format("the split '{}' is not among its", printable_path(directories_.split));
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: {} splits of Mosaic Streaming: {}; name one by split, as in "
                             "--split {}",
                             where, given, splits, splits.substr(0, splits.find(','))));
  }
  if (directories_.split.empty()) return {};
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{}: it has no splits, and split names '{}'; leave it out, or name the "
                           "shards of the split by a pattern",
                           where, printable_path(directories_.split)));
}

// Adds the shards that an index.json of Mosaic Streaming names.
Status Lister::add_mds(const NamedFiles& entry, const fs::path& directory,
                       const std::string& below) {
  ISOCOST_ASSIGN(auto shards, open_mds_data_set(directory));
  if (shards.empty()) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("{}: the data set of Mosaic Streaming is empty, as its index names no "
                             "shard; write it again, or leave it out",
                             printable_path((directory / "index.json").string())));
  }
  for (auto& shard : shards) {
    ISOCOST_ASSIGN(std::string problem, why_no_file(directory / shard->name));
    ISOCOST_TRY(add_shard(entry, {.root = nullptr, .name = below + shard->name, .mds = shard},
                          std::move(problem)));
  }
  return {};
}

// Adds the shards of a split of Energon.
Status Lister::add_energon(const NamedFiles& entry, const fs::path& directory,
                           const std::string& below) {
  constexpr std::size_t kMostWords = 1'000'000;
  const std::string_view split =
      directories_.split.empty() ? kUsualSplit : std::string_view(directories_.split);
  ISOCOST_ASSIGN(EnergonDataSet data,
                 open_energon_data_set(directory, split, [](std::string_view pattern) {
                   return expand_braces(pattern, kMostWords);
                 }));
  const std::string where = printable_path(directory.string());
  if (!directories_.format) {
    listing_.notes.push_back(fmt::format(
        "{}: its folder .nv-meta makes it a data set of Energon: of {}, the {} of the split '{}' "
        "are read, as its dataset.yaml says; format = \"webdataset\" reads all as they lie, and "
        "format = \"energon\" ends this warning",
        where, counted(data.all_shards, "shard"), data.shards.size(), printable_path(split)));
  }
  for (const std::string& nothing : data.excludes_nothing) {
    listing_.notes.push_back(
        fmt::format("{}: 'exclude' of its split names {}, which is no shard of it", where,
                    printable_path(nothing)));
  }
  if (!data.without_effect.empty()) {
    std::string keys;
    for (const std::string& key : data.without_effect)
      keys += (keys.empty() ? "" : ", ") + printable_path(key);
    log(records_.input.log, LogLevel::kInfo,
        fmt::format("{}: these settings of its dataset.yaml have no effect: {}", where, keys));
  }
  for (EnergonShard& shard : data.shards) {
    ISOCOST_ASSIGN(std::string problem, why_no_file(directory / shard.name));
    ISOCOST_TRY(add_shard(
        entry, {.root = nullptr, .name = below + shard.name, .tar = std::move(shard.choice)},
        std::move(problem)));
  }
  return {};
}

Status Lister::add_directory(const NamedFiles& entry, const NamedPart& part) {
  const fs::path directory = part.path.empty() ? entry.root : entry.root / part.path;
  ISOCOST_ASSIGN(std::vector<ListedFile> files, list_directory(directory, is_shown));
  ISOCOST_ASSIGN(const DirectoryFormat format, format_of(directory, files));
  const std::string below = part.path.empty() ? "" : part.path + "/";
  const std::string& split = directories_.split;
  if (format == DirectoryFormat::kEnergon) {
    stated_.insert(&part);
    return add_energon(entry, directory, below);
  }
  const bool is_name = fs::path(split).filename() == split && split != "." && split != "..";
  const bool has_splits = format == DirectoryFormat::kShards || format == DirectoryFormat::kMds;
  if (!split.empty() && is_name && has_splits && is_mds_directory(directory / split))
    return add_mds(entry, directory / split, below + split + "/");
  if (!split.empty()) return check_split(directory, files);
  if (format == DirectoryFormat::kMds) {
    if (!is_mds_directory(directory)) ISOCOST_TRY(check_split(directory, files));
    return add_mds(entry, directory, below);
  }
  if (format == DirectoryFormat::kRecords) {
    return add_without_shards(entry, directory, files, below);
  }
  return add_tars(entry, part, directory, files);
}

// Adds the shards in a directory, or its files if there is no shard.
Status Lister::add_tars(const NamedFiles& entry, const NamedPart& part, const fs::path& directory,
                        std::vector<ListedFile>& files) {
  const std::string below = part.path.empty() ? "" : part.path + "/";
  const std::size_t before = named_.size() + listing_.unread.size();
  for (ListedFile& file : files) {
    const std::string path = below + file.name;
    if (is_shard_name(file.name)) {
      ISOCOST_TRY(add_shard(entry, {.root = nullptr, .name = path}, std::move(file.problem)));
    } else if (const std::string reason = why_unread(file); !reason.empty()) {
      listing_.unread.push_back(fmt::format("{}: {}", path, reason));
    }
  }
  // Files beside archives, or beside the indexes of shards that are gone, are no samples.
  AbsentShards absent(root_of(entry).root, [](const std::string&) { return false; });
  const bool had_shards =
      named_.size() + listing_.unread.size() > before || !absent.meant_by(part).empty();
  if (had_shards || directories_.format) return {};
  ISOCOST_TRY(check_split(directory, files));
  return add_without_shards(entry, directory, files, below);
}

// Adds the records of a directory without shards: those of its files of records, or else its files.
Status Lister::add_without_shards(const NamedFiles& entry, const fs::path& directory,
                                  const std::vector<ListedFile>& files, const std::string& below) {
  const std::size_t before = named_.size();
  for (const ListedFile& file : files) {
    if (file.is_directory || !is_records_name(file.name)) continue;
    ISOCOST_TRY(add_records(entry, file.path, below + file.name));
  }
  if (named_.size() > before || !holds_samples(files)) return {};
  const Status added = add_records(entry, directory, below + name_of_directory(directory));
  if (!added) return added.error().code() == ErrorCode::kNotFound ? Status() : added;
  log(records_.input.log, LogLevel::kWarning,
      fmt::format("{}: no shards in it, so its files are read as samples",
                  printable_path(directory.string())));
  return {};
}

// Adds the shards of a file of records, or of a directory of files.
Status Lister::add_records(const NamedFiles& entry, const fs::path& path, const std::string& name) {
  const std::shared_ptr<const ShardRoot> root = root_of(entry).root;
  RecordListingOptions options = records_;
  options.directories = root->index_directories;
  ISOCOST_ASSIGN(const auto shards, list_record_shards(path, name, options));
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::string shard = record_shard_name(name, i);
    ISOCOST_TRY(reserve_name(entry, shard));
    listing_.shards.push_back({root, std::move(shard), shards[i]});
  }
  return {};
}

Status Lister::reserve_name(const NamedFiles& entry, const std::string& name) {
  const std::shared_ptr<const ShardRoot>& root = root_of(entry).root;
  const auto [other, is_new] = named_.emplace(name, root);
  if (is_new) return {};
  return named_before(entry, other->second->directory / name, root->directory / name, name);
}

// Refuses a file that was named before by another way to it.
Status Lister::check_path(const NamedFiles& entry, const std::string& name) {
  const fs::path path = entry.root / name;
  const auto [before, is_new] =
      paths_.emplace((root_of(entry).canonical / name).lexically_normal().string(), path);
  return is_new ? Status() : Status(named_before(entry, before->second, path, name));
}

// Adds a shard below the root of an entry.
Status Lister::add_shard(const NamedFiles& entry, ShardPlace shard, std::string problem) {
  shard.root = root_of(entry).root;
  ISOCOST_TRY(reserve_name(entry, shard.name));
  ISOCOST_TRY(check_path(entry, shard.name));
  if (problem.empty()) {
    listing_.shards.push_back(std::move(shard));
    return {};
  }
  const std::uint64_t samples = samples_when_whole(*shard.root, shard.name);
  listing_.lost.push_back({.name = std::move(shard.name),
                           .lost = true,
                           .reason = std::move(problem),
                           .samples_when_whole = samples});
  return {};
}

Status Lister::add_absent(const std::vector<NamedFiles>& entries) {
  const auto is_listed = [this](const std::string& name) { return named_.contains(name); };
  std::map<std::string, AbsentShards> absent;  // by directory
  std::size_t number = 0;
  for (const NamedFiles& entry : entries) {
    const std::shared_ptr<const ShardRoot> root = root_of(entry).root;
    AbsentShards& of_root = absent.try_emplace(entry.root.string(), root, is_listed).first->second;
    for (const NamedPart& part : entry.parts) {
      std::vector<BrokenShard> gone;
      if (!stated_.contains(&part)) gone = of_root.meant_by(part);
      if (counts_[number++] + gone.size() == 0) return no_shards(entry, part, listing_.unread);
      for (BrokenShard& shard : gone) {
        named_.emplace(shard.name, root);
        listing_.lost.push_back(std::move(shard));
      }
    }
  }
  return {};
}

}  // namespace

Result<ShardListing> list_shards(std::string_view data, const fs::path& index_dir,
                                 const fs::path& base, const RecordListingOptions& records,
                                 const DirectoryReading& directories, Stores* stores) {
  ISOCOST_ASSIGN(const std::vector<NamedFiles> entries,
                 resolve_names(data, base, stores, records.stop));
  Lister lister(index_dir, records, directories);
  ISOCOST_TRY(lister.ask_for_objects(entries));
  for (const NamedFiles& entry : entries) ISOCOST_TRY(lister.add(entry));
  ISOCOST_TRY(lister.add_absent(entries));
  return std::move(lister.listing());
}

}  // namespace isocost
