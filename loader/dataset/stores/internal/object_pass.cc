#include "loader/dataset/stores/internal/object_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "loader/dataset/stores/internal/object_file.h"

namespace isocost {

ObjectPass::ObjectPass(std::shared_ptr<const ObjectFile> file, std::stop_token stop)
    : file_(std::move(file)), stop_(std::move(stop)) {}

std::int64_t ObjectPass::size() const { return file_->size(); }

Result<std::size_t> ObjectPass::read_at(std::int64_t offset,
                                        std::span<std::byte> destination) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "negative read offset");
  std::size_t done = 0;
  while (done < destination.size() && offset < size()) {
    const Chunk chunk = this->chunk(offset / kChunkBytes);
    auto read = chunk->copy(offset, destination.subspan(done));
    if (!read) {
      let_go();  // the next read asks again
      return std::move(read).error();
    }
    if (*read == 0) break;
    done += *read;
    offset += static_cast<std::int64_t>(*read);
  }
  return done;
}

ObjectPass::Chunk ObjectPass::chunk(std::int64_t number) const {
  std::vector<Chunk> dropped;  // outside of the lock
  const MutexLock lock(mutex_);
  if (number != last_) {
    const bool follows = number == last_ + 1;
    ahead_ = follows ? std::clamp<std::int64_t>(2 * ahead_, 1, kMostAhead) : 0;
    last_ = number;
    std::erase_if(chunks_, [&](const auto& chunk) {
      const bool is_near = chunk.first >= number - 1 && chunk.first <= number + kMostAhead;
      if (!is_near) dropped.push_back(chunk.second);
      return !is_near;
    });
  }
  for (std::int64_t i = number; i <= number + ahead_; ++i) ask(i);
  return chunks_[number];
}

void ObjectPass::let_go() const {
  std::map<std::int64_t, Chunk> dropped;  // outside of the lock
  const MutexLock lock(mutex_);
  dropped.swap(chunks_);
}

void ObjectPass::ask(std::int64_t number) const {
  const std::int64_t begin = number * kChunkBytes;
  if (begin >= size() || chunks_.contains(number)) return;
  const ByteRange range{begin, std::min(begin + kChunkBytes, size())};
  chunks_.emplace(number, std::make_shared<const ObjectChunk>(*file_, range, stop_));
}

}  // namespace isocost
