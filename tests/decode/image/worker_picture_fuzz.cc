// Any bytes that probe as a TIFF, HEIC or AVIF: pixels of the size that the header says, or an
// error.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/byte_source.h"
#include "decode/image/image_decoder.h"
#include "decode/probe.h"
#include "decode/sample_decoder.h"
#include "decode/shape/media_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const isocost::MemoryByteSource source(std::as_bytes(std::span(data, size)));
  isocost::ProbeLimits limits;
  limits.max_pixels = 1 << 14;
  const auto shape = isocost::probe(source, "tif", limits);
  if (!shape.has_value() || !isocost::needs_worker(shape->format)) return 0;
  if (isocost::image_decoding_bytes(*shape, 1) > (std::int64_t{64} << 20)) return 0;
  const auto pixels = isocost::decode_image(source, *shape, {}, {});
  if (!pixels.has_value()) return 0;
  const auto bytes = static_cast<std::size_t>(std::int64_t{3} * pixels->width * pixels->height);
  if (pixels->rgb.size() != bytes) std::abort();
  if (pixels->width * pixels->height != shape->width * shape->height) std::abort();
  return 0;
}
