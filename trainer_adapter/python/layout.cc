#include "trainer_adapter/python/layout.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <string>
#include <tuple>

#include "balancer/layout.h"
#include "balancer/place.h"
#include "trainer_adapter/python/errors.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// Module, data, stage, tensor.
using PlaceTuple = std::tuple<std::string, std::size_t, std::size_t, std::size_t>;

Place place_from(const PlaceTuple& given) {
  const auto& [module, data, stage, tensor] = given;
  if (module != "encoder" && module != "llm") {
    raise(Error(ErrorCode::kInvalidArgument,
                "place: module '" + module + "' is neither 'encoder' nor 'llm'"));
  }
  return {module == "encoder" ? LayoutModule::kEncoder : LayoutModule::kLlm, data, stage, tensor};
}

PlaceTuple to_tuple(const Place& place) {
  return {place.module == LayoutModule::kEncoder ? "encoder" : "llm", place.data, place.stage,
          place.tensor};
}

py::dict degrees(const ModuleDegrees& degrees) {
  py::dict result;
  result["tensor"] = degrees.tensor;
  result["pipeline"] = degrees.pipeline;
  result["data"] = degrees.data;
  return result;
}

}  // namespace

void bind_layout(py::module_& module) {
  py::class_<Layout>(module, "Layout")
      .def(py::init([](const std::string& file) { return value(Layout::load(file)); }))
      .def_property_readonly("ranks", &Layout::ranks)
      .def_property_readonly("seats", [](const Layout& self) { return seats(self); })
      .def_property_readonly("encoder", [](const Layout& self) { return degrees(self.encoder); })
      .def_property_readonly("llm", [](const Layout& self) { return degrees(self.llm); })
      .def_property_readonly(
          "has_encoder_ranks",
          [](const Layout& self) { return self.encoder_place == EncoderPlace::kOwnRanks; })
      .def_property_readonly("microbatches", [](const Layout& self) { return self.microbatches; })
      .def_property_readonly("encoder_ahead", [](const Layout& self) { return self.encoder_ahead; })
      .def_property_readonly("chunks", [](const Layout& self) { return self.chunks; })
      .def_property_readonly(
          "schedule", [](const Layout& self) { return std::string(schedule_name(self.schedule)); })
      .def_property_readonly("fingerprint", &Layout::fingerprint)
      .def("place_of", [](const Layout& self,
                          std::size_t rank) { return to_tuple(value(place_of(self, rank))); })
      .def("rank_of",
           [](const Layout& self, const PlaceTuple& place) {
             return value(rank_of(self, place_from(place)));
           })
      .def("seat_of",
           [](const Layout& self, const PlaceTuple& place) {
             return value(seat_of(self, place_from(place)));
           })
      .def("__str__", &Layout::to_string);
}

}  // namespace isocost::python
