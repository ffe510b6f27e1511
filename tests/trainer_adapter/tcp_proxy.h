#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#ifdef ISOCOST_MEMORY_TRANSPORT
#include "tests/support/memory_relay.h"
#endif

namespace isocost {

#ifdef ISOCOST_MEMORY_TRANSPORT
using TcpProxy = MemoryRelay;
#else

/// A TCP relay on loopback whose connections a test can cut. Owns its threads and sockets.
class TcpProxy {
 public:
  /// Relays to 127.0.0.1:`port`.
  explicit TcpProxy(std::uint16_t port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  /// Cuts every connection; new ones are taken at once.
  void cut() { ++generation_; }
  /// Cuts every connection once this number of further bytes has gone to clients.
  void cut_after(std::uint64_t bytes) { cut_at_ = bytes_to_client_ + bytes; }
  /// While held, nothing goes from clients to the node; the other way stays open.
  void hold_to_node(bool held) { held_ = held; }

 private:
  void run(const std::stop_token& stop);

  std::uint16_t target_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<std::uint64_t> bytes_to_client_ = 0;
  std::atomic<std::uint64_t> cut_at_ = UINT64_MAX;
  std::atomic<bool> held_ = false;
  std::jthread thread_;
};
#endif

}  // namespace isocost
