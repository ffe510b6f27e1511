#include "trainer_adapter/python/extension/layout.h"

#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "balancer/layout/layout.h"
#include "balancer/layout/place.h"
#include "balancer/pipeline/pipeline_model.h"
#include "balancer/pipeline/schedule.h"
#include "trainer_adapter/python/extension/errors.h"
#include "trainer_adapter/python/extension/os_text.h"

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

// Returns one name for all stages, or a list with one for each, as in the file.
py::object recompute_names(const ModuleTraining& training) {
  if (!training.by_stage()) return py::str(recompute_name(training.recompute.front()));
  py::list names;
  for (const Recompute what : training.recompute) names.append(py::str(recompute_name(what)));
  return names;
}

py::dict module_keys(const ModuleDegrees& degrees, const std::vector<std::int64_t>& layers,
                     const ModuleTraining& training) {
  py::dict result;
  result["tensor"] = degrees.tensor;
  result["pipeline"] = degrees.pipeline;
  result["data"] = degrees.data;
  result["shard"] = degrees.shard;
  result["layers"] = layers;
  result["train"] = std::string(trained_weights_name(training.weights));
  result["adapter_rank"] = training.adapter_rank;
  result["recompute"] = recompute_names(training);
  result["reshard"] = training.reshard;
  return result;
}

std::optional<py::dict> caps(const ActivationCaps& caps) {
  if (!caps.any()) return std::nullopt;
  py::dict result;
  result["encoder_bytes"] = caps.encoder_bytes;
  result["llm_bytes"] = caps.llm_bytes;
  return result;
}

// Binds the file's keys except its version.
void bind_keys(py::class_<Layout>& layout) {
  const auto own_ranks = [](const Layout& self) {
    return self.encoder_place == EncoderPlacement::kOwnRanks;
  };
  layout
      .def_property_readonly(
          "encoder_place",
          [own_ranks](const Layout& self) { return own_ranks(self) ? "own" : "llm"; })
      .def_property_readonly("has_encoder_ranks", own_ranks)
      .def_property_readonly("encoder",
                             [](const Layout& self) {
                               return module_keys(self.encoder, self.layers.encoder,
                                                  self.encoder_training);
                             })
      .def_property_readonly("llm",
                             [](const Layout& self) {
                               return module_keys(self.llm, self.layers.llm, self.llm_training);
                             })
      .def_property_readonly(
          "optimizer",
          [](const Layout& self) { return self.replicated_optimizer ? "replicated" : "sharded"; })
      .def_property_readonly("microbatches", [](const Layout& self) { return self.microbatches; })
      .def_property_readonly("chunks", [](const Layout& self) { return self.chunks; })
      .def_property_readonly("encoder_ahead", [](const Layout& self) { return self.encoder_ahead; })
      .def_property_readonly("coupled", [](const Layout& self) { return self.coupled; })
      .def_property_readonly(
          "schedule", [](const Layout& self) { return std::string(schedule_name(self.schedule)); })
      .def_property_readonly("activation_caps",
                             [](const Layout& self) { return caps(self.activation_caps); })
      .def_property_readonly("interconnect", [](const Layout& self) { return self.interconnect; });
}

}  // namespace

void bind_layout(py::module_& module) {
  py::class_<Layout> layout(module, "Layout");
  layout
      .def(py::init([](const OsText& file) { return value(Layout::load(file.bytes)); }),
           py::arg("file"))
      .def(py::init([](const std::string& json) { return value(Layout::parse(json)); }),
           py::kw_only(), py::arg("json"))
      .def_property_readonly("ranks", &Layout::ranks)
      .def_property_readonly("receivers", [](const Layout& self) { return receivers(self); })
      .def_property_readonly("fingerprint", &Layout::fingerprint)
      .def(
          "place_of",
          [](const Layout& self, std::size_t rank) {
            return to_tuple(value(place_of(self, rank)));
          },
          py::arg("rank"))
      .def(
          "rank_of",
          [](const Layout& self, const PlaceTuple& place) {
            return value(rank_of(self, place_from(place)));
          },
          py::arg("place"))
      .def(
          "receiver_of",
          [](const Layout& self, const PlaceTuple& place) {
            return value(receiver_of(self, place_from(place)));
          },
          py::arg("place"))
      .def("to_json", &Layout::to_json)
      .def("__str__", &Layout::to_string);
  bind_keys(layout);
}

}  // namespace isocost::python
