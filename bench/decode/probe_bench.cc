// Measures the probing of parts to shapes, and the computation of loads from shapes, on one core
// from memory. Results are checked before anything is timed.

#include <benchmark/benchmark.h>

#include <stdexcept>
#include <string>

#include "base/byte_source.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

void probe_part(benchmark::State& state, const test::Bytes& bytes, const char* name,
                MediaFormat format) {
  const MemoryByteSource source(bytes);
  const auto shape = probe(source, name, {});
  require(shape.has_value() && shape->format == format, name);
  for (auto _ : state) benchmark::DoNotOptimize(probe(source, name, {}));
  state.SetItemsProcessed(state.iterations());
}

void probe_image(benchmark::State& state, MediaFormat format, const char* name) {
  probe_part(state, test::make_image(format, 640, 480), name, format);
}

/// A JPEG as cameras and editors write it, with orientation, colour profile and previews before the
/// frame.
void probe_camera_jpeg(benchmark::State& state) {
  test::JpegSpec spec;
  spec.orientation = 6;
  spec.app_bytes = 200'000;
  probe_part(state, test::make_jpeg(test::gradient(640, 480, 1), spec), "jpg", MediaFormat::kJpeg);
}

void probe_json(benchmark::State& state) {
  probe_part(state,
             test::text_bytes(R"({"text": "a caption of a picture", "source": "x", "n": 3})"),
             "json", MediaFormat::kJson);
}

void probe_text(benchmark::State& state) {
  probe_part(state, test::text_bytes(std::string(2000, 'a')), "txt", MediaFormat::kUtf8);
}

void load_of_shape(benchmark::State& state) {
  PartShape image;
  image.modality = Modality::kImage;
  image.width = 1920;
  image.height = 1080;
  PartShape text;
  text.text_bytes = 300;
  const SampleShape shape{{image, text, image}, 1};
  const Recipe recipe = *Recipe::create({});
  require(recipe.load(shape)->label_tokens == 301, "load");
  for (auto _ : state) benchmark::DoNotOptimize(recipe.load(shape));
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK_CAPTURE(probe_image, jpeg, MediaFormat::kJpeg, "jpg");
BENCHMARK(probe_camera_jpeg);
BENCHMARK_CAPTURE(probe_image, png, MediaFormat::kPng, "png");
BENCHMARK_CAPTURE(probe_image, webp, MediaFormat::kWebp, "webp");
BENCHMARK_CAPTURE(probe_image, gif, MediaFormat::kGif, "gif");
BENCHMARK_CAPTURE(probe_image, bmp, MediaFormat::kBmp, "bmp");
BENCHMARK(probe_json);
BENCHMARK(probe_text);
BENCHMARK(load_of_shape);

}  // namespace
}  // namespace isocost

BENCHMARK_MAIN();
