// A trainer: one data-parallel rank that takes its microbatches from a loader node. Your own
// training script needs the loop in `train`.

#include <time.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <stop_token>
#include <string>
#include <vector>

#include "examples/multimodal_trainer/model.h"
#include "examples/multimodal_trainer/peers.h"
#include "examples/multimodal_trainer/process.h"
#include "examples/multimodal_trainer/profile_example.h"
#include "examples/multimodal_trainer/trace.h"
#include "examples/multimodal_trainer/train_step.h"

namespace isocost {
namespace {

struct Options {
  LoaderOptions client;
  PeersOptions peers;
  ModelOptions model;
  std::uint32_t steps = 0;
  std::uint64_t seed = 0;
  int threads = 1;
  double learning_rate = 1e-3;
  std::string trace;
};

/// Returns the CPU time that the calling thread has used.
double thread_cpu_s() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// Returns one flat tensor. Every parameter's gradient is a view of it, so that all gradients are
/// reduced in one piece.
torch::Tensor flatten_gradients(const std::vector<torch::Tensor>& parameters) {
  std::int64_t values = 0;
  for (const torch::Tensor& parameter : parameters) values += parameter.numel();
  torch::Tensor flat = torch::zeros({values}, parameters.front().options());
  std::int64_t first = 0;
  for (const torch::Tensor& parameter : parameters) {
    parameter.mutable_grad() = flat.narrow(0, first, parameter.numel()).view_as(parameter);
    first += parameter.numel();
  }
  return flat;
}

Status train(const Options& options) {
  TorchLoader loader(options.client);
  Trace trace(options.trace, options.peers.rank);
  if (!trace.good()) return Error(ErrorCode::kIo, "cannot write " + options.trace);
  Peers peers(options.peers);
  torch::manual_seed(options.seed);  // the same first weights on every rank
  MultimodalModel model(options.model);
  torch::optim::Adam optimizer(model->parameters(), options.learning_rate);
  torch::Tensor gradients = flatten_gradients(model->parameters());

  StepTimes times;
  std::uint32_t steps = 0;
  while (options.steps == 0 || steps < options.steps) {
    const std::optional<TorchMicrobatch> microbatch = loader.next();
    if (!microbatch) {
      if (loader.epoch_end()->last_epoch) break;
      continue;
    }
    const MicrobatchHeader& header = microbatch->header;
    const double start_s = now_s();
    const double start_cpu_s = thread_cpu_s();
    const double data_wait_s = std::chrono::duration<double>(microbatch->waited).count();
    const MicrobatchResult result = train_microbatch(model, *microbatch);
    const double compute_s = now_s() - start_s;
    loader.report(*microbatch, result.seconds);
    trace.microbatch(header, result, start_s, data_wait_s, compute_s);
    if (header.position.microbatch == 0) times = {.start_s = start_s - data_wait_s};
    times.data_wait_s += data_wait_s;
    times.compute_s += compute_s;
    times.cpu_s += thread_cpu_s() - start_cpu_s;
    times.loss += result.loss;
    if (!header.last_of_step()) continue;

    const double ready_s = now_s();
    peers.barrier();
    const double released_s = now_s();
    torch::Tensor loss = torch::tensor({times.loss}, torch::kDouble);
    peers.sum(gradients);
    peers.sum(loss);
    times.reduce_s = now_s() - released_s;
    times.wait_for_peers_s = released_s - ready_s;
    times.loss = loss.item<double>();
    optimizer.step();
    gradients.zero_();
    times.end_s = now_s();
    trace.step(header.position, times);
    ++steps;
  }
  loader.close();
  return {};
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--endpoint", options.client.endpoint, "The loader node, tcp://HOST:PORT")
      ->required();
  app.add_option("--rank", options.client.rank, "Rank of this trainer, from 0")->required();
  app.add_option("--world-size", options.client.world_size, "Number of trainers")->required();
  app.add_option("--store", options.peers.store,
                 "How ranks find each other: a shared file, or HOST:PORT (rank 0 listens)")
      ->required();
  app.add_option("--report", options.trace, "Trace to write, as JSON lines")->required();
  app.add_option("--steps", options.steps, "Steps to train; 0: all epochs");
  app.add_option("--seed", options.seed, "Seed of the first weights");
  app.add_option("--threads", options.threads, "Threads in which the model computes (BLAS)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "Learning rate of Adam")->capture_default_str();
  app.add_option("--prefetch", options.client.prefetch, "Microbatches requested ahead of use")
      ->capture_default_str();
  app.add_option("--curve-server-key", options.client.curve_server_key_file,
                 "File with the node's public key");
  app.add_option("--curve-secret-key", options.client.curve_secret_key_file,
                 "File with this trainer's secret key");
}

int run(int argc, char** argv) {
  CLI::App app("Trains the example model on microbatches from `isocost serve`.");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  options.peers.rank = options.client.rank;
  options.peers.world_size = options.client.world_size;
  options.client.start = StartPoint();  // the weights are fresh
  keep_all_freed_memory();
  at::set_num_threads(options.threads);
  options.client.hardware = example_hardware();
  const Status status = train(options);
  if (status) return 0;
  std::fprintf(stderr, "trainer %d: %s\n", options.client.rank, status.error().to_string().c_str());
  return 1;
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) {
  try {
    return isocost::run(argc, argv);
  } catch (const std::exception& error) {  // what libtorch and gloo throw
    std::fprintf(stderr, "trainer: %s\n", error.what());
    return 1;
  }
}
