#include "trainer_adapter/python/extension/profiling.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "costmodel/measured_module.h"
#include "costmodel/profiling_method.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// Returns the value, or raises ValueError: the caller must change everything that the method
// refuses.
template <typename T>
T value_or_raise(Result<T>&& result) {
  if (!result) throw py::value_error("profile_model: " + result.error().message());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

using CutTuple = std::pair<std::int64_t, std::optional<std::int64_t>>;  // tensor, layers

ProfilingMethod make_method(std::string module, std::pair<std::int64_t, std::int64_t> lengths,
                            std::int64_t most_units, std::int64_t multiple, std::int64_t layers,
                            const std::vector<CutTuple>& cuts, double budget_s) {
  ProfilingOptions options{.module = std::move(module),
                           .shortest = lengths.first,
                           .longest = lengths.second,
                           .most_units = most_units,
                           .multiple = multiple,
                           .layers = layers,
                           .budget = Seconds(budget_s)};
  for (const auto& [tensor, own_layers] : cuts) {
    options.cuts.push_back({.tensor = tensor, .layers = own_layers});
  }
  return value_or_raise(ProfilingMethod::create(std::move(options)));
}

const char* kind_name(const ProfilingRun& run) {
  switch (run.kind) {
    case ProfilingRunKind::kWarmUp:
      return "warm_up";
    case ProfilingRunKind::kPeakMemory:
      return "peak_memory";
    case ProfilingRunKind::kTimed:
      return "timed";
  }
  return "";
}

struct PythonValues {
  using Object = py::dict;
  using List = py::list;
  static py::dict object() { return py::dict(); }
  static py::list list() { return py::list(); }
  static void append(py::list& list, const py::dict& value) { list.append(value); }
};

// Returns the module's part of a profile file, without its architecture.
py::dict module_dict(const ProfilingMethod& method) {
  py::dict object;
  MeasuredModule<PythonValues>::add(method.points(), method.cuts(), method.out_of_memory(), object);
  return object;
}

void record(ProfilingMethod& method, double elapsed_s, double forward_s, double backward_s,
            std::int64_t peak_bytes) {
  value_or_raise(method.record({.elapsed = Seconds(elapsed_s),
                                .forward = Seconds(forward_s),
                                .backward = Seconds(backward_s),
                                .peak_bytes = peak_bytes}));
}

}  // namespace

void bind_profiling(py::module_& module) {
  py::class_<ProfilingRun>(module, "ProfilingRun")
      .def_property_readonly("kind", &kind_name)
      .def_readonly("length", &ProfilingRun::length)
      .def_readonly("sequences", &ProfilingRun::sequences)
      .def_readonly("cut", &ProfilingRun::cut)
      .def_readonly("new_inputs", &ProfilingRun::new_inputs);
  py::class_<ProfilingMethod>(module, "ProfilingMethod")
      .def(py::init(&make_method), py::kw_only(), py::arg("module"), py::arg("lengths"),
           py::arg("most_units"), py::arg("multiple"), py::arg("layers"), py::arg("cuts"),
           py::arg("budget_s"))
      .def("next", &ProfilingMethod::next)
      .def("record", &record, py::kw_only(), py::arg("elapsed_s"), py::arg("forward_s") = 0.0,
           py::arg("backward_s") = 0.0, py::arg("peak_bytes") = 0)
      .def(
          "record_out_of_memory",
          [](ProfilingMethod& self, double elapsed_s) {
            value_or_raise(self.record_out_of_memory(Seconds(elapsed_s)));
          },
          py::kw_only(), py::arg("elapsed_s"))
      .def("take_progress", &ProfilingMethod::take_progress)
      .def("to_json", &module_dict);
  module.def("says_out_of_memory", &says_out_of_memory, py::arg("message"));
  module.attr("overwritten_cache_bytes") = kOverwrittenCacheBytes;
}

}  // namespace isocost::python
