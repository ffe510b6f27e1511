#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace isocost {

/// Version of the rules by which text becomes tokens: a change of ids, labels or turns raises it,
/// and tokens of other versions are stale.
inline constexpr std::uint64_t kTokensVersion = 4;

/// The inputs that determine the tokens of a text. All but `options` follow from a model's
/// directory and this version of Isocost.
struct TokenizerIdentity {
  /// Hash of tokenizer.json, tokenizer_config.json and special_tokens_map.json.
  std::uint64_t tokenizer = 0;
  std::uint64_t chat_template = 0;
  /// Hash of the placeholders of media, and of the model_type, in config.json.
  std::uint64_t placeholders = 0;
  /// Hash of Recipe::text_settings; 0 if text does not depend on a recipe.
  std::uint64_t text_settings = 0;
  std::uint64_t version = kTokensVersion;
  /// The options of `isocost tokenize` that are not its defaults, as on a command line. They are
  /// the user's choice.
  std::string options;
  bool operator==(const TokenizerIdentity&) const = default;

  /// Returns the difference, options aside, as a list for a message: "another chat template".
  /// Empty: there is none.
  std::string difference(const TokenizerIdentity& other) const;

  /// Returns the identity of a model's directory, with no options. Errors: kNotFound with the file
  /// that is missing and what writes it; kInvalidArgument for a config.json that is not JSON; kIo.
  static Result<TokenizerIdentity> of_model(const std::filesystem::path& model);
};

}  // namespace isocost
