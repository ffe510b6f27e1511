#include "loader/dataset/names/internal/object_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
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
constexpr std::string_view kOtherAddress =
    "leave it out of the address, or store the objects under other names";

// Returns the length of the directories before the first wildcard or brace, with their last slash.
std::size_t literal_directories(std::string_view path) {
  const std::size_t wild = std::min(path.find_first_of(kWildInObjects), path.size());
  const std::size_t slash = path.substr(0, wild).rfind('/');
  return slash == std::string_view::npos ? 0 : slash + 1;
}

// Returns whether a path is a prefix of a bucket without its slash, as a directory may be named.
bool is_bare_prefix(const ObjectAddress& address) {
  const std::string_view path = address.path;
  return address.is_s3() && !path.empty() && !path.ends_with('/') && !has_shard_ending(path) &&
         path.find_first_of(kWildInObjects) == std::string_view::npos;
}

class ObjectNaming {
 public:
  ObjectNaming(NamedFiles& entry, const ObjectAddress& address, std::size_t most,
               const std::stop_token& stop)
      : entry_(entry),
        can_list_(address.is_s3()),
        has_query_(!address.query.empty()),
        most_(most),
        stop_(stop) {}

  // Refuses a path, which may end with a slash, where indexes could not lie.
  Status check_path(std::string_view path, std::string_view remedy = kOtherAddress) const;
  // Lists what several patterns and directories need, at once. To be called before `add`. Words
  // that may be a shard whose ending was forgotten are left to `add`, which refuses the first one.
  Status list(const std::vector<std::string>& words);
  Status add(const std::string& word);
  // Returns the error for a word that is neither a shard nor a prefix of shards.
  Error no_shard(std::string_view word) const;

 private:
  Error invalid(std::string_view problem) const {
    return {ErrorCode::kInvalidArgument,
            fmt::format("{}: {}", printable_path(entry_.given), problem)};
  }
  Status check_versions(std::string_view pattern) const;
  Result<std::string> name_of(const std::string& word) const;
  Status add_name(const std::string& name);
  Status add_prefix(const std::string& name);
  Result<const std::vector<ListedObject>*> listed(const ObjectListing& listing);
  Status add_listed(Kind kind, const std::string& word);

  NamedFiles& entry_;
  const bool can_list_;
  const bool has_query_;
  const std::size_t most_;
  const std::stop_token& stop_;
  std::size_t listed_ = 0;
  std::map<ObjectListing, std::vector<ListedObject>> listings_;
};

// Returns what is listed for a pattern, or for a directory.
ObjectListing listing_of(Kind kind, const std::string& word) {
  const std::size_t below = literal_directories(word);
  const bool is_recursive = kind == Kind::kPattern && word.find('/', below) != word.npos;
  return {.prefix = word.substr(0, below), .is_recursive = is_recursive};
}

Status ObjectNaming::list(const std::vector<std::string>& words) {
  std::set<ObjectListing> wanted;
  for (const std::string& word : words) {
    ISOCOST_TRY(check_path(word));
    if (has_wildcard(word)) {
      ISOCOST_TRY(check_versions(word));
      wanted.insert(listing_of(Kind::kPattern, word));
    } else if (word.empty() || word.ends_with('/')) {
      wanted.insert(listing_of(Kind::kDirectory, word));
    }
  }
  if (!can_list_ || wanted.size() < 2) return {};
  const std::vector<ObjectListing> listings(wanted.begin(), wanted.end());
  auto listed = list_at_once(*entry_.objects, listings, most_, stop_);
  if (!listed) return std::move(listed).error().with_context(printable_path(entry_.given));
  for (std::size_t i = 0; i < listings.size(); ++i)
    listings_[listings[i]] = std::move((*listed)[i]);
  return {};
}

Status ObjectNaming::check_path(std::string_view path, std::string_view remedy) const {
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string given(path.substr(begin, end - begin));
    // A part whose encoding is refused is none of these.
    const std::string part = name_of(given).value_or(given);
    if (part.empty() || part == "." || part == "..") {
      return invalid(
          fmt::format("'{}' is not read, since '{}' within a name is no folder of a disk, where "
                      "its index has to lie; {}",
                      printable_path(path), part.empty() ? "//" : part, remedy));
    }
    begin = end + 1;
  }
  return {};
}

// Refuses a pattern that begins as a shard and goes on as a query, which could match no shard.
Status ObjectNaming::check_versions(std::string_view pattern) const {
  const std::size_t mark = std::min(pattern.find('?'), pattern.size());
  const bool is_query = has_shard_ending(pattern.substr(0, mark)) &&
                        pattern.substr(mark).find('=') != std::string_view::npos;
  if (!is_query) return {};
  return invalid(
      fmt::format("'?' is a wildcard in names of s3://, and begins no query; leave '{}' out: "
                  "versions are not selected, and the newest one is read",
                  printable_path(pattern.substr(mark))));
}

// Returns the name of an object as its store has it. Addresses of HTTP encode it.
Result<std::string> ObjectNaming::name_of(const std::string& word) const {
  return can_list_ ? Result<std::string>(word) : decoded_path(word);
}

Status ObjectNaming::add(const std::string& word) {
  ISOCOST_TRY(check_path(word));
  // A wildcard that is encoded is a character of a name.
  if (has_wildcard(word)) {
    ISOCOST_TRY(check_versions(word));
    return add_listed(Kind::kPattern, word);
  }
  auto name = name_of(word);
  if (!name) return std::move(name).error().with_context(printable_path(entry_.given));
  return add_name(*name);
}

Status ObjectNaming::add_name(const std::string& name) {
  if (name.empty() || name.ends_with('/')) return add_listed(Kind::kDirectory, name);
  if (!has_shard_ending(name)) return add_prefix(name);
  entry_.parts.push_back({.kind = Kind::kFile, .path = name, .files = {}});
  return {};
}

// Adds what is no shard by its name: a prefix, as a directory is named without its slash.
Status ObjectNaming::add_prefix(const std::string& name) {
  if (!can_list_) return no_shard(name);
  ISOCOST_TRY(add_listed(Kind::kDirectory, name + "/"));
  return entry_.parts.back().files.empty() ? Status(no_shard(name)) : Status();
}

Error ObjectNaming::no_shard(std::string_view word) const {
  std::string remedy =
      can_list_ ? "nothing lies directly below it either; name a prefix that has shards, or those "
                  "farther below, as in s3://BUCKET/PREFIX/**/*.tar"
                : "name the shards, as in https://HOST/shards/{000..099}.tar, or copy other data "
                  "to a disk";
  if (has_query_) {
    remedy = "behind '?' begins the query (write '%3F' for a '?' in a name); " + remedy;
  }
  return invalid(fmt::format("'{}' is no shard ({}), and of servers only these are read; {}",
                             printable_path(word), kShardNames, remedy));
}

Result<const std::vector<ListedObject>*> ObjectNaming::listed(const ObjectListing& listing) {
  auto known = listings_.find(listing);
  if (known == listings_.end()) {
    ISOCOST_ASSIGN(auto objects, entry_.objects->list(listing.prefix, listing.is_recursive, stop_));
    known = listings_.emplace(listing, std::move(objects)).first;
  }
  return &known->second;
}

// Adds the shards directly below a prefix, or those that a pattern matches.
Status ObjectNaming::add_listed(Kind kind, const std::string& word) {
  if (!can_list_) {
    return invalid(
        "a server of HTTP does not list its objects; name them, as in "
        "https://HOST/shards/{000..099}.tar, or give a file with one address on each "
        "line");
  }
  const PathPattern pattern(word);
  ISOCOST_ASSIGN(const std::vector<ListedObject>* objects, listed(listing_of(kind, word)));
  NamedPart part{.kind = kind, .path = word, .files = {}};
  if (kind == Kind::kDirectory && !word.empty()) part.path.pop_back();
  for (const ListedObject& object : *objects) {
    const std::string_view last = std::string_view(object.key).substr(object.key.rfind('/') + 1);
    if (last.empty() || last.starts_with('.')) continue;
    if (kind == Kind::kPattern && !pattern.matches(object.key)) continue;
    if (is_shard_name(last)) {
      ISOCOST_TRY(check_path(object.key, "store the object under another name"));
    }
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
  const bool is_bare = is_bare_prefix(address);
  // Both ways to name it have one root, and so the same names.
  const std::string path = address.path + (is_bare ? "/" : "");
  const std::size_t behind = literal_directories(path);
  address.path = path.substr(0, behind);
  NamedFiles entry;
  entry.given = std::move(given);
  entry.root = address.name();
  ObjectNaming naming(entry, address, most, stop);
  ISOCOST_TRY(naming.check_path(address.path));
  const auto with_context = [&](Error error) {
    return std::move(error).with_context(printable_path(entry.given));
  };
  auto objects = stores.open(address);
  if (!objects) return with_context(std::move(objects).error());
  entry.objects = *std::move(objects);
  auto words = expand_braces(std::string_view(path).substr(behind), most);
  if (!words) return with_context(std::move(words).error());
  ISOCOST_TRY(naming.list(*words));
  for (const std::string& word : *words) ISOCOST_TRY(naming.add(word));
  if (is_bare && entry.parts.back().files.empty()) {
    return naming.no_shard(std::string_view(path).substr(0, path.size() - 1));
  }
  return entry;
}

}  // namespace isocost
