#include "loader/dataset/stores/cache/object_cache.h"

#include <string>
#include <utility>

#include "loader/dataset/stores/cache/internal/cache_place.h"
#include "loader/dataset/stores/cache/internal/disk_cache.h"

namespace isocost {

Result<std::shared_ptr<ObjectCache>> ObjectCache::open(const ObjectCacheOptions& options) {
  if (options.max_bytes <= 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "cache_size: it is the room of a cache, and must be positive, such as 100GiB; "
                 "without cache nothing is kept");
  }
  const Status place = prepare_cache_place(options.directory);
  const bool takes_none = !place && place.error().code() == ErrorCode::kResourceExhausted;
  if (!place && !takes_none) return place.error();
  auto disk = std::make_unique<DiskCache>(options, takes_none ? place.error().message() : "");
  return std::shared_ptr<ObjectCache>(new ObjectCache(std::move(disk)));
}

ObjectCache::ObjectCache(std::unique_ptr<DiskCache> disk) : disk_(std::move(disk)) {}
ObjectCache::~ObjectCache() = default;

void ObjectCache::keep_pieces() { disk_->keep_pieces(); }

CacheCounts ObjectCache::counts() const { return disk_->counts(); }

}  // namespace isocost
