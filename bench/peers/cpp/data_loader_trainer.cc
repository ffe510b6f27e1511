// A trainer without Isocost: data_loader_trainer FILES BATCH WORKERS [fast] reads the JPEG files
// that FILES names, a line each, by libtorch's DataLoader, decodes them by libjpeg-turbo, resizes
// them by libtorch's antialiased bilinear filter to sides of multiples of 28 pixels, and cuts them
// into patches of 14×14. "fast" decodes as coarsely as the recipe native28.
#include <torch/torch.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/peers/cpp/batch_output.h"

namespace {

constexpr std::int64_t kPatch = 14, kGroup = 28, kMostGroups = 1024;

struct Sample {
  std::int64_t number;
  torch::Tensor patches;  // uint8 [patches, 588]
};

struct Batch {
  std::vector<std::int64_t> samples, lengths;
  torch::Tensor patches;
};

/// uint8 [height, width, 3]
torch::Tensor decode(const std::string& path, int flags) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<unsigned char> bytes{std::istreambuf_iterator<char>(file), {}};
  thread_local const std::unique_ptr<void, int (*)(void*)> jpeg(tjInitDecompress(), tjDestroy);
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(jpeg.get(), bytes.data(), bytes.size(), &width, &height, &subsampling,
                          &colours) != 0) {
    throw std::runtime_error(path + ": " + tjGetErrorStr2(jpeg.get()));
  }
  torch::Tensor pixels = torch::empty({height, width, 3}, torch::kByte);
  if (tjDecompress2(jpeg.get(), bytes.data(), bytes.size(), pixels.data_ptr<std::uint8_t>(), width,
                    0, height, TJPF_RGB, flags) != 0) {
    throw std::runtime_error(path + ": " + tjGetErrorStr2(jpeg.get()));
  }
  return pixels;
}

std::pair<std::int64_t, std::int64_t> groups(std::int64_t height, std::int64_t width) {
  std::int64_t down = std::max<std::int64_t>(1, (height + kGroup / 2) / kGroup);
  std::int64_t across = std::max<std::int64_t>(1, (width + kGroup / 2) / kGroup);
  if (down * across > kMostGroups) {
    const auto root = [](std::int64_t square) {
      return static_cast<std::int64_t>(std::sqrt(static_cast<double>(square)));
    };
    across = std::clamp<std::int64_t>(root(kMostGroups * width / height), 1, across);
    down = std::clamp<std::int64_t>(root(kMostGroups * height / width), 1, down);
  }
  return {down, across};
}

torch::Tensor resize(const torch::Tensor& pixels, std::int64_t height, std::int64_t width) {
  const torch::Tensor picture = pixels.permute({2, 0, 1}).unsqueeze(0);
#if TORCH_VERSION_MAJOR >= 2
  return at::_upsample_bilinear2d_aa(picture, {height, width}, false).squeeze(0);
#else  // has no such filter for bytes
  const torch::Tensor values = picture.to(torch::kFloat);
  return at::_upsample_bilinear2d_aa(values, {height, width}, false)
      .round_()
      .clamp_(0, 255)
      .to(torch::kByte)
      .squeeze(0);
#endif
}

torch::Tensor to_patches(const torch::Tensor& pixels) {
  const auto [down, across] = groups(pixels.size(0), pixels.size(1));
  return resize(pixels, down * kGroup, across * kGroup)
      .reshape({3, down, 2, kPatch, across, 2, kPatch})
      .permute({1, 4, 2, 5, 3, 6, 0})
      .reshape({-1, kPatch * kPatch * 3});
}

class Photographs : public torch::data::datasets::Dataset<Photographs, Sample> {
 public:
  Photographs(std::vector<std::string> files, int flags)
      : files_(std::move(files)), flags_(flags) {}

  Sample get(std::size_t index) override {
    return {static_cast<std::int64_t>(index), to_patches(decode(files_[index], flags_))};
  }
  torch::optional<std::size_t> size() const override { return files_.size(); }

 private:
  std::vector<std::string> files_;
  int flags_;
};

Batch join(std::vector<Sample> samples) {
  Batch batch;
  std::vector<torch::Tensor> patches;
  for (const Sample& sample : samples) {
    batch.samples.push_back(sample.number);
    batch.lengths.push_back(sample.patches.size(0));
    patches.push_back(sample.patches);
  }
  batch.patches = torch::cat(patches);
  return batch;
}

std::vector<std::string> lines(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4)
    throw std::invalid_argument("usage: data_loader_trainer FILES BATCH WORKERS [fast]");
  const int flags = argc > 4 ? TJFLAG_FASTDCT | TJFLAG_FASTUPSAMPLE : 0;
  torch::set_num_threads(1);
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Photographs(lines(argv[1]), flags)
          .map(torch::data::transforms::BatchLambda<std::vector<Sample>, Batch>(join)),
      torch::data::DataLoaderOptions(std::stoul(argv[2])).workers(std::stoul(argv[3])));
  BatchOutput output;
  for (const Batch& batch : *loader) output.add(batch.patches, batch.samples, batch.lengths);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "data_loader_trainer: %s\n", error.what());
  return 1;
}
