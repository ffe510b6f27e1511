#include "transport/zmq/internal/endpoint.h"

#include <gtest/gtest.h>

namespace isocost {
namespace {

TEST(IsLocalEndpoint, KnowsLoopback) {
  for (const char* local : {"tcp://127.0.0.1:5800", "tcp://127.8.0.1:*", "tcp://localhost:1",
                            "tcp://[::1]:5800", "ipc:///tmp/isocost"}) {
    EXPECT_TRUE(is_local_endpoint(local).value()) << local;
  }
  for (const char* open : {"tcp://0.0.0.0:5800", "tcp://*:5800", "tcp://10.0.0.1:5800",
                           "tcp://[::]:5800", "tcp://eth0:5800", "tcp://127.example.com:1"}) {
    EXPECT_FALSE(is_local_endpoint(open).value()) << open;
  }
}

TEST(IsLocalEndpoint, OtherAddressesAreNotLocal) {
  for (const char* text :
       {"", "5800", "tcp://", "tcp://:5800", "tcp://host", "tcp://host:", "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:5a", "tcp://127.0.0.1:-1", "http://127.0.0.1:80", "ipc://"}) {
    EXPECT_FALSE(is_local_endpoint(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace isocost
