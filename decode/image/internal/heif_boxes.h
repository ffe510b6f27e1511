#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "decode/bytes/header_window.h"

namespace isocost {

/// A box of an ISO base media file: [body, end) lies within the file.
struct HeifBox {
  std::string type;
  std::int64_t body = 0;
  std::int64_t end = 0;
};

/// Reads boxes one after another between two offsets. Single-thread; the window must outlive it.
class HeifBoxes {
 public:
  HeifBoxes(HeaderWindow& window, std::int64_t begin, std::int64_t end)
      : window_(window), at_(begin), end_(end) {}

  /// Reads the next box. Returns false at the end. Errors: kCorrupt if a box does not fit, or
  /// there are more than any writer makes; kIo.
  Result<bool> next(HeifBox& box);

 private:
  static constexpr int kMost = 20'000;

  HeaderWindow& window_;
  std::int64_t at_;
  std::int64_t end_;
  int read_ = 0;
};

}  // namespace isocost
