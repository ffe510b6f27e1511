#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace isocost {

/// FNV-1a hash of 64 bits (Fowler, Noll, Vo; RFC 9923), the same on every machine. Not for secrets,
/// and not safe against deliberate collisions.
class Fingerprint {
 public:
  template <std::integral T>
  void add(T value) {
    const auto word = static_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i) add_byte(static_cast<std::uint8_t>(word >> (8 * i)));
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  /// Adds the length, too, so that "ab", "c" and "a", "bc" differ.
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add_byte(static_cast<std::uint8_t>(c));
  }
  std::uint64_t value() const { return hash_; }

  static std::uint64_t of(std::string_view text) {
    Fingerprint fingerprint;
    fingerprint.add(text);
    return fingerprint.value();
  }

 private:
  void add_byte(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001B3ULL; }
  std::uint64_t hash_ = 0xCBF29CE484222325ULL;
};

}  // namespace isocost
