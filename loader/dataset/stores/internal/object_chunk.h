#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include "base/byte_range.h"
#include "base/result.h"

namespace isocost {

class ObjectFile;

/// A range of an object that is being fetched, or has been. Const-safe.
class ObjectChunk {
 public:
  /// Asks for a range, which must not be empty, and returns. `stop` ends the request, and so does
  /// the end of this object.
  ObjectChunk(const ObjectFile& file, ByteRange range, const std::stop_token& stop);
  ObjectChunk(const ObjectChunk&) = delete;
  ObjectChunk& operator=(const ObjectChunk&) = delete;
  ~ObjectChunk() { ending_.request_stop(); }

  ByteRange range() const { return range_; }
  bool holds(std::int64_t offset) const { return offset >= range_.begin && offset < range_.end; }
  /// Waits for the bytes, and copies those from an offset of the object on, which the range holds.
  /// Returns their number, at most up to the end of the range. Errors: those of ObjectStore::read.
  Result<std::size_t> copy(std::int64_t offset, std::span<std::byte> destination) const;

 private:
  struct Arrival;  // shared with the request, which may end later

  const ByteRange range_;
  std::stop_source ending_;
  const std::stop_callback<std::function<void()>> on_stop_;
  const std::shared_ptr<Arrival> arrival_;
};

}  // namespace isocost
