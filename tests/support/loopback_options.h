#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/memory_budget.h"
#include "tests/support/reserve_from.h"
#include "trainer_adapter/client.h"
#include "transport/zmq/server.h"

namespace isocost {

/// A server on a free port of this host, with short heartbeats. `budget` is what its blocks of
/// shared memory are taken from, and outlives it; without one it shares none.
inline ServerOptions loopback_server(MemoryBudget* budget) {
  ServerOptions options;
  options.bind = "tcp://127.0.0.1:*";
  options.insecure = true;
  options.heartbeat = std::chrono::milliseconds(50);
  options.heartbeat_timeout = std::chrono::milliseconds(2000);
  if (budget != nullptr) options.reserve_block = reserve_from(*budget);
  return options;
}

inline ClientOptions loopback_client(const std::string& endpoint, std::int32_t rank = 0) {
  ClientOptions options;
  options.endpoint = endpoint;
  options.rank = rank;
  options.connect_timeout = std::chrono::milliseconds(10'000);
  return options;
}

}  // namespace isocost
