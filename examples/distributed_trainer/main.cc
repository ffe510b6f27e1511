// A data-parallel trainer: several ranks that sum gradients with gloo, checkpoints from which any
// number of ranks resumes, SIGINT and SIGTERM at the end of a step, and evaluation.

#include <isocost/torch_loader.h>
#include <signal.h>
#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

namespace {

constexpr int kVocabulary = 260;  // of the recipe `native28`: bytes and four special tokens

struct Options {
  isocost::LoaderOptions loader;
  std::string store;
  std::string checkpoint;
  std::string evaluation;  // endpoint of a node with other data; empty: no evaluation
  std::uint32_t epochs = 1;
  double learning_rate = 1e-3;
};

/// Predicts a token from the one before it.
struct TextModel : torch::nn::Module {
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(kVocabulary, 64));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(64, kVocabulary));

  torch::Tensor forward(const torch::Tensor& ids) { return out(torch::gelu(embed(ids))); }
};

/// The ranks of this run, which find each other through a file.
class Ranks {
 public:
  explicit Ranks(const Options& options) {
    auto gloo = c10d::ProcessGroupGloo::Options::create();
    // These ranks share a host; on several, name the interface that joins them.
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::FileStore>(options.store, options.loader.world_size),
        options.loader.rank, options.loader.world_size, gloo);
  }

  /// Replaces the values by their sum over the ranks. Blocks until every rank has called it.
  void sum(torch::Tensor values) {
    std::vector<torch::Tensor> one{std::move(values)};
    group_->allreduce(one)->wait();
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

/// Turns SIGINT and SIGTERM into a stop request, and lets a second one end the process. Make it
/// before any other thread.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR2}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::jthread([this] {
      int signal = 0;
      while (sigwait(&set_, &signal) == 0 && signal != SIGUSR2) {
        if (!stop_.request_stop()) _exit(128 + signal);
      }
    });
  }
  ~Signals() { pthread_kill(thread_.native_handle(), SIGUSR2); }  // ends the wait
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  std::stop_token token() const { return stop_.get_token(); }

 private:
  sigset_t set_{};
  std::stop_source stop_;
  std::jthread thread_;
};

/// Model, optimizer and the loader's state in one file, so that they always belong together.
void save(const Options& options, const TextModel& model, const torch::optim::Adam& optimizer,
          const isocost::State& state) {
  if (options.checkpoint.empty() || options.loader.rank != 0) return;
  torch::serialize::OutputArchive archive, of_model, of_optimizer;
  model.save(of_model);
  optimizer.save(of_optimizer);
  archive.write("model", of_model);
  archive.write("optimizer", of_optimizer);
  archive.write("state", c10::IValue(state.to_json()));
  archive.save_to(options.checkpoint + ".part");
  std::filesystem::rename(options.checkpoint + ".part", options.checkpoint);
}

std::optional<isocost::State> load(const Options& options, TextModel& model,
                                   torch::optim::Adam& optimizer) {
  if (options.checkpoint.empty() || !std::filesystem::exists(options.checkpoint)) return {};
  torch::serialize::InputArchive archive, of_model, of_optimizer;
  archive.load_from(options.checkpoint);
  archive.read("model", of_model);
  archive.read("optimizer", of_optimizer);
  model.load(of_model);
  optimizer.load(of_optimizer);
  c10::IValue state;
  archive.read("state", state);
  return isocost::State::parse(state.toStringRef());
}

/// Returns the mean loss over the label tokens of all ranks in an epoch of the evaluation's node.
/// Repeats, by which ranks get equally many microbatches, weigh nothing and count for nothing.
double evaluate(const Options& options, TextModel& model, Ranks& ranks) {
  const torch::NoGradGuard no_gradients;
  isocost::LoaderOptions of_loader = options.loader;
  of_loader.endpoint = options.evaluation;
  of_loader.start = isocost::StartPoint{};  // the same samples each time
  isocost::TorchLoader loader(of_loader);
  torch::Tensor sum = torch::zeros({1}, torch::kDouble);
  double label_tokens = 0;
  for (const auto& epoch : loader.epochs(1)) {
    for (const auto& microbatch : epoch) {
      const auto of_batch = static_cast<double>(microbatch.header.global_label_tokens);
      sum += isocost::token_loss(model.forward(microbatch["input_ids"]), microbatch) * of_batch;
      if (microbatch.last_of_step()) label_tokens += of_batch;
    }
  }
  ranks.sum(sum);
  return sum.item<double>() / label_tokens;
}

void train(const Options& options, const Signals& signals) {
  Ranks ranks(options);
  torch::manual_seed(0);  // the same first weights on every rank
  TextModel model;
  torch::optim::Adam optimizer(model.parameters(), options.learning_rate);
  isocost::LoaderOptions of_loader = options.loader;
  of_loader.start = load(options, model, optimizer).value_or(isocost::State());
  isocost::TorchLoader loader(of_loader, signals.token());  // a signal ends the wait for a node
  const bool speaks = options.loader.rank == 0;
  // Loss, and whether a rank was asked to stop: all of them stop after the same step.
  torch::Tensor news = torch::zeros({2}, torch::kDouble);
  for (const auto& epoch : loader.epochs(options.epochs)) {
    for (const auto& microbatch : epoch) {
      isocost::OwnWork work = loader.own_work(microbatch);
      const auto loss = isocost::token_loss(model.forward(microbatch["input_ids"]), microbatch);
      loss.backward();  // gradients add up over the microbatches of a step
      work.add(isocost::CostModule::kLlm);
      loader.report(microbatch, work);  // this rank's own seconds, without the wait below
      news[0] += loss.item<double>();
      if (!microbatch.last_of_step()) continue;
      news[1] = signals.token().stop_requested() ? 1.0 : 0.0;
      for (const auto& parameter : model.parameters()) ranks.sum(parameter.grad());
      ranks.sum(news);
      optimizer.step();
      optimizer.zero_grad();
      save(options, model, optimizer, loader.state());
      const auto& at = microbatch.header.position;
      if (speaks) {
        std::printf("epoch %u step %u loss %.17g\n", at.epoch, at.step, news[0].item<double>());
        std::fflush(stdout);
      }
      if (news[1].item<double>() > 0) return;
      news.zero_();
    }
    if (options.evaluation.empty()) continue;
    const double mean = evaluate(options, model, ranks);
    if (speaks) std::printf("epoch %u evaluation %.6f\n", epoch.number(), mean);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Trains a small text model on several ranks.");
  Options options;
  app.add_option("--endpoint", options.loader.endpoint, "Address of the loader node");
  app.add_option("--rank", options.loader.rank, "Rank of this process, from 0")->required();
  app.add_option("--world-size", options.loader.world_size, "Number of ranks")->required();
  app.add_option("--store", options.store, "File through which ranks meet, new for each run")
      ->required();
  app.add_option("--checkpoint", options.checkpoint, "File to save to and to resume from");
  app.add_option("--evaluation", options.evaluation, "Address of an endless node to evaluate on");
  app.add_option("--epochs", options.epochs, "Epochs to train")->capture_default_str();
  app.add_option("--lr", options.learning_rate, "Learning rate of Adam")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Signals signals;
  train(options, signals);
  return 0;
} catch (const isocost::Exception& error) {
  // A node that was asked to stop (kDraining) says where to resume: the last checkpoint is there.
  std::fprintf(stderr, "distributed_trainer: %s\n", error.what());
  return error.code() == isocost::ErrorCode::kDraining ? 3 : 1;
} catch (const std::exception& error) {  // what libtorch and gloo throw
  std::fprintf(stderr, "distributed_trainer: %s\n", error.what());
  return 1;
}
