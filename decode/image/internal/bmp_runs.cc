#include "decode/image/internal/bmp_runs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace isocost {
namespace {

// A stream of runs, and the place in the picture that it has come to.
class Runs {
 public:
  Runs(ByteView data, const BmpLayout& layout, std::vector<std::uint8_t>& indices)
      : data_(data),
        has_halves_(layout.bits == 4),
        width_(static_cast<std::size_t>(layout.width)),
        indices_(indices) {}

  Status read() {
    while (!is_full()) {
      if (data_.size() < 2) return cut_off();
      const std::uint8_t count = data_[0];
      const std::uint8_t value = data_[1];
      data_ = data_.subspan(2);
      if (count > 0) {
        repeat(count, value);
      } else if (value == kEndOfRow) {
        begin_row(row_ + 1);
      } else if (value == kEnd) {
        return {};
      } else if (value == kMove) {
        if (data_.size() < 2) return cut_off();
        x_ = std::min(x_ + data_[0], width_);
        row_ += data_[1];
        data_ = data_.subspan(2);
      } else {
        ISOCOST_TRY(copy(value));
      }
    }
    return {};
  }

 private:
  static constexpr std::uint8_t kEndOfRow = 0;
  static constexpr std::uint8_t kEnd = 1;
  static constexpr std::uint8_t kMove = 2;

  static Error cut_off() { return corrupt("cut off: its runs of pixels end early"); }

  std::size_t rows() const { return indices_.size() / width_; }
  // Returns whether no pixel is left. The mark after the last row may be absent.
  bool is_full() const { return row_ >= rows() || (row_ + 1 == rows() && x_ == width_); }

  void begin_row(std::size_t row) {
    row_ = row;
    x_ = 0;
  }

  // Drops what goes beyond the row, as other readers do.
  void put(std::uint8_t index) {
    if (x_ < width_) indices_[row_ * width_ + x_++] = index;
  }

  void repeat(std::size_t count, std::uint8_t value) {
    for (std::size_t i = 0; i < count; ++i) put(index_of(value, i));
  }

  Status copy(std::size_t count) {
    const std::size_t bytes = has_halves_ ? (count + 1) / 2 : count;
    if (data_.size() < bytes) return cut_off();
    for (std::size_t i = 0; i < count; ++i) put(index_of(data_[has_halves_ ? i / 2 : i], i));
    data_ = data_.subspan(std::min(data_.size(), bytes + bytes % 2));
    return {};
  }

  std::uint8_t index_of(std::uint8_t value, std::size_t place) const {
    if (!has_halves_) return value;
    return place % 2 == 0 ? value >> 4 : value & 0xF;
  }

  ByteView data_;
  bool has_halves_;  // Two indices a byte.
  std::size_t width_;
  std::vector<std::uint8_t>& indices_;
  std::size_t x_ = 0;
  std::size_t row_ = 0;
};

}  // namespace

Result<std::vector<std::uint8_t>> read_bmp_runs(ByteView data, const BmpLayout& layout) {
  const auto height = static_cast<std::size_t>(layout.height < 0 ? -layout.height : layout.height);
  std::vector<std::uint8_t> indices(static_cast<std::size_t>(layout.width) * height);
  Runs runs(data, layout, indices);
  ISOCOST_TRY(runs.read());
  return indices;
}

}  // namespace isocost
