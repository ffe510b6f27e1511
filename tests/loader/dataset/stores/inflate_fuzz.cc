// For any bytes, inflating ends within its limit, and the file holds what is reported. The bytes,
// compressed to two gzip members with padding behind them, inflate to themselves, twice.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_source.h"
#include "loader/dataset/stores/internal/inflate.h"

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

isocost::Result<isocost::Inflated> inflate(std::string_view bytes) {
  const isocost::MemoryByteSource source(std::as_bytes(std::span(bytes)));
  return isocost::inflate_to_temporary(source, "fuzz", kMostBytes);
}

// The bytes of the file, which must be as many as reported.
std::string contents(const isocost::Inflated& inflated) {
  std::string read(static_cast<std::size_t>(inflated.bytes) + 1, '\0');
  const auto count = inflated.file.read_at(0, std::as_writable_bytes(std::span(read)));
  if (!count || *count != read.size() - 1) std::abort();
  read.pop_back();
  return read;
}

void expect_inflates_to(const std::string& packed, std::string_view expected) {
  const auto inflated = inflate(packed);
  if (!inflated || !inflated->problem.empty() || contents(*inflated) != expected) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto inflated = inflate(bytes);
  if (inflated) {
    if (inflated->bytes > kMostBytes) std::abort();
    contents(*inflated);
  } else if (inflated.error().code() != isocost::ErrorCode::kResourceExhausted) {
    std::abort();
  }
  if (bytes.size() > kMostBytes / 2) return 0;
  const std::string packed = gzip(bytes);
  expect_inflates_to(packed + packed + std::string(700, '\0'),
                     std::string(bytes) + std::string(bytes));
  return 0;
}
