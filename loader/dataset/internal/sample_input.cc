#include "loader/dataset/internal/sample_input.h"

#include <cstddef>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/counted.h"
#include "base/utf8.h"
#include "loader/dataset/internal/member_name.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Error line_error(const std::string& place, std::string_view what) {
  return {ErrorCode::kCorrupt,
          place + ": " + std::string(what) +
              R"(; a line reads {"key": "a/b", "parts": [{"name": "jpg", "file": "x.jpg"}]})"};
}

// Returns the member if it is a non-empty string.
std::optional<std::string> string_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

class Manifest final : public SampleInput {
 public:
  static Result<std::unique_ptr<SampleInput>> open(const fs::path& path) {
    auto manifest = std::make_unique<Manifest>();
    std::error_code error;
    manifest->total_ = fs::file_size(path, error);
    manifest->file_.open(path, std::ios::binary);
    if (error || !manifest->file_) {
      return Error(ErrorCode::kIo, path.string() + ": cannot read the manifest");
    }
    manifest->path_ = path;
    return std::unique_ptr<SampleInput>(std::move(manifest));
  }

  Result<std::optional<InputSample>> next() override;
  std::uint64_t done() const override { return done_; }
  std::uint64_t total() const override { return total_; }

 private:
  Result<InputSample> parse(const std::string& line, const std::string& place) const;
  Result<InputPart> part(const Json& json, const std::string& place) const;

  fs::path path_;
  std::ifstream file_;
  std::uint64_t line_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

Result<std::optional<InputSample>> Manifest::next() {
  for (std::string line; std::getline(file_, line);) {
    ++line_;
    done_ += line.size() + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    ISOCOST_ASSIGN(InputSample sample, parse(line, path_.string() + ":" + std::to_string(line_)));
    return std::optional(std::move(sample));
  }
  if (file_.bad()) return Error(ErrorCode::kIo, path_.string() + ": read failed");
  return std::optional<InputSample>();
}

Result<InputSample> Manifest::parse(const std::string& line, const std::string& place) const {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return line_error(place, "not a JSON object");
  InputSample sample{place, {}, {}};
  for (const auto& [name, value] : json.items()) {
    if (name != "key" && name != "parts") {
      return line_error(place, "unknown member '" + printable_utf8(name) + "'");
    }
  }
  const auto key = string_member(json, "key");
  const auto parts = json.find("parts");
  if (!key) return line_error(place, "no \"key\"");
  if (parts == json.end() || !parts->is_array() || parts->empty()) {
    return line_error(place, "no \"parts\"");
  }
  sample.key = *key;
  for (const Json& entry : *parts) {
    ISOCOST_ASSIGN(InputPart read, part(entry, place));
    sample.parts.push_back(std::move(read));
  }
  return sample;
}

Result<InputPart> Manifest::part(const Json& json, const std::string& place) const {
  if (!json.is_object()) return line_error(place, "a part is not an object");
  const auto name = string_member(json, "name");
  if (!name) return line_error(place, "a part has no \"name\"");
  if (json.size() != 2) {
    return line_error(place, "part " + printable_utf8(*name) +
                                 " needs a name and one of \"file\", \"text\", \"json\"");
  }
  if (const auto file = string_member(json, "file")) {
    return InputPart{*name, path_.parent_path() / fs::path(*file)};
  }
  if (auto text = string_member(json, "text")) return InputPart{*name, *std::move(text)};
  if (const auto found = json.find("json"); found != json.end()) {
    return InputPart{*name, found->dump()};
  }
  return line_error(place,
                    "part " + printable_utf8(*name) + R"( has none of "file", "text", "json")");
}

class Tree final : public SampleInput {
 public:
  static Result<std::unique_ptr<SampleInput>> open(const fs::path& root, const LogSink& log);

  Result<std::optional<InputSample>> next() override {
    if (at_ == samples_.size()) return std::optional<InputSample>();
    return std::optional(samples_[at_++]);
  }
  std::uint64_t done() const override { return at_; }
  std::uint64_t total() const override { return samples_.size(); }

 private:
  std::vector<InputSample> samples_;
  std::size_t at_ = 0;
};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

Result<std::unique_ptr<SampleInput>> Tree::open(const fs::path& root, const LogSink& log_to) {
  std::map<std::string, std::map<std::string, fs::path>> found;
  std::size_t ignored = 0;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(root, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code unreadable;
    const bool is_file = entry->is_regular_file(unreadable);
    if (unreadable)
      return Error(ErrorCode::kIo, entry->path().string() + ": " + unreadable.message());
    if (!is_file) continue;
    const std::string name = entry->path().lexically_relative(root).generic_string();
    const MemberName split = split_member_name(name);
    if (split.part.empty()) {
      ++ignored;
      continue;
    }
    found[std::string(split.key)][std::string(split.part)] = entry->path();
  }
  if (error) return Error(ErrorCode::kIo, root.string() + ": " + error.message());
  if (ignored > 0) {
    log(log_to, LogLevel::kWarning,
        root.string() + ": " + counted(ignored, "file") + " without an extension left out");
  }
  auto tree = std::make_unique<Tree>();
  for (auto& [key, parts] : found) {
    InputSample sample{root.string(), key, {}};
    for (auto& [part, path] : parts) sample.parts.push_back({part, std::move(path)});
    tree->samples_.push_back(std::move(sample));
  }
  return std::unique_ptr<SampleInput>(std::move(tree));
}

}  // namespace

Result<std::unique_ptr<SampleInput>> SampleInput::open(const fs::path& source, const LogSink& log) {
  std::error_code error;
  if (fs::is_directory(source, error)) return Tree::open(source, log);
  if (fs::is_regular_file(source, error)) return Manifest::open(source);
  return Error(
      ErrorCode::kNotFound,
      source.string() +
          (fs::exists(source, error)
               ? " is neither a manifest (a JSON Lines file) nor a directory of files"
               : " does not exist: name a manifest (a JSON Lines file) or a directory of files"));
}

}  // namespace isocost
