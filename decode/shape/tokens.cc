#include "decode/shape/tokens.h"

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

// Returns the bytes of ids and labels, which precede those of the turns.
std::size_t ids_size(std::size_t ids) { return kWord * (1 + ids) + (ids + kBits - 1) / kBits; }

Error damaged() {
  return {ErrorCode::kCorrupt, "its tokens are damaged: run isocost tokenize again"};
}

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, kWord);
  return word;
}

// Returns whether each turn ends after the one before it, and has at least its media.
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

// Returns whether each weight is valid, and its ids follow those of the one before it.
bool are_weights(const Tokens& tokens) {
  std::uint32_t before = 0;
  for (const WeightedIds& each : tokens.weights) {
    if (each.begin < before || each.end <= each.begin || each.end > tokens.ids.size()) return false;
    if (!std::isfinite(each.weight) || each.weight <= 0) return false;
    before = each.end;
  }
  return true;
}

// Writes the number of values, then the values. Returns the place after them.
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

Result<CutTokens> CutTokens::create(std::span<const std::byte> whole, const TokenCut& cut) {
  const std::size_t size = whole.size();
  if (size < kWord || cut.ids == 0 || word_at(whole, 0) < cut.ids) return damaged();
  const std::size_t bits_at = kWord * (1 + std::size_t{word_at(whole, 0)});
  const std::size_t turns_at = ids_size(word_at(whole, 0));
  if (size < turns_at + kWord || word_at(whole, turns_at) < cut.turns) return damaged();
  const std::size_t weights_at =
      turns_at + kWord + std::size_t{word_at(whole, turns_at)} * sizeof(TurnEnd);
  if (size < weights_at + kWord || word_at(whole, weights_at) < cut.weights) return damaged();
  if ((size - weights_at - kWord) / sizeof(WeightedIds) < cut.weights) return damaged();

  CutTokens tokens;
  tokens.own_.ids = cut.ids;
  tokens.own_.turns = cut.turns;
  tokens.own_.weights = cut.weights;
  const std::size_t last = (cut.ids - 1) / kBits;
  const auto unused = static_cast<int>(kBits - 1 - (cut.ids - 1) % kBits);
  tokens.own_.last_bits = whole[bits_at + last] & std::byte{0xFF} >> unused;
  const std::size_t whole_weights = cut.weights > 0 ? cut.weights - 1 : 0;
  tokens.whole_ = {
      .ids = whole.subspan(kWord, cut.ids * kWord),
      .bits = whole.subspan(bits_at, last),
      .turns = whole.subspan(turns_at + kWord, cut.turns * sizeof(TurnEnd)),
      .weights = whole.subspan(weights_at + kWord, whole_weights * sizeof(WeightedIds))};
  if (cut.weights > 0) {
    WeightedIds& weight = tokens.own_.last_weight;
    std::memcpy(&weight, tokens.whole_.weights.data() + tokens.whole_.weights.size(),
                sizeof(weight));
    weight.end = std::min(weight.end, cut.ids);
  }
  tokens.size_ = encoded_tokens_bytes(cut.ids, cut.turns, cut.weights);
  return tokens;
}

std::array<std::span<const std::byte>, 9> CutTokens::pieces() const {
  const auto bytes_of = [](const auto& value) { return std::as_bytes(std::span(&value, 1)); };
  const auto last_weight =
      bytes_of(own_.last_weight).first(own_.weights > 0 ? sizeof(WeightedIds) : 0);
  return {bytes_of(own_.ids),       whole_.ids,           whole_.bits,
          bytes_of(own_.last_bits), bytes_of(own_.turns), whole_.turns,
          bytes_of(own_.weights),   whole_.weights,       last_weight};
}

Result<std::size_t> CutTokens::read_at(std::int64_t offset, std::span<std::byte> to) const {
  if (offset < 0) return Error(ErrorCode::kInvalidArgument, "a read before the beginning");
  auto skipped = static_cast<std::size_t>(offset);
  std::size_t done = 0;
  for (const std::span<const std::byte> piece : pieces()) {
    const std::size_t begin = std::min(skipped, piece.size());
    const std::size_t count = std::min(piece.size() - begin, to.size() - done);
    if (count > 0) std::memcpy(to.data() + done, piece.data() + begin, count);
    skipped -= begin;
    done += count;
  }
  return done;
}

}  // namespace isocost
