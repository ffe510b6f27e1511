// Reads names of picture files, a line each, and writes what Isocost makes of each: "read FORMAT
// WIDTH HEIGHT" and a line's end, with the displayed pixels in RGB after it, or "refused MESSAGE".
// Opacity is dropped. A file that ends the process is the last one asked for, so whoever asks can
// continue with a new process after it.

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "base/result.h"
#include "decode/image/image_decoder.h"
#include "decode/probe.h"
#include "decode/resize/orientation.h"
#include "decode/shape/media_formats.h"
#include "decode/shape/sample_shape.h"

namespace isocost {
namespace {

struct Shown {
  std::string format;
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::vector<std::uint8_t> rgb;
};

Result<Shown> read_picture(const std::string& name) {
  std::ifstream stream(name, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), {});
  const MemoryByteSource source(std::as_bytes(std::span(file)));
  ISOCOST_ASSIGN(const PartShape shape, probe(source, "a.jpg", {}));
  if (shape.modality != Modality::kImage) {
    return Error(ErrorCode::kUnsupported, "is no picture");
  }
  ISOCOST_ASSIGN(const Pixels stored, decode_image(source, shape, {.alpha = Alpha::kDrop}, {}));
  Shown shown{std::string(format_name(shape.format)), shape.width, shape.height, {}};
  shown.rgb.resize(stored.rgb.size());
  const PixelWalk walk =
      pixel_walk(shape.orientation, stored.width, stored.height, std::ptrdiff_t{3} * stored.width);
  copy_turned(stored.rgb.data(), walk, shape.width, shape.height, shown.rgb);
  return shown;
}

void answer(const std::string& name) {
  const auto shown = read_picture(name);
  if (!shown) {
    std::cout << "refused " << shown.error().message() << '\n' << std::flush;
    return;
  }
  std::cout << "read " << shown->format << ' ' << shown->width << ' ' << shown->height << '\n';
  std::cout.write(reinterpret_cast<const char*>(shown->rgb.data()),
                  static_cast<std::streamsize>(shown->rgb.size()));
  std::cout << std::flush;
}

}  // namespace
}  // namespace isocost

int main() {
  for (std::string name; std::getline(std::cin, name);) isocost::answer(name);
  return 0;
}
