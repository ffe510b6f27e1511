#pragma once

#include <cstdint>

namespace isocost {

/// Wakes a thread that polls sockets, by an eventfd, since only one thread may use a ZeroMQ socket.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void notify();  ///< Thread-safe.
  void drain();   ///< On the thread that polls.
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace isocost
