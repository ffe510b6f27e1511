// For any bytes as a file of records (a manifest, conversations, questions, captions), compressed
// or not: each record is a sample or an error, reading ends, and shards made of it hold the members
// that were accepted. Records that name files which exist are read, but not followed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <variant>

#include "base/scratch_directory.h"
#include "loader/dataset/formats/tar_listing.h"
#include "loader/dataset/records/sample_input.h"
#include "loader/dataset/shard_writing/make_shards.h"
#include "loader/dataset/stores/file_source.h"
#include "tests/support/memory_scratch.h"

namespace {

namespace fs = std::filesystem;
using isocost::ErrorCode;

struct Manifest {
  std::uint64_t samples = 0;
  std::uint64_t bad_lines = 0;
  bool names_files = false;
  bool is_cut = false;  // a compressed stream that is not whole
};

Manifest read(const fs::path& file) {
  const auto input = isocost::SampleInput::open(file, {});
  Manifest manifest;
  if (!input) {  // another format or encoding than text in UTF-8
    manifest.is_cut = input.error().code() == ErrorCode::kIo;
    if (!manifest.is_cut && input.error().code() != ErrorCode::kCorrupt) std::abort();
    return manifest;
  }
  for (;;) {
    const auto sample = (*input)->next();
    if (!sample) {
      manifest.is_cut = sample.error().code() == ErrorCode::kIo;
      if (manifest.is_cut) return manifest;
      if (sample.error().code() != ErrorCode::kCorrupt) std::abort();
      ++manifest.bad_lines;
      continue;
    }
    const std::optional<isocost::InputSample>& read = *sample;
    if (!read) return manifest;
    if (read->parts.empty()) std::abort();
    ++manifest.samples;
    for (const isocost::InputPart& part : read->parts) {
      manifest.names_files = manifest.names_files || std::holds_alternative<fs::path>(part.body);
    }
  }
}

std::uint64_t part_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto shard = isocost::FileSource::open(entry.path());
    if (!shard) std::abort();
    auto listing = isocost::TarListing::open(**shard);
    if (!listing) std::abort();
    while (const auto member = listing->next()) {
      if (!member->problem.empty()) std::abort();
      bytes += static_cast<std::uint64_t>(member->size);
    }
  }
  return bytes;
}

void make(const fs::path& file, const fs::path& folder, const Manifest& manifest) {
  isocost::MakeShardsOptions options;
  options.skip_bad = true;
  options.samples_per_shard = 3;
  const auto made = isocost::make_shards(file, folder, options);
  if (manifest.is_cut) {
    if (made || made.error().code() != ErrorCode::kIo) std::abort();
  } else if (made) {
    if (made->samples + made->bad.size() != manifest.samples + manifest.bad_lines) std::abort();
    if (made->bytes != part_bytes(folder)) std::abort();
    fs::remove_all(folder);
  } else if (made.error().code() != ErrorCode::kCorrupt &&
             made.error().code() != ErrorCode::kNotFound) {
    std::abort();
  }
  if (fs::exists(folder)) std::abort();  // what failed leaves nothing behind
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const isocost::ScratchDirectory scratch = isocost::memory_scratch("isocost-manifest-fuzz");
  const fs::path file = scratch / "manifest.jsonl";
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const Manifest manifest = read(file);
  if (!manifest.names_files) make(file, scratch / "shards", manifest);
  return 0;
}
