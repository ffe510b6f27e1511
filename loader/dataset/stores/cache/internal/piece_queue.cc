#include "loader/dataset/stores/cache/internal/piece_queue.h"

#include <utility>

namespace isocost {

void PieceQueue::add(const SharedPiece& piece, bool is_awaited) {
  {
    const MutexLock lock(mutex_);
    (is_awaited ? awaited_ : others_).push_back(piece);
  }
  begin_some();
}

void PieceQueue::await(const SharedPiece& piece) {
  const MutexLock lock(mutex_);
  if (std::erase(others_, piece) > 0) awaited_.push_back(piece);
}

bool PieceQueue::remove(const SharedPiece& piece) {
  const MutexLock lock(mutex_);
  return std::erase(awaited_, piece) + std::erase(others_, piece) > 0;
}

void PieceQueue::end(const Piece& piece) {
  {
    const MutexLock lock(mutex_);
    bytes_ -= piece.bytes;
  }
  begin_some();
}

// Returns the next piece that may begin; null if there is none, and then another thread may begin
// pieces.
PieceQueue::SharedPiece PieceQueue::take() {
  const MutexLock lock(mutex_);
  std::deque<SharedPiece>& from = awaited_.empty() ? others_ : awaited_;
  if (from.empty() || bytes_ + from.front()->bytes > kMostBytes) {
    is_beginning_ = false;
    return nullptr;
  }
  SharedPiece next = std::move(from.front());
  from.pop_front();
  bytes_ += next->bytes;
  return next;
}

void PieceQueue::begin_some() {
  {
    const MutexLock lock(mutex_);
    if (is_beginning_) return;
    is_beginning_ = true;
  }
  while (const SharedPiece next = take()) next->begin();
}

}  // namespace isocost
