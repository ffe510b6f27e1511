#include <tiffio.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/bytes/header_window.h"
#include "decode/bytes/media_bytes.h"
#include "decode/image/image_codecs.h"
#include "decode/image/internal/tiff_colours.h"
#include "decode/image/internal/tiff_layout.h"

namespace isocost {
namespace {

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

// A file in memory for libtiff, and whether libtiff has said that pixels of it are missing.
struct MemoryTiff {
  ByteView file;
  std::uint64_t at = 0;
  bool is_damaged = false;
};

MemoryTiff& memory_of(thandle_t handle) { return *static_cast<MemoryTiff*>(handle); }

tmsize_t read_memory(thandle_t handle, void* to, tmsize_t size) {
  MemoryTiff& memory = memory_of(handle);
  if (size <= 0 || memory.at >= memory.file.size()) return 0;
  const auto count = std::min(static_cast<std::size_t>(size),
                              memory.file.size() - static_cast<std::size_t>(memory.at));
  std::memcpy(to, memory.file.data() + memory.at, count);
  memory.at += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t write_nothing(thandle_t /*handle*/, void* /*from*/, tmsize_t /*size*/) { return 0; }

toff_t seek_memory(thandle_t handle, toff_t offset, int whence) {
  MemoryTiff& memory = memory_of(handle);
  if (whence == SEEK_SET) memory.at = offset;
  if (whence == SEEK_CUR) memory.at += offset;
  if (whence == SEEK_END) memory.at = memory.file.size() + offset;
  return memory.at;
}

int close_memory(thandle_t /*handle*/) { return 0; }
toff_t size_of_memory(thandle_t handle) { return memory_of(handle).file.size(); }

// libtiff only reads what it maps.
int map_memory(thandle_t handle, void** base, toff_t* size) {
  const ByteView file = memory_of(handle).file;
  *base = const_cast<std::uint8_t*>(file.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  *size = file.size();
  return 1;
}
void unmap_memory(thandle_t /*handle*/, void* /*base*/, toff_t /*size*/) {}

// Notes an error of libtiff, and says that it is dealt with.
int note_error(TIFF* /*tiff*/, void* memory, const char* /*module*/, const char* /*format*/,
               va_list /*arguments*/) {
  static_cast<MemoryTiff*>(memory)->is_damaged = true;
  return 1;
}

// Notes a warning that tells of missing pixels: libjpeg and the readers of CCITT's compressions
// fill rows that are not whole. Other warnings say that a writer did not keep to the format, such
// as of old-style LZW codes, and the pixels are right.
int note_warning(TIFF* /*tiff*/, void* memory, const char* module, const char* /*format*/,
                 va_list /*arguments*/) {
  const std::string_view from = module == nullptr ? "" : module;
  if (from == "JPEGLib" || from.starts_with("Fax")) {
    static_cast<MemoryTiff*>(memory)->is_damaged = true;
  }
  return 1;
}

using TiffFile = std::unique_ptr<TIFF, CloseTiff>;

TiffFile open_tiff(MemoryTiff& memory, std::int64_t most_bytes) {
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (!options) throw std::bad_alloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(most_bytes));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), note_error, &memory);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), note_warning, &memory);
  // "c": strips are those of the file, and are not divided.
  return TiffFile(TIFFClientOpenExt("a part", "rc", &memory, read_memory, write_nothing,
                                    seek_memory, close_memory, size_of_memory, map_memory,
                                    unmap_memory, options.get()));
}

Error damaged_tiff() { return corrupt("its TIFF picture is cut off or damaged"); }

// Reads the strips or tiles of a TIFF into pixels of the samples that are kept, of 8 bits each.
class TiffBlocks {
 public:
  TiffBlocks(TIFF* tiff, MemoryTiff& memory, const TiffLayout& layout, const DecodeLimit& limit)
      : tiff_(tiff),
        memory_(memory),
        layout_(layout),
        limit_(limit),
        across_((std::int64_t{layout.width} + layout.block_width - 1) / layout.block_width),
        down_((std::int64_t{layout.height} + layout.block_height - 1) / layout.block_height) {}

  // Checks that libtiff has blocks of the size, and in the number, that the header says.
  Status check() const {
    const std::int64_t block = layout_.block_row_bytes() * layout_.block_height;
    const std::int64_t blocks = across_ * down_ * planes();
    const bool is_same =
        (TIFFIsTiled(tiff_) != 0) == layout_.is_tiled &&
        (layout_.is_tiled ? TIFFTileSize64(tiff_) == static_cast<std::uint64_t>(block) &&
                                TIFFNumberOfTiles(tiff_) == static_cast<std::uint64_t>(blocks)
                          : TIFFStripSize64(tiff_) == static_cast<std::uint64_t>(block) &&
                                TIFFNumberOfStrips(tiff_) == static_cast<std::uint64_t>(blocks));
    return is_same ? Status() : Status(damaged_tiff());
  }

  Status read_into(std::span<std::uint8_t> stored) {
    block_.resize(static_cast<std::size_t>(layout_.block_row_bytes() * layout_.block_height));
    const std::chrono::nanoseconds begun = limit_.used();
    const std::int64_t in_plane = across_ * down_;
    const std::int64_t blocks = in_plane * planes();
    for (std::int64_t i = 0; i < blocks; ++i) {
      ISOCOST_TRY(limit_.check(begun, static_cast<double>(i) / static_cast<double>(blocks)));
      const auto plane = static_cast<std::int32_t>(i / in_plane);
      if (plane >= layout_.kept()) break;  // Later planes mean nothing.
      const std::int64_t place = i % in_plane;
      const auto x = static_cast<std::int32_t>(place % across_ * layout_.block_width);
      const auto y = static_cast<std::int32_t>(place / across_ * layout_.block_height);
      ISOCOST_TRY(read_block(static_cast<std::uint32_t>(i), y));
      unpack(x, y, plane, stored);
    }
    return {};
  }

 private:
  std::int64_t planes() const { return layout_.is_separate ? layout_.samples : 1; }

  Status read_block(std::uint32_t number, std::int32_t y) {
    const std::int64_t rows = layout_.is_tiled ? layout_.block_height
                                               : std::min(layout_.block_height, layout_.height - y);
    const auto wanted = static_cast<tmsize_t>(rows * layout_.block_row_bytes());
    memory_.is_damaged = false;  // A remark on the directory is none on the pixels.
    const tmsize_t got = layout_.is_tiled
                             ? TIFFReadEncodedTile(tiff_, number, block_.data(), wanted)
                             : TIFFReadEncodedStrip(tiff_, number, block_.data(), wanted);
    return got == wanted && !memory_.is_damaged ? Status() : Status(damaged_tiff());
  }

  void unpack(std::int32_t x, std::int32_t y, std::int32_t plane, std::span<std::uint8_t> stored) {
    const auto kept = static_cast<std::size_t>(layout_.kept());
    const auto width = static_cast<std::size_t>(std::min(layout_.block_width, layout_.width - x));
    const std::int32_t rows = std::min(layout_.block_height, layout_.height - y);
    const auto row_bytes = static_cast<std::size_t>(layout_.block_row_bytes());
    for (std::int32_t row = 0; row < rows; ++row) {
      const ByteView from =
          ByteView(block_).subspan(static_cast<std::size_t>(row) * row_bytes, row_bytes);
      const auto pixel = static_cast<std::size_t>(std::int64_t{layout_.width} * (y + row) + x);
      const auto to = stored.subspan(pixel * kept, width * kept);
      if (layout_.is_separate) {
        unpack_tiff_row(layout_, from, 1, 1, to.subspan(static_cast<std::size_t>(plane)), kept);
      } else {
        unpack_tiff_row(layout_, from, static_cast<std::size_t>(layout_.samples), kept, to, kept);
      }
    }
  }

  TIFF* tiff_;
  MemoryTiff& memory_;
  const TiffLayout& layout_;
  const DecodeLimit& limit_;
  std::int64_t across_;
  std::int64_t down_;
  std::vector<std::uint8_t> block_;
};

}  // namespace

Result<Pixels> decode_tiff(ByteView file, std::int32_t width, std::int32_t height,
                           const ImageDecoding& how, const DecodeLimit& limit) {
  const MemoryByteSource source(std::as_bytes(file));
  HeaderWindow window(source);
  ISOCOST_ASSIGN(const TiffLayout layout, read_tiff_layout(window));
  if (layout.width != width || layout.height != height) {
    return corrupt("its TIFF header has changed since it was probed");
  }
  ISOCOST_ASSIGN(const std::size_t bytes, pixel_bytes(width, height, layout.kept()));
  MemoryTiff memory{file};
  const std::int64_t most = static_cast<std::int64_t>(file.size()) +
                            layout.decoder_bytes() * width * height + (std::int64_t{1} << 20);
  const TiffFile tiff = open_tiff(memory, most);
  if (!tiff) return damaged_tiff();
  if (layout.colours == TiffColours::kYcc) {
    TIFFSetField(tiff.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
  }
  TiffBlocks blocks(tiff.get(), memory, layout, limit);
  ISOCOST_TRY(blocks.check());
  std::vector<std::uint8_t> stored(bytes);
  ISOCOST_TRY(blocks.read_into(stored));
  std::vector<std::uint8_t> palette;
  if (layout.colours == TiffColours::kPalette) {
    ISOCOST_ASSIGN(palette, read_tiff_palette(tiff.get(), layout));
  }
  return Pixels{width, height, tiff_rgb(layout, std::move(stored), palette, how.alpha)};
}

}  // namespace isocost
