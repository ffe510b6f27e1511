#include "examples/pipeline_trainer/outcome.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/statistics.h"
#include "examples/pipeline_trainer/microbatch_stream.h"
#include "examples/pipeline_trainer/stage_model.h"
#include "examples/pipeline_trainer/tensor_file.h"
#include "examples/pipeline_trainer/worker.h"

namespace isocost {
namespace {

std::size_t kind_of(const Place& place, std::size_t stages) {
  if (place.module == LayoutModule::kEncoder) return 0;
  if (place.stage == 0) return 1;
  return place.stage + 1 == stages ? 3 : 2;
}

/// Counts how often each stage received a sample. The replicas of a stage are counted together.
class SampleCount {
 public:
  void add(std::size_t stage, const std::vector<SampleSeen>& samples) {
    for (const SampleSeen& sample : samples) ++seen_[sample][stage];
  }
  void add_with_media(const std::vector<SampleSeen>& samples) {
    media_.insert(samples.begin(), samples.end());
  }

  // Stage 0 is the encoder, 1 + s the LLM's.
  void tell(std::size_t llm_stages, std::uint64_t planned, Outcome& outcome) const {
    for (const auto& [sample, counts] : seen_) {
      bool complete = !media_.contains(sample) || counts.contains(0);
      for (std::size_t stage = 1; stage <= llm_stages; ++stage) {
        complete = complete && counts.contains(stage);
      }
      int most = 0;
      for (const auto& [stage, count] : counts) most = std::max(most, count);
      outcome.delivered += complete ? 1 : 0;
      outcome.duplicated += most > 1 ? 1 : 0;
    }
    outcome.lost = planned - std::min(planned, outcome.delivered);
  }

 private:
  std::map<SampleSeen, std::map<std::size_t, int>> seen_;
  std::set<SampleSeen> media_;
};

Result<nlohmann::json> read_result(const std::filesystem::path& file) {
  std::ifstream in(file);
  nlohmann::json json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return Error(ErrorCode::kCorrupt, file.string() + ": cannot be read as a result");
  return json;
}

// ||g - g1|| / ||g1|| of one step, over all parameters.
Result<double> gradient_error(const Options& options, std::uint32_t step) {
  ISOCOST_ASSIGN(const auto expected, read_tensors(gradient_file(options, kReference, step)));
  const Layout layout = options.layout();
  std::map<std::string, torch::Tensor> found;
  for (std::size_t receiver = 0; receiver < receivers(layout); ++receiver) {
    const Place place = place_of_receiver(layout, receiver);
    if (place.data > 0) continue;
    ISOCOST_ASSIGN(auto part, read_tensors(gradient_file(
                                  options, part_name(place, options.llm_stages), step)));
    found.merge(part);
  }
  double difference = 0;
  double norm = 0;
  for (const auto& [name, gradient] : expected) {
    const auto here = found.find(name);
    if (here == found.end()) {
      return Error(ErrorCode::kInternal, "no stage has the gradient of " + name);
    }
    difference += (here->second - gradient).square().sum().item<double>();
    norm += gradient.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

nlohmann::ordered_json as_json(const Outcome& outcome) {
  nlohmann::ordered_json json;
  json["gradient_relative_error"] = nullptr;
  if (outcome.gradient_relative_error) {
    json["gradient_relative_error"] = *outcome.gradient_relative_error;
  }
  for (std::size_t kind = 0; kind < kStageKinds.size(); ++kind) {
    json["bytes"][kStageKinds.at(kind)] = outcome.bytes.at(kind);
  }
  json["samples"] = {
      {"delivered", outcome.delivered}, {"lost", outcome.lost}, {"duplicated", outcome.duplicated}};
  json["bubble_fraction"] = outcome.bubble_fraction;
  json["routing_bytes"] = outcome.routing_bytes;
  json["decoupled_microbatches"] = outcome.decoupled_microbatches;
  json["data_wait_fraction"] = outcome.data_wait_fraction;
  json["step_seconds"] = outcome.step_seconds;
  return json;
}

}  // namespace

Result<Outcome> read_outcome(const Options& options) {
  Outcome outcome;
  SampleCount samples;
  std::uint64_t planned = 0;
  double busy_s = 0;
  double waited_s = 0;
  double wall_s = 0;
  std::vector<double> slowest;
  const Layout layout = options.layout();
  try {
    for (std::size_t receiver = 0; receiver < receivers(layout); ++receiver) {
      const Place place = place_of_receiver(layout, receiver);
      ISOCOST_ASSIGN(const nlohmann::json result,
                     read_result(result_file(options, std::to_string(receiver))));
      outcome.bytes.at(kind_of(place, options.llm_stages)) +=
          result.at("tensor_bytes").get<std::int64_t>();
      outcome.routing_bytes += result.at("routing_bytes").get<std::int64_t>();
      planned = std::max(planned, result.at("planned").get<std::uint64_t>());
      const bool encoder = place.module == LayoutModule::kEncoder;
      samples.add(encoder ? 0 : 1 + place.stage, result.at("samples"));
      if (!encoder) samples.add_with_media(result.at("with_routes"));
      if (encoder || place.stage == 0) {
        outcome.decoupled_microbatches += result.at("decoupled").get<std::int64_t>();
      }
      busy_s += result.at("busy_s").get<double>();
      waited_s += result.at("waited_s").get<double>();
      wall_s += result.at("wall_s").get<double>();
      const auto steps = result.at("steps_s").get<std::vector<double>>();
      slowest.resize(steps.size(), 0);
      for (std::size_t i = 0; i < steps.size(); ++i) slowest[i] = std::max(slowest[i], steps[i]);
    }
  } catch (const nlohmann::json::exception& error) {
    return Error(ErrorCode::kCorrupt, std::string("result of a stage: ") + error.what());
  }
  samples.tell(options.llm_stages, planned, outcome);
  if (slowest.size() > 1) slowest.erase(slowest.begin());
  outcome.step_seconds = median(slowest);
  outcome.bubble_fraction = wall_s > 0 ? 1 - busy_s / wall_s : 0;
  outcome.data_wait_fraction = wall_s > 0 ? waited_s / wall_s : 0;
  if (!options.check_gradient) return outcome;
  double error = 0;
  for (std::uint32_t i = 0; i < options.steps; ++i) {
    ISOCOST_ASSIGN(const double of_step, gradient_error(options, options.start_step + i));
    error = of_step > error || std::isnan(of_step) ? of_step : error;
  }
  outcome.gradient_relative_error = error;
  return outcome;
}

std::string Outcome::to_json() const { return as_json(*this).dump(2) + "\n"; }

std::string Outcome::to_table() const {
  const nlohmann::ordered_json numbers = as_json(*this).flatten();
  std::string table;
  for (const auto& [name, value] : numbers.items()) {
    std::string title = name.substr(1);
    std::replace(title.begin(), title.end(), '/', ' ');
    std::replace(title.begin(), title.end(), '_', ' ');
    table += title + std::string(title.size() < 26 ? 26 - title.size() : 1, ' ') +
             (value.is_null() ? "not checked" : value.dump()) + "\n";
  }
  return table;
}

}  // namespace isocost
