// Part of resample_simd.cc: the kernels for AVX-512 with VNNI, whose products of bytes Highway does
// not wrap. Highway chooses this target where the processor has it, but does not tell the compiler.
// clang takes only the features of the outermost attribute, so they are not added to Highway's.
HWY_AFTER_NAMESPACE();
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")

// Rows that are made together: one in each 128 bits.
constexpr std::size_t kFour = 4;
using FourRows = std::array<const std::uint8_t*, kFour>;
using FourTargets = std::array<std::uint8_t*, kFour>;

alignas(kLane) constexpr std::uint8_t kWithoutFourth[kLane] = {
    0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};

// A weight is high * 2^16 + middle * 2^8 + low, each of them a signed byte: the processor
// multiplies four pixels' bytes with four such bytes and adds them up.
constexpr std::size_t kParts = 3;

std::array<std::int8_t, kParts> parts_of(std::int32_t weight) {
  std::array<std::int8_t, kParts> parts{};
  for (std::int8_t& part : parts) {
    part = static_cast<std::int8_t>(weight & 0xFF);
    weight = (weight - part) / 256;
  }
  return parts;
}

// Packs four weights at a time: the four low parts, the middle ones, the high ones.
void pack_rows(ResampleTaps& taps) {
  for (std::size_t i = 0; i < taps.weights.size(); i += kTapsTogether) {
    std::array<std::array<std::int8_t, kTapsTogether>, 4> parts{};
    for (std::size_t k = 0; k < kTapsTogether; ++k) {
      const auto own = parts_of(taps.weights[i + k]);
      for (std::size_t part = 0; part < kParts; ++part) parts[part][k] = own[part];
    }
    std::memcpy(&taps.weights[i], parts.data(), sizeof(parts));
  }
}

// Values (bytes of RGB) that are made together where the old values that they take from a row lie
// within two vectors. For each such group, `vectors` holds the places of four old values for each
// value, then three vectors of weight parts for each four weights.
constexpr std::size_t kValues = 16;

void pack_columns(ResampleTaps& taps) {
  const std::size_t values = taps.windows.size() * kChannels;
  const std::size_t steps = taps.stride / kTapsTogether;
  std::vector<ResampleVector> vectors((values + kValues - 1) / kValues * (1 + kParts * steps));
  for (std::size_t value = 0; value < values; ++value) {
    const std::size_t pixel = value / kChannels;
    const std::size_t first = value / kValues * kValues / kChannels;
    const std::int32_t apart = taps.windows[pixel].first - taps.windows[first].first;
    ResampleVector* own = &vectors[value / kValues * (1 + kParts * steps)];
    const std::size_t at = value % kValues * kTapsTogether;
    for (std::size_t k = 0; k < kTapsTogether; ++k) {
      const std::size_t place =
          (static_cast<std::size_t>(apart) + k) * kChannels + value % kChannels;
      if (place >= 2 * sizeof(ResampleVector)) return pack_rows(taps);
      own->bytes[at + k] = static_cast<std::uint8_t>(place);
    }
    for (std::size_t k = 0; k < taps.stride; ++k) {
      const auto parts = parts_of(taps.weights[pixel * taps.stride + k]);
      for (std::size_t part = 0; part < kParts; ++part) {
        own[1 + k / kTapsTogether * kParts + part].bytes[at + k % kTapsTogether] =
            static_cast<std::uint8_t>(parts[part]);
      }
    }
  }
  taps.vectors = std::move(vectors);
}

struct Sums {
  __m512i low;
  __m512i middle;
  __m512i high;
};

HWY_INLINE Sums no_sums() {
  const __m512i zero = _mm512_setzero_si512();
  // Rounds to the nearest, because the sums are shifted by 16 bits first.
  return {zero, zero, _mm512_set1_epi32(kHalf >> 16)};
}

HWY_INLINE void add_products(__m512i bytes, const std::array<__m512i, kParts>& weights,
                             Sums& sums) {
  sums.low = _mm512_dpbusd_epi32(sums.low, bytes, weights[0]);
  sums.middle = _mm512_dpbusd_epi32(sums.middle, bytes, weights[1]);
  sums.high = _mm512_dpbusd_epi32(sums.high, bytes, weights[2]);
}

HWY_INLINE std::array<__m512i, kParts> same_weights(const std::int32_t* packed) {
  return {_mm512_set1_epi32(packed[0]), _mm512_set1_epi32(packed[1]), _mm512_set1_epi32(packed[2])};
}

HWY_INLINE __m512i rounded(const Sums& sums) {
  const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(sums.high, 8), sums.middle);
  const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(upper, 8), sums.low);
  return _mm512_srai_epi32(sum, kShift);
}

HWY_INLINE __m512i to_bytes(const std::array<__m512i, 4>& sums) {
  return _mm512_packus_epi16(_mm512_packs_epi32(sums[0], sums[1]),
                             _mm512_packs_epi32(sums[2], sums[3]));
}

HWY_INLINE __m128i load_lane(const std::uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// Loads 128 bits of each row.
HWY_INLINE __m512i load_rows(const FourRows& from, std::size_t at) {
  __m512i rows = _mm512_castsi128_si512(load_lane(from[0] + at));
  rows = _mm512_inserti32x4(rows, load_lane(from[1] + at), 1);
  rows = _mm512_inserti32x4(rows, load_lane(from[2] + at), 2);
  return _mm512_inserti32x4(rows, load_lane(from[3] + at), 3);
}

HWY_INLINE void store_rows(__m512i rows, __mmask16 some, const FourTargets& to, std::size_t at) {
  _mm_mask_storeu_epi8(to[0] + at, some, _mm512_castsi512_si128(rows));
  _mm_mask_storeu_epi8(to[1] + at, some, _mm512_extracti32x4_epi32(rows, 1));
  _mm_mask_storeu_epi8(to[2] + at, some, _mm512_extracti32x4_epi32(rows, 2));
  _mm_mask_storeu_epi8(to[3] + at, some, _mm512_extracti32x4_epi32(rows, 3));
}

HWY_INLINE __mmask16 first_bytes(std::size_t count) {
  return static_cast<__mmask16>(count < kLane ? (1U << count) - 1 : 0xFFFF);
}

// Makes pixels whose old pixels lie far apart. A register has a row in each 128 bits, and there the
// four old pixels' reds, then greens, blues.
void columns_of_far_pixels(const FourRows& from, const ResampleTaps& taps, const FourTargets& to) {
  const __m512i by_channel =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
  const __m512i without_fourth = _mm512_broadcast_i32x4(load_lane(kWithoutFourth));
  const std::size_t pixels = taps.windows.size();
  for (std::size_t pixel = 0; pixel < pixels; pixel += kPixels) {
    std::array<__m512i, kPixels> made;
    for (std::size_t i = 0; i < kPixels; ++i) {
      const std::size_t window = pixel + i < pixels ? pixel + i : pixels - 1;
      const std::int32_t* packed = taps.weights.data() + window * taps.stride;
      std::size_t at = static_cast<std::size_t>(taps.windows[window].first) * kChannels;
      Sums sums = no_sums();
      // The count is the same for each window, so that the processor predicts the branches.
      for (std::size_t k = 0; k < taps.stride;
           k += kTapsTogether, at += kTapsTogether * kChannels, packed += kTapsTogether) {
        add_products(_mm512_shuffle_epi8(load_rows(from, at), by_channel), same_weights(packed),
                     sums);
      }
      made[i] = rounded(sums);
    }
    store_rows(_mm512_shuffle_epi8(to_bytes(made), without_fourth),
               first_bytes(std::min(kPixels, pixels - pixel) * kChannels), to, pixel * kChannels);
  }
}

// Gathers the four old values that lie at `places` of a row, for each of kValues values. `second`
// marks those in the row's second 64 bytes.
template <bool kIsNear>
HWY_INLINE __m512i gather(const std::uint8_t* row, __m512i places, __mmask64 second) {
  const __m512i near = _mm512_permutexvar_epi8(places, _mm512_loadu_si512(row));
  if constexpr (kIsNear) return near;
  return _mm512_mask_permutexvar_epi8(near, second, places, _mm512_loadu_si512(row + 64));
}

template <bool kIsNear>
HWY_INLINE __m512i values_of(const FourRows& from, std::size_t at, const ResampleVector* own,
                             std::size_t stride, __mmask64 second) {
  const __m512i by_row = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i places = _mm512_load_si512(own++);
  std::array<Sums, kFour> sums = {no_sums(), no_sums(), no_sums(), no_sums()};
  for (std::size_t k = 0; k < stride;
       k += kTapsTogether, at += kTapsTogether * kChannels, own += kParts) {
    const std::array<__m512i, kParts> weights = {_mm512_load_si512(own), _mm512_load_si512(own + 1),
                                                 _mm512_load_si512(own + 2)};
    for (std::size_t i = 0; i < kFour; ++i) {
      add_products(gather<kIsNear>(from[i] + at, places, second), weights, sums[i]);
    }
  }
  const __m512i bytes =
      to_bytes({rounded(sums[0]), rounded(sums[1]), rounded(sums[2]), rounded(sums[3])});
  return _mm512_permutexvar_epi32(by_row, bytes);
}

void columns_of_four(const FourRows& from, const ResampleTaps& taps, const FourTargets& to) {
  if (taps.vectors.empty()) return columns_of_far_pixels(from, taps, to);
  const std::size_t values = taps.windows.size() * kChannels;
  const std::size_t vectors = 1 + taps.stride / kTapsTogether * kParts;
  const ResampleVector* own = taps.vectors.data();
  for (std::size_t value = 0; value < values; value += kValues, own += vectors) {
    const std::size_t at =
        static_cast<std::size_t>(taps.windows[value / kChannels].first) * kChannels;
    const __mmask64 second = _mm512_test_epi8_mask(_mm512_load_si512(own), _mm512_set1_epi8(64));
    const __m512i made = second == 0 ? values_of<true>(from, at, own, taps.stride, second)
                                     : values_of<false>(from, at, own, taps.stride, second);
    store_rows(made, first_bytes(std::min(kValues, values - value)), to, value);
  }
}

void columns(const Rows& from, const ResampleTaps& taps, const Targets& to,
             ResampleVector* /*scratch*/) {
  for (std::size_t i = 0; i < kResampleBatch; i += kFour) {
    columns_of_four({from[i], from[i + 1], from[i + 2], from[i + 3]}, taps,
                    {to[i], to[i + 1], to[i + 2], to[i + 3]});
  }
}

// Makes 64 columns; `some` of them exist. Packing restores the order from before unpacking.
HWY_INLINE void block_of_rows(const std::uint8_t* const* from, const std::int32_t* packed,
                              std::int32_t count, __mmask64 some, std::size_t at,
                              std::uint8_t* to) {
  std::array<Sums, 4> sums = {no_sums(), no_sums(), no_sums(), no_sums()};
  for (std::int32_t k = 0; k < count;
       k += kTapsTogether, from += kTapsTogether, packed += kTapsTogether) {
    const auto weights = same_weights(packed);
    const __m512i a = _mm512_maskz_loadu_epi8(some, from[0] + at);
    const __m512i b = _mm512_maskz_loadu_epi8(some, from[1] + at);
    const __m512i c = _mm512_maskz_loadu_epi8(some, from[2] + at);
    const __m512i d = _mm512_maskz_loadu_epi8(some, from[3] + at);
    const __m512i ab = _mm512_unpacklo_epi8(a, b);
    const __m512i cd = _mm512_unpacklo_epi8(c, d);
    add_products(_mm512_unpacklo_epi16(ab, cd), weights, sums[0]);
    add_products(_mm512_unpackhi_epi16(ab, cd), weights, sums[1]);
    const __m512i upper_ab = _mm512_unpackhi_epi8(a, b);
    const __m512i upper_cd = _mm512_unpackhi_epi8(c, d);
    add_products(_mm512_unpacklo_epi16(upper_ab, upper_cd), weights, sums[2]);
    add_products(_mm512_unpackhi_epi16(upper_ab, upper_cd), weights, sums[3]);
  }
  _mm512_mask_storeu_epi8(
      to + at, some,
      to_bytes({rounded(sums[0]), rounded(sums[1]), rounded(sums[2]), rounded(sums[3])}));
}

void rows(const std::uint8_t* const* from, const ResampleTaps& taps, std::size_t window,
          std::size_t bytes, std::uint8_t* to) {
  constexpr std::size_t kVector = 64;
  const std::int32_t count = taps.windows[window].count;
  const std::int32_t* packed = taps.weights.data() + window * taps.stride;
  for (std::size_t at = 0; at < bytes; at += kVector) {
    const std::size_t left = bytes - at;
    const __mmask64 some = left < kVector ? (__mmask64{1} << left) - 1 : ~__mmask64{0};
    block_of_rows(from, packed, count, some, at, to);
  }
}

HWY_POP_ATTRIBUTES
HWY_BEFORE_NAMESPACE();
