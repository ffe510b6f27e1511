// For any bytes, decoding returns an error or a state with which predictions and further learning
// stay finite. The checksum is corrected first, so that mutations reach the fields after it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/fingerprint.h"
#include "costmodel/cost_model.h"

namespace {

using isocost::CostModule;

isocost::Load some_load() {
  isocost::Load load;
  load[CostModule::kVision].add_sequence(1024);
  load[CostModule::kAudio].add_sequence(700);
  load[CostModule::kLlm].add_sequence(900);
  return load;
}

void require_finite(const isocost::ModuleSeconds& seconds) {
  for (const double value : seconds) {
    if (!std::isfinite(value) || value < 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string state(reinterpret_cast<const char*>(data), size);
  if (size > sizeof(std::uint64_t)) {
    isocost::Fingerprint hash;
    const std::size_t body = size - sizeof(std::uint64_t);
    hash.add(std::string_view(state).substr(0, body));
    const std::uint64_t value = hash.value();
    std::memcpy(state.data() + body, &value, sizeof(value));
  }
  isocost::CostModel model(isocost::CostProfile::stated_default(), {});
  if (!model.restore_state(state)) return 0;
  const isocost::Load load = some_load();
  require_finite(model.predict_microbatch(load));
  for (int n = 0; n < 8; ++n) {
    if (!model.observe({.load = load, .seconds = {0.1, 0.2, 0.3}, .step = std::uint64_t(n)})) {
      std::abort();
    }
    model.update();
  }
  require_finite(model.predict_microbatch(load));
  return 0;
}
