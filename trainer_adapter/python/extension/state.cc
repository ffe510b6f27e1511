#include "trainer_adapter/python/extension/state.h"

#include <cstdint>
#include <string>
#include <tuple>

#include "trainer_adapter/python/extension/errors.h"
#include "trainer_adapter/state.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// The fields of State in isocost/connection/state.py.
using StateRow =
    std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, py::bytes, std::string, std::uint16_t>;

StateRow read_state(const std::string& text) {
  const State state = value(State::from_json(text));
  return {state.cursor,  state.epoch,        state.step, py::bytes(state.cost_model_state),
          state.mixture, state.state_version};
}

std::string state_text(std::uint64_t cursor, std::uint32_t epoch, std::uint32_t step,
                       const py::bytes& cost_model_state, const std::string& mixture,
                       std::uint16_t version) {
  return State(StartPoint{cursor, epoch, step, std::string(cost_model_state), mixture, version})
      .to_json();
}

}  // namespace

void bind_state(py::module_& module) {
  module.def("read_state", &read_state, py::arg("text"),
             "Reads a saved state; raises ValueError that names the key.");
  module.def("state_text", &state_text, py::arg("cursor"), py::arg("epoch"), py::arg("step"),
             py::arg("cost_model_state"), py::arg("mixture"), py::arg("version"),
             "Returns a saved state as JSON.");
  module.attr("state_version") = kStateVersion;
}

}  // namespace isocost::python
