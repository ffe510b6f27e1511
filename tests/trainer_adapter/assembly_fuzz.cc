// An input is one file of the frames that a hostile node may send, each after a u32 of its size.
// The first frame is a microbatch's header, each further message a fragment's header and a frame
// for each of its pieces. Nothing crashes, no more is allocated than allowed, and what is handed
// out was filled.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "trainer_adapter/internal/assembly.h"
#include "transport/wire/wire.h"

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::int64_t kMostBytes = 1 << 20;

Bytes next_frame(Bytes& rest) {
  std::uint32_t size = 0;
  if (rest.size() < sizeof(size)) return {};
  std::memcpy(&size, rest.data(), sizeof(size));
  rest = rest.subspan(sizeof(size));
  const Bytes frame = rest.first(size < rest.size() ? size : rest.size());
  rest = rest.subspan(frame.size());
  return frame;
}

void assemble(isocost::MicrobatchHeader header, Bytes rest) {
  isocost::BufferPool pool;
  auto assembly = isocost::Assembly::begin(std::move(header), pool, kMostBytes);
  if (!assembly) return;
  std::int64_t copied = 0;
  while (!assembly->complete() && !rest.empty()) {
    const auto message = isocost::decode(next_frame(rest));
    const auto* fragment = message ? std::get_if<isocost::FragmentHeader>(&*message) : nullptr;
    if (fragment == nullptr) return;
    std::vector<Bytes> frames;
    for (std::size_t i = 0; i < fragment->pieces.size(); ++i) frames.push_back(next_frame(rest));
    const auto added = assembly->add(*fragment, frames);
    if (!added) return;
    copied += *added;
  }
  if (copied > kMostBytes) std::abort();
  if (!assembly->complete()) return;
  const auto microbatch = assembly->finish();
  if (!microbatch) return;
  std::int64_t announced = 0;
  for (const auto& spec : microbatch->header.tensors) announced += *isocost::tensor_bytes(spec);
  if (announced != copied) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes rest = std::as_bytes(std::span(data, size));
  auto message = isocost::decode(next_frame(rest));
  if (!message) return 0;
  if (auto* header = std::get_if<isocost::MicrobatchHeader>(&*message)) {
    assemble(std::move(*header), rest);
  }
  return 0;
}
