#include "loader/dataset/names/internal/object_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "loader/dataset/formats/shard_name.h"
#include "loader/dataset/names/brace_expansion.h"
#include "loader/dataset/names/data_text.h"
#include "loader/dataset/names/internal/path_pattern.h"
#include "loader/dataset/stores/object_address.h"
#include "loader/dataset/stores/stored_objects.h"  // IWYU pragma: keep (the type of `objects`)

namespace isocost {
namespace {

using Kind = NamedPart::Kind;

constexpr std::string_view kWildInObjects = "*?[{";

// Returns the length of the directories before the first wildcard or brace, with their last slash.
std::size_t literal_directories(std::string_view path) {
  const std::size_t wild = std::min(path.find_first_of(kWildInObjects), path.size());
  const std::size_t slash = path.substr(0, wild).rfind('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

class ObjectNaming {
 public:
  ObjectNaming(NamedFiles& entry, bool can_list, std::size_t most, const std::stop_token& stop)
      : entry_(entry), can_list_(can_list), most_(most), stop_(stop) {}

  Status add(const std::string& word);

 private:
  Error invalid(std::string_view problem) const {
    return {ErrorCode::kInvalidArgument,
            fmt::format("{}: {}", printable_path(entry_.given), problem)};
  }
  Status check_name(std::string_view name) const;
  Status add_other(const std::string& word);
  Status add_listed(Kind kind, const std::string& word);

  NamedFiles& entry_;
  const bool can_list_;
  const std::size_t most_;
  const std::stop_token& stop_;
  std::size_t listed_ = 0;
};

// Refuses the name of an object that is no path below its root, as its index could not lie there.
Status ObjectNaming::check_name(std::string_view name) const {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return invalid(
          fmt::format("the object '{}' is not read, since '{}' within a name is no folder "
                      "of a disk, where its index has to lie; store it under another "
                      "name",
                      printable_path(name), part.empty() ? "//" : part));
    }
    begin = end + 1;
  }
  return {};
}

Status ObjectNaming::add(const std::string& word) {
  if (has_wildcard(word)) return add_listed(Kind::kPattern, word);
  if (word.empty() || word.ends_with('/')) return add_listed(Kind::kDirectory, word);
  const bool is_compressed = names_compressed_shard(word);
  if (is_compressed) {
    return invalid(
        fmt::format("{} is compressed, and ranges of it cannot be read; store it as a "
                    "plain .tar, or copy it to a disk",
                    printable_path(word)));
  }
  if (!has_shard_ending(word)) return add_other(word);
  ISOCOST_TRY(check_name(word));
  entry_.parts.push_back({.kind = Kind::kFile, .path = word, .files = {}});
  return {};
}

// Adds what is no shard by its name: a prefix, as a directory is named without its slash.
Status ObjectNaming::add_other(const std::string& word) {
  if (can_list_) {
    ISOCOST_TRY(add_listed(Kind::kDirectory, word + "/"));
    if (!entry_.parts.back().files.empty()) return {};
  }
  return invalid(fmt::format(
      "'{}' is no shard (*.tar), and of servers only these are read; {}", printable_path(word),
      can_list_ ? "nothing lies below it either; name a prefix that has shards"
                : "name the shards, as in https://HOST/shards/{000..099}.tar, or copy other data "
                  "to a disk"));
}

// Adds the shards directly below a prefix, or those that a pattern matches.
Status ObjectNaming::add_listed(Kind kind, const std::string& word) {
  if (!can_list_) {
    return invalid(
        "a server of HTTP does not list its objects; name them, as in "
        "https://HOST/shards/{000..099}.tar, or give a file with one address on each "
        "line");
  }
  const std::string below = word.substr(0, literal_directories(word));
  const PathPattern pattern(word);
  const bool recursive =
      kind == Kind::kPattern && std::string_view(word).substr(below.size()).find('/') != word.npos;
  ISOCOST_ASSIGN(const auto objects, entry_.objects->list(below, recursive, stop_));
  NamedPart part{.kind = kind, .path = word, .files = {}};
  if (kind == Kind::kDirectory && !word.empty()) part.path.pop_back();
  for (const ListedObject& object : objects) {
    const std::string_view last = std::string_view(object.key).substr(object.key.rfind('/') + 1);
    if (last.empty() || last.starts_with('.')) continue;
    if (kind == Kind::kPattern && !pattern.matches(object.key)) continue;
    if (is_shard_name(std::string(last))) ISOCOST_TRY(check_name(object.key));
    if (++listed_ > most_) {
      return Error(ErrorCode::kResourceExhausted, fmt::format("{}: over {} objects; name fewer",
                                                              printable_path(entry_.given), most_));
    }
    part.files.push_back(object.key);
  }
  std::ranges::sort(part.files);
  entry_.parts.push_back(std::move(part));
  return {};
}

}  // namespace

Result<NamedFiles> name_objects(std::string_view text, std::string given, std::size_t most,
                                Stores& stores, const std::stop_token& stop) {
  ISOCOST_ASSIGN(ObjectAddress address, ObjectAddress::parse(text));
  const std::string path = address.path;
  const std::size_t behind = literal_directories(path);
  address.path = path.substr(0, behind);
  NamedFiles entry;
  entry.given = std::move(given);
  entry.root = address.name();
  const auto with_context = [&](Error error) {
    return std::move(error).with_context(printable_path(entry.given));
  };
  auto objects = stores.open(address);
  if (!objects) return with_context(std::move(objects).error());
  entry.objects = *std::move(objects);
  auto words = expand_braces(std::string_view(path).substr(behind), most);
  if (!words) return with_context(std::move(words).error());
  ObjectNaming naming(entry, address.is_s3(), most, stop);
  for (std::string& word : *words) {
    if (!address.is_s3()) {
      auto decoded = decoded_path(word);
      if (!decoded) return with_context(std::move(decoded).error());
      word = *std::move(decoded);
    }
    ISOCOST_TRY(naming.add(word));
  }
  return entry;
}

}  // namespace isocost
