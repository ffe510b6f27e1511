// Part of resample_simd.cc: the horizontal pass where windows are short and begin near one another,
// as of pictures that hardly change their size. A vector holds values (bytes of RGB) that lie side
// by side in one row, one in each 32 bits. For such a group there is a vector of the places of a
// pair of old values per new one, and for each pair a vector of the high parts of weights and, if
// they are not coarse, one of low parts.
constexpr std::size_t kValues = kVector / sizeof(std::int32_t);
constexpr std::size_t kMostPairs = 4;
constexpr std::size_t kTogether = 4;  // rows

std::size_t parts_of_pair(const ResampleTaps& taps) { return taps.is_coarse ? 1 : 2; }

std::size_t group_bytes(const ResampleTaps& taps, std::size_t pairs) {
  return (1 + pairs * parts_of_pair(taps)) * kVector;
}

// The last group makes some values for the second time.
std::size_t first_of_group(std::size_t group, std::size_t values) {
  return HWY_MIN(group * kValues, values - kValues);
}

// Where in a row the window begins that `value` belongs to.
std::size_t window_place(const ResampleTaps& taps, std::size_t value) {
  return static_cast<std::size_t>(taps.windows[value / kChannels].first) * kChannels;
}

// The first of old values that `value` takes, from where the window of a group's `first` begins.
std::size_t place_in_group(const ResampleTaps& taps, std::size_t first, std::size_t value) {
  return window_place(taps, value) - window_place(taps, first) + value % kChannels;
}

// Windows at the end of a row begin with zeros. Drops those that make them longer than the longest
// is without, whose number of weights it returns.
std::size_t drop_zeros(ResampleTaps& taps) {
  std::int32_t most = 1;
  auto weights = taps.weights.begin();
  for (const auto [first, count] : taps.windows) {
    const auto used = std::find_if(weights, weights + count, [](auto w) { return w != 0; });
    most = HWY_MAX(most, static_cast<std::int32_t>(weights + count - used));
    weights += static_cast<std::ptrdiff_t>(taps.stride);
  }
  weights = taps.weights.begin();
  for (auto& [first, count] : taps.windows) {
    const std::int32_t dropped = HWY_MAX(count - most, 0);
    std::fill_n(std::copy(weights + dropped, weights + count, weights), dropped, 0);
    first += dropped;
    count -= dropped;
    weights += static_cast<std::ptrdiff_t>(taps.stride);
  }
  return static_cast<std::size_t>(most);
}

// Whether a pair of each of a group's values lies within 128 bits of a row.
bool are_near(const ResampleTaps& taps) {
  const std::size_t values = taps.windows.size() * kChannels;
  if (values < kValues) return false;
  for (std::size_t group = 0; group * kValues < values; ++group) {
    const std::size_t first = first_of_group(group, values);
    for (std::size_t value = first; value < first + kValues; ++value) {
      if (place_in_group(taps, first, value) + kChannels >= kLane) return false;
    }
  }
  return true;
}

// Of one value: the bytes of `own` and of the vectors behind it that are its 32 bits.
void pack_value(const std::int32_t* weights, std::size_t place, std::size_t pairs,
                std::size_t parts, std::uint8_t* own) {
  const std::array<std::uint8_t, 4> places = {static_cast<std::uint8_t>(place), kNo,
                                              static_cast<std::uint8_t>(place + kChannels), kNo};
  std::memcpy(own, places.data(), sizeof(places));
  for (std::size_t pair = 0; pair < pairs; ++pair, weights += 2) {
    const auto a = parts_of(weights[0]);
    const auto b = parts_of(weights[1]);
    for (std::size_t part = 0; part < parts; ++part) {
      const std::array<std::int16_t, 2> both = {a[part], b[part]};
      own += kVector;
      std::memcpy(own, both.data(), sizeof(both));
    }
  }
}

void pack_groups(ResampleTaps& taps, std::size_t pairs) {
  const std::size_t values = taps.windows.size() * kChannels;
  const std::size_t groups = (values + kValues - 1) / kValues;
  const std::size_t bytes = group_bytes(taps, pairs);
  taps.vectors.resize((groups * bytes + sizeof(ResampleVector) - 1) / sizeof(ResampleVector));
  std::uint8_t* own = taps.vectors.front().bytes.data();
  for (std::size_t group = 0; group < groups; ++group, own += bytes) {
    const std::size_t first = first_of_group(group, values);
    for (std::size_t i = 0; i < kValues; ++i) {
      const std::size_t value = first + i;
      pack_value(&taps.weights[value / kChannels * taps.stride], place_in_group(taps, first, value),
                 pairs, parts_of_pair(taps), own + i * sizeof(std::int32_t));
    }
  }
  taps.stride = 2 * pairs;
}

void pack_columns(ResampleTaps& taps) {
  const std::size_t pairs = (drop_zeros(taps) + 1) / 2;
  if (pairs <= kMostPairs && are_near(taps)) {
    pack_groups(taps, pairs);
  } else {
    pack_pairs(taps);
  }
}

// Each 128 bits hold 32 bits of each of four rows.
HWY_INLINE void store_group(hn::Vec<Bytes> made, std::uint8_t* const* to, std::size_t at) {
  const auto rows = hn::BitCast(Numbers(), made);
#if HWY_MAX_BYTES > 16
  const hn::Half<Numbers> numbers;
  const hn::Half<decltype(numbers)> pair;
  const auto lower = hn::LowerHalf(numbers, rows);
  const auto upper = hn::UpperHalf(numbers, rows);
  const auto store = [&](auto two, std::uint8_t* const* into) {
    const hn::FixedTag<std::uint8_t, 8> eight;
    hn::StoreU(hn::BitCast(eight, hn::LowerHalf(pair, two)), eight, into[0] + at);
    hn::StoreU(hn::BitCast(eight, hn::UpperHalf(pair, two)), eight, into[1] + at);
  };
  store(hn::InterleaveLower(numbers, lower, upper), to);
  store(hn::InterleaveUpper(numbers, lower, upper), to + 2);
#else
  for (std::size_t i = 0; i < kTogether; ++i) {
    const std::int32_t four = hn::ExtractLane(rows, i);
    std::memcpy(to[i] + at, &four, sizeof(four));
  }
#endif
}

// Makes a group of values of a row.
template <bool kIsCoarse, std::size_t kPairs>
HWY_INLINE hn::Vec<Numbers> group_of_row(const std::uint8_t* from, const std::uint8_t* own) {
  const Bytes bytes;
  const Words words;
  const Numbers numbers;
  const auto places = hn::Load(bytes, own);
  auto sums = no_sums(numbers);
  for (std::size_t pair = 0; pair < kPairs; ++pair, from += 2 * kChannels) {
    const auto high = hn::BitCast(words, hn::Load(bytes, own += kVector));
    const auto low = kIsCoarse ? high : hn::BitCast(words, hn::Load(bytes, own += kVector));
    const auto old = hn::TableLookupBytesOr0(hn::LoadDup128(bytes, from), places);
    add_products<kIsCoarse>(numbers, hn::BitCast(words, old), high, low, sums);
  }
  return rounded(numbers, sums);
}

template <bool kIsCoarse, std::size_t kPairs>
void columns_of_groups(const Rows& from, const ResampleTaps& taps, const Targets& to) {
  const std::size_t values = taps.windows.size() * kChannels;
  const std::uint8_t* own = taps.vectors.front().bytes.data();
  for (std::size_t group = 0; group * kValues < values; ++group) {
    const std::size_t first = first_of_group(group, values);
    const std::size_t place = window_place(taps, first);
    const auto two = [&](std::size_t i) {
      return hn::ReorderDemote2To(Words(), group_of_row<kIsCoarse, kPairs>(from[i] + place, own),
                                  group_of_row<kIsCoarse, kPairs>(from[i + 1] + place, own));
    };
    for (std::size_t i = 0; i < kResampleBatch; i += kTogether) {
      store_group(to_bytes(two(i), two(i + 2)), &to[i], first);
    }
    own += (1 + kPairs * (kIsCoarse ? 1 : 2)) * kVector;
  }
}

// Unrolled for each number of pairs.
template <bool kIsCoarse>
void columns_of_pairs(const Rows& from, const ResampleTaps& taps, const Targets& to) {
  constexpr std::array<decltype(&columns_of_groups<kIsCoarse, 1>), kMostPairs> kMake = {
      columns_of_groups<kIsCoarse, 1>, columns_of_groups<kIsCoarse, 2>,
      columns_of_groups<kIsCoarse, 3>, columns_of_groups<kIsCoarse, 4>};
  kMake[taps.stride / 2 - 1](from, taps, to);
}
