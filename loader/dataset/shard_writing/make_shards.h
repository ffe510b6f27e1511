#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "base/result.h"
#include "base/units.h"
#include "decode/probe.h"
#include "loader/dataset/catalogue/bad_sample.h"
#include "loader/dataset/formats/sample_reading.h"

namespace isocost {

struct MakeShardsOptions {
  std::string name = "shard";             ///< Shards are NAME-000000.tar, NAME-000001.tar, ...
  std::int64_t samples_per_shard = 1000;  ///< Upper limit; >= 1.
  /// A shard ends before the sample that would exceed this, unless it is the shard's only sample.
  std::int64_t bytes_per_shard = kGiB;
  bool gzip = false;   ///< Whether to write .tar.gz: smaller, but a reader inflates it into a
                       ///< temporary file.
  bool force = false;  ///< Whether to replace existing shards of the same name.
  bool skip_bad =
      false;  ///< Whether to list bad samples and continue; otherwise the first is an error.
  /// Directory where the relative paths of a file of records start; empty: its own directory.
  std::filesystem::path media_root;
  /// Samples of a file of records are called 000000001, ... by line or array element, instead of by
  /// their id or key, which may then be repeated.
  bool number_keys = false;
  /// Whether each sample of a directory gets a JSON part {"class": "NAME"} with the name of the
  /// directory that its files lie in.
  bool class_from_directory = false;
  ReadingOptions
      reading;  ///< With them in mind JSON is checked; they leave out a directory's files.
  ProbeLimits limits;
  std::stop_token stop;
  ProgressSink progress;
  LogSink log;

  /// Checks the values. Errors: kInvalidArgument with field, value and what is allowed.
  Status validate() const;
};

/// A key, part or file that was written, or left out, and that no model sees.
struct Unread {
  std::string kind;         ///< "JSON key", "part" (written) or "file" (left out).
  std::string name;         ///< The key, or the extension.
  std::uint64_t count = 0;  ///< Number of samples, or of files.
};

struct MadeShards {
  std::uint64_t shards = 0;
  std::uint64_t samples = 0;
  std::uint64_t conversations = 0;  ///< Samples that are read with a model's directory alone.
  std::uint64_t bytes = 0;          ///< Bytes of the parts, without tar headers or compression.
  std::vector<BadSample> bad;  ///< `shard` is the file of records with the line, or the directory.
  std::vector<Unread> unread;  ///< Ordered by kind and name.
};

/// Checks what `make_shards` checks before it reads the source. Errors: kInvalidArgument for an
/// option; kAlreadyExists for shards in `output` without `force`; kIo.
Status check_output(const std::filesystem::path& output, const MakeShardsOptions& options);

/// Writes WebDataset shards into the directory `output`, which is made if missing. `source` is
///
/// - a file of JSON records, either lines or the elements of one array: a manifest of lines like
///   {"key": "a/b", "parts": [{"name": "jpg", "file": "x.jpg"}, {"name": "txt", "text": "..."},
///   {"name": "json", "json": {...}}]}, with parts in the order in which a model sees them;
///   conversations, as "conversations" or "messages"; questions with answers, which become
///   "messages"; or media with a caption. Files are relative to the file of records, or to
///   `media_root`. The file may be compressed by gzip or zstd; or
/// - a directory, whose files are grouped by their path up to the first dot of the base name, keys
///   and parts sorted; hidden files are left out.
///
/// A conversation becomes its media, named 000.jpg, 001.png in the order of the conversation, and a
/// JSON part with the record as it is, unless that holds the bytes of media, which become parts.
/// docs/make_shards.md has all forms.
///
/// Equal input gives equal bytes. Every part is probed as training would. On failure, the shards
/// and directories that this call made are removed. Blocks until it is done; one call at a time
/// per directory. Errors: kNotFound (no source), kAlreadyExists (shards in `output` without
/// `force`), kCorrupt and kUnsupported (a bad sample or record, named with its position),
/// kInvalidArgument, kCancelled, kIo.
Result<MadeShards> make_shards(const std::filesystem::path& source,
                               const std::filesystem::path& output,
                               const MakeShardsOptions& options);

}  // namespace isocost
