// Part of resample_simd.cc: a vector of values (bytes of RGB) that lie side by side is made of
// vectors of old values, one for each tap. The vertical pass takes these from several rows. The
// horizontal pass takes them from one row, a pixel apart, where the width hardly changes: windows
// there advance by a pixel nearly always.
#if HWY_ARCH_X86
using Values = hn::CappedTag<std::uint8_t, 64>;
constexpr std::size_t kValues = HWY_MIN(HWY_MAX_BYTES, 64);
#else
using Values = hn::FixedTag<std::uint8_t, 16>;
constexpr std::size_t kValues = 16;
#endif
using HighParts = hn::Repartition<std::int8_t, Values>;
using Sums16 = hn::Repartition<std::int16_t, Values>;
using Sums32 = hn::Repartition<std::int32_t, Values>;

// Sums for half a vector of values: high products of every value; low products of the even values,
// and of the odd ones.
struct HalfSums {
  hn::Vec<Sums16> high;
  hn::Vec<Sums32> even;
  hn::Vec<Sums32> odd;
};

// The factors for HalfSums.
struct HalfWeights {
  hn::Vec<HighParts> high;
  hn::Vec<Sums16> even;
  hn::Vec<Sums16> odd;
};

// Orders that take each even pair of bytes, and each odd one, as numbers of 16 bits.
alignas(kLane) constexpr std::uint8_t kEven[kLane] = {0, kNo, 1, kNo, 4,  kNo, 5,  kNo,
                                                      8, kNo, 9, kNo, 12, kNo, 13, kNo};
alignas(kLane) constexpr std::uint8_t kOdd[kLane] = {2,  kNo, 3,  kNo, 6,  kNo, 7,  kNo,
                                                     10, kNo, 11, kNo, 14, kNo, 15, kNo};

HWY_INLINE HalfSums half_sums(hn::Vec<Values> pairs, const HalfWeights& weights) {
  const Values bytes;
  const auto words = [&](const std::uint8_t* order) {
    return hn::BitCast(Sums16(), hn::TableLookupBytesOr0(pairs, hn::LoadDup128(bytes, order)));
  };
  return {byte_products(pairs, weights.high), products(Sums32(), words(kEven), weights.even),
          products(Sums32(), words(kOdd), weights.odd)};
}

HWY_INLINE void add(const HalfSums& more, HalfSums& sums) {
  sums.high = hn::Add(sums.high, more.high);
  sums.even = hn::Add(sums.even, more.even);
  sums.odd = hn::Add(sums.odd, more.odd);
}

// Adds the parts and rounds. The sums may wrap; their total does not. Multiplying by 2^9 rounds
// away 6 bits.
HWY_INLINE hn::Vec<Sums16> rounded(const HalfSums& sums) {
  const Sums16 words;
  const hn::RebindToUnsigned<Sums32> bits;
  const auto even = hn::BitCast(words, hn::ShiftRight<16>(hn::BitCast(bits, sums.even)));
  const auto low = hn::OddEven(hn::BitCast(words, sums.odd), even);
  return hn::MulFixedPoint15(hn::Add(sums.high, low), hn::Set(words, 1 << 9));
}

// Number of pairs of taps in bicubic windows where a side hardly changes. Loops over this number
// are unrolled.
constexpr std::size_t kUsualPairs = 2;

// Makes a vector of values. `value(tap)` returns the old ones, `weights(pair, half)` the weights of
// two taps. Demoting undoes the order that interleaving gives them.
template <class Value, class Weights>
HWY_INLINE hn::Vec<Values> made_of_taps(std::size_t pairs, const Value& value,
                                        const Weights& weights) {
  const auto sums_of = [&](std::size_t pair, HalfSums& lower, HalfSums& upper) {
    const Values bytes;
    const auto a = value(2 * pair);
    const auto b = value(2 * pair + 1);
    lower = half_sums(hn::InterleaveLower(bytes, a, b), weights(pair, 0));
    upper = half_sums(hn::InterleaveUpper(bytes, a, b), weights(pair, 1));
  };
  HalfSums lower;
  HalfSums upper;
  sums_of(0, lower, upper);
  for (std::size_t pair = 1; pair < pairs; ++pair) {
    HalfSums more_lower;
    HalfSums more_upper;
    sums_of(pair, more_lower, more_upper);
    add(more_lower, lower);
    add(more_upper, upper);
  }
  return to_bytes(rounded(lower), rounded(upper));
}

// Packs two weights at a time: their high parts, twice, then their low parts.
void pack_rows(ResampleTaps& taps) {
  for (std::size_t i = 0; i < taps.weights.size(); i += 2) {
    const WeightParts a = split(taps.weights[i]);
    const WeightParts b = split(taps.weights[i + 1]);
    const std::array<std::int8_t, 4> high = {a.high, b.high, a.high, b.high};
    const std::array<std::int16_t, 2> low = {a.low, b.low};
    std::memcpy(&taps.weights[i], high.data(), sizeof(high));
    std::memcpy(&taps.weights[i + 1], low.data(), sizeof(low));
  }
}

// Makes a row of at least kValues bytes.
template <class Weights>
HWY_INLINE void make_row(const std::uint8_t* const* from, std::size_t pairs, const Weights& weights,
                         std::size_t bytes, std::uint8_t* to) {
  const Values d8;
  for (std::size_t next = 0; next < bytes; next += kValues) {
    // The last vector makes some values for the second time.
    const std::size_t at = HWY_MIN(next, bytes - kValues);
    const auto value = [&](std::size_t tap) { return hn::LoadU(d8, from[tap] + at); };
    hn::StoreU(made_of_taps(pairs, value, weights), d8, to + at);
  }
}

template <class Weights>
void make_short_row(const std::uint8_t* const* from, std::size_t pairs, const Weights& weights,
                    std::size_t bytes, std::uint8_t* to) {
  const Values d8;
  alignas(64) std::array<std::uint8_t, kValues> some{};
  const auto value = [&](std::size_t tap) {
    std::memcpy(some.data(), from[tap], bytes);
    return hn::Load(d8, some.data());
  };
  hn::Store(made_of_taps(pairs, value, weights), d8, some.data());
  std::memcpy(to, some.data(), bytes);
}

void rows(const std::uint8_t* const* from, const ResampleTaps& taps, std::size_t window,
          std::size_t bytes, std::uint8_t* to) {
  const Sums32 numbers;
  const std::int32_t* packed = taps.weights.data() + window * taps.stride;
  const std::size_t pairs = (static_cast<std::size_t>(taps.windows[window].count) + 1) / 2;
  const auto weights = [&](std::size_t pair, std::size_t /*half*/) {
    const auto high = hn::BitCast(HighParts(), hn::Set(numbers, packed[2 * pair]));
    const auto low = hn::BitCast(Sums16(), hn::Set(numbers, packed[2 * pair + 1]));
    return HalfWeights{high, low, low};
  };
  if (bytes < kValues) return make_short_row(from, pairs, weights, bytes, to);
  if (pairs == kUsualPairs) return make_row(from, kUsualPairs, weights, bytes, to);
  make_row(from, pairs, weights, bytes, to);
}

// The horizontal pass makes blocks, each a vector of values. For tap t, value i of a block takes
// the pixel that is `ahead` + t pixels ahead of its own.
struct Block {
  std::int32_t ahead;
  std::int32_t pairs;  // of taps
};
constexpr std::int32_t kMostPairs = 4;
constexpr std::size_t kHalfVectors = 3;  // HalfWeights
constexpr std::size_t kPairBytes = 2 * kHalfVectors * kValues;

// Returns the first value of a block. The last block makes some values for the second time.
std::size_t first_of_block(std::size_t block, std::size_t values) {
  return HWY_MIN(block * kValues, values - kValues);
}

// Returns the block whose taps reach all old pixels that have weights.
Block block_of(const ResampleTaps& taps, std::size_t first) {
  const std::size_t last = (first + kValues - 1) / kChannels;
  std::int32_t begin = taps.windows[last].first;
  std::int32_t end = -begin;
  for (std::size_t pixel = first / kChannels; pixel <= last; ++pixel) {
    const auto [window, count] = taps.windows[pixel];
    for (std::int32_t k = 0; k < count; ++k) {
      if (taps.weights[pixel * taps.stride + static_cast<std::size_t>(k)] == 0) continue;
      const std::int32_t ahead = window + k - static_cast<std::int32_t>(pixel);
      begin = HWY_MIN(begin, ahead);
      end = HWY_MAX(end, ahead + 1);
    }
  }
  return {begin, (end - begin + 1) / 2};
}

// Returns the blocks; none where windows are too long, or grow apart too fast.
std::vector<Block> blocks_of(const ResampleTaps& taps) {
  const std::size_t values = taps.windows.size() * kChannels;
  std::vector<Block> blocks;
  if (values < kValues) return blocks;
  for (std::size_t block = 0; block * kValues < values; ++block) {
    blocks.push_back(block_of(taps, first_of_block(block, values)));
    if (blocks.back().pairs > kMostPairs) return {};
  }
  return blocks;
}

// Puts the 8 and 16 bits of a tap's weight into the vectors of its pair of taps.
void put_weight(std::int32_t weight, std::size_t value, std::size_t tap, std::uint8_t* vectors) {
  constexpr std::size_t kWords = kLane / 2;
  const WeightParts parts = split(weight);
  std::uint8_t* own = vectors + value % kLane / kWords * kHalfVectors * kValues;
  const std::size_t word = value / kLane * kWords + value % kWords;
  std::memcpy(own + 2 * word + tap, &parts.high, sizeof(parts.high));
  own += (1 + word % 2) * kValues;
  std::memcpy(own + (word / 2 * 2 + tap) * sizeof(parts.low), &parts.low, sizeof(parts.low));
}

void pack_block(const ResampleTaps& taps, std::size_t first, Block block, std::uint8_t* vectors) {
  for (std::size_t i = 0; i < kValues; ++i) {
    const std::size_t pixel = (first + i) / kChannels;
    const auto [window, count] = taps.windows[pixel];
    for (std::int32_t tap = 0; tap < 2 * block.pairs; ++tap) {
      const std::int32_t k = static_cast<std::int32_t>(pixel) + block.ahead + tap - window;
      if (k < 0 || k >= count) continue;
      put_weight(taps.weights[pixel * taps.stride + static_cast<std::size_t>(k)], i,
                 static_cast<std::size_t>(tap % 2),
                 vectors + static_cast<std::size_t>(tap / 2) * kPairBytes);
    }
  }
}

// Makes vectors of the weights, and puts the blocks (their pixels ahead and pairs) in the place of
// the weights. Returns false if there are no blocks.
bool pack_beside(ResampleTaps& taps) {
  const std::vector<Block> blocks = blocks_of(taps);
  if (blocks.empty()) return false;
  std::size_t bytes = 0;
  for (const Block block : blocks) bytes += static_cast<std::size_t>(block.pairs) * kPairBytes;
  taps.vectors.resize((bytes + sizeof(ResampleVector) - 1) / sizeof(ResampleVector));
  std::uint8_t* vectors = taps.vectors.front().bytes.data();
  std::size_t index = 0;
  for (const Block block : blocks) {
    const std::size_t first = first_of_block(index++, taps.windows.size() * kChannels);
    pack_block(taps, first, block, vectors);
    vectors += static_cast<std::size_t>(block.pairs) * kPairBytes;
  }
  taps.weights.resize(2 * blocks.size());
  std::memcpy(taps.weights.data(), blocks.data(), blocks.size() * sizeof(Block));
  return true;
}

// Bytes that are prefetched ahead in each row: processors do not prefetch for as many as eight
// rows.
constexpr std::ptrdiff_t kRowsAhead = 256;

// Makes a block of each row. `place` is where in a row its first tap begins.
HWY_INLINE void make_block(const Rows& from, std::ptrdiff_t place, std::size_t pairs,
                           const std::uint8_t* vectors, const Targets& to, std::size_t first) {
  const Values d8;
  const auto weights = [&](std::size_t pair, std::size_t half) {
    const std::uint8_t* own = vectors + pair * kPairBytes + half * kHalfVectors * kValues;
    return HalfWeights{hn::BitCast(HighParts(), hn::Load(d8, own)),
                       hn::BitCast(Sums16(), hn::Load(d8, own + kValues)),
                       hn::BitCast(Sums16(), hn::Load(d8, own + 2 * kValues))};
  };
  for (std::size_t i = 0; i < kResampleBatch; ++i) {
    const std::uint8_t* row = from[i] + place;
    __builtin_prefetch(row + kRowsAhead);
    const auto value = [&](std::size_t tap) { return hn::LoadU(d8, row + tap * kChannels); };
    hn::StoreU(made_of_taps(pairs, value, weights), d8, to[i] + first);
  }
}

// The rows' first bytes, preceded by zeros: the first block takes some bytes before its row, which
// have no weight.
class Heads {
 public:
  explicit Heads(const Rows& from) {
    for (std::size_t i = 0; i < kResampleBatch; ++i) {
      std::memcpy(&bytes_[i][kBefore], from[i], kResampleSlack);
      rows_[i] = &bytes_[i][kBefore];
    }
  }
  const Rows& rows() const { return rows_; }

 private:
  static constexpr std::size_t kBefore = std::size_t{2} * kMostPairs * kChannels;
  std::array<std::array<std::uint8_t, kBefore + kResampleSlack>, kResampleBatch> bytes_{};
  Rows rows_{};
};

void columns_beside(const Rows& from, const ResampleTaps& taps, const Targets& to) {
  const std::size_t values = taps.windows.size() * kChannels;
  const Heads heads(from);
  const std::uint8_t* vectors = taps.vectors.front().bytes.data();
  for (std::size_t index = 0; index * kValues < values; ++index) {
    const std::size_t first = first_of_block(index, values);
    const std::ptrdiff_t ahead = taps.weights[2 * index];
    const auto pairs = static_cast<std::size_t>(taps.weights[2 * index + 1]);
    const auto place = static_cast<std::ptrdiff_t>(first) + ahead * std::ptrdiff_t{kChannels};
    const Rows& rows = place < 0 ? heads.rows() : from;
    if (pairs == kUsualPairs) {
      make_block(rows, place, kUsualPairs, vectors, to, first);
    } else {
      make_block(rows, place, pairs, vectors, to, first);
    }
    vectors += pairs * kPairBytes;
  }
}
