#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isocost {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian; a big-endian host needs byte swaps here");

/// Appends little-endian values to bytes.
class ByteWriter {
 public:
  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  void put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  void put_bytes(std::span<const std::uint8_t> bytes) {
    const auto raw = std::as_bytes(bytes);
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  /// Appends a length of type Length, then the characters.
  template <typename Length>
  void put_text(std::string_view text) {
    put(static_cast<Length>(text.size()));
    const auto raw = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads values in the order in which ByteWriter wrote them. Past the end, and after `fail`, every
/// value reads as zero and `ok` is false, so that a parser may check once.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  T get() {
    T value{};
    if (!ok_ || rest_.size() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  void get_bytes(std::span<std::uint8_t> out) {
    if (!ok_ || rest_.size() < out.size()) {
      ok_ = false;
      return;
    }
    std::memcpy(out.data(), rest_.data(), out.size());
    rest_ = rest_.subspan(out.size());
  }
  template <typename Length>
  std::string get_text(std::size_t most) {
    const auto size = static_cast<std::size_t>(get<Length>());
    if (!ok_ || size > most || rest_.size() < size) {
      ok_ = false;
      return {};
    }
    std::string text(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    return text;
  }

  void fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  /// Returns the number of bytes not read yet: an upper bound on how many elements can follow.
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace isocost
