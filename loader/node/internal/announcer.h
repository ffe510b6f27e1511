#pragma once

#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "transport/zmq/server.h"

namespace isocost {

/// Logs lines, and sends them to the clients of a server, so that users who wait for data see the
/// reason. Thread-safe.
class Announcer {
 public:
  explicit Announcer(LogSink log) : log_(std::move(log)) {}

  void announce(LogLevel level, std::string_view text) ISOCOST_EXCLUDES(mutex_);

  /// Sends lines to the clients of a server as long as it exists. One at a time.
  class Audience {
   public:
    Audience(Announcer& announcer, Server& server);
    ~Audience();
    Audience(const Audience&) = delete;
    Audience& operator=(const Audience&) = delete;

   private:
    Announcer& announcer_;
  };

 private:
  void set_server(Server* server) ISOCOST_EXCLUDES(mutex_);

  const LogSink log_;
  Mutex mutex_;
  Server* server_ ISOCOST_GUARDED_BY(mutex_) = nullptr;  // null: nobody listens
};

}  // namespace isocost
