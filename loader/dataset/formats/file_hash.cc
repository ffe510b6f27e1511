#include "loader/dataset/formats/file_hash.h"

#define XXH_INLINE_ALL  // a header: nothing is linked
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/utf8.h"

extern "C" {
#include <libavutil/hash.h>
}

namespace isocost {
namespace {

enum class Family : std::uint8_t { kLibav, kXxh32, kXxh64, kXxh3Short, kXxh3Long };

struct Algorithm {
  std::string_view name;
  Family family;
  const char* libav;  // its name in libavutil
  std::size_t digest_bytes;
};

constexpr std::array kAlgorithms = {
    Algorithm{"md5", Family::kLibav, "MD5", 16},
    Algorithm{"sha1", Family::kLibav, "SHA160", 20},
    Algorithm{"sha224", Family::kLibav, "SHA224", 28},
    Algorithm{"sha256", Family::kLibav, "SHA256", 32},
    Algorithm{"sha384", Family::kLibav, "SHA384", 48},
    Algorithm{"sha512", Family::kLibav, "SHA512", 64},
    Algorithm{"xxh32", Family::kXxh32, nullptr, 4},
    Algorithm{"xxh64", Family::kXxh64, nullptr, 8},
    Algorithm{"xxh3_64", Family::kXxh3Short, nullptr, 8},
    Algorithm{"xxh128", Family::kXxh3Long, nullptr, 16},  // xxhash's other name of the next one
    Algorithm{"xxh3_128", Family::kXxh3Long, nullptr, 16},
};

const Algorithm* find_algorithm(std::string_view name) {
  const auto* const found = std::ranges::find(kAlgorithms, name, &Algorithm::name);
  return found == kAlgorithms.end() ? nullptr : found;
}

std::string hexadecimal(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// One hash that is being computed.
class Running {
 public:
  virtual ~Running() = default;
  virtual void add(std::span<const std::uint8_t> bytes) = 0;
  virtual std::string digest() = 0;
};

class LibavHash final : public Running {
 public:
  static std::unique_ptr<LibavHash> create(const Algorithm& algorithm) {
    AVHashContext* context = nullptr;
    if (av_hash_alloc(&context, algorithm.libav) < 0) return nullptr;
    av_hash_init(context);
    return std::unique_ptr<LibavHash>(new LibavHash(context, algorithm.digest_bytes));
  }
  LibavHash(const LibavHash&) = delete;
  LibavHash& operator=(const LibavHash&) = delete;
  ~LibavHash() override { av_hash_freep(&context_); }
  void add(std::span<const std::uint8_t> bytes) override {
    av_hash_update(context_, bytes.data(), bytes.size());
  }
  std::string digest() override {
    std::array<std::uint8_t, AV_HASH_MAX_SIZE> bytes{};
    av_hash_final(context_, bytes.data());
    return hexadecimal(std::span(bytes).first(digest_bytes_));
  }

 private:
  LibavHash(AVHashContext* context, std::size_t digest_bytes)
      : context_(context), digest_bytes_(digest_bytes) {}
  AVHashContext* context_;
  std::size_t digest_bytes_;
};

class Xxh32 final : public Running {
 public:
  Xxh32() { XXH32_reset(&state_, 0); }
  void add(std::span<const std::uint8_t> bytes) override {
    XXH32_update(&state_, bytes.data(), bytes.size());
  }
  std::string digest() override { return fmt::format("{:08x}", XXH32_digest(&state_)); }

 private:
  XXH32_state_t state_{};
};

class Xxh64 final : public Running {
 public:
  Xxh64() { XXH64_reset(&state_, 0); }
  void add(std::span<const std::uint8_t> bytes) override {
    XXH64_update(&state_, bytes.data(), bytes.size());
  }
  std::string digest() override { return fmt::format("{:016x}", XXH64_digest(&state_)); }

 private:
  XXH64_state_t state_{};
};

class Xxh3 final : public Running {
 public:
  explicit Xxh3(bool long_digest) : long_digest_(long_digest) {
    if (long_digest_) {
      XXH3_128bits_reset(&state_);
    } else {
      XXH3_64bits_reset(&state_);
    }
  }
  void add(std::span<const std::uint8_t> bytes) override {
    if (long_digest_) {
      XXH3_128bits_update(&state_, bytes.data(), bytes.size());
    } else {
      XXH3_64bits_update(&state_, bytes.data(), bytes.size());
    }
  }
  std::string digest() override {
    if (!long_digest_) return fmt::format("{:016x}", XXH3_64bits_digest(&state_));
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t state_{};
  bool long_digest_;
};

std::unique_ptr<Running> start(const Algorithm& algorithm) {
  switch (algorithm.family) {
    case Family::kLibav:
      return LibavHash::create(algorithm);
    case Family::kXxh32:
      return std::make_unique<Xxh32>();
    case Family::kXxh64:
      return std::make_unique<Xxh64>();
    case Family::kXxh3Short:
      return std::make_unique<Xxh3>(false);
    case Family::kXxh3Long:
      return std::make_unique<Xxh3>(true);
  }
  return nullptr;
}

Error not_computed(std::string_view algorithm) {
  return {ErrorCode::kUnsupported, fmt::format("the hash '{}' is not computed; {} are",
                                               printable_utf8(algorithm), kHashAlgorithms)};
}

Result<std::vector<std::unique_ptr<Running>>> start_all(const std::vector<StatedHash>& hashes) {
  std::vector<std::unique_ptr<Running>> running;
  for (const StatedHash& hash : hashes) {
    const Algorithm* algorithm = find_algorithm(hash.algorithm);
    auto started = algorithm != nullptr ? start(*algorithm) : nullptr;
    if (!started) return not_computed(hash.algorithm);
    running.push_back(std::move(started));
  }
  return running;
}

}  // namespace

std::optional<std::size_t> hash_digits(std::string_view algorithm) {
  const Algorithm* found = find_algorithm(algorithm);
  if (found == nullptr) return std::nullopt;
  return 2 * found->digest_bytes;
}

Status compare_hashes(const ByteSource& source, const std::vector<StatedHash>& hashes,
                      const std::stop_token& stop) {
  ISOCOST_ASSIGN(auto running, start_all(hashes));
  if (running.empty()) return {};
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::vector<std::uint8_t> block(kBlock);
  for (std::int64_t at = 0;;) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "stopped while hashing");
    ISOCOST_ASSIGN(const std::size_t read,
                   source.read_at(at, std::as_writable_bytes(std::span(block))));
    if (read == 0) break;
    at += static_cast<std::int64_t>(read);
    for (const auto& each : running) each->add(std::span(block).first(read));
  }
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const std::string found = running[i]->digest();
    if (found == lower_ascii(hashes[i].digest)) continue;
    return Error(ErrorCode::kCorrupt, fmt::format("its {} is {}, and its index says {}",
                                                  hashes[i].algorithm, found, hashes[i].digest));
  }
  return {};
}

}  // namespace isocost
