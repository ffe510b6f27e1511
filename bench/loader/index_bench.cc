// How fast are shards indexed, and does the time depend on the number of members rather than on
// their bytes? Shards hold WAV files with bodies of 1 KB and of 1 MB. The bodies are holes, so that
// they take no disk space; a reader that touched them would still copy every byte. The second
// benchmark opens a data set that has been indexed before.

#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>

#include "base/scratch_directory.h"
#include "loader/dataset/dataset.h"

namespace isocost {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBlock = 512;

void put(std::string& block, std::size_t at, std::string_view text) {
  block.replace(at, text.size(), text);
}

std::string octal(std::int64_t value, int digits) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%0*llo", digits, static_cast<unsigned long long>(value));
  return text.data();
}

std::string ustar_header(const std::string& name, std::int64_t bytes) {
  std::string block(kBlock, '\0');
  put(block, 0, name);
  put(block, 100, "0000644");
  put(block, 124, octal(bytes, 11));
  put(block, 136, octal(0, 11));
  put(block, 148, "        ");
  put(block, 156, "0");
  put(block, 257, std::string_view("ustar\00000", 8));
  const int sum = std::accumulate(block.begin(), block.end(), 0, [](int total, char c) {
    return total + static_cast<unsigned char>(c);
  });
  put(block, 148, octal(sum, 6));
  block[154] = '\0';
  return block;
}

void append_little_endian(std::string& out, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

std::string wav_header(std::int64_t file_bytes) {
  const auto bytes = static_cast<std::uint32_t>(file_bytes);
  std::string out = "RIFF";
  append_little_endian(out, bytes - 8, 4);
  out += "WAVEfmt ";
  append_little_endian(out, 16, 4);
  append_little_endian(out, 1, 2);  // PCM
  append_little_endian(out, 1, 2);  // mono
  append_little_endian(out, 16000, 4);
  append_little_endian(out, 32000, 4);
  append_little_endian(out, 2, 2);
  append_little_endian(out, 16, 2);
  out += "data";
  append_little_endian(out, bytes - 44, 4);
  return out;
}

void write_shard(const fs::path& path, std::int64_t members, std::int64_t body_bytes) {
  std::ofstream file(path, std::ios::binary);
  const std::int64_t padded = (body_bytes + kBlock - 1) / kBlock * kBlock;
  const std::string body = wav_header(body_bytes);
  for (std::int64_t i = 0; i < members; ++i) {
    file.seekp(i * (kBlock + padded));
    std::string name = octal(i, 8);
    name += ".wav";
    file << ustar_header(name, body_bytes) << body;
  }
  file.close();
  fs::resize_file(path, static_cast<std::uintmax_t>(members * (kBlock + padded) + 2 * kBlock));
}

void open_or_skip(benchmark::State& state, const fs::path& shards, std::int64_t members) {
  DatasetOptions options;
  options.workers = 1;
  const auto dataset = Dataset::open(shards, options);
  if (!dataset) {
    state.SkipWithError(dataset.error().message().c_str());
  } else if ((*dataset)->size() != static_cast<std::uint64_t>(members)) {
    const auto& bad = (*dataset)->bad();
    state.SkipWithError(bad.empty() ? "samples are missing" : bad.front().reason.c_str());
  }
}

// range(0): members; range(1): bytes of each.
void index_shard(benchmark::State& state) {
  const auto scratch = ScratchDirectory::create("isocost-index-bench").value();
  write_shard(scratch / "shard.tar", state.range(0), state.range(1));
  while (state.KeepRunning()) {
    state.PauseTiming();
    fs::remove_all(scratch / ".isocost");
    state.ResumeTiming();
    open_or_skip(state, scratch.path(), state.range(0));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void open_indexed(benchmark::State& state) {
  const auto scratch = ScratchDirectory::create("isocost-index-bench").value();
  write_shard(scratch / "shard.tar", state.range(0), state.range(1));
  open_or_skip(state, scratch.path(), state.range(0));
  while (state.KeepRunning()) open_or_skip(state, scratch.path(), state.range(0));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

constexpr int kRepetitions = 5;
BENCHMARK(index_shard)
    ->ArgNames({"members", "bytes"})
    ->ArgsProduct({{1000, 10000}, {1 << 10, 1 << 20}})
    ->Unit(benchmark::kMillisecond)
    ->Repetitions(kRepetitions)
    ->ReportAggregatesOnly();
// A large shard, once: --benchmark_filter=members:1000000.
BENCHMARK(index_shard)
    ->ArgNames({"members", "bytes"})
    ->Args({1'000'000, 1 << 10})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(open_indexed)
    ->ArgNames({"members", "bytes"})
    ->Args({10000, 1 << 20})
    ->Unit(benchmark::kMicrosecond)
    ->Repetitions(kRepetitions)
    ->ReportAggregatesOnly();

}  // namespace
}  // namespace isocost

BENCHMARK_MAIN();
