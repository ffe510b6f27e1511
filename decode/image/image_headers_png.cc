// Reads headers of PNG (ISO/IEC 15948, with the chunk eXIf of its third edition).

#include <libdeflate.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_headers.h"
#include "decode/image/internal/inflater.h"
#include "decode/image/internal/orientation_tags.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

bool is_png_depth(std::uint8_t colour_type, std::uint8_t depth) {
  switch (colour_type) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

constexpr std::size_t kMostText = std::size_t{1} << 20;  // bytes of a text that is read

struct ChunkData {
  std::int64_t begin = 0;  ///< Offset of a chunk's data.
  std::int64_t length = 0;
  std::int64_t end() const { return begin + length; }
  std::int64_t next() const { return end() + 4; }  // after its CRC
};

// Returns the text in a zlib stream; nothing if it is damaged or has more than kMostText bytes.
std::string inflated(std::string_view stream) {
  const Inflater inflater = make_inflater();
  std::string text(kMostText, '\0');
  std::size_t size = 0;
  const libdeflate_result result = libdeflate_zlib_decompress(
      inflater.get(), stream.data(), stream.size(), text.data(), text.size(), &size);
  text.resize(result == LIBDEFLATE_SUCCESS ? size : 0);
  return text;
}

// A chunk tEXt, zTXt or iTXt: its data is a keyword that ends in a zero, and what its type says.
struct TextChunk {
  std::string type;
  std::string data;

  // Returns the text; nothing if the chunk is damaged.
  std::string text() const {
    const std::size_t begin = data.find('\0') + 1;
    if (begin == 0) return {};
    const std::string_view rest = std::string_view(data).substr(begin);
    if (type == "tEXt") return std::string(rest);
    if (type == "zTXt") return rest.empty() ? std::string() : inflated(rest.substr(1));
    // Whether it is compressed and how, and two words that end in zeros.
    const std::size_t language = rest.find('\0', 2);
    if (language == std::string_view::npos) return {};
    const std::size_t translated = rest.find('\0', language + 1);
    if (translated == std::string_view::npos) return {};
    const std::string_view text = rest.substr(translated + 1);
    return rest[0] == 0 ? std::string(text) : inflated(text);
  }
};

// Returns the EXIF block in a text as ImageMagick writes it: an empty line, lines with a name and
// the number of bytes, and lines of hexadecimal digits.
std::string raw_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  std::string digits(text);
  std::erase_if(digits, [](char c) { return c == '\n' || c == ' '; });
  std::string bytes;
  for (std::size_t at = 0; at + 2 <= digits.size(); at += 2) {
    std::uint8_t byte = 0;
    const char* const end = &digits[at] + 2;
    if (std::from_chars(&digits[at], end, byte, 16).ptr != end) return {};
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

// Finds what the chunks of a PNG state of its orientation, as Pillow does. Chunks after the pixels
// count, because some programs append EXIF, and of several the last one does.
class PngOrientation {
 public:
  explicit PngOrientation(HeaderWindow& window) : window_(window) {}

  Result<std::uint8_t> run(std::int64_t at) {
    bool has_pixels = false;
    for (;;) {
      ISOCOST_ASSIGN(const ByteView head, window_.some(at, 8));
      const bool is_end = head.size() < 8 || has_tag(head, 4, "IEND");
      if (is_end && !has_pixels) return corrupt("its PNG chunks end before a picture");
      if (is_end) break;
      const ChunkData chunk{at + 8, static_cast<std::int64_t>(big_endian(head, 0, 4))};
      if (chunk.length > INT32_MAX) {
        if (has_pixels) break;
        return corrupt("it has a PNG chunk of an impossible length");
      }
      if (has_tag(head, 4, "IDAT")) {
        has_pixels = true;
      } else {
        ISOCOST_TRY(read(std::string(head.begin() + 4, head.end()), chunk));
      }
      at = chunk.next();
    }
    tags_.xmp = xmp_orientation(xmp_.text());
    if (!has_exif_) ISOCOST_TRY(read_raw_exif());
    return tags_.orientation();
  }

 private:
  Status read(const std::string& type, const ChunkData& chunk) {
    if (type == "eXIf") {
      has_exif_ = true;
      ISOCOST_ASSIGN(tags_.exif, exif_orientation(window_, chunk.begin, chunk.end()));
    } else if (type == "iTXt" || type == "zTXt" || type == "tEXt") {
      return read_text(type, chunk);
    }
    return {};
  }

  // Keeps a text that may state an orientation. Only the last of its kind counts, so that none is
  // inflated before.
  Status read_text(const std::string& type, const ChunkData& chunk) {
    constexpr std::string_view kXmp("XML:com.adobe.xmp\0", 18);
    constexpr std::string_view kRawExif("Raw profile type exif\0", 22);
    ISOCOST_ASSIGN(const ByteView keyword, window_.some(chunk.begin, kRawExif.size()));
    const bool is_xmp = type == "iTXt" && has_tag(keyword, 0, kXmp);
    if (!is_xmp && !has_tag(keyword, 0, kRawExif)) return {};
    TextChunk& kept = is_xmp ? xmp_ : raw_exif_;
    kept.type = type;
    ISOCOST_ASSIGN(kept.data, data_of(chunk));
    return {};
  }

  Status read_raw_exif() {
    const std::string bytes = raw_profile(raw_exif_.text());
    const MemoryByteSource source(std::as_bytes(std::span(bytes)));
    HeaderWindow window(source);
    ISOCOST_ASSIGN(tags_.exif, exif_orientation(window, 0, window.size()));
    return {};
  }

  // Returns the data of a chunk; nothing of one that is too long, or beyond the file's end.
  Result<std::string> data_of(const ChunkData& chunk) {
    std::string data;
    if (std::cmp_greater(chunk.length, kMostText)) return data;
    for (std::int64_t at = chunk.begin; at < chunk.end();) {
      const auto left = static_cast<std::size_t>(chunk.end() - at);
      ISOCOST_ASSIGN(const ByteView bytes, window_.some(at, std::min(left, HeaderWindow::kBytes)));
      if (bytes.empty()) return std::string();
      data.insert(data.end(), bytes.begin(), bytes.end());
      at += static_cast<std::int64_t>(bytes.size());
    }
    return data;
  }

  HeaderWindow& window_;
  OrientationTags tags_;
  bool has_exif_ = false;
  TextChunk xmp_;
  TextChunk raw_exif_;
};

}  // namespace

Result<PartShape> read_png_header(HeaderWindow& window, std::int64_t max_pixels) {
  ISOCOST_ASSIGN(const ByteView bytes, window.all(8, 25, "its PNG header"));
  if (big_endian(bytes, 0, 4) != 13 || !has_tag(bytes, 4, "IHDR")) {
    return corrupt("its PNG header is damaged");
  }
  const std::uint64_t width = big_endian(bytes, 8, 4);
  const std::uint64_t height = big_endian(bytes, 12, 4);
  const bool known = bytes[18] == 0 && bytes[19] == 0 && bytes[20] <= 1;
  if (width > INT32_MAX || height > INT32_MAX || !known || !is_png_depth(bytes[17], bytes[16])) {
    return corrupt("its PNG header is damaged");
  }
  PartShape shape;
  shape.width = static_cast<std::int32_t>(width);
  shape.height = static_cast<std::int32_t>(height);
  ISOCOST_TRY(check_pixels(shape, max_pixels));
  ISOCOST_ASSIGN(shape.orientation, PngOrientation(window).run(33));
  return shape;
}

}  // namespace isocost
