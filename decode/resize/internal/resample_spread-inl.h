// Part of resample_simd.cc: the horizontal pass where the width changes. A row lies in each 32 bits
// of a vector, so that a weight is the same for all of it: four rows in 128 bits, eight in two of
// those side by side.
using Bytes = hn::CappedTag<std::uint8_t, 2 * kLane>;
using Weights = hn::Repartition<std::int8_t, Bytes>;
using Words = hn::Repartition<std::int16_t, Bytes>;
using Numbers = hn::Repartition<std::int32_t, Bytes>;
using Halves = hn::Repartition<std::uint64_t, Bytes>;
using Lane = hn::FixedTag<std::uint8_t, kLane>;
constexpr std::size_t kVector = HWY_MIN(HWY_MAX_BYTES, 2 * kLane);
constexpr std::size_t kRowsTogether = kVector / sizeof(std::int32_t);

// Old pixels are taken four at a time. Each channel has a vector of their bytes, one of the first
// and the third as 16 bits, and one of the second and the fourth.
constexpr std::size_t kFour = 4;
constexpr std::size_t kFourVectors = 3;
constexpr std::size_t kFourBytes = kChannels * kFourVectors * kVector;

// Splits a weight. A coarse weight has 16 bits, which are multiplied with those numbers. Other
// weights have low parts, multiplied with the same numbers, and high parts, multiplied with bytes.
constexpr int kFineBits = ResampleTaps::kWeightBits - ResampleTaps::kCoarseBits;
WeightParts parts_of(std::int32_t weight, bool is_coarse) {
  if (is_coarse) return {0, static_cast<std::int16_t>(weight / (1 << kFineBits))};
  return split(weight);
}

// Packs a window's weights for four old pixels at a time: four high parts, then the low parts of
// the first and the third, then those of the others. The first of four pixels has a number that is
// a multiple of four, so a window may begin or end with weights of 0.
constexpr std::size_t kPackedFour = 3;
void pack_fours(ResampleTaps& taps) {
  const std::size_t stride = (taps.stride / kFour + 1) * kPackedFour;
  std::vector<std::int32_t> packed(taps.windows.size() * stride);
  for (std::size_t window = 0; window < taps.windows.size(); ++window) {
    const auto first = static_cast<std::size_t>(taps.windows[window].first) % kFour;
    const auto count = static_cast<std::size_t>(taps.windows[window].count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = (first + i) % kFour;
      auto* four = reinterpret_cast<std::uint8_t*>(
          &packed[window * stride + (first + i) / kFour * kPackedFour]);
      const WeightParts parts = parts_of(taps.weights[window * taps.stride + i], taps.is_coarse);
      std::memcpy(four + place, &parts.high, sizeof(parts.high));
      const std::size_t low = place % 2 * 2 + place / 2;
      std::memcpy(four + kFour + low * sizeof(parts.low), &parts.low, sizeof(parts.low));
    }
  }
  taps.stride = stride;
  taps.weights = std::move(packed);
}

// Order that groups four pixels by channel: their reds, then greens, blues.
alignas(kLane) constexpr std::uint8_t kByChannel[kLane] = {0, 3, 6, 9,  1,   4,   7,   10,
                                                           2, 5, 8, 11, kNo, kNo, kNo, kNo};
// Order that turns four rows of each value into four values of each row.
alignas(kLane) constexpr std::uint8_t kByRow[kLane] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                       2, 6, 10, 14, 3, 7, 11, 15};
// Orders that do this for two rows, each at the beginning of a half.
alignas(kLane) constexpr std::uint8_t kFirstRows[kLane] = {0, 4, 8, 12, kNo, kNo, kNo, kNo,
                                                           1, 5, 9, 13, kNo, kNo, kNo, kNo};
alignas(kLane) constexpr std::uint8_t kLastRows[kLane] = {2, 6, 10, 14, kNo, kNo, kNo, kNo,
                                                          3, 7, 11, 15, kNo, kNo, kNo, kNo};

// Loads 128 bits of each of the first four rows and, if there is room, of the next four.
HWY_INLINE hn::Vec<Bytes> load_rows(const std::uint8_t* const* from, std::size_t at) {
  const auto first = hn::LoadU(Lane(), from[0] + at);
#if HWY_MAX_BYTES > 16
  return hn::Combine(Bytes(), hn::LoadU(Lane(), from[4] + at), first);
#else
  return first;
#endif
}

HWY_INLINE void store_rows(hn::Vec<Bytes> rows, std::uint8_t* const* to, std::size_t at) {
#if HWY_MAX_BYTES > 16
  hn::StoreU(hn::LowerHalf(Lane(), rows), Lane(), to[0] + at);
  hn::StoreU(hn::UpperHalf(Lane(), rows), Lane(), to[4] + at);
#else
  hn::StoreU(rows, Lane(), to[0] + at);
#endif
}

// Writes the vectors of four old pixels of each row.
template <bool kIsCoarse>
HWY_INLINE void spread(const std::uint8_t* const* from, std::size_t pixel, std::uint8_t* to) {
  const Bytes bytes;
  const Numbers numbers;
  const Halves halves;
  const auto by_channel = hn::LoadDup128(bytes, kByChannel);
  const auto row = [&](std::size_t i) {
    const auto four = load_rows(from + i, pixel * kChannels);
    return hn::BitCast(numbers, hn::TableLookupBytesOr0(four, by_channel));
  };
  const auto a = row(0);
  const auto b = row(1);
  const auto c = row(2);
  const auto d = row(3);
  const auto lower_ab = hn::BitCast(halves, hn::InterleaveLower(numbers, a, b));
  const auto lower_cd = hn::BitCast(halves, hn::InterleaveLower(numbers, c, d));
  const auto upper_ab = hn::BitCast(halves, hn::InterleaveUpper(numbers, a, b));
  const auto upper_cd = hn::BitCast(halves, hn::InterleaveUpper(numbers, c, d));
  const auto store = [&](auto fours) {
    const hn::RebindToUnsigned<Words> words;
    const auto pairs = hn::BitCast(words, fours);
    if constexpr (!kIsCoarse) hn::Store(hn::BitCast(bytes, fours), bytes, to);
    hn::Store(hn::BitCast(bytes, hn::And(pairs, hn::Set(words, 0xFF))), bytes, to + kVector);
    hn::Store(hn::BitCast(bytes, hn::ShiftRight<8>(pairs)), bytes, to + 2 * kVector);
    to += kFourVectors * kVector;
  };
  store(hn::InterleaveLower(halves, lower_ab, lower_cd));
  store(hn::InterleaveUpper(halves, lower_ab, lower_cd));
  store(hn::InterleaveLower(halves, upper_ab, upper_cd));
}

struct Sums {
  hn::Vec<Words> high;  // two for each row
  hn::Vec<Numbers> low;
};

// Returns sums that begin with a half, so that truncation rounds to the nearest.
template <bool kIsCoarse>
HWY_INLINE Sums no_sums() {
  const Numbers numbers;
  if constexpr (kIsCoarse) {
    return {hn::Zero(Words()), hn::Set(numbers, kHalf >> kFineBits)};
  } else {
    return {hn::BitCast(Words(), hn::Set(numbers, kHalf)), hn::Zero(numbers)};
  }
}

// Adds the parts and rounds. The upper 16 bits of each sum become the total of all parts, which may
// wrap before.
template <bool kIsCoarse>
HWY_INLINE hn::Vec<Numbers> rounded(const Sums& sums) {
  if constexpr (kIsCoarse) return hn::ShiftRight<kShift - kFineBits>(sums.low);
  const Words words;
  const Numbers numbers;
  const auto lower = hn::ShiftLeft<16>(hn::BitCast(numbers, sums.high));
  const auto high = hn::Add(sums.high, hn::BitCast(words, lower));
  return hn::ShiftRight<kShift>(hn::BitCast(numbers, hn::Add(high, hn::BitCast(words, sums.low))));
}

// Makes a new pixel of each row from `count` fours of old ones.
template <bool kIsCoarse>
HWY_INLINE void columns_of_window(const std::uint8_t* fours, const std::int32_t* weights,
                                  std::size_t count, hn::Vec<Numbers>* made) {
  const Bytes bytes;
  const Words words;
  const Numbers numbers;
  std::array<Sums, kChannels> sums;
  for (auto& sum : sums) sum = no_sums<kIsCoarse>();
  for (std::size_t k = 0; k < count; ++k, weights += kPackedFour) {
    const auto high = hn::BitCast(Weights(), hn::Set(numbers, weights[0]));
    const auto even = hn::BitCast(words, hn::Set(numbers, weights[1]));
    const auto odd = hn::BitCast(words, hn::Set(numbers, weights[2]));
    for (std::size_t c = 0; c < kChannels; ++c, fours += kFourVectors * kVector) {
      const auto evens = hn::BitCast(words, hn::Load(bytes, fours + kVector));
      const auto odds = hn::BitCast(words, hn::Load(bytes, fours + 2 * kVector));
      if constexpr (!kIsCoarse) {
        sums[c].high = hn::Add(sums[c].high, byte_products(hn::Load(bytes, fours), high));
      }
      sums[c].low = hn::Add(sums[c].low, products(numbers, evens, even));
      sums[c].low = hn::Add(sums[c].low, products(numbers, odds, odd));
    }
  }
  for (std::size_t c = 0; c < kChannels; ++c) made[c] = rounded<kIsCoarse>(sums[c]);
}

// Writes four new pixels to each row, and four bytes after them.
HWY_INLINE void store_pixels(const hn::Vec<Numbers>* made, std::uint8_t* const* to,
                             std::size_t at) {
  const Bytes bytes;
  const Words words;
  const Numbers numbers;
  const Halves halves;
  const auto four = [&](const hn::Vec<Numbers>* values) {
    return to_bytes(hn::ReorderDemote2To(words, values[0], values[1]),
                    hn::ReorderDemote2To(words, values[2], values[3]));
  };
  const auto by_row = hn::LoadDup128(bytes, kByRow);
  const auto a = hn::BitCast(numbers, hn::TableLookupBytes(four(made), by_row));
  const auto b = hn::BitCast(numbers, hn::TableLookupBytes(four(made + 4), by_row));
  const auto c = four(made + 8);
  const auto first =
      hn::BitCast(halves, hn::TableLookupBytesOr0(c, hn::LoadDup128(bytes, kFirstRows)));
  const auto last =
      hn::BitCast(halves, hn::TableLookupBytesOr0(c, hn::LoadDup128(bytes, kLastRows)));
  const auto lower = hn::BitCast(halves, hn::InterleaveLower(numbers, a, b));
  const auto upper = hn::BitCast(halves, hn::InterleaveUpper(numbers, a, b));
  store_rows(hn::BitCast(bytes, hn::InterleaveLower(halves, lower, first)), to, at);
  store_rows(hn::BitCast(bytes, hn::InterleaveUpper(halves, lower, first)), to + 1, at);
  store_rows(hn::BitCast(bytes, hn::InterleaveLower(halves, upper, last)), to + 2, at);
  store_rows(hn::BitCast(bytes, hn::InterleaveUpper(halves, upper, last)), to + 3, at);
}

// The rows' pixels, spread out just before they are needed, and kept while they are in the cache.
template <bool kIsCoarse>
class SpreadPixels {
 public:
  SpreadPixels(const std::uint8_t* const* from, const ResampleTaps& taps, std::uint8_t* scratch)
      : from_(from),
        scratch_(scratch),
        capacity_((taps.stride / kPackedFour - 1) * kFour + kPixelsAhead) {}

  // Returns the fours that hold the pixels from `first` to `end`. Neither number may decrease
  // between calls.
  const std::uint8_t* fours(std::size_t first, std::size_t end) {
    if (done_ >= end) return four_at(first);
    // Spreads some more, so that reading them need not wait for the writes of each four.
    end += kMore;
    if (end + kFour > begin_ + capacity_) keep_from(first / kFour * kFour);
    for (; done_ < end; done_ += kFour) spread<kIsCoarse>(from_, done_, four_at(done_));
    return four_at(first);
  }

 private:
  static constexpr std::size_t kMore = 24;
  static_assert((kMore + kFour) * kChannels + kLane <= kResampleSlack + kFour);

  std::uint8_t* four_at(std::size_t pixel) {
    return scratch_ + (pixel - begin_) / kFour * kFourBytes;
  }
  void keep_from(std::size_t first) {
    if (first < done_) {
      std::memmove(scratch_, four_at(first),
                   static_cast<std::size_t>(four_at(done_) - four_at(first)));
    } else {
      done_ = first;
    }
    begin_ = first;
  }

  const std::uint8_t* const* from_;
  std::uint8_t* scratch_;
  std::size_t capacity_;
  std::size_t begin_ = 0;
  std::size_t done_ = 0;
};

// Makes the new pixels of rows that lie side by side in vectors, so that a weight is the same for a
// whole vector.
template <bool kIsCoarse>
void columns_of_rows(const std::uint8_t* const* from, const ResampleTaps& taps,
                     std::uint8_t* const* to, std::uint8_t* scratch) {
  const std::size_t pixels = taps.windows.size();
  SpreadPixels<kIsCoarse> spread_out(from, taps, scratch);
  std::array<hn::Vec<Numbers>, kPixels * kChannels> made;
  for (std::size_t pixel = 0; pixel < pixels; pixel += kPixels) {
    for (std::size_t i = 0; i < kPixels; ++i) {
      const std::size_t at = HWY_MIN(pixel + i, pixels - 1);
      const auto first = static_cast<std::size_t>(taps.windows[at].first);
      const auto end = first + static_cast<std::size_t>(taps.windows[at].count);
      columns_of_window<kIsCoarse>(spread_out.fours(first, end),
                                   taps.weights.data() + at * taps.stride,
                                   (end + kFour - 1) / kFour - first / kFour, &made[i * kChannels]);
    }
    if (pixels - pixel > kPixels + 1) {
      store_pixels(made.data(), to, pixel * kChannels);
      continue;
    }
    // Holds the last pixels, because nothing may be written beyond the rows.
    alignas(kLane) std::array<std::uint8_t, kRowsTogether * kLane> last{};
    std::array<std::uint8_t*, kRowsTogether> rows{};
    for (std::size_t i = 0; i < kRowsTogether; ++i) rows[i] = &last[i * kLane];
    store_pixels(made.data(), rows.data(), 0);
    for (std::size_t i = 0; i < kRowsTogether; ++i) {
      std::memcpy(to[i] + pixel * kChannels, rows[i], HWY_MIN(kPixels, pixels - pixel) * kChannels);
    }
  }
}
