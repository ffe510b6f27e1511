#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/sample_part.h"
#include "decode/bytes/sniff.h"
#include "decode/shape/media_formats.h"

namespace isocost::test {

/// Returns the formats of a modality that a fuzz target tries on its input: `always`, and the
/// format of its first bytes.
inline std::vector<MediaFormat> fuzz_formats(std::span<const std::uint8_t> input, Modality modality,
                                             std::vector<MediaFormat> always) {
  constexpr std::size_t kHead = 512;
  const auto add = [&](MediaFormat format) {
    if (modality_of(format) == modality && std::ranges::find(always, format) == always.end()) {
      always.push_back(format);
    }
  };
  if (const auto found = sniff(input.first(std::min(kHead, input.size())))) {
    add(*found);
    if (const auto sound = sound_only(*found)) add(*sound);
  }
  return always;
}

}  // namespace isocost::test
