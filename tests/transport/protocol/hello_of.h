#pragma once

#include <cstdint>

#include "transport/wire/messages.h"

namespace isocost {

/// Returns the hello of a client for a rank.
inline Hello hello_of(std::int32_t rank, std::uint8_t client) {
  Hello hello;
  hello.rank = rank;
  hello.client_id.fill(client);
  return hello;
}

}  // namespace isocost
