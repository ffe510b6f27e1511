// Any bytes under any name: a shape within the limits, or an error.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/byte_source.h"
#include "decode/probe.h"
#include "decode/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto recipe = isocost::Recipe::create({});
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  isocost::ProbeLimits limits;
  limits.max_pixels = 1 << 20;
  for (const char* name : {"jpg", "png", "webp", "gif", "bmp", "txt", "json"}) {
    const auto shape = isocost::probe(source, name, limits);
    if (!shape.has_value()) continue;
    // A recipe may refuse a text that is empty, or JSON without one: native28 makes no token of it.
    if (shape->modality == isocost::Modality::kText && shape->text_bytes == 0) continue;
    if (std::int64_t{shape->width} * shape->height > limits.max_pixels) std::abort();
    const isocost::SampleShape sample{{*shape}, 1};
    if (!recipe->load(sample).has_value() || !recipe->working_set_bytes(sample).has_value()) {
      std::abort();
    }
  }
  return 0;
}
