// The smallest trainer: one rank and a text model, on any shards. examples/distributed_trainer has
// several ranks, checkpoints and evaluation, examples/multimodal_trainer all modalities.

#include <isocost/torch_loader.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

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

  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& positions) {
    std::vector<torch::Tensor> context;
    for (int back = 0; back < kContext; ++back) {
      context.push_back(embed(ids.roll(back).masked_fill(positions < back, kTokenBos)));
    }
    return out(torch::gelu(hidden(torch::cat(context, 1))));
  }
};

struct Options {
  isocost::LoaderOptions loader;
  std::uint32_t steps = 0;
  double learning_rate = 1e-3;
};

void train(const Options& options) {
  isocost::TorchLoader loader(options.loader);
  torch::manual_seed(0);
  TextModel model;
  torch::optim::Adam optimizer(model.parameters(), options.learning_rate);
  std::uint32_t steps = 0;
  double step_loss = 0;
  for (const auto& epoch : loader.epochs()) {
    for (const auto& microbatch : epoch) {
      isocost::OwnWork work = loader.own_work(microbatch);
      const torch::Tensor logits =
          model.forward(microbatch["input_ids"], microbatch["position_ids"]);
      const torch::Tensor loss = isocost::token_loss(logits, microbatch);
      loss.backward();  // gradients add up over the microbatches of a step
      work.add(isocost::CostModule::kLlm);
      loader.report(microbatch, work);  // measured seconds correct the cost model
      step_loss += loss.item<double>();
      if (!microbatch.last_of_step()) continue;
      optimizer.step();
      optimizer.zero_grad();
      std::printf("step %u loss %.4f\n", ++steps, step_loss);
      step_loss = 0;
      if (steps == options.steps) return;
    }
  }
}

/// Returns the version of the loaded library, which may differ from that of the headers.
std::string torch_version() {
  const std::string config = at::show_config();
  const std::size_t value = config.find('=', config.find("TORCH_VERSION=")) + 1;
  return "libtorch " + config.substr(value, config.find(',', value) - value);
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Trains a small text model on microbatches from a loader node.");
  Options options;
  app.set_version_flag("--version", torch_version());
  app.add_option("--endpoint", options.loader.endpoint, "Address of the loader node")
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps to train; 0: all epochs");
  app.add_option("--lr", options.learning_rate, "Learning rate of Adam")->capture_default_str();
  app.footer(
      "Example:\n  isocost serve --data data/shards --ranks 1 --global-batch-size 16 &\n"
      "  minimal_trainer --endpoint tcp://127.0.0.1:5800 --steps 100");
  CLI11_PARSE(app, argc, argv);
  options.loader.world_size = 1;
  options.loader.start = isocost::State();  // the weights are fresh
  train(options);
  return 0;
} catch (const std::exception& error) {  // what the loader and libtorch throw
  std::fprintf(stderr, "minimal_trainer: %s\n", error.what());
  return 1;
}
