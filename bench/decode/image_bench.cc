// Measures decoding, scaling and cutting of pictures into patches on one core. Results are checked
// before anything is timed.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/buffer.h"
#include "base/byte_source.h"
#include "decode/probe.h"
#include "decode/recipe.h"
#include "decode/recipes/internal/native28_grid.h"
#include "decode/resize/patchify.h"
#include "tests/support/media.h"

namespace isocost {
namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

void tensors_of_image(benchmark::State& state, MediaFormat format, const char* name) {
  const auto width = static_cast<std::int32_t>(state.range(0));
  const std::int32_t height = width * 3 / 4;
  const test::Bytes bytes = test::make_image(format, width, height);
  const MemoryByteSource source(bytes);
  const PartShape shape = *probe(source, name, {});
  const PartBytes part{&shape, &source};
  const Recipe recipe = *Recipe::create({});
  BufferPool pool;
  const auto first = recipe.tensors(std::span(&part, 1), pool);
  const std::int64_t patches =
      patch_grid(width, height, Native28Options{}.max_image_patches).patches();
  require(first.has_value() && first->front().tensor.shape.front() == patches, "tensors");
  for (auto _ : state) benchmark::DoNotOptimize(recipe.tensors(std::span(&part, 1), pool));
  state.counters["images/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["Mpixel/s"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * width * height / 1e6, benchmark::Counter::kIsRate);
}

void patches_of_pixels(benchmark::State& state) {
  const test::Picture picture = test::gradient(896, 672, 1);
  const PatchGrid grid{48, 64};
  std::vector<std::byte> patches(static_cast<std::size_t>(grid.bytes()));
  patchify(picture.rgb, grid, patches);
  require(patches.size() == picture.rgb.size(), "patchify");
  for (auto _ : state) {
    patchify(picture.rgb, grid, patches);
    benchmark::DoNotOptimize(patches.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(patches.size()));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(224)->Arg(640)->Arg(1920)->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(tensors_of_image, jpeg, MediaFormat::kJpeg, "jpg")->Apply(sizes)->Arg(5640);
BENCHMARK_CAPTURE(tensors_of_image, png, MediaFormat::kPng, "png")->Apply(sizes);
BENCHMARK_CAPTURE(tensors_of_image, webp, MediaFormat::kWebp, "webp")->Apply(sizes);
BENCHMARK_CAPTURE(tensors_of_image, gif, MediaFormat::kGif, "gif")->Apply(sizes);
BENCHMARK_CAPTURE(tensors_of_image, bmp, MediaFormat::kBmp, "bmp")->Apply(sizes);
BENCHMARK(patches_of_pixels);

}  // namespace
}  // namespace isocost

BENCHMARK_MAIN();
