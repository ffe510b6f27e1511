#include "trainer_adapter/python/extension/tensor.h"

#include <dlpack/dlpack.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/tensor_schema.h"
#include "base/units.h"
#include "decode/shape/clip_frames.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

constexpr const char* kFresh = "dltensor";  // a consumer renames it to "used_dltensor"

DLDataType dlpack_type(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return {kDLUInt, 8, 1};
    case DType::kInt32:
      return {kDLInt, 32, 1};
    case DType::kInt64:
      return {kDLInt, 64, 1};
    case DType::kFloat32:
      return {kDLFloat, 32, 1};
  }
  throw py::value_error("unknown dtype");
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Shape and strides of the view, and the reference that keeps its bytes alive. The consumer frees
// it on any thread, with or without the GIL, so it holds no Python object.
struct Lent {
  SharedTensor tensor;
  std::vector<std::int64_t> strides;
  DLManagedTensor managed{};
};

void give_back(DLManagedTensor* managed) {
  const std::unique_ptr<Lent> lent(static_cast<Lent*>(managed->manager_ctx));
}

// Frees a capsule that no consumer took.
void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kFresh) == 0) return;
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  managed->deleter(managed);
}

std::string buffer_format(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return py::format_descriptor<std::uint8_t>::format();
    case DType::kInt32:
      return py::format_descriptor<std::int32_t>::format();
    case DType::kInt64:
      return py::format_descriptor<std::int64_t>::format();
    case DType::kFloat32:
      return py::format_descriptor<float>::format();
  }
  throw py::value_error("unknown dtype");
}

py::buffer_info to_buffer(const SharedTensor& tensor) {
  const py::ssize_t item = dtype_size(tensor.dtype);
  std::vector<py::ssize_t> strides;
  for (const std::int64_t stride : strides_of(tensor.shape)) strides.push_back(stride * item);
  return {const_cast<std::byte*>(tensor.data),  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          item,
          buffer_format(tensor.dtype),
          static_cast<py::ssize_t>(tensor.shape.size()),
          std::vector<py::ssize_t>(tensor.shape.begin(), tensor.shape.end()),
          strides,
          /*readonly=*/true};
}

std::string role_name(TensorRole role) {
  switch (role) {
    case TensorRole::kRows:
      return "rows";
    case TensorRole::kGrids:
      return "grids";
    case TensorRole::kMedia:
      return "media";
    case TensorRole::kIds:
      return "ids";
    case TensorRole::kLabels:
      return "labels";
    case TensorRole::kPositions:
      return "positions";
    case TensorRole::kRope:
      return "rope";
    case TensorRole::kTurnWeights:
      return "turn_weights";
    case TensorRole::kLossWeights:
      return "loss_weights";
    case TensorRole::kLengths:
      return "lengths";
    case TensorRole::kCuSeqlens:
      return "cu_seqlens";
  }
  throw py::value_error("unknown role");
}

// Module, role, argument name, and whether the recipe makes it.
using TensorRow = std::tuple<std::string, std::string, std::string, bool>;

std::vector<TensorRow> tensor_table() {
  std::vector<TensorRow> table;
  table.reserve(std::size(kTensorSchema));
  for (const TensorEntry& entry : kTensorSchema) {
    table.emplace_back(module_name(entry.module), role_name(entry.role), argument_name(entry.name),
                       entry.source == TensorSource::kRecipe);
  }
  return table;
}

}  // namespace

py::object to_dlpack(const SharedTensor& tensor) {
  auto lent = std::make_unique<Lent>();
  lent->tensor = tensor;
  lent->strides = strides_of(tensor.shape);
  DLTensor& view = lent->managed.dl_tensor;
  // DLPack 0.6 has no read-only tensors: by contract, consumers do not write.
  view.data = const_cast<std::byte*>(tensor.data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  view.device = {kDLCPU, 0};
  view.ndim = static_cast<std::int32_t>(tensor.shape.size());
  view.dtype = dlpack_type(tensor.dtype);
  view.shape = lent->tensor.shape.data();
  view.strides = lent->strides.data();
  view.byte_offset = 0;
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = give_back;
  PyObject* capsule = PyCapsule_New(&lent->managed, kFresh, drop_capsule);
  if (capsule == nullptr) throw py::error_already_set();
  lent.release();  // NOLINT(bugprone-unused-return-value): the capsule owns it now
  return py::reinterpret_steal<py::object>(capsule);
}

void bind_tensor(py::module_& module) {
  py::class_<SharedTensor>(module, "Tensor", py::buffer_protocol())
      .def_buffer(&to_buffer)
      .def_property_readonly("dtype",
                             [](const SharedTensor& t) { return std::string(dtype_name(t.dtype)); })
      .def_readonly("shape", &SharedTensor::shape)
      .def_property_readonly(
          "data_ptr",
          [](const SharedTensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); })
      // Newer consumers name a stream, a version or a device; on the CPU nothing depends on them.
      .def("__dlpack__", [](const SharedTensor& t, const py::kwargs&) { return to_dlpack(t); })
      .def("__dlpack_device__",
           [](const SharedTensor&) { return py::make_tuple(static_cast<int>(kDLCPU), 0); });
  module.def("argument_name", &argument_name, py::arg("tensor"));
  module.def("tensor_table", &tensor_table,
             "Module, role, argument name, and whether the recipe makes it, of every tensor in "
             "base/tensor_schema.h.");
  module.attr("ignored_label") = kIgnoredLabel;
  module.def("is_module_time", &is_module_time, py::arg("seconds"));
  module.attr("not_measured") = kNotMeasured;
  module.attr("clip_frames") = kWindowMelFrames;
  module.attr("frames_behind_clip") = kFramesBehindClip;
}

}  // namespace isocost::python
