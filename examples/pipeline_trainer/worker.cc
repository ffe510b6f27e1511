#include "examples/pipeline_trainer/worker.h"

#include <charconv>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "examples/multimodal_trainer/process.h"
#include "examples/multimodal_trainer/train_step.h"
#include "examples/pipeline_trainer/stage.h"
#include "examples/pipeline_trainer/tensor_file.h"
#include "trainer_adapter/state.h"

namespace isocost {
namespace {

/// Times of all steps but the first, which includes lazy initialisation. A run of a single step has
/// the times of that one.
struct Times {
  double busy_s = 0;
  double waited_s = 0;
  double wall_s = 0;
  std::vector<double> steps_s;

  void add(double step_s, double busy, double waited) {
    if (steps_s.size() == 1) *this = {.steps_s = steps_s};
    steps_s.push_back(step_s);
    wall_s += step_s;
    busy_s += busy;
    waited_s += waited;
  }
};

Status load_state(const Options& options, const std::string& part, StageModel& model,
                  StartPoint& start) {
  ISOCOST_ASSIGN(const auto saved, read_tensors(state_file(options, part, options.start_step)));
  const torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : model.parameters()) {
    const auto found = saved.find(name);
    if (found == saved.end()) continue;  // of another part
    if (found->second.sizes() != parameter.sizes()) {
      return Error(ErrorCode::kCorrupt, "state of " + part + ": " + name + " has another shape");
    }
    torch::Tensor target = parameter;
    target.copy_(found->second);
  }
  const auto loader = saved.find(kLoaderTensor);
  if (loader == saved.end()) return Error(ErrorCode::kCorrupt, "state of " + part + ": no loader");
  const torch::Tensor json = loader->second.contiguous();
  ISOCOST_ASSIGN(start,
                 State::from_json({static_cast<const char*>(json.data_ptr()), json.nbytes()}));
  return {};
}

Status save_state(const Options& options, const std::string& part, const StageModel& model,
                  const StartPoint& at) {
  const std::uint32_t step = at.step;
  NamedParameters state = model.parameters();
  const std::string json = State(at).to_json();
  state.emplace_back(
      kLoaderTensor,
      torch::tensor(std::vector<std::uint8_t>(json.begin(), json.end()), torch::kByte));
  ISOCOST_TRY(write_tensors(state_file(options, part, step), state));
  // A process that died may have saved one step less than the others, but never two.
  std::error_code ignored;
  if (step >= 2) std::filesystem::remove(state_file(options, part, step - 2), ignored);
  return {};
}

Status write_result(const Options& options, const StreamTally& tally, std::uint64_t planned,
                    const Times& times) {
  const nlohmann::json result = {{"planned", planned},
                                 {"tensor_bytes", tally.tensor_bytes},
                                 {"routing_bytes", tally.routing_bytes},
                                 {"decoupled", tally.decoupled},
                                 {"samples", tally.samples},
                                 {"with_routes", tally.with_routes},
                                 {"busy_s", times.busy_s},
                                 {"waited_s", times.waited_s},
                                 {"wall_s", times.wall_s},
                                 {"steps_s", times.steps_s}};
  const std::filesystem::path file = result_file(options, options.role);
  std::ofstream out(file);
  out << result << std::flush;
  if (!out) return Error(ErrorCode::kIo, "cannot write " + file.string());
  return {};
}

StreamOptions stream_options(const Options& options) {
  StreamOptions stream;
  stream.endpoint = options.endpoint;
  stream.timeout = options.peer_timeout;
  stream.start.step = options.start_step;
  return stream;
}

/// Sums gradients and loss over the replicas, and updates the weights.
class StageProcess {
 public:
  explicit StageProcess(const Options& options, std::size_t receiver)
      : options_(options),
        layout_(options.layout()),
        receiver_(receiver),
        place_(place_of_receiver(layout_, receiver)),
        part_(part_name(place_, options.llm_stages)),
        model_(options.model, options.seed, options.dtype, [&](const std::string& parameter) {
          return holds(place_, static_cast<std::size_t>(options.model.llm_depth),
                       options.llm_stages, parameter);
        }) {}

  Status run() {
    StreamOptions stream_of = stream_options(options_);
    stream_of.receiver = static_cast<std::int32_t>(receiver_);
    stream_of.receivers = static_cast<std::int32_t>(receivers(layout_));
    stream_of.layout = layout_.fingerprint();
    if (options_.start_step > 0) {
      ISOCOST_TRY(load_state(options_, part_, model_, stream_of.start));
    }
    ISOCOST_ASSIGN(MicrobatchStream stream, MicrobatchStream::connect(stream_of));
    ISOCOST_ASSIGN(const auto links, Links::connect({.layout = layout_,
                                                     .receiver = receiver_,
                                                     .store = options_.directory / "store",
                                                     .timeout = options_.peer_timeout}));
    const StageParts parts{
        layout_, place_, model_, *links, stream, options_.dtype, options_.model.llm_width};
    const auto stage =
        place_.module == LayoutModule::kEncoder ? make_encoder_stage(parts) : make_llm_stage(parts);
    for (std::uint32_t step = options_.start_step; step < options_.start_step + options_.steps;
         ++step) {
      ISOCOST_TRY_CONTEXT(run_step(step, *stage, stream, *links),
                          "step " + std::to_string(step + 1));
    }
    ISOCOST_ASSIGN(const std::uint64_t planned, stream.finish());
    return write_result(options_, stream.tally(), planned, times_);
  }

 private:
  Status run_step(std::uint32_t step, Stage& stage, MicrobatchStream& stream, Links& links) {
    const double start_s = now_s();
    ISOCOST_ASSIGN(const StageWorked worked, stage.run_step());
    ISOCOST_TRY(links.settle());
    torch::Tensor loss = torch::tensor({worked.loss}, torch::kDouble);
    ISOCOST_TRY(links.sum(model_.flat_gradient()));
    ISOCOST_TRY(links.sum(loss));
    if (options_.check_gradient && place_.data == 0) {
      ISOCOST_TRY(write_tensors(gradient_file(options_, part_, step), model_.gradients()));
    }
    model_.update(options_.learning_rate);
    if (!options_.checkpoint.empty() && place_.data == 0) {
      ISOCOST_TRY(save_state(options_, part_, model_, stream.start_at(step + 1)));
    }
    const double step_s = now_s() - start_s;
    times_.add(step_s, worked.busy_s, stream.waited_s());
    if (place_.data == 0 && place_.module == LayoutModule::kLlm &&
        place_.stage + 1 == options_.llm_stages) {
      std::fprintf(stderr, "step %u: loss %.4f, %.3f s\n", step + 1, loss.item<double>(), step_s);
    }
    return {};
  }

  const Options& options_;
  Layout layout_;
  std::size_t receiver_;
  Place place_;
  std::string part_;
  StageModel model_;
  Times times_;
};

// Trains the whole model in this process, on each step's whole batch at once.
Status run_reference(const Options& options) {
  StageModel model(options.model, options.seed, options.dtype,
                   [](const std::string&) { return true; });
  StreamOptions stream_of = stream_options(options);
  const Layout layout = options.layout();
  for (std::size_t receiver = 0; options.start_step > 0 && receiver < receivers(layout);
       ++receiver) {
    const std::string part = part_name(place_of_receiver(layout, receiver), options.llm_stages);
    ISOCOST_TRY(load_state(options, part, model, stream_of.start));
  }
  ISOCOST_ASSIGN(MicrobatchStream stream, MicrobatchStream::connect(stream_of));
  for (std::uint32_t step = options.start_step; step < options.start_step + options.steps; ++step) {
    ISOCOST_ASSIGN(const TorchMicrobatch microbatch, stream.take());
    train_microbatch(model.model(), microbatch);
    ISOCOST_TRY(write_tensors(gradient_file(options, kReference, step), model.gradients()));
    model.update(options.learning_rate);
    std::fprintf(stderr, "step %u in one process: done\n", step + 1);
  }
  ISOCOST_TRY(stream.finish());
  return {};
}

}  // namespace

std::filesystem::path result_file(const Options& options, const std::string& role) {
  return options.directory / ("result-" + role + ".json");
}

std::filesystem::path gradient_file(const Options& options, const std::string& part,
                                    std::uint32_t step) {
  return options.directory / ("gradient-" + std::to_string(step) + "-" + part);
}

std::filesystem::path state_file(const Options& options, const std::string& part,
                                 std::uint32_t step) {
  return options.checkpoint / (part + ".step-" + std::to_string(step));
}

Status run_worker(const Options& options) {
  if (options.role == kReference) return run_reference(options);
  std::size_t receiver = 0;
  std::from_chars(options.role.data(), options.role.data() + options.role.size(), receiver);
  return StageProcess(options, receiver).run();
}

}  // namespace isocost
