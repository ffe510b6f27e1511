#include "examples/multimodal_trainer/profile_example.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "decode/recipe.h"
#include "examples/multimodal_trainer/model.h"
#include "trainer_adapter/torch/profiler.h"

namespace isocost {
namespace {

torch::Tensor int32s(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kLong).to(torch::kInt);
}

// The starts of the sequences, and the end of the last.
torch::Tensor starts_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> starts{0};
  for (const std::int64_t length : lengths) starts.push_back(starts.back() + length);
  return int32s(starts);
}

// Makes every other length a bit longer and the ones between shorter. The model computes neighbours
// of equal length together, but real sequences hardly ever have equal lengths.
std::vector<std::int64_t> made_unequal(std::span<const std::int64_t> equal,
                                       std::int64_t difference) {
  std::vector<std::int64_t> lengths(equal.begin(), equal.end());
  for (std::size_t i = 0; i + 1 < lengths.size(); i += 2) {
    lengths[i] += difference;
    lengths[i + 1] -= difference;
  }
  return lengths;
}

TorchMicrobatch images(std::span<const std::int64_t> patches) {
  const std::vector<std::int64_t> lengths = made_unequal(patches, 4);
  std::vector<std::int64_t> grids;
  std::int64_t rows = 0;
  for (const std::int64_t length : lengths) {
    grids.insert(grids.end(), {2, length / 2});
    rows += length;
  }
  TorchMicrobatch microbatch;
  microbatch.tensors = {{"vision_patches", torch::randint(256, {rows, 588}, torch::kByte)},
                        {"vision_lengths", int32s(lengths)},
                        {"vision_cu_seqlens", starts_of(lengths)},
                        {"vision_grids", int32s(grids).view({-1, 2})}};
  return microbatch;
}

TorchMicrobatch windows(std::span<const std::int64_t> positions) {
  std::vector<std::int64_t> frames;
  std::int64_t rows = 0;
  for (const std::int64_t length : made_unequal(positions, 1)) {
    frames.push_back(2 * length);
    rows += frames.back();
  }
  TorchMicrobatch microbatch;
  microbatch.tensors = {{"audio_mel", torch::randn({rows, 128})},
                        {"audio_lengths", int32s(frames)},
                        {"audio_cu_seqlens", starts_of(frames)}};
  return microbatch;
}

TorchMicrobatch texts(std::span<const std::int64_t> tokens) {
  const std::vector<std::int64_t> lengths = made_unequal(tokens, 1);
  std::vector<torch::Tensor> positions;
  std::int64_t rows = 0;
  for (const std::int64_t length : lengths) {
    positions.push_back(torch::arange(length, torch::kLong));
    rows += length;
  }
  TorchMicrobatch microbatch;
  microbatch.tensors = {{"input_ids", torch::randint(256, {rows}, torch::kLong)},
                        {"labels", torch::randint(256, {rows}, torch::kLong)},
                        {"position_ids", torch::cat(positions)},
                        {"lengths", int32s(lengths)}};
  return microbatch;
}

Architecture transformer(const char* name, std::int64_t width, std::int64_t depth,
                         std::int64_t head_width, std::int64_t embedding_parameters) {
  return {.name = name,
          .layers = depth,
          .width = width,
          .heads = std::max<std::int64_t>(1, width / head_width),
          .key_value_width = width,
          .mlp = 4 * width,
          .embedding_parameters = embedding_parameters};
}

// The dimensions of the model's modules.
std::array<Architecture, kModules> architectures(const ModelOptions& options) {
  const auto [vision, audio, llm] =
      std::tuple(options.vision_width, options.audio_width, options.llm_width);
  std::array<Architecture, kModules> all = {
      transformer("the example's vision encoder", vision, options.vision_depth, options.head_width,
                  (588 + 4 * llm) * vision),
      transformer("the example's audio encoder", audio, options.audio_depth, options.head_width,
                  (2 * 128 + 2 * llm) * audio),
      transformer("the example's LLM", llm, options.llm_depth, options.head_width,
                  2 * kVocabulary * llm)};
  all[2].head_flop_per_unit = 2 * kVocabulary * llm;
  return all;
}

// A forward pass of each module on made-up inputs. The model must outlive them.
std::array<PrepareForward, kModules> prepares(MultimodalModel& model) {
  return {[&model](std::span<const std::int64_t> lengths) -> ProfiledForward {
            return [&model, batch = images(lengths)] { return model->vision->forward(batch); };
          },
          [&model](std::span<const std::int64_t> lengths) -> ProfiledForward {
            return [&model, batch = windows(lengths)] { return model->audio->forward(batch); };
          },
          [&model](std::span<const std::int64_t> lengths) -> ProfiledForward {
            return [&model, batch = texts(lengths)] {
              return torch::nn::functional::cross_entropy(model->llm->forward(batch, {}, {}),
                                                          batch["labels"]);
            };
          }};
}

}  // namespace

std::string example_hardware() {
  const int threads = at::get_num_threads();
  return "CPU, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

Result<CostProfile> profile_example(MultimodalModel& model, double budget_s) {
  const ProfilerOptions options{
      .budget = std::chrono::duration<double>(budget_s / static_cast<double>(kModules)),
      .progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }};
  const ModelOptions sizes;
  const auto dimensions = architectures(sizes);
  // A model with half of the layers shows the cost of embeddings and output head.
  MultimodalModel shallow(ModelOptions{.vision_depth = sizes.vision_depth / 2,
                                       .audio_depth = sizes.audio_depth / 2,
                                       .llm_depth = sizes.llm_depth / 2});
  std::array<ProfiledModule, kModules> modules = {
      ProfiledModule{.shortest = 16, .longest = 4096, .most_units = 4096, .multiple = 4},
      ProfiledModule{.shortest = 32, .longest = 1500, .most_units = 3000, .multiple = 2},
      ProfiledModule{.shortest = 64, .longest = 2048, .most_units = 4096}};
  const auto whole = prepares(model);
  const auto half = prepares(shallow);
  CostProfile profile;
  for (std::size_t m = 0; m < kModules; ++m) {
    ProfiledModule& module = modules.at(m);
    module.prepare = whole.at(m);
    module.architecture = dimensions.at(m);
    module.cuts = {{.prepare = half.at(m), .layers = dimensions.at(m).layers / 2}};
    const std::string name(module_name(static_cast<CostModule>(m)));
    ISOCOST_ASSIGN(profile.modules.at(m), profile_module(name, module, options));
  }
  profile.source = "isocost model profile --example";
  profile.hardware = example_hardware();
  profile.dtype = "float32";
  profile.versions = {{"torch", TORCH_VERSION}};
  return profile;
}

Result<CostProfile> profile_new_example(int threads, double budget_s) {
  at::set_num_threads(threads);
  torch::manual_seed(0);
  MultimodalModel model(ModelOptions{});
  return profile_example(model, budget_s);
}

}  // namespace isocost
