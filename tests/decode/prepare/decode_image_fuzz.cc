// Any bytes that probe as a picture: tensors of the size that the load says, or an error; and
// patches as exact models take them, or an error. worker_picture_fuzz reads the other formats.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/byte_source.h"
#include "decode/prepare/exact_image.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "decode/sample_decoder.h"
#include "decode/shape/sample_shape.h"

constexpr isocost::PatchGrid kGrid{4, 6};

// The middle of a picture of three times the grid's sides, of which a JPEG's rest is passed over.
isocost::Framing middle() {
  const std::int32_t width = kGrid.width();
  const std::int32_t height = kGrid.height();
  return {3 * width, 3 * height, {width, height, width, height}};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto recipe = isocost::Recipe::create({});
  static isocost::BufferPool pool;
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  isocost::ProbeLimits limits;
  limits.max_pixels = 1 << 16;
  for (const char* name : {"jpg", "png", "webp", "gif", "bmp"}) {
    const auto shape = isocost::probe(source, name, limits);
    if (!shape.has_value() || isocost::needs_worker(shape->format)) continue;
    static std::vector<std::byte> patches(static_cast<std::size_t>(kGrid.bytes()));
    static_cast<void>(isocost::framed_image_patches(source, *shape, isocost::whole(kGrid), kGrid,
                                                    {}, {}, patches, {}));
    for (const auto exactness : {isocost::Exactness::kExact, isocost::Exactness::kFast}) {
      for (const auto truncated : {isocost::Truncated::kBad, isocost::Truncated::kAccept}) {
        const isocost::PictureDecoding how{.exactness = exactness, .truncated = truncated};
        static_cast<void>(
            isocost::framed_image_patches(source, *shape, middle(), kGrid, {}, how, patches, {}));
      }
    }
    const isocost::PartBytes part{&*shape, &source};
    const auto tensors = recipe->tensors(std::span(&part, 1), pool);
    if (!tensors.has_value()) continue;
    std::int64_t bytes = 0;
    for (const auto& tensor : *tensors) bytes += tensor.tensor.size_bytes();
    if (bytes != recipe->load({{*shape}, 1})->tensor_bytes) std::abort();
  }
  return 0;
}
