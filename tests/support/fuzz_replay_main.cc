// Runs a fuzz target without a fuzzer: on every corpus file as it is, and then on up to two
// thousand seeded mutations of each (flips, cuts, doublings, random runs). A crash or a sanitizer
// report fails the test.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes mutate(Bytes bytes, isocost::Random& random) {
  const std::uint64_t edits = 1 + random.below(8);
  for (std::uint64_t i = 0; i < edits; ++i) {
    if (bytes.empty()) bytes.push_back(static_cast<std::uint8_t>(random.next()));
    const std::size_t at = random.below(bytes.size());
    switch (random.below(5)) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1U << random.below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(random.below(2) == 0 ? 0xFF : 0x00);
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3: {
        const std::size_t run = std::min<std::size_t>(4, bytes.size() - at);
        for (std::size_t k = 0; k < run; ++k) {
          bytes[at + k] = static_cast<std::uint8_t>(random.next());
        }
        break;
      }
      default: {
        const Bytes tail(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
        bytes.insert(bytes.end(), tail.begin(), tail.end());
        break;
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);  // the same mutations in every copy of the corpus
  std::vector<Bytes> seeds = {{}};
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (seeds.size() < 2) {
    std::fputs("no corpus files: name a directory that has some\n", stderr);
    return 1;
  }
  constexpr int kMutations = 2000;
  isocost::Random random(1);
  for (const Bytes& seed : seeds) {
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
    const auto rounds = static_cast<int>(
        std::clamp<std::size_t>((std::size_t{16} << 20) / (seed.size() + 1), 50, kMutations));
    for (int i = 0; i < rounds; ++i) {
      const Bytes bytes = mutate(seed, random);
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
  }
  std::printf("replayed %zu seeds\n", seeds.size() - 1);
  return 0;
}
