#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/image/internal/png_chunks.h"

namespace isocost {

/// A whole PNG in place of one that ends, or is damaged, within its pixels: it has the rows that
/// are whole, and zeros for the others. It is made while it is read, and holds one row. Which row
/// is the last follows Pillow, which inflates as long as there is input. Single-thread; the file of
/// which `chunks` are views must outlive it.
class TruncatedPng {
 public:
  explicit TruncatedPng(PngChunks chunks);
  TruncatedPng(const TruncatedPng&) = delete;
  TruncatedPng& operator=(const TruncatedPng&) = delete;
  ~TruncatedPng();

  /// Reads the next bytes. Returns false if fewer are left.
  bool read(std::span<std::uint8_t> to);

 private:
  // Rows of equal size; an interlaced picture has up to seven groups of them.
  struct Pass {
    std::size_t rows = 0;
    std::size_t row_bytes = 0;  // with the byte of the filter
  };

  void add_pass(std::size_t width, std::size_t height);
  bool make_next_piece();
  bool begin_row();
  bool inflate_row();
  void append_block();

  const PngChunks chunks_;
  std::vector<Pass> passes_;  // those with rows that are left, the last one first
  std::vector<std::uint8_t> piece_;
  std::size_t piece_read_ = 0;
  std::vector<std::uint8_t> row_;
  std::size_t row_read_ = 0;
  z_stream inflater_{};
  bool has_rows_;               // whether the file may have another whole row
  std::size_t next_input_ = 0;  // of the chunks' pixels
  std::uint32_t checksum_ = 1;
  bool has_begun_ = false;
  bool has_ended_ = false;
};

}  // namespace isocost
