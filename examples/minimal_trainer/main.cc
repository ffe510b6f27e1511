// The smallest trainer: one rank and a text model, on any shards. examples/multimodal_trainer
// trains on all modalities with several ranks.

#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/load.h"
#include "trainer_adapter/own_work.h"
#include "trainer_adapter/torch/loader.h"

namespace isocost {
namespace {

// Token ids of the recipe `native28`: the bytes of UTF-8 text, then four special ones.
constexpr int kTokenBos = 256;
constexpr int kVocabulary = 260;

/// Predicts a token from the eight before it in the same sample.
struct TextModel : torch::nn::Module {
  static constexpr int kContext = 8;
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(kVocabulary, 32));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(kContext * 32, 256));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(256, kVocabulary));

  torch::Tensor forward(const TorchMicrobatch& microbatch) {
    const torch::Tensor ids = microbatch.find("llm.input_ids");
    const torch::Tensor positions = microbatch.find("llm.position_ids");
    std::vector<torch::Tensor> context;
    for (int back = 0; back < kContext; ++back) {
      context.push_back(embed(ids.roll(back).masked_fill(positions < back, kTokenBos)));
    }
    return out(torch::gelu(hidden(torch::cat(context, 1))));
  }
};

struct Options {
  ClientOptions client;
  std::uint32_t steps = 0;
  double learning_rate = 1e-3;
};

Status train(const Options& options) {
  ISOCOST_ASSIGN(TorchLoader loader, TorchLoader::connect(options.client));
  torch::manual_seed(0);
  TextModel model;
  torch::optim::Adam optimizer(model.parameters(), options.learning_rate);
  double step_loss = 0;
  for (std::uint32_t steps = 0; options.steps == 0 || steps < options.steps;) {
    ISOCOST_ASSIGN(const std::optional<TorchMicrobatch> microbatch, loader.next({}));
    if (!microbatch) {  // the end of an epoch
      if (loader.client().epoch_end()->last_epoch) break;
      continue;
    }
    OwnWork work;
    const torch::Tensor loss = token_loss(model.forward(*microbatch), *microbatch);
    loss.backward();  // gradients add up over the microbatches of a step
    work.add(Module::kLlm);
    ISOCOST_TRY(loader.report(*microbatch, work.seconds()));  // they correct the cost model
    step_loss += loss.item<double>();
    if (!microbatch->header.last_of_step()) continue;
    optimizer.step();
    optimizer.zero_grad();
    std::printf("step %u loss %.4f\n", ++steps, step_loss);
    step_loss = 0;
  }
  loader.client().close();
  return {};
}

/// Returns the version of the loaded library, which may differ from that of the headers.
std::string torch_version() {
  const std::string config = at::show_config();
  const std::size_t value = config.find('=', config.find("TORCH_VERSION=")) + 1;
  return "libtorch " + config.substr(value, config.find(',', value) - value);
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) try {
  CLI::App app("Trains a small text model on microbatches from a loader node.");
  isocost::Options options;
  app.set_version_flag("--version", isocost::torch_version());
  app.add_option("--endpoint", options.client.endpoint, "Address of the loader node")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps to train; 0: all epochs");
  app.add_option("--lr", options.learning_rate, "Learning rate of Adam")->capture_default_str();
  app.footer(
      "Example:\n  isocost serve --data data/shards --ranks 1 --global-batch-size 16 &\n"
      "  minimal_trainer --endpoint tcp://127.0.0.1:5800 --steps 100");
  CLI11_PARSE(app, argc, argv);
  options.client.world_size = 1;
  const isocost::Status status = isocost::train(options);
  if (!status) std::fprintf(stderr, "minimal_trainer: %s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
} catch (const std::exception& error) {  // what libtorch throws
  std::fprintf(stderr, "minimal_trainer: %s\n", error.what());
  return 1;
}
