// The shards are read one by one: each is dropped from the document once it is taken, so that an
// index of 100,000 shards needs the memory of its result alone.

#include "loader/dataset/formats/mds_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/counted.h"
#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "loader/dataset/formats/internal/shown_begin.h"
#include "loader/dataset/formats/member_name.h"

namespace isocost {
namespace {

using nlohmann::json;

constexpr int kDepthOfShard = 2;  // {"shards": [{...}]}
constexpr int kMaxDepthOfIndex = 8;
constexpr std::size_t kMaxColumns = 1000;
constexpr std::size_t kMaxPath = 4096;
constexpr std::int64_t kMaxBytes = (std::int64_t{1} << 32) - 1;  // offsets have 32 bits
constexpr std::int64_t kMaxZipBytes = std::int64_t{1} << 40;

const json* member(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

Result<std::string> text_member(const json& object, const char* name) {
  const json* found = member(object, name);
  if (found == nullptr || !found->is_string()) {
    return corrupt(fmt::format("'{}' is no string", name));
  }
  return found->get<std::string>();
}

Result<std::int64_t> whole_member(const json& object, const char* name, std::int64_t most) {
  const json* found = member(object, name);
  // Numbers over 63 bits are unsigned ones, which are over every limit here.
  if (found == nullptr || !found->is_number_integer() || *found < 0 || *found > most) {
    return corrupt(fmt::format("'{}' is no integer from 0 to {}", name, most));
  }
  return found->get<std::int64_t>();
}

bool is_digest(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

Result<std::vector<StatedHash>> hashes_of(const json& file) {
  std::vector<StatedHash> hashes;
  const json* found = member(file, "hashes");
  if (found == nullptr || found->is_null()) return hashes;
  if (!found->is_object()) return corrupt("'hashes' is no object");
  for (const auto& [algorithm, digest] : found->items()) {
    const auto digits = hash_digits(algorithm);
    if (!digits) {
      return Error(
          ErrorCode::kUnsupported,
          fmt::format("the hash '{}' is not computed, so that it cannot be compared; write "
                      "the data set again with hashes among {}, or remove '{}' from the "
                      "'hashes' of index.json",
                      shown_begin(algorithm), kHashAlgorithms, shown_begin(algorithm)));
    }
    if (!digest.is_string() || !is_digest(digest.get_ref<const std::string&>(), *digits)) {
      return corrupt(
          fmt::format("the hash '{}' is no text of {} hexadecimal digits", algorithm, *digits));
    }
    hashes.push_back({algorithm, digest.get<std::string>()});
  }
  return hashes;
}

// Returns why a path is refused, which stands below the directory of the index. Empty: it is not.
std::string why_no_path(std::string_view path) {
  const bool printable = printable_utf8(path) == path;
  if (path.empty() || path.size() > kMaxPath || !printable) return "no printable text";
  if (path.front() == '/' || has_parent_component(path)) return "outside of the data set";
  return "";
}

Result<MdsFile> file_of(const json& shard, const char* name, std::int64_t most_bytes) {
  const json* found = member(shard, name);
  if (found == nullptr || !found->is_object()) return corrupt("it is no object");
  MdsFile file;
  ISOCOST_ASSIGN(file.path, text_member(*found, "basename"));
  if (const std::string reason = why_no_path(file.path); !reason.empty()) {
    return corrupt(fmt::format("the path '{}' is {}", shown_begin(file.path), reason));
  }
  ISOCOST_ASSIGN(file.bytes, whole_member(*found, "bytes", most_bytes));
  ISOCOST_ASSIGN(file.hashes, hashes_of(*found));
  return file;
}

Result<std::vector<std::string>> texts_member(const json& object, const char* name) {
  const json* found = member(object, name);
  if (found == nullptr || !found->is_array() || found->size() > kMaxColumns) {
    return corrupt(fmt::format("'{}' is no list of up to {}", name, counted(kMaxColumns, "text")));
  }
  std::vector<std::string> texts;
  for (const json& each : *found) {
    if (!each.is_string()) return corrupt(fmt::format("'{}' holds what is no string", name));
    texts.push_back(each.get<std::string>());
  }
  return texts;
}

Status compare_size(const MdsColumn& column, const json& stated) {
  const auto size = column.size();
  const bool same = size ? stated == *size : stated.is_null();
  if (same) return {};
  return corrupt(
      fmt::format("the column '{}' has values of {}, and 'column_sizes' says {}", column.name,
                  size ? counted(*size, "byte") : "any size",
                  shown_begin(stated.dump(-1, ' ', true, json::error_handler_t::replace))));
}

Result<std::vector<MdsColumn>> columns_of(const json& shard) {
  ISOCOST_ASSIGN(const auto names, texts_member(shard, "column_names"));
  ISOCOST_ASSIGN(const auto encodings, texts_member(shard, "column_encodings"));
  const json* sizes = member(shard, "column_sizes");
  if (names.size() != encodings.size() || sizes == nullptr || !sizes->is_array() ||
      sizes->size() != names.size()) {
    return corrupt("'column_names', 'column_encodings' and 'column_sizes' differ in length");
  }
  std::vector<MdsColumn> columns;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ISOCOST_ASSIGN(MdsColumn column, mds_column(names[i], encodings[i]));
    ISOCOST_TRY(compare_size(column, sizes->at(i)));
    if (!seen.insert(column.name).second) {
      return corrupt(fmt::format("the column '{}' is there twice", column.name));
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

Status check_format(const json& shard) {
  ISOCOST_ASSIGN(const std::int64_t version, whole_member(shard, "version", kMaxBytes));
  if (version != 2) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("version {} of MDS is not read; version 2 is", version));
  }
  ISOCOST_ASSIGN(const std::string format, text_member(shard, "format"));
  if (format == "mds") return {};
  return Error(ErrorCode::kUnsupported,
               fmt::format("the format '{}' of Mosaic Streaming is not read; write the data set "
                           "again with MDSWriter, or give its records as JSON lines",
                           shown_begin(format)));
}

class IndexReader {
 public:
  // Takes the values of the document as the parser ends them. Returns whether it keeps one.
  bool operator()(int depth, json::parse_event_t event, const json& value);
  Result<MdsIndex> take(const json& document) &&;

 private:
  Status add(const json& shard);
  Result<std::size_t> columns_in_index(const json& shard);

  MdsIndex index_;
  std::map<std::string, std::size_t> known_columns_;  // by the text of their description
  std::set<std::string> paths_;
  std::string key_;  // of the outer object
  bool at_shards_ = false;
  bool seen_shards_ = false;
  std::optional<Error> error_;
};

bool IndexReader::operator()(int depth, json::parse_event_t event, const json& value) {
  using Event = json::parse_event_t;
  if (error_) return false;
  if (depth > kMaxDepthOfIndex) {
    error_ = corrupt("nested too deeply");
    return false;
  }
  if (event == Event::key && depth == 1) {
    key_ = value.get_ref<const std::string&>();
    at_shards_ = key_ == "shards";
    if (at_shards_ && std::exchange(seen_shards_, true))
      error_ = corrupt("'shards' is there twice");
  }
  if (event != Event::object_end || depth != kDepthOfShard || !at_shards_) return true;
  if (auto added = add(value); !added) {
    error_ = std::move(added).error().with_context(
        fmt::format("shard {} of the index", index_.shards.size() + 1));
  }
  return false;
}

Result<std::size_t> IndexReader::columns_in_index(const json& shard) {
  std::string description;
  for (const char* name : {"column_names", "column_encodings", "column_sizes"}) {
    const json* found = member(shard, name);
    if (found == nullptr) return corrupt(fmt::format("'{}' is missing", name));
    description += found->dump(-1, ' ', true, json::error_handler_t::replace);
  }
  const auto known = known_columns_.find(description);
  if (known != known_columns_.end()) return known->second;
  ISOCOST_ASSIGN(std::vector<MdsColumn> columns, columns_of(shard));
  index_.columns.push_back(std::move(columns));
  known_columns_.emplace(std::move(description), index_.columns.size() - 1);
  return index_.columns.size() - 1;
}

Status IndexReader::add(const json& shard) {
  ISOCOST_TRY(check_format(shard));
  MdsShard taken;
  auto raw = file_of(shard, "raw_data", kMaxBytes);
  if (!raw) return std::move(raw).error().with_context("'raw_data'");
  taken.raw = *std::move(raw);
  if (const json* zip = member(shard, "zip_data"); zip != nullptr && !zip->is_null()) {
    auto file = file_of(shard, "zip_data", kMaxZipBytes);
    if (!file) return std::move(file).error().with_context("'zip_data'");
    taken.zip = *std::move(file);
    ISOCOST_ASSIGN(taken.compression, text_member(shard, "compression"));
    taken.compression.resize(std::min(taken.compression.find(':'), taken.compression.size()));
  }
  ISOCOST_ASSIGN(taken.samples, whole_member(shard, "samples", kMaxBytes));
  ISOCOST_ASSIGN(taken.columns, columns_in_index(shard));
  if (!paths_.insert(taken.raw.path).second) {
    return corrupt(fmt::format("the file '{}' is that of an earlier shard", taken.raw.path));
  }
  index_.shards.push_back(std::move(taken));
  return {};
}

Result<MdsIndex> IndexReader::take(const json& document) && {
  if (error_) return *std::move(error_);
  if (!document.is_object()) return corrupt("it is no JSON object");
  ISOCOST_ASSIGN(const std::int64_t version, whole_member(document, "version", kMaxBytes));
  if (version != 2) {
    return Error(ErrorCode::kUnsupported,
                 fmt::format("version {} of MDS is not read; version 2 is", version));
  }
  const json* shards = member(document, "shards");
  if (shards == nullptr || !shards->is_array() || !shards->empty()) {
    return corrupt("'shards' is no list of objects");
  }
  return std::move(index_);
}

}  // namespace

bool is_mds_compression(std::string_view compression) {
  return compression == "zstd" || compression == "gz";
}

Result<std::vector<MdsColumn>> parse_mds_columns(std::string_view text) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return corrupt("its description of columns is no JSON object");
  return columns_of(document);
}

Result<MdsIndex> parse_mds_index(std::string_view text) {
  IndexReader reader;
  json document;
  try {
    document = json::parse(text, [&reader](int depth, json::parse_event_t event, json& value) {
      return reader(depth, event, value);
    });
  } catch (const json::exception& error) {
    const std::string_view what = error.what();
    const std::size_t name = what.find("] ");  // the library's name of the error
    return corrupt(fmt::format("no JSON: {}", name == what.npos ? what : what.substr(name + 2)));
  }
  return std::move(reader).take(document);
}

}  // namespace isocost
