// Measures what a recipe adds to the decoding of photographs, on one core: photo_bench [DIR] reads
// the JPEG files of a directory (default: the demo's, build/demo/made). Contenders take turns, file
// by file, in CPU time of the thread; each answer is compared with the plain path's first.

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/image/image_codecs.h"
#include "decode/prepare/exact_image.h"
#include "decode/probe.h"
#include "decode/recipes/internal/native28_grid.h"
#include "decode/resize/orientation.h"
#include "decode/resize/patchify.h"
#include "trainer_adapter/normalise.h"

namespace isocost {
namespace {

constexpr int kRounds = 7;
constexpr std::int32_t kSquareSide = 16;  // 24 x 24 patches of 16 pixels are 384 x 384
constexpr std::int32_t kMiddleSide = 14;  // and of 14 pixels, 336 x 336

struct Photo {
  std::string name;
  std::vector<std::byte> bytes;
  PartShape shape;
};

void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

std::vector<Photo> photos(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".jpg") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Photo> out;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    Photo photo{file.filename().string(), {}, {}};
    const auto bytes = std::as_bytes(std::span(text));
    photo.bytes.assign(bytes.begin(), bytes.end());
    const auto shape = probe(MemoryByteSource(photo.bytes), "jpg", {});
    require(shape.has_value() && shape->orientation == 1, photo.name + ": is no upright picture");
    photo.shape = *shape;
    out.push_back(std::move(photo));
  }
  require(!out.empty(),
          directory.string() + ": has no JPEG files; ./run demo --media-only makes some");
  return out;
}

// The result of a photograph.
struct View {
  PatchGrid grid;
  Framing framing;
};
using ViewOf = View (*)(const Photo&);

View square(const Photo&) {
  const PatchGrid grid{24, 24, kSquareSide};
  return {grid, whole(grid)};
}

// Returns the view of Qwen2-VL, for pictures of usual sizes: sides rounded to multiples of 28.
View native(const Photo& photo) {
  const PatchGrid grid = patch_grid(photo.shape.width, photo.shape.height, 1 << 24);
  return {grid, whole(grid)};
}

// Returns the view of LLaVA-1.5: the shorter side becomes 336 pixels, and the middle is cut out.
View middle(const Photo& photo) {
  const PatchGrid grid{24, 24, kMiddleSide};
  const std::int32_t side = grid.width();
  const std::int32_t shorter = std::min(photo.shape.width, photo.shape.height);
  const std::int32_t width = side * photo.shape.width / shorter;
  const std::int32_t height = side * photo.shape.height / shorter;
  return {grid, {width, height, {(width - side) / 2, (height - side) / 2, side, side}}};
}

// Stores a photo like a telephone that is held upright: EXIF says that it is to be turned by 90
// degrees.
Photo lying(Photo photo) {
  photo.shape.orientation = 6;
  std::swap(photo.shape.width, photo.shape.height);
  return photo;
}

Pixels turned(const Pixels& stored) {
  Pixels out{stored.height, stored.width, std::vector<std::uint8_t>(stored.rgb.size())};
  auto to = out.rgb.begin();
  for (std::int32_t y = 0; y < out.height; ++y) {
    for (std::int32_t x = 0; x < out.width; ++x) {
      const std::ptrdiff_t from = std::ptrdiff_t{stored.height - 1 - x} * stored.width + y;
      to = std::copy_n(stored.rgb.begin() + 3 * from, 3, to);
    }
  }
  return out;
}

// Does what a user of the libraries would write: decodes everything, then resizes it, then cuts it.
std::vector<std::byte> reference(const Photo& photo, const View& view) {
  const MemoryByteSource source(photo.bytes);
  auto pixels = decode_image(source, photo.shape, {}, {});
  require(pixels.has_value(), photo.name + ": does not decode");
  if (photo.shape.orientation == 6) pixels = turned(*pixels);
  const Framing& framing = view.framing;
  std::vector<std::uint8_t> part(static_cast<std::size_t>(view.grid.bytes()));
  pillow_resize_part(pixels->rgb, pixels->width, pixels->height, part, framing.width,
                     framing.height, framing.part, {}, portable_kernels());
  std::vector<std::byte> patches(part.size());
  patchify(part, view.grid, patches);
  return patches;
}

void recipe(const Photo& photo, const View& view, Exactness exactness,
            std::span<std::byte> patches) {
  const Status done = framed_image_patches(MemoryByteSource(photo.bytes), photo.shape, view.framing,
                                           view.grid, {}, {.exactness = exactness}, patches, {});
  require(done.has_value(), photo.name + ": does not decode");
}

double mean_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(static_cast<int>(a[i]) - static_cast<int>(b[i]));
  }
  return sum / static_cast<double>(a.size());
}

// Returns by how much fast patches differ in the mean.
double compare(const std::vector<Photo>& all, ViewOf view_of) {
  double sum = 0;
  for (const Photo& photo : all) {
    const View view = view_of(photo);
    const auto plain = reference(photo, view);
    std::vector<std::byte> patches(plain.size());
    recipe(photo, view, Exactness::kExact, patches);
    require(patches == plain, photo.name + ": exact patches differ");
    recipe(photo, view, Exactness::kFast, patches);
    const double difference = mean_difference(patches, plain);
    require(difference < 6, photo.name + ": fast patches differ by much");
    sum += difference;
  }
  return sum / static_cast<double>(all.size());
}

// Makes of squares what a trainer does: float32 from -1 to 1. They go into one place of a ring
// after another, since a batch's floats do not stay in the cache.
class Floats {
 public:
  Floats() : values_(table(), kArithmetic), memory_(kSlots * kPicture) {}

  std::span<const float> make(std::span<const std::byte> patches) {
    const std::span<float> place =
        std::span(memory_).subspan(next_++ % kSlots * kPicture, kPicture);
    normalise_pictures({reinterpret_cast<const std::uint8_t*>(patches.data()), patches.size()},
                       kLayout, values_, place);
    return place;
  }

  // Compares with the processor's arithmetic, pixel by pixel.
  void check(std::span<const std::byte> patches) {
    constexpr std::size_t kPlane = kLayout.height * kLayout.width;
    const std::span<const float> made = make(patches);
    std::size_t next = 0;  // patches lie in the order of groups
    for (std::size_t group = 0; group < kPlane / (kLayout.group_side() * kLayout.group_side());
         ++group) {
      for (std::size_t patch = 0; patch < kLayout.merge * kLayout.merge; ++patch) {
        const std::size_t top = group / kLayout.groups_across() * kLayout.group_side() +
                                patch / kLayout.merge * kLayout.patch;
        const std::size_t left = group % kLayout.groups_across() * kLayout.group_side() +
                                 patch % kLayout.merge * kLayout.patch;
        for (std::size_t i = 0; i < kLayout.patch_bytes(); ++i, ++next) {
          const std::size_t y = top + i / 3 / kLayout.patch;
          const std::size_t x = left + i / 3 % kLayout.patch;
          require(made[i % 3 * kPlane + y * kLayout.width + x] ==
                      value(std::to_integer<std::size_t>(patches[next])),
                  "a float has another value");
        }
      }
    }
  }

 private:
  static constexpr PictureLayout kLayout{
      .height = 384, .width = 384, .patch = kSquareSide, .merge = 2};
  static constexpr std::size_t kPicture = std::size_t{3} * kLayout.height * kLayout.width;
  static constexpr std::size_t kSlots = 16;  // two batches
  static constexpr PixelArithmetic kArithmetic{1.0 / 255, {0.5F, 0.5F, 0.5F}, {0.5F, 0.5F, 0.5F}};

  static float value(std::size_t byte) {
    const auto scaled = static_cast<float>(static_cast<double>(byte) * kArithmetic.rescale);
    return (scaled - 0.5F) / 0.5F;
  }

  static std::array<float, PixelTable::extent> table() {
    std::array<float, PixelTable::extent> made{};
    for (std::size_t i = 0; i < made.size(); ++i) made.at(i) = value(i % 256);
    return made;
  }

  const PixelValues values_;
  std::vector<float> memory_;
  std::size_t next_ = 0;
};

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Contender {
  std::string name;
  std::function<void(const Photo&)> run;
  std::vector<double> seconds;  // of each round, all photographs

  Contender(std::string what, std::function<void(const Photo&)> how)
      : name(std::move(what)), run(std::move(how)) {}
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const std::vector<Photo>& all, std::vector<Contender>& contenders) {
  for (int round = 0; round <= kRounds; ++round) {  // the first one warms up
    for (Contender& contender : contenders) contender.seconds.push_back(0);
    for (const Photo& photo : all) {
      for (Contender& contender : contenders) {
        const double begin = thread_seconds();
        contender.run(photo);
        contender.seconds.back() += thread_seconds() - begin;
      }
    }
  }
  for (Contender& contender : contenders) contender.seconds.erase(contender.seconds.begin());
}

void print(const std::vector<Contender>& contenders, double megapixels) {
  std::printf("%-32s %28s %28s\n", "", "MPix/s (least to most)", "of the bare decoder");
  for (const Contender& contender : contenders) {
    std::vector<double> rates;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < contender.seconds.size(); ++i) {
      rates.push_back(megapixels / contender.seconds[i]);
      ratios.push_back(contenders.front().seconds[i] / contender.seconds[i]);
    }
    const auto [least, most] = std::ranges::minmax(rates);
    const auto [lowest, highest] = std::ranges::minmax(ratios);
    std::printf("%-32s %8.1f (%6.1f to %6.1f) %10.2f (%4.2f to %4.2f)\n", contender.name.c_str(),
                median(rates), least, most, median(ratios), lowest, highest);
  }
}

std::size_t largest(const std::vector<Photo>& all) {
  std::int64_t bytes = 0;
  for (const Photo& photo : all) {
    const std::int64_t pixels = std::int64_t{photo.shape.width} * photo.shape.height;
    bytes = std::max({bytes, 3 * pixels, square(photo).grid.bytes(), native(photo).grid.bytes()});
  }
  return static_cast<std::size_t>(bytes);
}

void run(const std::filesystem::path& directory) {
  const std::vector<Photo> all = photos(directory);
  double megapixels = 0;
  for (const Photo& photo : all) megapixels += 1e-6 * photo.shape.width * photo.shape.height;
  std::vector<Photo> all_lying;
  for (const Photo& photo : all) all_lying.push_back(lying(photo));
  const double square_difference = compare(all, square);
  compare(all_lying, square);
  const double native_difference = compare(all, native);
  const double middle_difference = compare(all, middle);
  const std::unique_ptr<void, int (*)(void*)> jpeg(tjInitDecompress(), tjDestroy);
  // Memory for the largest result, so that no contender clears some.
  std::vector<std::byte> memory(largest(all));
  const auto with = [&memory](ViewOf view_of, Exactness exactness) {
    return [&memory, view_of, exactness](const Photo& photo) {
      const View view = view_of(photo);
      const auto bytes = static_cast<std::size_t>(view.grid.bytes());
      recipe(photo, view, exactness, std::span(memory).first(bytes));
    };
  };
  std::vector<Contender> contenders;
  contenders.emplace_back("bare libjpeg-turbo, full size", [&](const Photo& photo) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(photo.bytes.data());
    auto* pixels = reinterpret_cast<unsigned char*>(memory.data());
    require(tjDecompress2(jpeg.get(), bytes, photo.bytes.size(), pixels, photo.shape.width, 0,
                          photo.shape.height, TJPF_RGB, 0) == 0,
            photo.name + ": does not decode");
  });
  contenders.emplace_back("exact, 384 x 384", with(square, Exactness::kExact));
  Floats floats;
  floats.check(reference(all.front(), square(all.front())));
  contenders.emplace_back("exact, 384 x 384, as float32", [&](const Photo& photo) {
    const View view = square(photo);
    const auto patches = std::span(memory).first(static_cast<std::size_t>(view.grid.bytes()));
    recipe(photo, view, Exactness::kExact, patches);
    floats.make(patches);
  });
  contenders.emplace_back("exact, native patches", with(native, Exactness::kExact));
  contenders.emplace_back("exact, middle 336 x 336", with(middle, Exactness::kExact));
  contenders.emplace_back("exact, 384 x 384, to be turned", [&](const Photo& photo) {
    const auto at = static_cast<std::size_t>(&photo - all.data());
    with(square, Exactness::kExact)(all_lying[at]);
  });
  contenders.emplace_back("fast, 384 x 384", with(square, Exactness::kFast));
  contenders.emplace_back("fast, native patches", with(native, Exactness::kFast));
  contenders.emplace_back("fast, middle 336 x 336", with(middle, Exactness::kFast));
  measure(all, contenders);
  std::printf("%zu photographs, %.1f megapixels, %d rounds, measured in CPU time of one thread\n",
              all.size(), megapixels, kRounds);
  print(contenders, megapixels);
  std::printf(
      "fast differs in the mean by %.2f of 255 at 384 x 384, %.2f in native patches, %.2f in the "
      "middle\n",
      square_difference, native_difference, middle_difference);
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) try {
  isocost::run(argc > 1 ? argv[1] : "build/demo/made");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "photo_bench: %s\n", error.what());
  return 1;
}
