#include "trainer_adapter/python/extension/trained_steps.h"

#include <cstdint>
#include <string>
#include <tuple>

#include "trainer_adapter/python/extension/errors.h"
#include "trainer_adapter/trained_steps.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// A microbatch's epoch, step and index, and whether it is the last of its step and of its epoch.
using Place = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, bool, bool>;

OrderedMicrobatch microbatch_at(const Place& place) {
  const auto& [epoch, step, microbatch, last_of_step, last_of_epoch] = place;
  return {{epoch, step, microbatch}, last_of_step, last_of_epoch};
}

// Epoch, step and the state of the cost model.
using State = std::tuple<std::uint32_t, std::uint32_t, py::bytes>;

State to_tuple(const StartPoint& state) {
  return {state.epoch, state.step, py::bytes(state.cost_model_state)};
}

}  // namespace

void bind_trained_steps(py::module_& module) {
  py::class_<TrainedSteps>(module, "TrainedSteps")
      .def(py::init([](std::uint32_t epoch, std::uint32_t step, const py::bytes& cost_model_state) {
             return TrainedSteps({0, epoch, step, std::string(cost_model_state)});
           }),
           py::arg("epoch"), py::arg("step"), py::arg("cost_model_state"))
      .def(
          "hand_out",
          [](TrainedSteps& self, const Place& place, const py::bytes& cost_model_state) {
            self.hand_out(microbatch_at(place), std::string(cost_model_state));
          },
          py::arg("place"), py::arg("cost_model_state"))
      .def("end_epoch", &TrainedSteps::end_epoch, py::arg("epoch"))
      .def(
          "train",
          [](TrainedSteps& self, const Place& place) { value(self.train(microbatch_at(place))); },
          py::arg("place"))
      .def("state", [](const TrainedSteps& self) { return to_tuple(value(self.state())); })
      .def(
          "state_after",
          [](const TrainedSteps& self, const Place& place) {
            return to_tuple(value(self.state_after(microbatch_at(place))));
          },
          py::arg("place"));
}

}  // namespace isocost::python
