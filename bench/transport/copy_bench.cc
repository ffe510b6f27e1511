// How long does a node copy a sample into its microbatch's block, and what does going past the
// caches save? Copies parts of 2.6 MB, a photograph at native size, one after the other into shared
// memory, until neither side is in the caches. The copies are compared first.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "transport/shared_memory/memory_block.h"
#include "transport/wire/copy_bytes.h"

namespace isocost {
namespace {

constexpr int kRounds = 9;
constexpr std::size_t kPart = 2'600'000;
constexpr std::size_t kParts = 80;

void with_memcpy(std::span<std::byte> to, std::span<const std::byte> from) {
  std::memcpy(to.data(), from.data(), from.size());
}

void as_a_part(std::span<std::byte> to, std::span<const std::byte> from) {
  copy_part(to, from, kPart * kParts);
}

using Copy = void (*)(std::span<std::byte> to, std::span<const std::byte> from);

double gigabytes_a_second(Copy copy, std::span<std::byte> to, std::span<const std::byte> from) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kParts; ++i) {
    copy(to.subspan(i * kPart, kPart), from.subspan(i * kPart, kPart));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return 1e-9 * kPart * kParts / took.count();
}

void print(const char* name, std::vector<double> values, const char* unit) {
  const auto [least, most] = std::ranges::minmax(values);
  std::printf("%-10s %6.2f %s (%.2f to %.2f)\n", name, median(values), unit, least, most);
}

int run() {
  std::vector<std::byte> from(kPart * kParts);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 >> 3);
  auto block = MemoryBlock::create(static_cast<std::int64_t>(from.size()));
  if (!block) {
    std::fprintf(stderr, "copy_bench: %s\n", block.error().message().c_str());
    return 1;
  }
  const std::span<std::byte> to = block->bytes().first(from.size());
  std::vector<double> memcpy_rate;
  std::vector<double> part_rate;
  std::vector<double> ratio;
  for (int round = 0; round <= kRounds; ++round) {
    std::ranges::fill(to, std::byte{0});
    const double part = gigabytes_a_second(as_a_part, to, from);
    if (!std::ranges::equal(to, from)) {
      std::fprintf(stderr, "copy_bench: a copy has other bytes\n");
      return 1;
    }
    const double plain = gigabytes_a_second(with_memcpy, to, from);
    if (round == 0) continue;  // it warms up
    part_rate.push_back(part);
    memcpy_rate.push_back(plain);
    ratio.push_back(part / plain);
  }
  std::printf("medians of %d rounds (least to most)\n", kRounds);
  print("memcpy", memcpy_rate, "GB/s");
  print("copy_part", part_rate, "GB/s");
  print("ratio", ratio, "times");
  return 0;
}

}  // namespace
}  // namespace isocost

int main() { return isocost::run(); }
