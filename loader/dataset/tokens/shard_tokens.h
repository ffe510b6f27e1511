#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "base/log.h"
#include "base/result.h"
#include "loader/dataset/index/index_file.h"
#include "loader/dataset/tokens/token_file.h"
#include "loader/dataset/tokens/tokenizer_identity.h"

namespace isocost {

/// Opens the tokens that a tokenizer made of a shard, whatever its options. Errors: kNotFound with
/// the shard, what is missing or differs, and `remedy`.
Result<std::shared_ptr<const TokenFile>> open_shard_tokens(const std::filesystem::path& shard,
                                                           const ShardIndex& index,
                                                           const TokenizerIdentity& tokenizer,
                                                           std::string_view remedy);

/// Logs how many shards have tokens that were made with options other than the defaults, by those
/// options.
void log_tokenizer_options(const std::map<std::string_view, std::size_t>& shards,
                           const LogSink& sink);
/// Does the same for shards with these tokens.
void log_tokenizer_options(std::span<const std::shared_ptr<const TokenFile>> tokens,
                           const LogSink& sink);

}  // namespace isocost
