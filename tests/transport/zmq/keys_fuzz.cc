// For any bytes as a key file: the readers return an error or keys that CURVE takes, and a secret
// key only with the public key that belongs to it.
#include <zmq.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/scratch_directory.h"
#include "tests/support/memory_scratch.h"
#include "transport/zmq/keys.h"

namespace {

constexpr std::string_view kZ85 =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

void require_key(const std::string& key) {
  const bool of_z85 =
      std::all_of(key.begin(), key.end(), [](char c) { return kZ85.find(c) != kZ85.npos; });
  std::array<std::uint8_t, 32> raw{};
  if (key.size() != 40 || !of_z85 || zmq_z85_decode(raw.data(), key.c_str()) == nullptr) {
    std::abort();
  }
}

void require_refusal(const isocost::Error& error) {
  if (error.code() != isocost::ErrorCode::kInvalidArgument) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const isocost::ScratchDirectory scratch = isocost::memory_scratch("isocost-keys-fuzz");
  const std::filesystem::path file = scratch / "keys";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  if (const auto pair = isocost::read_secret_key(file)) {
    require_key(pair->public_key);
    require_key(pair->secret_key);
    std::array<char, 41> derived{};
    if (zmq_curve_public(derived.data(), pair->secret_key.c_str()) != 0 ||
        pair->public_key != derived.data()) {
      std::abort();
    }
  } else {
    require_refusal(pair.error());
  }
  if (const auto key = isocost::read_public_key(file)) {
    require_key(*key);
  } else {
    require_refusal(key.error());
  }
  if (const auto keys = isocost::read_allowed_keys(file)) {
    for (const std::string& key : *keys) require_key(key);
  } else {
    require_refusal(keys.error());
  }
  return 0;
}
