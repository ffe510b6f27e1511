// How long does a node take to open a data set that was opened before, and how much memory, with
// 10⁷ samples in 1,000 shards and with 10⁹ in 10⁵? The shards are hard links to one tar of text
// files, and so are their indexes, so that the disk holds one of each.
//
//   opening_scale make DIR SHARDS SAMPLES    makes SHARDS shards of SAMPLES samples each
//   opening_scale open DIR [COUNT]           opens them, reads COUNT samples from all over, and
//                                            prints seconds and memory
//
// The first `open` makes the table; each further one is a start as they usually are.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "loader/dataset/dataset.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

// File systems limit the links to one file: ext4 to 65,000.
constexpr std::uint64_t kMostLinks = 50'000;

void write_tar(const fs::path& path, std::uint64_t samples) {
  constexpr std::size_t kBlock = 512;
  std::ofstream file(path, std::ios::binary);
  for (std::uint64_t i = 0; i < samples; ++i) {
    std::string header(kBlock, '\0');
    const std::string name = std::to_string(10'000'000 + i) + ".txt";
    header.replace(0, name.size(), name);
    header.replace(100, 7, "0000644");
    header.replace(124, 11, "00000000005");
    header.replace(136, 11, "00000000000");
    header.replace(148, 8, "        ");
    header[156] = '0';
    header.replace(257, 8, std::string_view("ustar\00000", 8));
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    char octal[8] = {};
    std::snprintf(octal, sizeof(octal), "%06o", sum);
    header.replace(148, 7, octal, 7);
    std::string body = "words";
    body.resize(kBlock);
    file << header << body;
  }
  file << std::string(2 * kBlock, '\0');
}

std::string shard_name(std::uint64_t i) {
  std::string digits = std::to_string(i);
  return std::string(6 - std::min<std::size_t>(6, digits.size()), '0') + digits + ".tar";
}

// Makes the shards, and their indexes of that of the first one.
int make(const fs::path& directory, std::uint64_t shards, std::uint64_t samples) {
  fs::create_directories(directory);
  const fs::path first = directory / shard_name(0);
  write_tar(first, samples);
  const auto time = fs::last_write_time(first);
  const auto opened = Dataset::open(first.string(), {});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().to_string().c_str());
    return 1;
  }
  const fs::path indexes = directory / ".isocost";
  const fs::path index = indexes / (shard_name(0) + ".idx");
  fs::path shard_origin = first;
  fs::path index_origin = index;
  for (std::uint64_t i = 1; i < shards; ++i) {
    const fs::path shard = directory / shard_name(i);
    const fs::path of_shard = indexes / (shard_name(i) + ".idx");
    if (i % kMostLinks != 0) {
      fs::create_hard_link(shard_origin, shard);
      fs::create_hard_link(index_origin, of_shard);
      continue;
    }
    fs::copy_file(first, shard);
    fs::last_write_time(shard, time);
    fs::copy_file(index, of_shard);
    shard_origin = shard;
    index_origin = of_shard;
  }
  return 0;
}

// Returns a value of /proc/self/status in MiB.
double status_mib(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::strtod(line.c_str() + name.size() + 1, nullptr) / 1024;
  }
  return 0;
}

int open(const fs::path& directory, std::uint64_t count) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto start = Clock::now();
  const auto opened = Dataset::open(directory.string(), {});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().to_string().c_str());
    return 1;
  }
  const Dataset& dataset = **opened;
  std::printf("%llu samples in %zu shards: opened in %.2f s, at most %.0f MiB (VmHWM)\n",
              static_cast<unsigned long long>(dataset.size()), dataset.shards(),
              seconds_since(start), status_mib("VmHWM:"));
  const auto batch = Clock::now();
  Random random(1);
  std::int64_t bytes = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const SampleId id = random.below(dataset.size());
    const auto part = dataset.open_part(id, 0);
    if (!part || dataset.shape(id).parts.empty()) {
      std::fprintf(stderr, "sample %llu cannot be read\n", static_cast<unsigned long long>(id));
      return 1;
    }
    bytes += (*part)->size();
  }
  std::printf(
      "%llu samples from all over, of %lld bytes: %.2f s, %.0f MiB (VmRSS, of which %.0f "
      "MiB anonymous)\n",
      static_cast<unsigned long long>(count), static_cast<long long>(bytes), seconds_since(batch),
      status_mib("VmRSS:"), status_mib("RssAnon:"));
  return 0;
}

int run(const std::vector<std::string>& words) {
  const auto number = [&](std::size_t i) { return std::strtoull(words[i].c_str(), nullptr, 10); };
  if (words.size() == 4 && words[0] == "make") return make(words[1], number(2), number(3));
  if (words.size() >= 2 && words[0] == "open")
    return open(words[1], words.size() > 2 ? number(2) : 256);
  std::fprintf(stderr, "opening_scale make DIR SHARDS SAMPLES | open DIR [COUNT]\n");
  return 2;
}

}  // namespace
}  // namespace isocost

int main(int count, char** words) { return isocost::run({words + 1, words + count}); }
