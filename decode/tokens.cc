#include "decode/tokens.h"

#include <bit>
#include <cstring>

namespace isocost {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::size_t kWord = sizeof(std::uint32_t);
constexpr std::size_t kBits = 8;

std::size_t encoded_size(std::size_t ids) { return kWord * (1 + ids) + (ids + kBits - 1) / kBits; }

}  // namespace

std::vector<std::byte> encode_tokens(const Tokens& tokens) {
  const std::size_t count = tokens.ids.size();
  std::vector<std::byte> bytes(encoded_size(count));
  const auto written = static_cast<std::uint32_t>(count);
  std::memcpy(bytes.data(), &written, kWord);
  if (count > 0) std::memcpy(bytes.data() + kWord, tokens.ids.data(), count * kWord);
  std::byte* bits = bytes.data() + kWord * (1 + count);
  for (std::size_t i = 0; i < count; ++i) {
    if (tokens.labelled[i]) bits[i / kBits] |= std::byte{1} << (i % kBits);
  }
  return bytes;
}

Result<Tokens> decode_tokens(std::span<const std::byte> bytes) {
  std::uint32_t count = 0;
  if (bytes.size() >= kWord) std::memcpy(&count, bytes.data(), kWord);
  if (bytes.size() < kWord || bytes.size() != encoded_size(count)) {
    return Error(ErrorCode::kCorrupt, "its tokens are damaged: run isocost tokenize again");
  }
  Tokens tokens{std::vector<std::uint32_t>(count), std::vector<bool>(count)};
  if (count > 0) std::memcpy(tokens.ids.data(), bytes.data() + kWord, count * kWord);
  const std::byte* bits = bytes.data() + kWord * (1 + std::size_t{count});
  for (std::size_t i = 0; i < count; ++i) {
    tokens.labelled[i] = (bits[i / kBits] >> (i % kBits) & std::byte{1}) != std::byte{};
  }
  return tokens;
}

}  // namespace isocost
