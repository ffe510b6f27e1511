#include "decode/tokens.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace isocost {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::size_t kWord = sizeof(std::uint32_t);
constexpr std::size_t kBits = 8;
static_assert(sizeof(TurnEnd) == 5 * kWord && sizeof(WeightedIds) == 3 * kWord);

// The bytes of ids and labels, before those of the turns.
std::size_t ids_size(std::size_t ids) { return kWord * (1 + ids) + (ids + kBits - 1) / kBits; }

Error damaged() {
  return {ErrorCode::kCorrupt, "its tokens are damaged: run isocost tokenize again"};
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, kWord);
  return word;
}

// Whether each turn ends behind the one before it, and has at least its media.
bool are_in_order(const Tokens& tokens) {
  TurnEnd before;
  for (const TurnEnd& turn : tokens.turns) {
    std::uint64_t media = 0;
    for (std::size_t m = 0; m < turn.media.size(); ++m) {
      if (turn.media.at(m) < before.media.at(m)) return false;
      media += turn.media.at(m);
    }
    if (turn.ids <= before.ids || turn.ids > tokens.ids.size()) return false;
    if (turn.placeholders < media || turn.placeholders > turn.ids) return false;
    before = turn;
  }
  return true;
}

// Whether each weight is one, and of ids behind those of the one before it.
bool are_weights(const Tokens& tokens) {
  std::uint32_t before = 0;
  for (const WeightedIds& each : tokens.weights) {
    if (each.begin < before || each.end <= each.begin || each.end > tokens.ids.size()) return false;
    if (!std::isfinite(each.weight) || each.weight <= 0) return false;
    before = each.end;
  }
  return true;
}

// Writes the number of values, then the values; returns what is behind them.
template <typename T>
std::byte* put(std::byte* to, const std::vector<T>& values) {
  const auto count = static_cast<std::uint32_t>(values.size());
  std::memcpy(to, &count, kWord);
  if (count > 0) std::memcpy(to + kWord, values.data(), count * sizeof(T));
  return to + kWord + count * sizeof(T);
}

// Takes from the front what `put` wrote. Returns whether it is there.
template <typename T>
bool take(std::span<const std::byte>& from, std::vector<T>& values) {
  if (from.size() < kWord) return false;
  const std::size_t count = word_at(from, 0);
  from = from.subspan(kWord);
  if (from.size() / sizeof(T) < count) return false;
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), from.data(), count * sizeof(T));
  from = from.subspan(count * sizeof(T));
  return true;
}

}  // namespace

std::int64_t encoded_tokens_bytes(std::size_t ids, std::size_t turns, std::size_t weights) {
  return static_cast<std::int64_t>(ids_size(ids) + kWord + turns * sizeof(TurnEnd) + kWord +
                                   weights * sizeof(WeightedIds));
}

std::vector<std::byte> encode_tokens(const Tokens& tokens) {
  const std::size_t count = tokens.ids.size();
  std::vector<std::byte> bytes(static_cast<std::size_t>(
      encoded_tokens_bytes(count, tokens.turns.size(), tokens.weights.size())));
  std::byte* bits = put(bytes.data(), tokens.ids);
  for (std::size_t i = 0; i < count; ++i) {
    if (tokens.labelled[i]) bits[i / kBits] |= std::byte{1} << (i % kBits);
  }
  put(put(bytes.data() + ids_size(count), tokens.turns), tokens.weights);
  return bytes;
}

Result<Tokens> decode_tokens(std::span<const std::byte> bytes) {
  Tokens tokens;
  if (!take(bytes, tokens.ids)) return damaged();
  const std::size_t count = tokens.ids.size();
  const std::size_t bit_bytes = (count + kBits - 1) / kBits;
  if (bytes.size() < bit_bytes) return damaged();
  tokens.labelled.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens.labelled[i] = (bytes[i / kBits] >> (i % kBits) & std::byte{1}) != std::byte{};
  }
  bytes = bytes.subspan(bit_bytes);
  if (!take(bytes, tokens.turns) || !take(bytes, tokens.weights) || !bytes.empty()) {
    return damaged();
  }
  if (!are_in_order(tokens) || !are_weights(tokens)) return damaged();
  return tokens;
}

Tokens cut_tokens(Tokens tokens, const TurnEnd& end) {
  tokens.ids.resize(end.ids);
  tokens.labelled.resize(end.ids);
  std::erase_if(tokens.turns, [&end](const TurnEnd& turn) { return turn.ids > end.ids; });
  std::erase_if(tokens.weights, [&end](const WeightedIds& each) { return each.begin >= end.ids; });
  for (WeightedIds& each : tokens.weights) each.end = std::min(each.end, end.ids);
  return tokens;
}

}  // namespace isocost
