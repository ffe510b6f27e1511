#include "examples/multimodal_trainer/trace.h"

#include <nlohmann/json.hpp>

namespace isocost {
namespace {

nlohmann::json by_module(const std::array<double, kModules>& seconds) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t i = 0; i < kModules; ++i) {
    if (seconds.at(i) >= 0)
      json[std::string(module_name(static_cast<CostModule>(i)))] = seconds.at(i);
  }
  return json;
}

nlohmann::json units(const Load& load) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t i = 0; i < kModules; ++i) {
    json[std::string(module_name(static_cast<CostModule>(i)))] = load.modules.at(i).units;
  }
  return json;
}

}  // namespace

void Trace::microbatch(const MicrobatchHeader& header, const MicrobatchResult& result,
                       double start_s, double data_wait_s, double compute_s) {
  nlohmann::json samples = nlohmann::json::array();
  for (const SampleEntry& sample : header.samples) samples.push_back({sample.id, sample.weight});
  file_ << nlohmann::json{{"type", "microbatch"},
                          {"rank", rank_},
                          {"epoch", header.position.epoch},
                          {"step", header.position.step},
                          {"microbatch", header.position.microbatch},
                          {"start_s", start_s},
                          {"data_wait_s", data_wait_s},
                          {"compute_s", compute_s},
                          {"seconds", by_module(result.seconds)},
                          {"predicted", by_module(header.predicted_seconds)},
                          {"units", units(header.load)},
                          {"samples", std::move(samples)},
                          {"label_tokens", header.load.label_tokens}}
               .dump()
        << '\n';
}

void Trace::step(const Position& position, const StepTimes& times) {
  file_ << nlohmann::json{{"type", "step"},
                          {"rank", rank_},
                          {"epoch", position.epoch},
                          {"step", position.step},
                          {"start_s", times.start_s},
                          {"end_s", times.end_s},
                          {"data_wait_s", times.data_wait_s},
                          {"compute_s", times.compute_s},
                          {"cpu_s", times.cpu_s},
                          {"wait_for_peers_s", times.wait_for_peers_s},
                          {"reduce_s", times.reduce_s},
                          {"loss", times.loss}}
               .dump()
        << '\n';
  file_.flush();  // the demo follows the file and counts steps
}

}  // namespace isocost
