#include "decode/image/internal/png_chunks.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "decode/bytes/media_bytes.h"

namespace isocost {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::string_view kSignature = "\x89PNG\r\n\x1A\n";
constexpr std::size_t kHeaderAt = 8;
constexpr std::size_t kHeaderBytes = 13;
constexpr std::size_t kBeforeData = 8;    // a chunk's length and type
constexpr std::size_t kAroundChunk = 12;  // and the CRC after its data
constexpr std::size_t kLongest = INT32_MAX;

struct Chunk {
  std::size_t at = 0;
  std::size_t length = 0;  // of its data

  std::size_t next() const { return at + kAroundChunk + length; }
};

// Returns the chunk whose length and type begin at `at`; nothing if the file ends before.
std::optional<Chunk> chunk_at(ByteView file, std::size_t at) {
  if (at > file.size() || file.size() - at < kBeforeData) return std::nullopt;
  const Chunk chunk{at, big_endian(file, at, 4)};
  return chunk.length > kLongest ? std::nullopt : std::optional(chunk);
}

bool is_whole(ByteView file, const Chunk& chunk) { return chunk.next() <= file.size(); }

bool has_right_crc(ByteView file, const Chunk& chunk) {
  const std::uint32_t crc = libdeflate_crc32(0, &file[chunk.at + 4], 4 + chunk.length);
  return crc == big_endian(file, chunk.at + kBeforeData + chunk.length, 4);
}

void append(Bytes& to, ByteView bytes) {
  const std::size_t at = to.size();
  to.resize(at + bytes.size());
  std::ranges::copy(bytes, to.data() + at);
}

void append_number(Bytes& to, std::size_t number) {
  for (const int shift : {24, 16, 8, 0}) to.push_back(static_cast<std::uint8_t>(number >> shift));
}

}  // namespace

void append_png_chunk(Bytes& to, std::string_view type, const std::vector<ByteView>& data) {
  std::size_t length = 0;
  for (const ByteView piece : data) length += piece.size();
  append_number(to, length);
  const std::size_t at = to.size();
  for (const char letter : type) to.push_back(static_cast<std::uint8_t>(letter));
  for (const ByteView piece : data) append(to, piece);
  append_number(to, libdeflate_crc32(0, &to[at], to.size() - at));
}

namespace {

// Adds the pixels that begin at `chunk`. Returns false if they are too many for one chunk.
bool add_pixels(ByteView file, std::optional<Chunk> chunk, PngChunks& chunks) {
  for (; chunk && has_tag(file, chunk->at + 4, "IDAT"); chunk = chunk_at(file, chunk->next())) {
    const std::size_t begin = chunk->at + kBeforeData;
    const std::size_t length = std::min(chunk->length, file.size() - begin);
    chunks.pixels.push_back(file.subspan(begin, length));
    chunks.deflated += length;
    chunks.cut = length < chunk->length;
  }
  return chunks.deflated <= kLongest;
}

}  // namespace

std::optional<PngChunks> find_png_chunks(ByteView file) {
  std::optional<Chunk> chunk = chunk_at(file, kHeaderAt);
  if (!chunk || chunk->length != kHeaderBytes || !is_whole(file, *chunk) ||
      !has_tag(file, 0, kSignature) || !has_tag(file, kHeaderAt + 4, "IHDR") ||
      !has_right_crc(file, *chunk)) {
    return std::nullopt;
  }
  PngChunks chunks;
  chunks.header = file.subspan(kHeaderAt + kBeforeData, kHeaderBytes);
  for (;;) {
    chunk = chunk_at(file, chunk->next());
    if (!chunk) return std::nullopt;
    if (has_tag(file, chunk->at + 4, "IDAT")) break;
    if (!is_whole(file, *chunk)) return std::nullopt;
    if (has_tag(file, chunk->at + 4, "PLTE") || has_tag(file, chunk->at + 4, "tRNS")) {
      chunks.colours.push_back(file.subspan(chunk->at, kAroundChunk + chunk->length));
    }
  }
  return add_pixels(file, chunk, chunks) ? std::optional(chunks) : std::nullopt;
}

Bytes png_head(ByteView header, const std::vector<ByteView>& colours) {
  Bytes head(kSignature.begin(), kSignature.end());
  append_png_chunk(head, "IHDR", {header});
  for (const ByteView chunk : colours) append(head, chunk);
  return head;
}

Bytes png_file(ByteView header, const std::vector<ByteView>& colours,
               const std::vector<ByteView>& pixels) {
  Bytes file = png_head(header, colours);
  std::size_t size = file.size() + 2 * kAroundChunk;
  for (const ByteView piece : pixels) size += piece.size();
  file.reserve(size);
  append_png_chunk(file, "IDAT", pixels);
  append_png_chunk(file, "IEND", {});
  return file;
}

}  // namespace isocost
