#pragma once

#include <memory>

#include "loader/dataset/stores/cache/object_cache.h"
#include "loader/dataset/stores/remote/object_store.h"

namespace isocost {

/// Returns a store whose reads are answered from a cache, or else by `store`, whose bytes the cache
/// then keeps. Several reads of the same bytes at once are one read of `store`. `stamp` and `list`
/// are those of `store`. Objects without entity tag and time are not kept, since nothing would tell
/// another version. `done` is called on a thread of the cache or of `store`. The destructor ends
/// reads with kCancelled, and waits until they have ended.
std::unique_ptr<ObjectStore> create_cached_store(std::shared_ptr<ObjectStore> store,
                                                 std::shared_ptr<ObjectCache> cache);

}  // namespace isocost
