// An input is one file of the bytes that a member of a replica group may receive from its rank 0:
// one broadcast after another, which end with an error where the file ends. Nothing crashes, no
// microbatch is larger than allowed, and every byte that is handed out was received.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/tensor.h"
#include "trainer_adapter/replicas.h"

namespace {

constexpr std::int64_t kMostBytes = 1 << 20;

// A broadcast that takes its bytes from the file.
auto broadcast_from(std::span<const std::byte>& rest) {
  return [&rest](std::span<std::byte> bytes) -> isocost::Status {
    if (bytes.size() > rest.size()) {
      rest = {};
      return isocost::Error(isocost::ErrorCode::kUnavailable, "the file ends");
    }
    std::copy_n(rest.begin(), bytes.size(), bytes.begin());
    rest = rest.subspan(bytes.size());
    return {};
  };
}

void check(const isocost::Microbatch& microbatch) {
  std::int64_t announced = 0;
  for (const isocost::TensorSpec& spec : microbatch.header.tensors) {
    const auto tensor = microbatch.find(spec.name);
    if (!tensor || tensor->shape != spec.shape) std::abort();
    announced += tensor->size_bytes();
  }
  if (announced > kMostBytes) std::abort();
  unsigned sum = 0;  // so that each byte is read
  for (const isocost::NamedTensor& named : microbatch.tensors) {
    for (const std::byte value : named.tensor.bytes()) sum += static_cast<unsigned>(value);
  }
  volatile unsigned kept = sum;
  static_cast<void>(kept);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> rest = std::as_bytes(std::span(data, size));
  isocost::ClientOptions options;
  options.max_microbatch_bytes = kMostBytes;
  const auto client = isocost::connect_replica(options, {1, broadcast_from(rest)});
  if (!client) return 0;
  while (!rest.empty()) {
    const auto next = (*client)->next({});
    if (!next) {
      if ((*client)->next({}).has_value()) std::abort();  // an error is permanent
      return 0;
    }
    const std::optional<isocost::Microbatch>& microbatch = *next;
    if (microbatch) check(*microbatch);
  }
  return 0;
}
