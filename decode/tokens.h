#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace isocost {

/// A sample's text as a model's own tokenizer made it (`isocost tokenize`): the bytes of a part of
/// format kTokens. Each of the sample's media is one placeholder among the ids, in the order of the
/// sample's parts of that modality.
struct Tokens {
  std::vector<std::uint32_t> ids;
  std::vector<bool> labelled;  ///< Of each id, whether its prediction counts in the loss.
  bool operator==(const Tokens&) const = default;
};

/// Returns the bytes: the number of ids, the ids (32 bits each, little endian), and a bit for each
/// id that is labelled, lowest bit first.
std::vector<std::byte> encode_tokens(const Tokens& tokens);

/// Errors: kCorrupt if they are not the bytes of a sequence.
Result<Tokens> decode_tokens(std::span<const std::byte> bytes);

}  // namespace isocost
