#include "loader/dataset/formats/directory_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/utf8.h"
#include "decode/bytes/json_reader.h"
#include "loader/dataset/formats/shard_name.h"

namespace isocost {
namespace fs = std::filesystem;
namespace {

struct Row {
  std::string_view name;
  DirectoryFormat format;
};

constexpr std::array kDirectoryFormats = {
    Row{"webdataset", DirectoryFormat::kShards},
    Row{"mds", DirectoryFormat::kMds},
    Row{"energon", DirectoryFormat::kEnergon},
    Row{"records", DirectoryFormat::kRecords},
};

constexpr std::string_view kLitData =
    "a data set of LitData, whose chunks are not read; write its samples as JSON lines with media "
    "files, which are read as they lie (docs/records.md)";
constexpr std::string_view kTfRecord =
    "a data set in TFRecord files, which are not read; write its examples as JSON lines with media "
    "files, which are read as they lie (docs/records.md)";
constexpr std::string_view kLhotseShar =
    "a data set of Lhotse Shar, whose cuts are not read; export the recordings, as with "
    "'CutSet.save_audios', and write a JSON line with \"file_name\" and \"text\" for each, which "
    "are read as they lie (docs/records.md)";

// Takes the first name of an object's members, and ends.
class FirstName final : public JsonEvents {
 public:
  Status key(std::string& name) override {
    first = std::move(name);
    return Error(ErrorCode::kCancelled, "found");
  }
  std::string first;
};

// Returns the first name in the object that a file holds; empty: it holds none.
std::string first_name(const fs::path& file) {
  constexpr std::size_t kHead = 4096;
  std::array<char, kHead> head{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), head.size());
  FirstName found;
  static_cast<void>(
      read_json({head.data(), static_cast<std::size_t>(stream.gcount())}, found, 1).has_value());
  return found.first;
}

bool is_file(const fs::path& file) {
  std::error_code failed;
  return fs::is_regular_file(file, failed);
}

bool has_digits_alone(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// Returns whether a file is a field of Lhotse Shar: "cuts.000000.jsonl.gz".
bool is_cuts(std::string_view name) {
  constexpr std::string_view kBegin = "cuts.";
  if (!name.starts_with(kBegin)) return false;
  name.remove_prefix(kBegin.size());
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string_view ending = name.substr(dot);
  return has_digits_alone(name.substr(0, dot)) && (ending == ".jsonl.gz" || ending == ".jsonl");
}

// Returns whether a file has the ending of TFRecord, or of a piece of one: "a.tfrecord-00000-of-8".
bool is_tfrecord(std::string_view name) {
  const std::string lower = lower_ascii(name);
  const std::size_t ending = lower.find(".tfrecord");
  if (ending == std::string::npos) return false;
  const std::string_view rest = std::string_view(lower).substr(ending + 9);
  return rest.empty() || rest == "s" || rest.starts_with('-') || rest.starts_with(".gz") ||
         rest.starts_with("s-") || rest.starts_with("s.gz");
}

Error refused(const fs::path& directory, std::string_view what) {
  return {ErrorCode::kUnsupported,
          fmt::format("{} is {}", printable_utf8(directory.string()), what)};
}

// Decides by an index.json; nothing if it is none of a loader.
Result<std::optional<DirectoryFormat>> by_index(const fs::path& directory) {
  const std::string name = first_name(directory / "index.json");
  if (name == "shards" || name == "version") return std::optional(DirectoryFormat::kMds);
  if (name == "chunks" || name == "config") return refused(directory, kLitData);
  return std::optional<DirectoryFormat>();
}

}  // namespace

Result<DirectoryReading> DirectoryReading::create(const ReadingOptions& options) {
  DirectoryReading reading;
  reading.split = options.split;
  if (options.format.empty()) return reading;
  ISOCOST_ASSIGN(reading.format, directory_format_from_name(options.format));
  return reading;
}

Result<DirectoryFormat> directory_format_from_name(std::string_view name) {
  const auto* const found = std::ranges::find(kDirectoryFormats, name, &Row::name);
  if (found != kDirectoryFormats.end()) return found->format;
  std::string names;
  for (const Row& row : kDirectoryFormats)
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("format: '{}' is none of {}", printable_utf8(name), names));
}

bool is_mds_directory(const fs::path& directory) {
  if (!is_file(directory / "index.json")) return false;
  const auto found = by_index(directory);
  return found && *found == DirectoryFormat::kMds;
}

Result<DirectoryFormat> recognise_directory(const fs::path& directory,
                                            std::span<const std::string> names) {
  const fs::path meta = directory / ".nv-meta";
  if (is_file(meta / ".info.json") || is_file(meta / ".info.yaml"))
    return DirectoryFormat::kEnergon;
  if (is_file(directory / "index.json")) {
    ISOCOST_ASSIGN(const auto found, by_index(directory));
    if (found) return *found;
  }
  if (std::ranges::any_of(names, is_cuts)) return refused(directory, kLhotseShar);
  if (std::ranges::none_of(names, is_shard_name) && std::ranges::any_of(names, is_tfrecord)) {
    return refused(directory, kTfRecord);
  }
  return DirectoryFormat::kShards;
}

}  // namespace isocost
