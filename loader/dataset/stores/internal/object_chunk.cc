#include "loader/dataset/stores/internal/object_chunk.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "loader/dataset/stores/internal/object_file.h"

namespace isocost {

struct ObjectChunk::Arrival {
  Mutex mutex;
  ConditionVariable arrived;
  std::optional<Result<std::string>> bytes ISOCOST_GUARDED_BY(mutex);

  void arrive(Result<std::string> result) ISOCOST_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    bytes.emplace(std::move(result));
    arrived.notify_all();
  }
};

ObjectChunk::ObjectChunk(const ObjectFile& file, ByteRange range, const std::stop_token& stop)
    : range_(range),
      on_stop_(file.stop_of(stop), [ending = ending_]() mutable { ending.request_stop(); }),
      arrival_(std::make_shared<Arrival>()) {
  file.ask(range_, ending_.get_token(),
           [arrival = arrival_](Result<std::string> bytes) { arrival->arrive(std::move(bytes)); });
}

Result<std::size_t> ObjectChunk::copy(std::int64_t offset, std::span<std::byte> destination) const {
  Arrival& arrival = *arrival_;
  const MutexLock lock(arrival.mutex);
  // Every request ends: it is answered, given up or stopped.
  arrival.arrived.wait(arrival.mutex,
                       [&]() ISOCOST_REQUIRES(arrival.mutex) { return arrival.bytes.has_value(); });
  if (!arrival.bytes) return Error(ErrorCode::kInternal, "a wait without an answer");
  const Result<std::string>& bytes = *arrival.bytes;
  if (!bytes) return bytes.error();
  const auto at = static_cast<std::size_t>(offset - range_.begin);
  if (at >= bytes->size()) return std::size_t{0};
  const std::size_t count = std::min(bytes->size() - at, destination.size());
  std::memcpy(destination.data(), bytes->data() + at, count);
  return count;
}

}  // namespace isocost
