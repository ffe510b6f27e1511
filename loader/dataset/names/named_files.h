#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace isocost {

/// A part of an entry of a data text: a word of its braces, or all of it.
struct NamedPart {
  enum class Kind : std::uint8_t {
    kFile,       ///< A shard, which need not exist.
    kRecords,    ///< A file of records.
    kDirectory,  ///< All shards in a directory, and none below.
    kPattern,    ///< The files that a pattern matches.
  };
  Kind kind = Kind::kFile;
  std::string path;  ///< From the root of the entry, with '/'. Empty: the root itself.
  /// The files that a pattern matches, as paths from the root; of objects also those of a
  /// directory.
  std::vector<std::string> files;

  /// Returns what says whether a file of a name would be meant by the directory or the pattern if
  /// it existed. The part must outlive it.
  std::function<bool(std::string_view name)> meaning() const;
};

class StoredObjects;
class Stores;

/// The files that one entry of a data text names below one directory.
struct NamedFiles {
  std::string given;           ///< The entry, for messages: with its list and line, if it has one.
  std::filesystem::path root;  ///< The directory below which the files have their names.
  std::vector<NamedPart> parts;  ///< In the order of the entry.
  bool is_line = false;          ///< Whether it is a line of a list.
  /// The objects below the root, if that is an address; null: files on a disk.
  std::shared_ptr<StoredObjects> objects = nullptr;
};

/// Finds what a data text names. It takes an existing path literally, whatever characters it
/// contains, and so the first directories of a pattern. Otherwise "::" separates entries, braces
/// list and count (see expand_braces), and '*', '?', '[' and "**" match (see PathPattern). The root
/// of an entry is the directory before its first wildcard or brace, and that of a plain file the
/// file's directory. A text file has an entry on each line, relative to the file's directory; blank
/// lines and those that begin with '#' are none. An address ("s3://", "http://", "https://") names
/// objects of `stores`; null: addresses are refused. `base` is the directory to which the text is
/// relative. Blocks while it lists directories and buckets. Errors: kInvalidArgument (braces, a
/// list in a list, an address that is not read, a file that is neither a shard nor a list),
/// kNotFound (nothing of this name), kResourceExhausted (over a million files), kIo; those of
/// name_objects.
Result<std::vector<NamedFiles>> resolve_names(std::string_view text,
                                              const std::filesystem::path& base = {},
                                              Stores* stores = nullptr,
                                              const std::stop_token& stop = {});

/// Returns what lies where an entry was looked for, for messages: "in data/ there are a.tar, b.tar
/// and 8 more".
std::string what_lies_beside(const std::filesystem::path& directory);

}  // namespace isocost
