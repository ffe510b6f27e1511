#include "loader/dataset/tokens/tokenizer_identity.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/fingerprint.h"
#include "base/read_file.h"
#include "decode/recipe.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

Result<std::uint64_t> hash_of(const fs::path& file) {
  ISOCOST_ASSIGN(const std::string text, read_file("model", file, kMostBytes));
  return Fingerprint::of(text);
}

Result<std::uint64_t> hash_of_tokenizer(const fs::path& model) {
  Fingerprint tokenizer;
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    if (!fs::is_regular_file(model / name, ignored)) continue;
    ISOCOST_ASSIGN(const std::uint64_t hash, hash_of(model / name));
    tokenizer.add(std::string_view(name));
    tokenizer.add(hash);
  }
  return tokenizer.value();
}

// Returns the file with the chat template: the first of these that exists, in the order of
// transformers.
Result<fs::path> template_file(const fs::path& model) {
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    std::error_code ignored;
    if (fs::is_regular_file(model / name, ignored)) return model / name;
  }
  return Error(ErrorCode::kNotFound,
               model.string() +
                   ": no chat template is there: neither chat_template.jinja nor "
                   "chat_template.json nor tokenizer_config.json; transformers' AutoProcessor "
                   "writes it with save_pretrained");
}

// Returns the hash of the placeholders. Without config.json it is that of a file without
// placeholders.
Result<std::uint64_t> hash_of_placeholders(const fs::path& model) {
  const fs::path file = model / "config.json";
  Fingerprint placeholders;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return placeholders.value();
  ISOCOST_ASSIGN(const std::string text, read_file("model", file, kMostBytes));
  // Nested values are left out, since placeholders are numbers of the object itself.
  const auto is_flat = [](int depth, json::parse_event_t, const json&) { return depth < 2; };
  const json config = json::parse(text, is_flat, /*allow_exceptions=*/false);
  if (!config.is_object())
    return Error(ErrorCode::kInvalidArgument, file.string() + ": no JSON object");
  for (const char* key : {"model_type", "image_token_id", "image_token_index", "video_token_id",
                          "video_token_index", "audio_token_id", "audio_token_index"}) {
    const auto found = config.find(key);
    placeholders.add(std::string_view(found == config.end() ? std::string("null") : found->dump()));
  }
  return placeholders.value();
}

std::uint64_t hash_of_text_settings(const fs::path& model) {
  const auto recipe = Recipe::create(ModelRecipeOptions{.directory = model});
  const std::string settings = recipe ? recipe->text_settings() : "";
  return settings.empty() ? 0 : Fingerprint::of(settings);
}

}  // namespace

std::string TokenizerIdentity::difference(const TokenizerIdentity& other) const {
  std::string text;
  const auto add = [&text](bool differs, std::string_view what) {
    if (differs) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add(version != other.version, "another version of Isocost");
  add(tokenizer != other.tokenizer,
      "another tokenizer (tokenizer.json, tokenizer_config.json, special_tokens_map.json)");
  add(chat_template != other.chat_template, "another chat template");
  add(placeholders != other.placeholders,
      "other placeholders of media or another model_type in config.json");
  add(text_settings != other.text_settings,
      "other settings of media that the text depends on, such as the sampling of video frames");
  return text;
}

Result<TokenizerIdentity> TokenizerIdentity::of_model(const fs::path& model) {
  std::error_code ignored;
  if (!fs::is_regular_file(model / "tokenizer.json", ignored)) {
    return Error(ErrorCode::kNotFound,
                 (model / "tokenizer.json").string() +
                     ": no such file; give a model's directory. Where it has its vocabulary in "
                     "other files, transformers' AutoProcessor writes this one with "
                     "save_pretrained");
  }
  TokenizerIdentity identity;
  ISOCOST_ASSIGN(identity.tokenizer, hash_of_tokenizer(model));
  ISOCOST_ASSIGN(const fs::path chat_template, template_file(model));
  ISOCOST_ASSIGN(identity.chat_template, hash_of(chat_template));
  ISOCOST_ASSIGN(identity.placeholders, hash_of_placeholders(model));
  identity.text_settings = hash_of_text_settings(model);
  return identity;
}

}  // namespace isocost
