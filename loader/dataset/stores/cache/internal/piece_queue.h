#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "base/mutex.h"

namespace isocost {

/// Pieces of objects on their way to a cache. They are large, so that few are fetched at once, of
/// all stores together, and the others wait: first those that a read waits for. Thread-safe.
class PieceQueue {
 public:
  /// Bytes that are on their way, or wait to be written: 256 MB a second where a piece takes half a
  /// second.
  static constexpr std::int64_t kMostBytes = std::int64_t{128} << 20;

  struct Piece {
    std::int64_t bytes = 0;       ///< At most kMostBytes.
    std::function<void()> begin;  ///< Must not wait for another piece.
  };
  using SharedPiece = std::shared_ptr<Piece>;

  /// Begins a piece when its turn comes, on the thread of this call or of an `end`.
  /// `is_awaited`: a read waits for it.
  void add(const SharedPiece& piece, bool is_awaited) ISOCOST_EXCLUDES(mutex_);
  /// Puts a piece before those that no read waits for, if it has not begun.
  void await(const SharedPiece& piece) ISOCOST_EXCLUDES(mutex_);
  /// Takes a piece out. Returns false if it has begun, or is not there.
  bool remove(const SharedPiece& piece) ISOCOST_EXCLUDES(mutex_);
  /// Call this when a piece that has begun is written, or has failed.
  void end(const Piece& piece) ISOCOST_EXCLUDES(mutex_);

 private:
  SharedPiece take() ISOCOST_EXCLUDES(mutex_);
  void begin_some() ISOCOST_EXCLUDES(mutex_);

  Mutex mutex_;
  std::deque<SharedPiece> awaited_ ISOCOST_GUARDED_BY(mutex_);
  std::deque<SharedPiece> others_ ISOCOST_GUARDED_BY(mutex_);
  std::int64_t bytes_ ISOCOST_GUARDED_BY(mutex_) = 0;  // of those that have begun
  // Whether a thread begins pieces. It also begins those whose turn comes meanwhile: a piece may
  // end while it begins.
  bool is_beginning_ ISOCOST_GUARDED_BY(mutex_) = false;
};

}  // namespace isocost
