// Any bytes as a sample's tokens: those that are read are written as a sequence that is read again,
// and what is read up to a cut lies within them.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "decode/shape/tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cut = isocost::CutTokens::create(std::as_bytes(std::span(data, size)), {9, 1, 1});
  std::vector<std::byte> read(cut ? static_cast<std::size_t>(cut->size()) : 0);
  if (cut && *cut->read_at(0, read) != read.size()) std::abort();
  const auto tokens = isocost::decode_tokens(std::as_bytes(std::span(data, size)));
  if (!tokens) return 0;
  if (tokens->ids.size() != tokens->labelled.size()) std::abort();
  const auto again = isocost::decode_tokens(isocost::encode_tokens(*tokens));
  if (!again || *again != *tokens) std::abort();
  return 0;
}
