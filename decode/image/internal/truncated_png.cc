#include "decode/image/internal/truncated_png.h"

#include <libdeflate.h>
#include <spng.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "decode/bytes/media_bytes.h"
#include "decode/image/internal/spng_context.h"

namespace isocost {
namespace {

// Adam7: where a pass begins, and its steps.
struct Interlacing {
  std::size_t x, y, x_step, y_step;
};
constexpr std::array<Interlacing, 7> kPasses = {{{0, 0, 8, 8},
                                                 {4, 0, 8, 8},
                                                 {0, 4, 4, 8},
                                                 {2, 0, 4, 4},
                                                 {0, 2, 2, 4},
                                                 {1, 0, 2, 2},
                                                 {0, 1, 1, 2}}};

std::size_t steps(std::size_t begin, std::size_t end, std::size_t step) {
  return end <= begin ? 0 : (end - begin + step - 1) / step;
}

}  // namespace

TruncatedPng::TruncatedPng(PngChunks chunks)
    : chunks_(std::move(chunks)), has_rows_(inflateInit(&inflater_) == Z_OK) {
  if (!has_rows_) throw std::bad_alloc();
  const std::size_t width = big_endian(chunks_.header, 0, 4);
  const std::size_t height = big_endian(chunks_.header, 4, 4);
  const bool interlaced = chunks_.header[12] != 0;
  if (!interlaced) add_pass(width, height);
  for (std::size_t i = interlaced ? kPasses.size() : 0; i-- > 0;) {
    const Interlacing& pass = kPasses[i];
    add_pass(steps(pass.x, width, pass.x_step), steps(pass.y, height, pass.y_step));
  }
}

TruncatedPng::~TruncatedPng() { inflateEnd(&inflater_); }

void TruncatedPng::add_pass(std::size_t width, std::size_t height) {
  const std::size_t bits = png_channels(chunks_.header[9]) * chunks_.header[8];
  if (width > 0 && height > 0) passes_.push_back({height, 1 + (width * bits + 7) / 8});
}

bool TruncatedPng::read(std::span<std::uint8_t> to) {
  while (!to.empty()) {
    if (piece_read_ == piece_.size() && !make_next_piece()) return false;
    const std::size_t bytes = std::min(to.size(), piece_.size() - piece_read_);
    std::copy_n(piece_.begin() + static_cast<std::ptrdiff_t>(piece_read_), bytes, to.begin());
    piece_read_ += bytes;
    to = to.subspan(bytes);
  }
  return true;
}

bool TruncatedPng::make_next_piece() {
  if (has_ended_) return false;
  piece_.clear();
  piece_read_ = 0;
  if (!has_begun_) {
    constexpr std::array<std::uint8_t, 2> kZlibHeader = {0x78, 0x01};
    has_begun_ = true;
    piece_ = png_head(chunks_.header, chunks_.colours);
    append_png_chunk(piece_, "IDAT", {kZlibHeader});
  } else if (row_read_ < row_.size() || begin_row()) {
    append_block();
  } else {
    const std::uint32_t sum = checksum_;
    const std::array<std::uint8_t, 9> last_block = {0x01,
                                                    0x00,
                                                    0x00,
                                                    0xFF,
                                                    0xFF,
                                                    static_cast<std::uint8_t>(sum >> 24U),
                                                    static_cast<std::uint8_t>(sum >> 16U),
                                                    static_cast<std::uint8_t>(sum >> 8U),
                                                    static_cast<std::uint8_t>(sum)};
    has_ended_ = true;
    append_png_chunk(piece_, "IDAT", {last_block});
    append_png_chunk(piece_, "IEND", {});
  }
  return true;
}

// Makes the next row. Returns false after the last one.
bool TruncatedPng::begin_row() {
  if (passes_.empty()) return false;
  Pass& pass = passes_.back();
  row_.resize(pass.row_bytes);
  row_read_ = 0;
  if (--pass.rows == 0) passes_.pop_back();
  has_rows_ = has_rows_ && inflate_row();
  if (!has_rows_) std::ranges::fill(row_, std::uint8_t{0});
  return true;
}

// Returns false if the file has no whole row more.
bool TruncatedPng::inflate_row() {
  for (std::size_t at = 0; at < row_.size();) {
    while (inflater_.avail_in == 0) {
      if (next_input_ == chunks_.pixels.size()) return false;
      const ByteView input = chunks_.pixels[next_input_++];
      inflater_.next_in = const_cast<std::uint8_t*>(input.data());  // NOLINT: zlib reads it only
      inflater_.avail_in = static_cast<uInt>(input.size());
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(row_.size() - at, UINT32_MAX));
    inflater_.next_out = row_.data() + at;
    inflater_.avail_out = room;
    const int code = inflate(&inflater_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    at += room - inflater_.avail_out;
    const bool has_ended = code == Z_STREAM_END && at == row_.size();
    if (code != Z_OK && !has_ended) return false;
  }
  return row_[0] <= SPNG_FILTER_PAETH;
}

// Appends bytes of the row, as many as a stored block may have.
void TruncatedPng::append_block() {
  const std::size_t bytes = std::min<std::size_t>(row_.size() - row_read_, 0xFFFF);
  const ByteView data = ByteView(row_).subspan(row_read_, bytes);
  const auto low = static_cast<std::uint8_t>(bytes);
  const auto high = static_cast<std::uint8_t>(bytes >> 8U);
  const std::array<std::uint8_t, 5> head = {0x00, low, high, static_cast<std::uint8_t>(~low),
                                            static_cast<std::uint8_t>(~high)};
  append_png_chunk(piece_, "IDAT", {head, data});
  checksum_ = libdeflate_adler32(checksum_, data.data(), data.size());
  row_read_ += bytes;
}

}  // namespace isocost
