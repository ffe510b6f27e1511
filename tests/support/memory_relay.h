#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace isocost {

/// A relay between the sockets of memory_zmq.cc, as a TCP relay is between real ones. Thread-safe.
class MemoryRelay {
 public:
  /// Relays to the ROUTER that is bound to 127.0.0.1:`port`, now or later.
  explicit MemoryRelay(std::uint16_t port);
  ~MemoryRelay();
  MemoryRelay(const MemoryRelay&) = delete;
  MemoryRelay& operator=(const MemoryRelay&) = delete;

  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  /// Cuts every connection. Clients connect again at once.
  void cut();
  /// Cuts the connection of the message that contains the byte this far ahead on the way to
  /// clients. That message is lost.
  void cut_after(std::uint64_t bytes);
  /// While held, nothing goes from clients to the node; the other way stays open.
  void hold_to_node(bool held);

  struct State;

 private:
  std::shared_ptr<State> state_;
  std::uint16_t port_ = 0;
};

}  // namespace isocost
