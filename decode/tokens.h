#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace isocost {

/// Where an assistant's turn ends in a sample's tokens: a sample that is cut there keeps whole
/// exchanges.
struct TurnEnd {
  std::uint32_t ids = 0;                 ///< Number of ids up to the end of the turn.
  std::uint32_t placeholders = 0;        ///< Among them, for media.
  std::array<std::uint32_t, 3> media{};  ///< Images, audio and videos before it.
  bool operator==(const TurnEnd&) const = default;
};

/// Ids whose turn has a weight in the loss other than 1: from `begin` to before `end`.
struct WeightedIds {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  float weight = 1;  ///< Finite, > 0.
  bool operator==(const WeightedIds&) const = default;
};

/// A sample's text as a model's own tokenizer made it (`isocost tokenize`): the bytes of a part of
/// format kTokens. Each of the sample's media is one placeholder among the ids, in the order of the
/// sample's parts of that modality.
struct Tokens {
  std::vector<std::uint32_t> ids;
  std::vector<bool> labelled;       ///< Of each id, whether its prediction counts in the loss.
  std::vector<TurnEnd> turns = {};  ///< In their order; empty: not known.
  std::vector<WeightedIds> weights = {};  ///< In their order, apart from each other.
  bool operator==(const Tokens&) const = default;
};

/// Returns the bytes: the number of ids, the ids (32 bits each, little endian), a bit for each id
/// that is labelled, lowest bit first, the number of turns, and for each its numbers of ids,
/// placeholders, images, audio and videos (32 bits each), the number of weighted stretches, and for
/// each its begin, end and weight (32 bits each).
std::vector<std::byte> encode_tokens(const Tokens& tokens);

/// Errors: kCorrupt if they are not the bytes of a sequence.
Result<Tokens> decode_tokens(std::span<const std::byte> bytes);

/// Returns the number of bytes of `encode_tokens` for so many of each.
std::int64_t encoded_tokens_bytes(std::size_t ids, std::size_t turns, std::size_t weights);

/// Returns the tokens up to the end of a turn, which must be one of theirs.
Tokens cut_tokens(Tokens tokens, const TurnEnd& end);

}  // namespace isocost
