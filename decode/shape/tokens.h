#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"

namespace isocost {

/// The end of an assistant's turn in a sample's tokens: a sample that is cut there keeps whole
/// exchanges.
struct TurnEnd {
  std::uint32_t ids = 0;                 ///< Number of ids up to the end of the turn.
  std::uint32_t placeholders = 0;        ///< Placeholders of media among them.
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

/// A sample's text in the tokens of a model's own tokenizer (`isocost tokenize`): the bytes of a
/// part of format kTokens. Each of the sample's media is one placeholder among the ids, in the
/// order of the sample's parts of that modality.
struct Tokens {
  std::vector<std::uint32_t> ids;
  std::vector<bool> labelled;             ///< Whether the prediction of each id counts in the loss.
  std::vector<TurnEnd> turns = {};        ///< In their order; empty: not known.
  std::vector<WeightedIds> weights = {};  ///< In their order, without overlap.
  bool operator==(const Tokens&) const = default;
};

/// Returns the bytes: the number of ids, the ids (32 bits each, little endian), a bit for each id
/// that is labelled, lowest bit first; the number of turns, and for each its numbers of ids,
/// placeholders, images, audio and videos (32 bits each); the number of weighted stretches, and for
/// each its begin, end and weight (32 bits each).
std::vector<std::byte> encode_tokens(const Tokens& tokens);

/// Parses the bytes. Errors: kCorrupt if they are not those of a sequence.
Result<Tokens> decode_tokens(std::span<const std::byte> bytes);

/// Returns the number of bytes of `encode_tokens` for these numbers of ids, turns and weights.
std::int64_t encoded_tokens_bytes(std::size_t ids, std::size_t turns, std::size_t weights);

/// The place where a sample is cut: at the end of one of its turns.
struct TokenCut {
  std::uint32_t ids = 0;      ///< TurnEnd::ids of that turn.
  std::uint32_t turns = 0;    ///< The turn's number, counted from 1.
  std::uint32_t weights = 0;  ///< Weighted stretches that begin before it.
};

/// The bytes of a sample's tokens up to a cut, computed from those of the whole while they are
/// read: nothing is decoded or copied. Immutable; const-safe.
class CutTokens final : public ByteSource {
 public:
  /// Cuts tokens. `whole` has the bytes of `encode_tokens`, and must outlive the object. Errors:
  /// kCorrupt if they are not such bytes, or have no such cut.
  static Result<CutTokens> create(std::span<const std::byte> whole, const TokenCut& cut);

  std::int64_t size() const override { return size_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override;

 private:
  CutTokens() = default;

  // Bytes that differ from those of the whole.
  struct Own {
    std::uint32_t ids = 0;
    std::uint32_t turns = 0;
    std::uint32_t weights = 0;
    std::byte last_bits{};
    WeightedIds last_weight;
  };
  struct Whole {
    std::span<const std::byte> ids, bits, turns,
        weights;  // parts of the whole that are taken unchanged
  };
  std::array<std::span<const std::byte>, 9> pieces() const;

  Own own_;
  Whole whole_;
  std::int64_t size_ = 0;
};

}  // namespace isocost
