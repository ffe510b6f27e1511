#include "decode/prepare/model_files.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace isocost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uintmax_t kMostBytes = std::uintmax_t{16} << 20;
constexpr int kMostDepth = 64;
constexpr std::size_t kLongestValue = 80;  // characters in a message

// Returns what to do where a directory that does not exist looks like the name of a model on the
// hub, OWNER/NAME; "" elsewhere.
std::string advice_for_name(const fs::path& directory) {
  std::error_code ignored;
  const std::string name = directory.string();
  const bool two_parts =
      std::ranges::count(name, '/') == 1 && directory.has_parent_path() && directory.has_filename();
  if (!two_parts || directory.is_absolute() || name.front() == '.') return "";
  if (fs::exists(directory, ignored)) return "";
  return ". Names of models on the hub are for isocost.DataLoader alone; `hf download " + name +
         " --include '*.j*' --local-dir DIR` makes a directory";
}

Result<Settings> read_object(const fs::path& path) {
  std::error_code failed;
  const std::uintmax_t bytes = fs::file_size(path, failed);
  std::ifstream file(path, std::ios::binary);
  if (failed || !file) return Error(ErrorCode::kIo, path.string() + ": cannot be read");
  if (bytes > kMostBytes) {
    return Error(ErrorCode::kCorrupt, path.string() + ": more than 16 MiB, so not a model's");
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  bool too_deep = false;
  const auto within = [&too_deep](int depth, json::parse_event_t, const json&) {
    too_deep |= depth > kMostDepth;
    return !too_deep;
  };
  json object = json::parse(text, within, /*allow_exceptions=*/false);
  if (too_deep) {
    return Error(ErrorCode::kCorrupt,
                 path.string() + ": nests more than " + std::to_string(kMostDepth) + " deep");
  }
  if (!object.is_object()) return Error(ErrorCode::kCorrupt, path.string() + ": no JSON object");
  return Settings(std::move(object), path.string());
}

Result<Settings> read_image_processor(const fs::path& directory) {
  std::error_code ignored;
  const fs::path own = directory / "preprocessor_config.json";
  if (fs::exists(own, ignored)) return read_object(own);
  const fs::path of_all = directory / "processor_config.json";
  if (fs::exists(of_all, ignored)) {
    ISOCOST_ASSIGN(Settings all, read_object(of_all));
    const bool is_for_sound = !all.has("image_processor") && all.has("feature_extractor");
    return all.object(is_for_sound ? "feature_extractor" : "image_processor");
  }
  return Error(
      ErrorCode::kNotFound,
      directory.string() +
          ": neither preprocessor_config.json nor processor_config.json is there, so it is "
          "unknown how media are prepared; transformers' AutoProcessor writes them with "
          "save_pretrained");
}

Result<Settings> read_video_processor(const fs::path& directory, Settings& all) {
  if (all.has("video_processor")) return all.object("video_processor");
  std::error_code ignored;
  for (const char* name : {"video_preprocessor_config.json", "preprocessor_config.json"}) {
    if (fs::exists(directory / name, ignored)) return read_object(directory / name);
  }
  return Settings(json::object(), (directory / "processor_config.json").string());
}

// Reads the added tokens of tokenizer.json, whose rest may be many megabytes.
Result<json> read_added_tokens(const fs::path& path) {
  const auto of_added_tokens = [](int depth, json::parse_event_t event, const json& parsed) {
    const bool is_other =
        event == json::parse_event_t::key && depth == 1 && parsed != "added_tokens";
    return !is_other && depth <= kMostDepth;
  };
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error(ErrorCode::kIo, path.string() + ": cannot be read");
  json object = json::parse(file, of_added_tokens, /*allow_exceptions=*/false);
  const auto tokens = object.is_object() ? object.find("added_tokens") : object.end();
  if (tokens == object.end() || !tokens->is_array()) {
    return Error(ErrorCode::kCorrupt, path.string() + ": it has no added_tokens");
  }
  return std::move(*tokens);
}

// Returns a text, or the "content" of an object; empty if there is none.
std::string token_text(const json& settings, const std::string& name) {
  const auto found = settings.is_object() ? settings.find(name) : settings.end();
  if (found == settings.end()) return "";
  if (found->is_object()) return token_text(*found, "content");
  return found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

bool Settings::has(std::string_view key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const json* Settings::find(std::string_view key) {
  asked_.emplace(key);
  return has(key) ? &*object_.find(key) : nullptr;
}

Error Settings::refused(std::string_view key, std::string_view why) const {
  const auto found = object_.find(key);
  std::string value = found == object_.end() ? "missing" : found->dump();
  if (value.size() > kLongestValue) value = value.substr(0, kLongestValue) + "...";
  return {ErrorCode::kUnsupported,
          file_ + ": " + std::string(key) + " is " + value + "; " + std::string(why)};
}

Result<std::int64_t> Settings::integer(std::string_view key, std::int64_t least, std::int64_t most,
                                       std::optional<std::int64_t> otherwise) {
  const json* value = find(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr || !value->is_number_integer() || value->get<std::int64_t>() < least ||
      value->get<std::int64_t>() > most) {
    const std::string range = least == most ? "" : " to " + std::to_string(most);
    return refused(key, "it must be " + std::to_string(least) + range);
  }
  return value->get<std::int64_t>();
}

Result<double> Settings::number(std::string_view key, double otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) return refused(key, "it must be a number");
  return value->get<double>();
}

Result<std::vector<double>> Settings::numbers(std::string_view key,
                                              const std::vector<double>& otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  std::vector<double> numbers;
  for (const json& each : *value) {
    if (each.is_number()) numbers.push_back(each.get<double>());
  }
  if (!value->is_array() || numbers.size() != otherwise.size() ||
      value->size() != otherwise.size()) {
    return refused(key, "it must be a list of " + std::to_string(otherwise.size()) + " numbers");
  }
  return numbers;
}

Result<json> Settings::list(std::string_view key, std::size_t most) {
  const json* value = find(key);
  if (value != nullptr && value->is_array() && value->size() <= most) return *value;
  return refused(key, "it must be a list of at most " + std::to_string(most) + " entries");
}

Result<std::string> Settings::text(std::string_view key) {
  const json* value = find(key);
  if (value == nullptr || !value->is_string()) return refused(key, "it must be a text");
  return value->get<std::string>();
}

Result<std::string> Settings::choice(std::string_view key,
                                     std::initializer_list<std::string_view> choices,
                                     std::optional<std::string_view> otherwise) {
  const json* value = find(key);
  if (value == nullptr && otherwise) return std::string(*otherwise);
  std::string known;
  for (const std::string_view choice : choices) {
    if (value != nullptr && *value == choice) return std::string(choice);
    known += (known.empty() ? "" : ", ") + std::string(choice);
  }
  return refused(key, "it must be one of " + known);
}

Result<bool> Settings::flag(std::string_view key, bool otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return refused(key, "it must be true or false");
  return value->get<bool>();
}

Result<Settings> Settings::object(std::string_view key) {
  const json* value = find(key);
  if (value == nullptr || !value->is_object()) return refused(key, "it must be an object");
  return Settings(*value, file_ + ": " + std::string(key));
}

Status Settings::only(std::string_view key, const json& value) {
  const json* found = find(key);
  if (found == nullptr || *found == value) return {};
  return refused(key, "only " + value.dump() + " is supported");
}

void Settings::replace(const ImageSize& values) {
  if (values.empty()) return;
  for (const auto& [key, value] : values) object_[key] = value;
  file_ += " with image_size " + image_size_text(values);
}

void Settings::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) asked_.emplace(key);
}

Status Settings::check_all_asked() const {
  for (const auto& [key, value] : object_.items()) {
    if (!value.is_null() && !asked_.contains(key)) {
      return refused(key, "this setting is not supported");
    }
  }
  return {};
}

Result<std::int64_t> special_token_id(const fs::path& directory, const std::string& name) {
  ISOCOST_ASSIGN(const Settings settings, read_object(directory / "tokenizer_config.json"));
  std::string text = token_text(settings.values(), name);
  const auto extra = settings.values().find("extra_special_tokens");
  if (text.empty() && extra != settings.values().end()) text = token_text(*extra, name);
  if (text.empty()) {
    return Error(ErrorCode::kUnsupported, settings.file() + ": it names no " + name);
  }
  const fs::path tokenizer = directory / "tokenizer.json";
  ISOCOST_ASSIGN(const json added, read_added_tokens(tokenizer));
  for (const json& token : added) {
    if (token_text(token, "content") != text) continue;
    const auto id = token.find("id");
    if (id != token.end() && id->is_number_unsigned()) return id->get<std::int64_t>();
  }
  return Error(ErrorCode::kUnsupported,
               tokenizer.string() + ": it has no added token " + text + ", the " + name);
}

Result<ModelFiles> read_model_files(const fs::path& directory) {
  const fs::path config = directory / "config.json";
  std::error_code ignored;
  if (!fs::is_regular_file(config, ignored)) {
    return Error(ErrorCode::kNotFound,
                 config.string() +
                     ": no such file; give a model's directory, as transformers' from_pretrained "
                     "takes it" +
                     advice_for_name(directory));
  }
  ModelFiles files;
  files.directory = directory;
  ISOCOST_ASSIGN(files.config, read_object(config));
  ISOCOST_ASSIGN(files.model_type, files.config.text("model_type"));
  ISOCOST_ASSIGN(files.image_processor, read_image_processor(directory));
  const fs::path processor = directory / "processor_config.json";
  if (fs::exists(processor, ignored)) {
    ISOCOST_ASSIGN(files.processor, read_object(processor));
  }
  const fs::path generation = directory / "generation_config.json";
  if (fs::exists(generation, ignored)) {
    ISOCOST_ASSIGN(files.generation, read_object(generation));
  }
  ISOCOST_ASSIGN(files.video_processor, read_video_processor(directory, files.processor));
  return files;
}

}  // namespace isocost
