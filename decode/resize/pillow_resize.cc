#include "decode/resize/pillow_resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "decode/resize/internal/rgb.h"
#include "decode/resize/pixel_rows.h"
#include "decode/resize/resample_kernels.h"

namespace isocost {
namespace {

// The functions below compute in the order in which Pillow computes: another order rounds some
// weights differently.

double bilinear(double x) {
  const double distance = std::abs(x);
  return distance < 1 ? 1 - distance : 0;
}

/// Evaluates Keys' cubic convolution with a slope of -1/2.
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

/// Parameters of resampling one side. A side that shrinks widens the filter, so that it covers
/// every old pixel.
struct Side {
  std::int32_t from;
  std::int32_t to;
  FilterShape filter;
  // Range of the new side that is made.
  std::int32_t first;
  std::int32_t count;
  Exactness exactness;

  [[nodiscard]] bool is_copied() const { return from == to && count == to; }

  [[nodiscard]] double scale() const { return static_cast<double>(from) / to; }
  [[nodiscard]] double widening() const { return std::max(scale(), 1.0); }
  [[nodiscard]] double reach() const { return filter.reach * widening(); }
  /// Returns the number of weights that a window can have, rounded up to a multiple of
  /// kTapsTogether.
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

/// Fills in a window's weights, which are never all 0: some old position is within half a step of
/// the centre.
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

/// Rounds half away from zero. std::round differs just below a half.
std::int32_t fixed_point(double weight, int bits) {
  const double scaled = weight * (1 << bits);
  return static_cast<std::int32_t>(scaled + (scaled < 0 ? -0.5 : 0.5)) *
         (1 << (ResampleTaps::kWeightBits - bits));
}

double centre_of(const Side& side, std::int32_t i) {
  return (side.first + static_cast<double>(i) + 0.5) * side.scale();
}

std::vector<ResampleTaps::Window> windows_of(const Side& side) {
  std::vector<ResampleTaps::Window> windows;
  windows.reserve(static_cast<std::size_t>(side.count));
  for (std::int32_t i = 0; i < side.count; ++i) {
    windows.push_back(window_of(side, centre_of(side, i)));
  }
  return windows;
}

std::size_t stride_of(const std::vector<ResampleTaps::Window>& windows) {
  const auto widest = std::ranges::max(windows, {}, &ResampleTaps::Window::count).count;
  return (static_cast<std::size_t>(widest) + 3) / kTapsTogether * kTapsTogether;
}

ResampleTaps taps_of(const Side& side) {
  ResampleTaps taps;
  taps.is_coarse = side.exactness == Exactness::kFast;
  const int bits = taps.is_coarse ? ResampleTaps::kCoarseBits : ResampleTaps::kWeightBits;
  taps.windows = windows_of(side);
  taps.stride = stride_of(taps.windows);
  taps.weights.resize(taps.windows.size() * taps.stride);
  const auto stride = static_cast<std::int32_t>(taps.stride);
  std::vector<double> weights;
  weights.reserve(taps.stride);
  auto into = taps.weights.begin();
  for (std::int32_t i = 0; i < side.count; ++i, into += stride) {
    ResampleTaps::Window& window = taps.windows[static_cast<std::size_t>(i)];
    fill_weights(side, centre_of(side, i), window, weights);
    // Kernels read `stride` positions; windows that would exceed the side begin earlier.
    const std::int32_t early =
        std::clamp(window.first + stride - side.from, 0, stride - window.count);
    const std::int32_t moved = std::min(early, window.first);
    std::ranges::transform(weights, into + moved,
                           [bits](double weight) { return fixed_point(weight, bits); });
    window = {window.first - moved, window.count + moved};
  }
  return taps;
}

/// Parameters with which rows get their new width.
struct Columns {
  ResampleTaps taps;                    // none where rows are copied
  std::vector<ResampleVector> scratch;  // scratch memory for `taps`
  std::int32_t old_width;               // width of the source's rows from the taps' origin on
  std::int32_t new_width;

  [[nodiscard]] bool is_copied() const { return taps.windows.empty(); }
};

/// Makes the parameters, and lets `source` leave out columns that are not needed.
Result<Columns> columns_of(const Side& side, RowSource& source, const ResampleKernels& kernels) {
  if (side.is_copied()) return Columns{{}, {}, side.from, side.count};
  ResampleTaps taps = taps_of(side);
  // Kernels read `stride` positions.
  const auto last = taps.windows.back().first + static_cast<std::int32_t>(taps.stride);
  const std::int32_t end = std::min(last, side.from);
  ISOCOST_ASSIGN(const std::int32_t begin,
                 source.restrict_columns(taps.windows.front().first, end));
  for (ResampleTaps::Window& window : taps.windows) window.first -= begin;
  std::vector<ResampleVector> scratch(resample_scratch(taps.stride));
  kernels.pack_columns(taps);
  return Columns{std::move(taps), std::move(scratch), end - begin, side.count};
}

ResampleTaps row_taps(const Side& side, const ResampleKernels& kernels) {
  ResampleTaps taps = taps_of(side);
  kernels.pack_rows(taps);
  return taps;
}

/// Keeps the last `count` rows in memory. Each replaces the row that is `count` before it.
struct RowRing {
  std::uint8_t* begin;
  std::size_t bytes;
  std::int32_t count;
  [[nodiscard]] std::uint8_t* row(std::int32_t y) const {
    return begin + static_cast<std::size_t>(y % count) * bytes;
  }
};

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

/// Returns the number of rows of the new width that must be held at once: those of a window, and
/// the rest of a batch.
std::int32_t held_rows(const Side& side) {
  const std::size_t window = side.is_copied() ? 0 : side.stride();
  const auto rows = static_cast<std::int64_t>(window + kResampleBatch);
  return static_cast<std::int32_t>(std::min<std::int64_t>(rows, side.from));
}

/// The rows of the new width and the old height, of which the last ones are held in a ring that
/// stays in the cache.
class NarrowedRows {
 public:
  NarrowedRows(RowSource& source, Columns columns, std::int32_t first, std::int32_t held,
               const ResampleKernels& kernels)
      : source_(source),
        kernels_(kernels),
        columns_(std::move(columns)),
        bytes_(rgb_row_bytes(columns_.new_width)),
        memory_(static_cast<std::size_t>(held) * bytes_),
        ring_{memory_.data(), bytes_, held},
        done_(first) {}

  /// Makes rows, at least until `end`.
  Status make(std::int32_t end) {
    while (done_ < end) {
      std::array<const std::uint8_t*, kResampleBatch> from{};
      std::array<std::uint8_t*, kResampleBatch> into{};
      ISOCOST_TRY(source_.read(done_, from));
      const std::int32_t next =
          std::min(done_ + static_cast<std::int32_t>(kResampleBatch), source_.height());
      for (std::size_t i = 0; i < kResampleBatch; ++i) {
        into[i] = ring_.row(std::min(done_ + static_cast<std::int32_t>(i), next - 1));
        if (columns_.is_copied()) std::copy_n(from[i], bytes_, into[i]);
      }
      if (!columns_.is_copied()) {
        kernels_.columns(from, columns_.taps, into, columns_.scratch.data());
      }
      done_ = next;
    }
    return {};
  }

  [[nodiscard]] const std::uint8_t* row(std::int32_t y) const { return ring_.row(y); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  RowSource& source_;
  const ResampleKernels& kernels_;
  Columns columns_;
  std::size_t bytes_;
  std::vector<std::uint8_t> memory_;
  RowRing ring_;
  std::int32_t done_;
};

/// Resizes the width first. Either side may stay as it is.
Status resize_width_first(RowSource& source, const Side& horizontal, const Side& vertical,
                          RowSink& sink, const ResampleKernels& kernels) {
  ISOCOST_ASSIGN(Columns columns, columns_of(horizontal, source, kernels));
  const bool is_copied = vertical.is_copied();
  const ResampleTaps taps = is_copied ? ResampleTaps() : row_taps(vertical, kernels);
  NarrowedRows narrowed(source, std::move(columns), is_copied ? 0 : taps.windows.front().first,
                        held_rows(vertical), kernels);
  const auto row = [&](std::int32_t y) { return narrowed.row(y); };
  std::vector<const std::uint8_t*> rows;
  rows.reserve(taps.stride);
  for (std::int32_t y = 0; y < vertical.count; ++y) {
    const auto at = static_cast<std::size_t>(y);
    ISOCOST_TRY(narrowed.make(is_copied ? y + 1 : taps.windows[at].first + taps.windows[at].count));
    const std::span<std::uint8_t> into = sink.next_row();
    if (is_copied) {
      std::copy_n(narrowed.row(y), narrowed.bytes(), into.begin());
    } else {
      resample_row(taps, at, row, rows, into, kernels);
    }
    sink.finish_row();
  }
  return {};
}

/// Resizes the height first: a batch of rows of the old width and the new height is made before the
/// width changes.
Status resize_height_first(RowSource& source, const Side& horizontal, const Side& vertical,
                           RowSink& sink, const ResampleKernels& kernels) {
  ISOCOST_ASSIGN(Columns columns, columns_of(horizontal, source, kernels));
  const ResampleTaps taps = row_taps(vertical, kernels);
  NarrowedRows old(source, Columns{{}, {}, columns.old_width, columns.old_width},
                   taps.windows.front().first, held_rows(vertical), kernels);
  const auto row = [&](std::int32_t y) { return old.row(y); };
  const std::size_t new_bytes = rgb_row_bytes(columns.new_width);
  std::vector<std::uint8_t> batch(kResampleBatch * old.bytes() + kResampleSlack);
  std::vector<std::uint8_t> made(kResampleBatch * new_bytes);
  std::vector<const std::uint8_t*> rows;
  rows.reserve(taps.stride);
  for (std::size_t y = 0; y < taps.windows.size(); y += kResampleBatch) {
    const std::size_t count = std::min(kResampleBatch, taps.windows.size() - y);
    std::array<const std::uint8_t*, kResampleBatch> from{};
    std::array<std::uint8_t*, kResampleBatch> to{};
    for (std::size_t i = 0; i < kResampleBatch; ++i) {
      const std::size_t at = std::min(i, count - 1);
      from[i] = &batch[at * old.bytes()];
      to[i] = &made[at * new_bytes];
      if (i >= count) continue;
      ISOCOST_TRY(old.make(taps.windows[y + i].first + taps.windows[y + i].count));
      resample_row(taps, y + i, row, rows, std::span(batch).subspan(i * old.bytes(), old.bytes()),
                   kernels);
    }
    kernels.columns(from, columns.taps, to, columns.scratch.data());
    for (std::size_t i = 0; i < count; ++i) {
      std::ranges::copy(std::span(made).subspan(i * new_bytes, new_bytes), sink.next_row().begin());
      sink.finish_row();
    }
  }
  return {};
}

bool height_first(const Side& horizontal, const Side& vertical, ResizeOrder order) {
  if (horizontal.is_copied() || vertical.is_copied()) return false;
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

std::int64_t column_taps_bytes(const Side& side) {
  // Kernels repack the weights: as three numbers for each four old positions or, where neighbours
  // take nearly the same positions, as vectors. These are vectors of kValues values for each four
  // weights, or kTapBytes per value for each of at most kTaps taps; the last vector's values may be
  // made twice.
  constexpr double kNearly = 8;
  constexpr std::int64_t kValues = 16;
  constexpr std::int64_t kTaps = 8;
  constexpr std::int64_t kTapBytes = 3;
  constexpr auto kVector = static_cast<std::int64_t>(sizeof(ResampleVector));
  const auto stride = static_cast<std::int64_t>(side.stride());
  const std::int64_t fours = stride / std::int64_t{kTapsTogether};
  const std::int64_t numbers =
      side.count * (fours + 1) * 3 * static_cast<std::int64_t>(sizeof(std::int32_t));
  const std::int64_t vectors = (side.count * std::int64_t{3} + kVector) / kValues *
                               (1 + std::max(3 * fours, kTaps * kTapBytes * kValues / kVector)) *
                               kVector;
  const auto scratch =
      static_cast<std::int64_t>(resample_scratch(side.stride()) * sizeof(ResampleVector));
  return taps_bytes(side) + (side.scale() > kNearly ? numbers : std::max(numbers, vectors)) +
         scratch;
}

/// Writes packed RGB, row after row.
class PackedRows final : public RowSink {
 public:
  PackedRows(std::span<std::uint8_t> rgb, std::size_t bytes) : left_(rgb), bytes_(bytes) {}
  std::span<std::uint8_t> next_row() override { return left_.first(bytes_); }
  void finish_row() override { left_ = left_.subspan(bytes_); }

 private:
  std::span<std::uint8_t> left_;
  std::size_t bytes_;
};

}  // namespace

Status pillow_resize_rows(RowSource& source, std::int32_t to_width, std::int32_t to_height,
                          PixelArea part, ExactResize resize, RowSink& sink,
                          const ResampleKernels& kernels) {
  const FilterShape filter = shape_of(resize.filter);
  const Side horizontal{source.width(), to_width, filter, part.x, part.width, resize.exactness};
  const Side vertical{source.height(), to_height, filter, part.y, part.height, resize.exactness};
  return height_first(horizontal, vertical, resize.order)
             ? resize_height_first(source, horizontal, vertical, sink, kernels)
             : resize_width_first(source, horizontal, vertical, sink, kernels);
}

void pillow_resize_part(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height,
                        std::span<std::uint8_t> into, std::int32_t to_width, std::int32_t to_height,
                        PixelArea part, ExactResize resize, const ResampleKernels& kernels) {
  MemoryRows rows(rgb, width, height);
  PackedRows packed(into, rgb_row_bytes(part.width));
  // Rows in memory do not fail.
  static_cast<void>(pillow_resize_rows(rows, to_width, to_height, part, resize, packed, kernels));
}

void pillow_resize(std::span<const std::uint8_t> rgb, std::int32_t width, std::int32_t height,
                   std::span<std::uint8_t> into, std::int32_t to_width, std::int32_t to_height,
                   ExactResize resize, const ResampleKernels& kernels) {
  pillow_resize_part(rgb, width, height, into, to_width, to_height, {0, 0, to_width, to_height},
                     resize, kernels);
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
  // Exact and coarse weights take the same memory.
  constexpr auto kAny = Exactness::kExact;
  const Side horizontal{width, to_width, shape_of(filter), part.x, part.width, kAny};
  const Side vertical{height, to_height, shape_of(filter), part.y, part.height, kAny};
  const auto pointers = static_cast<std::int64_t>(vertical.stride() * sizeof(std::uint8_t*));
  const std::int64_t columns = horizontal.is_copied() ? 0 : column_taps_bytes(horizontal);
  const std::int64_t rows = vertical.is_copied() ? 0 : taps_bytes(vertical) + pointers;
  const std::int64_t held = held_rows(vertical);
  if (height_first(horizontal, vertical, order)) {
    constexpr auto kBatch = static_cast<std::int64_t>(kResampleBatch);
    return columns + rows + std::int64_t{kResampleSlack} +
           ((held + kBatch) * width + kBatch * part.width) * 3;
  }
  return columns + rows + held * part.width * 3;
}

}  // namespace isocost
