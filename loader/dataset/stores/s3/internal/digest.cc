#include "loader/dataset/stores/s3/internal/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <new>

namespace isocost {
namespace {

using Digest = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string bytes_of(const Digest& digest, unsigned int size) {
  return {reinterpret_cast<const char*>(digest.data()), size};
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Digest digest{};
  unsigned int size = 0;
  // It fails only where there is no memory.
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  return hex_digits(bytes_of(digest, size));
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  Digest digest{};
  unsigned int size = 0;
  const auto* text = reinterpret_cast<const unsigned char*>(message.data());
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text, message.size(),
           digest.data(), &size) == nullptr) {
    throw std::bad_alloc();
  }
  return bytes_of(digest, size);
}

std::string hex_digits(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace isocost
