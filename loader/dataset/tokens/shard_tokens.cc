#include "loader/dataset/tokens/shard_tokens.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/counted.h"

namespace isocost {

Result<std::shared_ptr<const TokenFile>> open_shard_tokens(const std::filesystem::path& shard,
                                                           const ShardIndex& index,
                                                           const TokenizerIdentity& tokenizer,
                                                           std::string_view remedy) {
  const auto refusal = [&](std::string_view what) {
    return Error(ErrorCode::kNotFound, fmt::format("{}: {}; {}", shard.string(), what, remedy));
  };
  auto tokens = TokenFile::map(token_file_name(index.file()));
  if (!tokens) {
    const bool none = tokens.error().code() == ErrorCode::kNotFound;
    return refusal(none ? "its text has not been made into tokens"
                        : "its tokens cannot be read: " + tokens.error().message());
  }
  const std::string difference =
      (*tokens)->identity().difference(TokenFileIdentity::of(index.view(), tokenizer));
  if (!difference.empty()) return refusal("its tokens " + difference);
  return tokens;
}

void log_tokenizer_options(const std::map<std::string_view, std::size_t>& shards,
                           const LogSink& sink) {
  std::size_t all = 0;
  for (const auto& [options, count] : shards) all += count;
  for (const auto& [options, count] : shards) {
    if (options.empty()) continue;
    log(sink, LogLevel::kInfo,
        fmt::format("the tokens of {} of {} were made with isocost tokenize {}", count,
                    counted(all, "shard"), options));
  }
}

void log_tokenizer_options(std::span<const std::shared_ptr<const TokenFile>> tokens,
                           const LogSink& sink) {
  std::map<std::string_view, std::size_t> made_with;
  for (const auto& file : tokens) ++made_with[file->identity().tokenizer.options];
  log_tokenizer_options(made_with, sink);
}

}  // namespace isocost
