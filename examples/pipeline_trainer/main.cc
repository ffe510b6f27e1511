// Trains a pipeline whose encoder and LLM have different numbers of replicas, fed by a node that
// serves their layout. This file is the process that forks all others, which run `worker.cc`.

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "base/scratch_directory.h"
#include "examples/multimodal_trainer/process.h"
#include "examples/pipeline_trainer/options.h"
#include "examples/pipeline_trainer/outcome.h"
#include "examples/pipeline_trainer/processes.h"
#include "examples/pipeline_trainer/stage_model.h"
#include "examples/pipeline_trainer/worker.h"
#include "loader/node/node.h"
#include "loader/node/node_thread.h"

namespace isocost {
namespace {

NodeOptions node_options(const Options& options) {
  NodeOptions node;
  node.data = options.data;
  node.cost_model.profile_file = options.profile;
  node.plan.global_batch_size = options.global_batch_size;
  node.plan.seed = options.seed;
  node.plan.steps = options.start_step + options.steps;
  node.service.bind = "tcp://127.0.0.1:*";
  node.service.heartbeat_timeout = options.peer_timeout;
  node.bad_samples.file = options.directory / "bad.jsonl";
  return node;
}

Result<std::unique_ptr<Node>> open_node(const Options& options, const NodeOptions& of_node) {
  const LogSink log = [](LogLevel level, std::string_view text) {
    if (level < LogLevel::kWarning) return;
    std::fprintf(stderr, "node: %.*s\n", static_cast<int>(text.size()), text.data());
  };
  ISOCOST_ASSIGN(std::unique_ptr<Node> node, Node::create(of_node, {}, log));
  const auto batch = static_cast<std::uint64_t>(options.global_batch_size);
  const std::uint64_t steps = (node->dataset().size() + batch - 1) / batch;
  if (static_cast<std::uint64_t>(of_node.plan.steps) > steps) {
    return Error(ErrorCode::kInvalidArgument,
                 "--steps " + std::to_string(options.steps) + " from step " +
                     std::to_string(options.start_step + 1) + " on: " + options.data.string() +
                     " has " + counted(steps, "step") + " of " + counted(batch, "sample"));
  }
  return node;
}

/// Starts a node, lets the processes begin, and blocks until all have ended. `stop_signal` is set
/// to the signal that ended the wait, if any.
Status run_processes(const Options& options, const NodeOptions& serve, Processes& processes,
                     int& stop_signal) {
  ISOCOST_ASSIGN(std::unique_ptr<Node> node, open_node(options, serve));
  NodeThread serving(std::move(node));
  processes.begin(serving.endpoint());
  const Status status = processes.wait(options.peer_timeout);
  stop_signal = processes.stop_signal();
  const auto summary = serving.stop(std::chrono::seconds(status ? 5 : 0));
  if (!summary) return Error(summary.error()).with_context("the node");
  if (summary->measurements_rejected > 0) {
    std::fprintf(stderr, "node: refused %lld of the stages' measurements\n",
                 static_cast<long long>(summary->measurements_rejected));
  }
  return status;
}

/// Returns the newest step for which every part of the model was saved.
Result<std::uint32_t> newest_state(const Options& options) {
  const Layout layout = options.layout();
  std::set<std::string> parts;
  for (std::size_t receiver = 0; receiver < receivers(layout); ++receiver) {
    parts.insert(part_name(place_of_receiver(layout, receiver), options.llm_stages));
  }
  std::error_code failed;
  std::uint32_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(options.checkpoint, failed)) {
    unsigned step = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "encoder.step-%u", &step) != 1) continue;
    bool complete = true;
    for (const std::string& part : parts) {
      complete = complete && std::filesystem::exists(state_file(options, part, step), failed);
    }
    if (complete && step > newest) newest = step;
  }
  if (newest > 0) return newest;
  return Error(ErrorCode::kNotFound,
               "--resume: " + options.checkpoint.string() + " has no state of all " +
                   std::to_string(parts.size()) +
                   " parts; --llm-stages must be the same as in the saved run");
}

Status write_outcome(const Options& options, const Outcome& outcome) {
  if (options.json == "-") {
    std::fputs(outcome.to_json().c_str(), stdout);
    return {};
  }
  std::fputs(outcome.to_table().c_str(), stdout);
  if (options.json.empty()) return {};
  std::ofstream file(options.json);
  file << outcome.to_json() << std::flush;
  if (!file) return Error(ErrorCode::kIo, "cannot write " + options.json);
  return {};
}

/// Checks at the start what would otherwise be found only at the end of the run.
Status check_options(const Options& options) {
  ISOCOST_TRY_CONTEXT(options.layout().validate(),
                      "--encoder-dp, --llm-dp, --llm-stages, --microbatches");
  if (options.global_batch_size < static_cast<std::int64_t>(options.llm_dp)) {
    return Error(ErrorCode::kInvalidArgument, "--global-batch-size is " +
                                                  std::to_string(options.global_batch_size) +
                                                  "; each of --llm-dp replicas needs a sample");
  }
  if (!std::isfinite(options.learning_rate)) {
    return Error(ErrorCode::kInvalidArgument, "--lr must be a number");
  }
  if (options.json.empty() || options.json == "-") return {};
  std::error_code unknown;
  const bool was_there = std::filesystem::exists(options.json, unknown);
  if (std::ofstream(options.json, std::ios::app)) {
    if (!was_there) std::filesystem::remove(options.json, unknown);
    return {};
  }
  return Error(ErrorCode::kIo, "--json: cannot write " + options.json);
}

/// Checks that no sample was lost and that the gradients are right.
Status check_outcome(const Outcome& outcome) {
  constexpr double kMostError = 1e-9;
  if (outcome.lost + outcome.duplicated > 0) {
    return Error(ErrorCode::kInternal, counted(outcome.lost, "sample") + " lost, " +
                                           std::to_string(outcome.duplicated) + " duplicated");
  }
  const double error = outcome.gradient_relative_error.value_or(0);
  if (error <= kMostError) return {};  // NaN is not
  return Error(ErrorCode::kInternal,
               "the gradients differ from those of one process and one batch: relative error " +
                   std::to_string(error) + "; nan means that training diverged (--lr)");
}

std::string name_of(const Options& options) {
  if (options.role == kReference) return options.role;
  return place_of_receiver(options.layout(), std::stoul(options.role)).to_string();
}

/// Returns the exit status.
int run_role(const Options& options) {
  keep_all_freed_memory();
  at::set_num_threads(1);
  std::string why;
  try {
    const Status status = run_worker(options);
    if (status) return 0;
    why = status.error().to_string();
  } catch (const std::exception& error) {  // what libtorch throws
    why = error.what();
  }
  std::fprintf(stderr, "%s: %s\n", name_of(options).c_str(), why.c_str());
  return 1;
}

/// Forks the process that runs this role once it is given the node's endpoint.
Status fork_role(Processes& processes, const Options& options, const std::string& role) {
  Options of_process = options;
  of_process.role = role;
  return processes.fork(name_of(of_process), [&of_process](const std::string& endpoint) {
    of_process.endpoint = endpoint;
    return run_role(of_process);
  });
}

Status run_all(Options& options, int& stop_signal) {
  ISOCOST_TRY(check_options(options));
  ISOCOST_ASSIGN(const ScratchDirectory directory, ScratchDirectory::create("isocost-run"));
  options.directory = directory.path();
  if (!options.checkpoint.empty()) {
    std::error_code ignored;  // writing the first state reports what is wrong
    std::filesystem::create_directories(options.checkpoint, ignored);
  }
  if (options.resume) {
    ISOCOST_ASSIGN(options.start_step, newest_state(options));
    std::fprintf(stderr, "resumes after step %u\n", options.start_step);
  }
  const Layout layout = options.layout();
  Processes reference;
  if (options.check_gradient) ISOCOST_TRY(fork_role(reference, options, kReference));
  Processes stages;
  for (std::size_t receiver = 0; receiver < receivers(layout); ++receiver) {
    ISOCOST_TRY(fork_role(stages, options, std::to_string(receiver)));
  }
  if (options.check_gradient) {
    NodeOptions whole = node_options(options);
    whole.plan.ranks = 1;
    whole.plan.microbatches = 1;
    ISOCOST_TRY(run_processes(options, whole, reference, stop_signal));
  }
  NodeOptions staged = node_options(options);
  staged.plan.use_layout(std::make_shared<const Layout>(layout), "of the pipeline");
  ISOCOST_TRY(run_processes(options, staged, stages, stop_signal));
  ISOCOST_ASSIGN(const Outcome outcome, read_outcome(options));
  ISOCOST_TRY(write_outcome(options, outcome));
  return check_outcome(outcome);
}

/// One thread per process, since the processes share the cores. OpenMP and BLAS read this when they
/// are loaded, so where it was not set this program starts again.
void use_one_thread(char** argv) {
  bool is_set = true;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const char* threads = std::getenv(name);
    is_set = is_set && threads != nullptr && std::string_view(threads) == "1";
    setenv(name, "1", 1);
  }
  if (!is_set) execv("/proc/self/exe", argv);  // returns if that fails: the run is slower then
}

int run(Options& options) {
  collect_signals();
  int stop_signal = 0;
  const Status status = run_all(options, stop_signal);
  if (status) return 0;
  std::fprintf(stderr, "pipeline_trainer: %s\n", status.error().to_string().c_str());
  if (stop_signal != 0) return 128 + stop_signal;
  return status.error().code() == ErrorCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) {
  isocost::Parsed parsed = isocost::parse_options(argc, argv);
  if (parsed.ended) return parsed.status;
  isocost::use_one_thread(argv);
  return isocost::run(parsed.options);
}
