// For any bytes, decompressing ends within its limit, and the file holds what is reported. The
// bytes, compressed to two frames with padding after them, decompress to themselves, twice.
#include <zlib.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_source.h"
#include "loader/dataset/stores/internal/decompress.h"

namespace {

constexpr std::int64_t kMostBytes = 1 << 20;

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  std::string input(bytes);
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(std::string_view bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1);
  if (ZSTD_isError(size) != 0) std::abort();
  packed.resize(size);
  return packed;
}

isocost::Result<isocost::Decompressed> decompress(std::string_view bytes) {
  const isocost::MemoryByteSource source(std::as_bytes(std::span(bytes)));
  return isocost::decompress_to_temporary(source, "fuzz", kMostBytes);
}

// The bytes of the file, which must be as many as reported.
std::string contents(const isocost::Decompressed& inflated) {
  std::string read(static_cast<std::size_t>(inflated.bytes) + 1, '\0');
  const auto count = inflated.file.read_at(0, std::as_writable_bytes(std::span(read)));
  if (!count || *count != read.size() - 1) std::abort();
  read.pop_back();
  return read;
}

void expect_decompresses_to(const std::string& packed, std::string_view expected) {
  const auto inflated = decompress(packed);
  if (!inflated || !inflated->problem.empty() || contents(*inflated) != expected) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto inflated = decompress(bytes);
  if (inflated) {
    if (inflated->bytes > kMostBytes) std::abort();
    contents(*inflated);
  } else if (inflated.error().code() != isocost::ErrorCode::kResourceExhausted) {
    std::abort();
  }
  if (bytes.size() > kMostBytes / 2) return 0;
  const std::string twice = std::string(bytes) + std::string(bytes);
  for (const std::string& packed : {gzip(bytes), zstd(bytes)}) {
    expect_decompresses_to(packed + packed + std::string(700, '\0'), twice);
  }
  return 0;
}
