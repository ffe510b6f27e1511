#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_range.h"
#include "base/result.h"
#include "base/units.h"
#include "loader/dataset/stores/cache/cached_store.h"
#include "loader/dataset/stores/cache/object_cache.h"
#include "tests/support/slow_store.h"

namespace isocost {

/// Returns bytes that differ from place to place, and by `seed`.
inline std::string bytes_of(std::int64_t count, int seed = 0) {
  std::string bytes;
  for (std::int64_t i = seed; std::ssize(bytes) < count; ++i) bytes += std::to_string(i * 7919);
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

inline std::string part_of(const std::string& bytes, ByteRange range) {
  return bytes.substr(static_cast<std::size_t>(range.begin),
                      static_cast<std::size_t>(range.bytes()));
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Begins to read a range of an object that has its present stamp.
inline std::future<Result<std::string>> begin_read(ObjectStore& store, const std::string& key,
                                                   ByteRange range, std::stop_token stop = {}) {
  const auto promise = std::make_shared<std::promise<Result<std::string>>>();
  const ObjectStamp stamp = store.list(key, true, {}).value().front().stamp;
  store.read(key, stamp, range, std::move(stop),
             [promise](Result<std::string> bytes) { promise->set_value(std::move(bytes)); });
  return promise->get_future();
}
/// Begins to have an object kept.
inline std::future<Result<std::string>> begin_hold(ObjectStore& store, const std::string& key) {
  const auto promise = std::make_shared<std::promise<Result<std::string>>>();
  const ObjectStamp stamp = store.list(key, true, {}).value().front().stamp;
  store.hold(key, stamp, {0, stamp.bytes}, {},
             [promise](Result<std::string> held) { promise->set_value(std::move(held)); });
  return promise->get_future();
}
inline Result<std::string> read(ObjectStore& store, const std::string& key, ByteRange range) {
  return begin_read(store, key, range).get();
}

}  // namespace isocost
