#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>

#include "base/byte_source.h"
#include "base/mutex.h"
#include "base/result.h"
#include "loader/dataset/stores/internal/object_chunk.h"

namespace isocost {

class ObjectFile;

/// The bytes of an object for a reader that mostly moves forward. Asks for chunks of 1 MiB: for the
/// one that is read, and, while reads follow each other, for twice as many behind it with each new
/// chunk, up to eight. Holds at most ten chunks. Const-safe.
class ObjectPass final : public ByteSource {
 public:
  static constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;
  static constexpr std::int64_t kMostAhead = 8;

  /// `stop` ends the requests that are under way.
  explicit ObjectPass(std::shared_ptr<const ObjectFile> file, std::stop_token stop = {});

  std::int64_t size() const override;
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override
      ISOCOST_EXCLUDES(mutex_);

 private:
  using Chunk = std::shared_ptr<const ObjectChunk>;
  Chunk chunk(std::int64_t number) const ISOCOST_EXCLUDES(mutex_);
  void ask(std::int64_t number) const ISOCOST_REQUIRES(mutex_);
  void let_go() const ISOCOST_EXCLUDES(mutex_);

  const std::shared_ptr<const ObjectFile> file_;
  const std::stop_token stop_;
  mutable Mutex mutex_;
  mutable std::map<std::int64_t, Chunk> chunks_ ISOCOST_GUARDED_BY(mutex_);
  mutable std::int64_t last_ ISOCOST_GUARDED_BY(mutex_) = -2;  // the chunk that was read last
  mutable std::int64_t ahead_ ISOCOST_GUARDED_BY(mutex_) = 0;  // chunks to ask for behind it
};

}  // namespace isocost
