// Any bytes as a sample's JSON: a valid weight and a text in UTF-8, or an error.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/utf8.h"
#include "decode/bytes/sample_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = isocost::parse_sample_json({reinterpret_cast<const char*>(data), size});
  if (!json.has_value()) return 0;
  if (!std::isfinite(json->weight) || json->weight < 0) std::abort();
  const auto* text = reinterpret_cast<const std::uint8_t*>(json->text.data());
  if (isocost::valid_utf8_prefix({text, json->text.size()}) != json->text.size()) std::abort();
  return 0;
}
