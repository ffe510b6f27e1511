#include "loader/dataset/index/index_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "loader/dataset/stores/stored_file.h"
#include "loader/dataset/stores/stored_objects.h"  // IWYU pragma: keep (the type of `objects`)

namespace isocost {
namespace {

namespace fs = std::filesystem;

// Far more than the index or the tokens of a shard of 10 million samples.
constexpr std::int64_t kMostBytesBeside = std::int64_t{2} << 30;

Result<std::vector<std::byte>> bytes_of(const StoredFile& file, const std::stop_token& stop) {
  ISOCOST_ASSIGN(const auto object, open_shard(file, stop));
  if (object->size() > kMostBytesBeside) {
    return Error(ErrorCode::kResourceExhausted,
                 fmt::format("{}: it has {} bytes, over {}", file.path.string(), object->size(),
                             kMostBytesBeside));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(object->size()));
  const auto pass = object->pass();
  for (std::size_t done = 0; done < bytes.size();) {
    if (stop.stop_requested())
      return Error(ErrorCode::kCancelled, "stopped while copying an index");
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    const std::span<std::byte> left = std::span(bytes).subspan(done);
    ISOCOST_ASSIGN(
        const std::size_t read,
        pass->read_at(static_cast<std::int64_t>(done), left.first(std::min(kPiece, left.size()))));
    if (read == 0) return Error(ErrorCode::kIo, file.path.string() + ": it ends early");
    done += read;
  }
  return bytes;
}

Status copy(const StoredFile& from, const fs::path& to, const std::stop_token& stop) {
  ISOCOST_ASSIGN(const std::vector<std::byte> bytes, bytes_of(from, stop));
  std::error_code ignored;
  fs::create_directories(to.parent_path(), ignored);
  return replace_file(to, bytes);
}

// Copies a file with this extension that lies beside a shard. Returns whether it is there and could
// be read. Errors: see copy_index_beside.
Result<bool> copy_beside(const ShardPlace& shard, std::string_view extension, const fs::path& to,
                         const LogSink& sink, const std::stop_token& stop) {
  const ShardRoot& root = *shard.root;
  const std::string key = fmt::format(".isocost/{}{}", shard.name, extension);
  Status copied = copy({root.directory / key, root.objects, key}, to, stop);
  root.objects->forget(key);
  if (copied) return true;
  const ErrorCode code = copied.error().code();
  if (code == ErrorCode::kUnavailable || code == ErrorCode::kCancelled) {
    return std::move(copied).error();
  }
  if (code != ErrorCode::kNotFound) {
    log(sink, LogLevel::kInfo,
        fmt::format("{}: what lies beside the shard is not used", copied.error().message()));
  }
  return false;
}

}  // namespace

Result<bool> copy_index_beside(const ShardPlace& shard, const LogSink& log,
                               const std::stop_token& stop) {
  const ShardRoot& root = *shard.root;
  if (!root.objects || root.index_directories.empty()) return false;
  const fs::path index = index_path(root.index_directories.front(), shard.name);
  ISOCOST_ASSIGN(const bool is_copied, copy_beside(shard, ".idx", index, log, stop));
  if (!is_copied) return false;  // tokens do not stand without an index
  ISOCOST_TRY(
      copy_beside(shard, ".tokens", fs::path(index).replace_extension(".tokens"), log, stop));
  return true;
}

Result<bool> copy_tokens_beside(const ShardPlace& shard, const fs::path& to, const LogSink& log,
                                const std::stop_token& stop) {
  std::error_code ignored;
  if (!shard.root->objects || fs::exists(to, ignored)) return false;
  return copy_beside(shard, ".tokens", to, log, stop);
}

}  // namespace isocost
