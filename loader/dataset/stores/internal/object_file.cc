#include "loader/dataset/stores/internal/object_file.h"

#include <array>
#include <utility>

#include "loader/dataset/stores/internal/fetched_ranges.h"
#include "loader/dataset/stores/internal/object_pass.h"
#include "loader/dataset/stores/stored_objects.h"

namespace isocost {

Result<std::shared_ptr<const ShardFile>> ObjectFile::open(std::shared_ptr<StoredObjects> objects,
                                                          std::string key,
                                                          const std::stop_token& stop) {
  ISOCOST_ASSIGN(ObjectStamp stamp, objects->stamp(key, stop));
  return std::shared_ptr<const ShardFile>(
      new ObjectFile(std::move(objects), std::move(key), std::move(stamp)));
}

ObjectFile::ObjectFile(std::shared_ptr<StoredObjects> objects, std::string key, ObjectStamp stamp)
    : ShardFile({.stamp = file_stamp_of(stamp)}),
      objects_(std::move(objects)),
      key_(std::move(key)),
      stamp_(std::move(stamp)) {}

Result<std::size_t> ObjectFile::read_at(std::int64_t offset,
                                        std::span<std::byte> destination) const {
  const std::array range{ByteRange{offset, offset + static_cast<std::int64_t>(destination.size())}};
  return FetchedRanges(shared_from_this(), range, {}).read_at(offset, destination);
}

std::shared_ptr<const ByteSource> ObjectFile::fetch(std::span<const ByteRange> ranges,
                                                    const std::stop_token& stop) const {
  return std::make_shared<const FetchedRanges>(shared_from_this(), ranges, stop);
}

std::shared_ptr<const ByteSource> ObjectFile::pass(const std::stop_token& stop) const {
  return std::make_shared<const ObjectPass>(shared_from_this(), stop);
}

const std::stop_token& ObjectFile::stop_of(const std::stop_token& given) const {
  return objects_->stop_of(given);
}

bool ObjectFile::changed() const {
  if (*refused_) objects_->forget(key_);
  return *refused_;
}

void ObjectFile::ask(ByteRange range, const std::stop_token& stop, ObjectStore::Done done) const {
  objects_->read(key_, stamp_, range, stop,
                 [refused = refused_, done = std::move(done)](Result<std::string> bytes) {
                   if (!bytes && bytes.error().code() != ErrorCode::kCancelled) *refused = true;
                   done(std::move(bytes));
                 });
}

}  // namespace isocost
