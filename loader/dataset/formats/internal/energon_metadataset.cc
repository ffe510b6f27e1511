#include "loader/dataset/formats/internal/energon_metadataset.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "decode/bytes/media_bytes.h"
#include "loader/dataset/formats/internal/shown_begin.h"

namespace isocost {
namespace {

using Kind = MetaValue::Kind;

// How a split names its data sets, and what their share is called.
struct Blend {
  const char* list;
  const char* share;
  const char* setting;  // of a mixture
};

constexpr std::array kBlends = {
    Blend{"blend", "weight", "proportion"}, Blend{"blend_epochized", "repetitions", "epochs"},
    Blend{"datasets", "weight", "proportion"},  // of the first version
};

// Returns a basic string of TOML; JSON's escapes are among its escapes.
std::string toml_text(std::string_view text) { return nlohmann::json(text).dump(); }

// Returns a name for the source of a path: its last component, unlike those before it.
std::string source_name(std::string_view path, std::set<std::string>& taken) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view last = path.substr(path.rfind('/') + 1);
  std::string name;
  for (const char c : last) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    name += plain ? c : '_';
  }
  if (name.empty()) name = "source";
  std::string unlike = name;
  for (int i = 2; !taken.insert(unlike).second; ++i) unlike = fmt::format("{}_{}", name, i);
  return unlike;
}

// Returns comments on what a reference says that a source cannot say.
std::string todos(const MetaValue& reference, std::string_view path) {
  std::string text;
  if (path.ends_with(".yaml")) {
    text +=
        "# TODO: this path is a metadataset itself. Put its sources here, their proportions times "
        "this one.\n";
  }
  if (reference.find("subset") != nullptr) {
    text += "# TODO: it had a subset, which a source has not. Make a data set of those samples.\n";
  }
  if (reference.find("aux") != nullptr) {
    text += "# TODO: it had auxiliary data sets, which code of the trainer reads.\n";
  }
  for (const char* config : {"dataset_config", "split_config"}) {
    const MetaValue* found = reference.find(config);
    if (found == nullptr || found->is(Kind::kNull)) continue;
    text += fmt::format("# TODO: its {} was {}; the usual file is read.\n", config,
                        shown_begin(found->scalar()));
  }
  return text;
}

Result<std::string> share_of(const MetaValue& reference, const Blend& blend) {
  const MetaValue* share = reference.find(blend.share);
  if (share == nullptr) return std::string("1");
  if (share->is(Kind::kNumber) && !share->scalar().starts_with('-')) return share->scalar();
  return corrupt(fmt::format("'{}' is no number of 0 or more", blend.share));
}

Result<std::string> source(const MetaValue& reference, const Blend* blend, std::string_view split,
                           std::set<std::string>& names) {
  if (reference.find("join") != nullptr) {
    return Error(ErrorCode::kUnsupported,
                 "joined data sets are not read, since code puts their samples together; write the "
                 "joined samples into shards (isocost make-shards)");
  }
  const MetaValue* path = reference.find("path");
  if (path == nullptr || !path->is(Kind::kText)) return corrupt("a data set has no 'path'");
  const MetaValue* part = reference.find("split_part");
  const std::string_view own_split =
      part != nullptr && part->is(Kind::kText) ? std::string_view(part->scalar()) : split;
  std::string text = "\n" + todos(reference, path->scalar()) + "[[source]]\n";
  text += fmt::format("name = {}\npath = {}\nsplit = {}\n",
                      toml_text(source_name(path->scalar(), names)), toml_text(path->scalar()),
                      toml_text(own_split));
  if (blend == nullptr) return text;
  ISOCOST_ASSIGN(const std::string share, share_of(reference, *blend));
  return text + fmt::format("{} = {}\n", blend->setting, share);
}

Result<const MetaValue*> split_of(const MetaValue& document, std::string_view split) {
  const MetaValue* splits = document.find("splits");
  if (splits == nullptr || !splits->is(Kind::kMap)) return corrupt("'splits' is no map");
  if (const MetaValue* found = splits->find(split)) return found;
  std::string there;
  for (const auto& [name, value] : splits->members()) {
    there += (there.empty() ? "" : ", ") + printable_utf8(name);
  }
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("the split '{}' is not among those of the metadataset: {}",
                           shown_begin(split), there));
}

}  // namespace

bool is_energon_metadataset(const MetaValue& document) {
  const MetaValue* name = document.find("__class__");
  return document.find("splits") != nullptr &&
         (name == nullptr || name->scalar().starts_with("Metadataset"));
}

Result<std::string> mixture_of_metadataset(const MetaValue& document, std::string_view split) {
  ISOCOST_ASSIGN(const MetaValue* found, split_of(document, split));
  std::string text =
      "# mixture.toml, beside the metadataset: its paths are relative to this file\n";
  std::set<std::string> names;
  for (const Blend& blend : kBlends) {
    const MetaValue* list = found->find(blend.list);
    if (list == nullptr) continue;
    if (!list->is(Kind::kList) || list->items().empty()) {
      return corrupt(fmt::format("'{}' is no list of data sets", blend.list));
    }
    if (found->find("subset") != nullptr) {
      text += "# TODO: the split had a subset, which a mixture has not.\n";
    }
    for (const MetaValue& reference : list->items()) {
      ISOCOST_ASSIGN(const std::string next, source(reference, &blend, split, names));
      text += next;
    }
    return text;
  }
  ISOCOST_ASSIGN(const std::string only, source(*found, nullptr, split, names));
  return text + only;
}

}  // namespace isocost
