#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "decode/shape/media_formats.h"
#include "loader/dataset/catalogue/shard_row.h"

namespace isocost {

/// A remark on parts of a data set: their format, or that no model sees them.
struct Remark {
  /// "format" of media whose extension names another one; "part" and "JSON key" that no model sees;
  /// "ignored part", which ignore_parts leaves out.
  std::string kind;
  std::string name;         ///< The extension, the name of the JSON part, or the key.
  std::string detail;       ///< The format; or what keeps a model from seeing it; or nothing.
  std::uint64_t count = 0;  ///< Number of parts, or of samples with the key.
  std::uint64_t of = 0;     ///< Formats: number of media with the extension. Otherwise 0.
};

/// Adds up the remarks of shards, ordered by kind, name and detail. If
/// there are more than 1,000 distinct ones, the rest counts under the name "others".
std::vector<Remark> remarks_of(std::span<const ShardRow> shards);

/// Returns a format among the shards' media that needs_worker; nothing if none does.
std::optional<MediaFormat> format_that_needs_worker(std::span<const ShardRow> shards);

/// Returns a sentence on all parts and JSON keys that no model sees; empty: there are none.
std::string describe_unread(std::span<const Remark> remarks);

/// Logs what no model sees as a warning, and what else there is as information. `data` is named.
void log_remarks(std::span<const Remark> remarks, std::string_view data, const LogSink& sink);

}  // namespace isocost
