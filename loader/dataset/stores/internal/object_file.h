#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/byte_source.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/object_store.h"
#include "loader/dataset/stores/shard_file.h"

namespace isocost {

class StoredObjects;

/// A shard that is an object on a server, read as a plain tar by requests for ranges. Every one of
/// them asks for the object of one stamp, so that the bytes of two objects never mix. Const-safe.
class ObjectFile final : public ShardFile, public std::enable_shared_from_this<ObjectFile> {
 public:
  /// Errors: those of ObjectStore::stamp.
  static Result<std::shared_ptr<const ShardFile>> open(std::shared_ptr<StoredObjects> objects,
                                                       std::string key,
                                                       const std::stop_token& stop);

  std::int64_t size() const override { return stamp_.bytes; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> destination) const override;
  std::shared_ptr<const ByteSource> fetch(std::span<const ByteRange> ranges,
                                          const std::stop_token& stop) const override;
  std::shared_ptr<const ByteSource> pass(const std::stop_token& stop) const override;
  /// Returns whether a read was refused, so that the object may be another one by now. Its stamp is
  /// asked for again then.
  bool changed() const override;

  /// Returns a stop that was given, or else that of the object's store: see StoredObjects::stop_of.
  const std::stop_token& stop_of(const std::stop_token& given) const;

  /// Asks for a range, which must not be empty. `done` is called once: see ObjectStore::read.
  void ask(ByteRange range, const std::stop_token& stop, ObjectStore::Done done) const;

 private:
  Result<std::size_t> read_stored(std::int64_t offset,
                                  std::span<std::byte> destination) const override {
    return read_at(offset, destination);
  }
  ObjectFile(std::shared_ptr<StoredObjects> objects, std::string key, ObjectStamp stamp);

  const std::shared_ptr<StoredObjects> objects_;
  const std::string key_;
  const ObjectStamp stamp_;
  // Whether a read was refused. Requests hold it, and not this object, which their threads must not
  // destroy.
  const std::shared_ptr<std::atomic<bool>> refused_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace isocost
