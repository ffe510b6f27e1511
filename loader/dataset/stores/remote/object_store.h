#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_range.h"
#include "base/result.h"
#include "loader/dataset/stores/remote/store_counts.h"

namespace isocost {

/// A store's statement of an object's bytes.
struct ObjectStamp {
  std::int64_t bytes = 0;
  std::string etag;             ///< The server's text, with its quotes; empty: none.
  std::int64_t modified_s = 0;  ///< Seconds since 1970; 0: not known.
  bool operator==(const ObjectStamp&) const = default;
};

struct ListedObject {
  std::string key;  ///< From the root of the store, with '/', as in an address, decoded.
  ObjectStamp stamp;
};

/// Objects that lie on a server. An object is named by its key: the path in an HTTP server, the key
/// in a bucket. Requests are repeated, with a pause that grows, while the server is overloaded or
/// unreachable, up to the store's time-out. Messages name objects by their address without secrets.
/// Thread-safe.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Returns the address of an object without query, user and password.
  virtual std::string name_of(std::string_view key) const = 0;
  /// Asks for an object's stamp. Errors: kNotFound (no such object), kUnavailable (the server
  /// cannot be reached, or asks to wait), kIo (access is denied, TLS), kCancelled.
  virtual Result<ObjectStamp> stamp(std::string_view key, const std::stop_token& stop) = 0;
  /// Lists the objects whose keys begin with a prefix, by key. `recursive`: also those with a '/'
  /// behind it. Errors: those of `stamp`; kInvalidArgument for a server that cannot list.
  virtual Result<std::vector<ListedObject>> list(std::string_view prefix, bool recursive,
                                                 const std::stop_token& stop) = 0;

  /// Receives the bytes of a range, or why there are none.
  using Done = std::function<void(Result<std::string>)>;
  /// Reads a range of an object that has this stamp. `done` is called once, on a thread of the
  /// store, where it must not block. Errors given to it: those of `stamp`; kUnavailable for an
  /// object that has another stamp now, which names it.
  virtual void read(std::string_view key, const ObjectStamp& stamp, ByteRange range,
                    std::stop_token stop, Done done) = 0;

  /// Has a cache that keeps whole pieces keep a range, for reads that follow: these go first.
  /// `done` is called as by `read`, with no bytes. A store without such a cache does nothing.
  virtual void hold(std::string_view /*key*/, const ObjectStamp& /*stamp*/, ByteRange /*range*/,
                    const std::stop_token& /*stop*/, const Done& done) {
    done(std::string());
  }

  virtual StoreCounts counts() const = 0;
};

}  // namespace isocost
