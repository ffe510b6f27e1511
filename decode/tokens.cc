#include "decode/tokens.h"

#include <bit>
#include <cstring>

namespace isocost {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::size_t kWord = sizeof(std::uint32_t);
constexpr std::size_t kBits = 8;
static_assert(sizeof(TurnEnd) == 5 * kWord);

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

}  // namespace

std::int64_t encoded_tokens_bytes(std::size_t ids, std::size_t turns) {
  return static_cast<std::int64_t>(ids_size(ids) + kWord + turns * sizeof(TurnEnd));
}

std::vector<std::byte> encode_tokens(const Tokens& tokens) {
  const std::size_t count = tokens.ids.size();
  const auto turns = static_cast<std::uint32_t>(tokens.turns.size());
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(encoded_tokens_bytes(count, tokens.turns.size())));
  const auto written = static_cast<std::uint32_t>(count);
  std::memcpy(bytes.data(), &written, kWord);
  if (count > 0) std::memcpy(bytes.data() + kWord, tokens.ids.data(), count * kWord);
  std::byte* bits = bytes.data() + kWord * (1 + count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tokens.labelled[i]) bits[i / kBits] |= std::byte{1} << (i % kBits);
  }
  std::byte* ends = bytes.data() + ids_size(count);
  std::memcpy(ends, &turns, kWord);
  if (turns > 0) std::memcpy(ends + kWord, tokens.turns.data(), turns * sizeof(TurnEnd));
  return bytes;
}

Result<Tokens> decode_tokens(std::span<const std::byte> bytes) {
  if (bytes.size() < kWord) return damaged();
  const std::size_t count = word_at(bytes, 0);
  const std::size_t turns_at = ids_size(count);
  if (bytes.size() < turns_at + kWord) return damaged();
  const std::size_t turns = word_at(bytes, turns_at);
  if (bytes.size() != turns_at + kWord + turns * sizeof(TurnEnd)) return damaged();
  Tokens tokens{std::vector<std::uint32_t>(count), std::vector<bool>(count),
                std::vector<TurnEnd>(turns)};
  if (count > 0) std::memcpy(tokens.ids.data(), bytes.data() + kWord, count * kWord);
  const std::byte* bits = bytes.data() + kWord * (1 + count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens.labelled[i] = (bits[i / kBits] >> (i % kBits) & std::byte{1}) != std::byte{};
  }
  if (turns > 0) {
    std::memcpy(tokens.turns.data(), bytes.data() + turns_at + kWord, turns * sizeof(TurnEnd));
  }
  if (!are_in_order(tokens)) return damaged();
  return tokens;
}

Tokens cut_tokens(Tokens tokens, const TurnEnd& end) {
  tokens.ids.resize(end.ids);
  tokens.labelled.resize(end.ids);
  std::erase_if(tokens.turns, [&end](const TurnEnd& turn) { return turn.ids > end.ids; });
  return tokens;
}

}  // namespace isocost
