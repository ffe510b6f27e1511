#include "decode/internal/pillow_resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "decode/internal/resample_kernels.h"

namespace isocost {
namespace {

// The functions below compute in the order in which Pillow computes: another order rounds some
// weights differently.

double bilinear(double x) {
  const double distance = std::abs(x);
  return distance < 1 ? 1 - distance : 0;
}

/// Keys' cubic convolution with a slope of -1/2.
double bicubic(double x) {
  constexpr double kSlope = -0.5;
  const double distance = std::abs(x);
  if (distance < 1) {
    return ((kSlope + 2) * distance - (kSlope + 3)) * distance * distance + 1;
  }
  if (distance < 2) return (((distance - 5) * distance + 8) * distance - 4) * kSlope;
  return 0;
}

double sinc(double x) {
  if (x == 0) return 1;
  const double angle = x * std::numbers::pi;
  return std::sin(angle) / angle;
}

double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

struct FilterShape {
  double (*weight)(double);
  double reach;
};

FilterShape shape_of(ResampleFilter filter) {
  switch (filter) {
    case ResampleFilter::kBilinear:
      return {bilinear, 1};
    case ResampleFilter::kBicubic:
      return {bicubic, 2};
    default:
      return {lanczos, 3};
  }
}

/// How one side is resampled. A side that shrinks widens the filter, so that no old pixel is
/// missed.
struct Side {
  std::int32_t from;
  std::int32_t to;
  FilterShape filter;
  // The part of the new side that is made.
  std::int32_t first;
  std::int32_t count;

  [[nodiscard]] bool is_copied() const { return from == to && count == to; }

  [[nodiscard]] double scale() const { return static_cast<double>(from) / to; }
  [[nodiscard]] double widening() const { return std::max(scale(), 1.0); }
  [[nodiscard]] double reach() const { return filter.reach * widening(); }
  /// Weights that a window can have, rounded up to a multiple of kTapsTogether.
  [[nodiscard]] std::size_t stride() const {
    const std::int64_t most = 2 * static_cast<std::int64_t>(std::ceil(reach())) + 1;
    return static_cast<std::size_t>((std::min<std::int64_t>(most, from) + 3) / kTapsTogether *
                                    kTapsTogether);
  }
};

ResampleTaps::Window window_of(const Side& side, double centre) {
  const double first = centre - side.reach() + 0.5;
  const double end = centre + side.reach() + 0.5;
  const std::int32_t begin = std::max(static_cast<std::int32_t>(first), 0);
  return {begin, std::min(static_cast<std::int32_t>(end), side.from) - begin};
}

/// Never all 0: some old position is within half a step of the centre.
void fill_weights(const Side& side, double centre, ResampleTaps::Window window,
                  std::vector<double>& weights) {
  const double narrowing = 1 / side.widening();
  double sum = 0;
  weights.clear();
  for (std::int32_t i = 0; i < window.count; ++i) {
    weights.push_back(side.filter.weight((i + window.first - centre + 0.5) * narrowing));
    sum += weights.back();
  }
  for (double& weight : weights) weight /= sum;
}

/// Rounds half away from zero. Not std::round, which differs just below a half.
std::int32_t fixed_point(double weight) {
  const double scaled = weight * (1 << ResampleTaps::kWeightBits);
  return static_cast<std::int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
}

ResampleTaps taps_of(const Side& side, const ResampleKernels& kernels) {
  ResampleTaps taps;
  const auto windows = static_cast<std::size_t>(side.count);
  taps.stride = side.stride();
  taps.windows.reserve(windows);
  taps.weights.resize(windows * taps.stride);
  std::vector<double> weights;
  weights.reserve(taps.stride);
  for (std::size_t i = 0; i < windows; ++i) {
    const double centre = (side.first + static_cast<double>(i) + 0.5) * side.scale();
    taps.windows.push_back(window_of(side, centre));
    fill_weights(side, centre, taps.windows.back(), weights);
    std::ranges::transform(
        weights, taps.weights.begin() + static_cast<std::ptrdiff_t>(i * taps.stride), fixed_point);
  }
  kernels.pack(taps);
  return taps;
}

std::size_t row_bytes(std::int32_t width) { return static_cast<std::size_t>(width) * 3; }

/// The old rows, each with kResampleSlack readable bytes behind it. Of the last ones, which the
/// image's end is too near to, there is a copy.
class SourceRows {
 public:
  SourceRows(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height)
      : rgb_(rgb),
        bytes_(row_bytes(width)),
        copied_from_(height - copied_rows(width, height)),
        tail_(static_cast<std::size_t>(height - copied_from_) * bytes_ + kResampleSlack) {
    std::ranges::copy(rgb.last(tail_.size() - kResampleSlack), tail_.begin());
  }

  static std::int32_t copied_rows(std::int32_t width, std::int32_t height) {
    const std::size_t rows = kResampleSlack / row_bytes(width) + 1;
    return std::min(static_cast<std::int32_t>(rows), height);
  }

  [[nodiscard]] const std::uint8_t* row(std::int32_t y) const {
    return y < copied_from_ ? rgb_.data() + static_cast<std::size_t>(y) * bytes_
                            : tail_.data() + static_cast<std::size_t>(y - copied_from_) * bytes_;
  }

 private:
  std::span<const std::uint8_t> rgb_;
  std::size_t bytes_;
  std::int32_t copied_from_;
  std::vector<std::uint8_t> tail_;
};

/// Rows in memory of which the last `count` are kept, each in the place of one `count` before it.
struct RowRing {
  std::uint8_t* begin;
  std::size_t bytes;
  std::int32_t count;
  [[nodiscard]] std::uint8_t* row(std::int32_t y) const {
    return begin + static_cast<std::size_t>(y % count) * bytes;
  }
};

/// Gives the rows from `first` on their new width, at least until `end`. Returns where it stopped.
std::int32_t resample_columns(const SourceRows& source, std::int32_t first, std::int32_t end,
                              std::int32_t height, const ResampleTaps& taps, const RowRing& to,
                              const ResampleKernels& kernels) {
  while (first < end) {
    std::array<const std::uint8_t*, kResampleBatch> from{};
    std::array<std::uint8_t*, kResampleBatch> into{};
    for (std::size_t i = 0; i < kResampleBatch; ++i) {
      const std::int32_t y = std::min(first + static_cast<std::int32_t>(i), height - 1);
      from[i] = source.row(y);
      into[i] = to.row(y);
    }
    kernels.columns(from, taps, into);
    first = std::min(first + static_cast<std::int32_t>(kResampleBatch), height);
  }
  return first;
}

/// Combines rows of `row(y)` into one new row.
template <typename Row>
void resample_row(const ResampleTaps& taps, std::size_t window, const Row& row,
                  std::vector<const std::uint8_t*>& rows, std::span<std::uint8_t> into,
                  const ResampleKernels& kernels) {
  const auto [first, count] = taps.windows[window];
  rows.clear();
  for (std::int32_t y = first; y < first + count; ++y) rows.push_back(row(y));
  while (rows.size() % kTapsTogether != 0) rows.push_back(rows.back());
  kernels.rows(rows.data(), taps, window, into.size(), into.data());
}

/// Only the height changes.
void resize_height(std::span<const std::uint8_t> rgb, std::size_t bytes, const Side& side,
                   std::span<std::uint8_t> into, const ResampleKernels& kernels) {
  const ResampleTaps taps = taps_of(side, kernels);
  std::vector<const std::uint8_t*> rows;
  rows.reserve(taps.stride);
  const auto row = [&](std::int32_t y) { return &rgb[static_cast<std::size_t>(y) * bytes]; };
  for (std::size_t y = 0; y < taps.windows.size(); ++y) {
    resample_row(taps, y, row, rows, into.subspan(y * bytes, bytes), kernels);
  }
}

/// Rows of the new width that must be held at once: a window's, and what is left of a batch.
std::int32_t held_rows(const Side& side) {
  const auto rows = static_cast<std::int64_t>(side.stride() + kResampleBatch);
  return static_cast<std::int32_t>(std::min<std::int64_t>(rows, side.from));
}

/// Both sides change, the width first. The rows of the new width pass through a ring that stays in
/// the cache; an image of the new width and the old height would not.
void resize_width_first(const SourceRows& source, const Side& horizontal, const Side& vertical,
                        std::span<std::uint8_t> into, const ResampleKernels& kernels) {
  const ResampleTaps columns = taps_of(horizontal, kernels);
  const ResampleTaps taps = taps_of(vertical, kernels);
  const std::size_t bytes = row_bytes(horizontal.count);
  std::vector<std::uint8_t> held(static_cast<std::size_t>(held_rows(vertical)) * bytes);
  const RowRing ring{held.data(), bytes, held_rows(vertical)};
  std::vector<const std::uint8_t*> rows;
  rows.reserve(taps.stride);
  std::int32_t done = taps.windows.front().first;
  for (std::size_t y = 0; y < taps.windows.size(); ++y) {
    const auto [first, count] = taps.windows[y];
    done = resample_columns(source, done, first + count, vertical.from, columns, ring, kernels);
    resample_row(
        taps, y, [&](std::int32_t at) { return ring.row(at); }, rows,
        into.subspan(y * bytes, bytes), kernels);
  }
}

/// Both sides change, the height first: one batch of the target's rows at a time.
void resize_height_first(std::span<const std::uint8_t> rgb, const Side& horizontal,
                         const Side& vertical, std::span<std::uint8_t> into,
                         const ResampleKernels& kernels) {
  const ResampleTaps columns = taps_of(horizontal, kernels);
  const ResampleTaps taps = taps_of(vertical, kernels);
  const std::size_t bytes = row_bytes(horizontal.from);
  std::vector<std::uint8_t> batch(kResampleBatch * bytes + kResampleSlack);
  std::vector<const std::uint8_t*> rows;
  rows.reserve(taps.stride);
  for (std::size_t y = 0; y < taps.windows.size(); y += kResampleBatch) {
    std::array<const std::uint8_t*, kResampleBatch> from{};
    std::array<std::uint8_t*, kResampleBatch> to{};
    for (std::size_t i = 0; i < kResampleBatch; ++i) {
      const std::size_t at = std::min(y + i, taps.windows.size() - 1);
      const auto made = std::span(batch).subspan((at - y) * bytes, bytes);
      if (at == y + i) {
        const auto row = [&](std::int32_t k) { return &rgb[static_cast<std::size_t>(k) * bytes]; };
        resample_row(taps, at, row, rows, made, kernels);
      }
      from[i] = made.data();
      to[i] = &into[at * row_bytes(horizontal.count)];
    }
    kernels.columns(from, columns, to);
  }
}

bool height_first(const Side& horizontal, const Side& vertical, ResizeOrder order) {
  const std::int64_t lost_rows = std::int64_t{vertical.from} - vertical.to;
  const std::int64_t lost_columns = std::int64_t{horizontal.from} - horizontal.to;
  return order == ResizeOrder::kPillow13 && lost_rows > 0 && lost_rows > 2 * lost_columns;
}

std::int64_t taps_bytes(const Side& side) {
  const auto stride = static_cast<std::int64_t>(side.stride());
  const auto window = static_cast<std::int64_t>(sizeof(ResampleTaps::Window));
  const auto fixed = static_cast<std::int64_t>(sizeof(std::int32_t));
  const auto weight = static_cast<std::int64_t>(sizeof(double));
  return side.count * (window + fixed * stride) + weight * stride;
}

}  // namespace

void pillow_resize(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height,
                   std::span<std::uint8_t> into, std::int32_t to_width, std::int32_t to_height,
                   ResampleFilter filter, ResizeOrder order, const ResampleKernels& kernels) {
  pillow_resize_part(rgb, width, height, into, to_width, to_height, {0, 0, to_width, to_height},
                     filter, order, kernels);
}

void pillow_resize_part(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height,
                        std::span<std::uint8_t> into, std::int32_t to_width, std::int32_t to_height,
                        PixelArea part, ResampleFilter filter, ResizeOrder order,
                        const ResampleKernels& kernels) {
  const Side horizontal{width, to_width, shape_of(filter), part.x, part.width};
  const Side vertical{height, to_height, shape_of(filter), part.y, part.height};
  if (horizontal.is_copied() && vertical.is_copied()) {
    std::ranges::copy(rgb, into.begin());
  } else if (horizontal.is_copied()) {
    resize_height(rgb, row_bytes(width), vertical, into, kernels);
  } else if (vertical.is_copied()) {
    const RowRing all{into.data(), row_bytes(part.width), height};
    const SourceRows source(rgb, width, height);
    resample_columns(source, 0, height, height, taps_of(horizontal, kernels), all, kernels);
  } else if (height_first(horizontal, vertical, order)) {
    resize_height_first(rgb, horizontal, vertical, into, kernels);
  } else {
    resize_width_first(SourceRows(rgb, width, height), horizontal, vertical, into, kernels);
  }
}

std::int64_t pillow_resize_working_set_bytes(std::int32_t width, std::int32_t height,
                                             std::int32_t to_width, std::int32_t to_height,
                                             ResampleFilter filter, ResizeOrder order) {
  return pillow_resize_part_working_set_bytes(width, height, to_width, to_height,
                                              {0, 0, to_width, to_height}, filter, order);
}

std::int64_t pillow_resize_part_working_set_bytes(std::int32_t width, std::int32_t height,
                                                  std::int32_t to_width, std::int32_t to_height,
                                                  PixelArea part, ResampleFilter filter,
                                                  ResizeOrder order) {
  const Side horizontal{width, to_width, shape_of(filter), part.x, part.width};
  const Side vertical{height, to_height, shape_of(filter), part.y, part.height};
  const auto pointers = static_cast<std::int64_t>(vertical.stride() * sizeof(std::uint8_t*));
  const std::int64_t columns =
      horizontal.is_copied() ? 0 : taps_bytes(horizontal) + std::int64_t{kResampleSlack};
  const std::int64_t rows = vertical.is_copied() ? 0 : taps_bytes(vertical) + pointers;
  if (horizontal.is_copied()) return rows;
  if (!vertical.is_copied() && height_first(horizontal, vertical, order)) {
    return columns + rows + std::int64_t{kResampleBatch} * width * 3;
  }
  const std::int64_t copied = std::int64_t{SourceRows::copied_rows(width, height)} * width * 3;
  const std::int64_t held =
      vertical.is_copied() ? 0 : std::int64_t{held_rows(vertical)} * part.width * 3;
  return columns + rows + copied + held;
}

}  // namespace isocost
