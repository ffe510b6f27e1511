#include "loader/dataset/catalogue/internal/reopened_shard.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "loader/dataset/index/open_indexes.h"
#include "loader/dataset/tokens/token_file.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

fs::path index_file_of(const KnownShard& shard) {
  return index_path(shard.place.root->index_directories[shard.row.directory], shard.place.name);
}

// Builds the index again where its file is gone, broken, or that of a job with other options.
Result<std::shared_ptr<const ShardIndex>> build_again(const KnownShard& shard,
                                                      const std::string& why, const LogSink& sink) {
  log(sink, LogLevel::kWarning,
      fmt::format("{}: {}; the index of {} is built in memory", index_file_of(shard).string(), why,
                  shard.place.path().string()));
  ISOCOST_ASSIGN(std::shared_ptr<const ShardIndex> index,
                 build_in_memory(shard.place, shard.source->limits, shard.source->reading));
  if (is_of_row(index->view(), shard.row, shard.place)) return index;
  return Error(ErrorCode::kUnavailable,
               fmt::format("{}: has changed since it was indexed: put it back, or start again with "
                           "what it is now",
                           shard.place.path().string()));
}

Result<std::shared_ptr<const ShardIndex>> reopen_index(const KnownShard& shard,
                                                       const FileStamp& checked,
                                                       const LogSink& sink) {
  const fs::path file = index_file_of(shard);
  auto mapped = ShardIndex::map_again(file, checked);
  if (mapped) {
    std::shared_ptr<const ShardIndex> index = *std::move(mapped);
    if (is_of_row(index->view(), shard.row, shard.place)) return index;
    return build_again(shard, "another job has replaced it", sink);
  }
  const Error& error = mapped.error();
  if (error.code() == ErrorCode::kIo) return error;
  if (error.code() == ErrorCode::kNotFound) return build_again(shard, "it is gone", sink);
  std::error_code failed;
  const std::uintmax_t bytes = fs::file_size(file, failed);
  if (!failed && static_cast<std::int64_t>(bytes) < shard.row.index.bytes) {
    return Error(ErrorCode::kCorrupt, file.string() +
                                          ": it was cut while it was in use; start again, and the "
                                          "shard is indexed anew");
  }
  const std::string why = error.message();
  // So that the next start does not rely on it.
  if (error.code() == ErrorCode::kCorrupt) fs::remove(file, failed);
  return build_again(shard, why, sink);
}

Result<std::shared_ptr<const TokenFile>> reopen_tokens(const KnownShard& shard,
                                                       const IndexView& index,
                                                       const FileStamp& checked) {
  if (!shard.row.tokenizer) return std::shared_ptr<const TokenFile>();
  const fs::path file = token_file_name(index_file_of(shard));
  auto tokens = TokenFile::map_again(file, checked);
  const auto again = [&](ErrorCode code, const std::string& what) {
    return Error(code, fmt::format("{}: {}; run isocost tokenize again", file.string(), what));
  };
  if (!tokens) {
    if (tokens.error().code() == ErrorCode::kIo) return tokens;
    if (tokens.error().code() == ErrorCode::kNotFound) {
      return again(ErrorCode::kUnavailable, "it is gone");
    }
    return again(ErrorCode::kCorrupt, "it was cut or damaged while it was in use");
  }
  if ((*tokens)->stamp() == shard.row.tokens) return tokens;
  if ((*tokens)->identity() == TokenFileIdentity::of(index, *shard.row.tokenizer)) return tokens;
  return Error(ErrorCode::kUnavailable,
               file.string() +
                   ": the tokens were made again, by another tokenizer or with other options, "
                   "while they were in use; start again");
}

}  // namespace

Result<std::shared_ptr<const Shard>> reopen_shard(const KnownShard& shard,
                                                  const CheckedFiles& checked, const LogSink& log) {
  ISOCOST_ASSIGN(auto index, reopen_index(shard, checked.index, log));
  ISOCOST_ASSIGN(auto tokens, reopen_tokens(shard, index->view(), checked.tokens));
  return std::make_shared<const Shard>(shard.place, std::move(index), std::move(tokens),
                                       shard.source->name);
}

}  // namespace isocost
