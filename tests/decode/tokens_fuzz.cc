// Any bytes as a sample's tokens: those that are read are written as a sequence that is read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "decode/tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tokens = isocost::decode_tokens(std::as_bytes(std::span(data, size)));
  if (!tokens) return 0;
  if (tokens->ids.size() != tokens->labelled.size()) std::abort();
  const auto again = isocost::decode_tokens(isocost::encode_tokens(*tokens));
  if (!again || *again != *tokens) std::abort();
  return 0;
}
