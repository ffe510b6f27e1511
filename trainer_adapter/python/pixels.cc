#include "trainer_adapter/python/pixels.h"

#include <dlpack/dlpack.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/tensor.h"
#include "trainer_adapter/normalise.h"
#include "trainer_adapter/python/tensor.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// The bytes of a capsule, which stays its owner's: uint8 [rows, values], packed, on the CPU.
const DLTensor& bytes_of(const py::capsule& capsule) {
  const DLTensor& tensor = capsule.get_pointer<DLManagedTensor>()->dl_tensor;
  const bool packed =
      tensor.ndim == 2 && (tensor.strides == nullptr ||
                           (tensor.strides[1] == 1 && tensor.strides[0] == tensor.shape[1]));
  if (tensor.device.device_type != kDLCPU || tensor.dtype.code != kDLUInt ||
      tensor.dtype.bits != 8 || !packed || tensor.shape[1] % 3 != 0) {
    throw py::value_error("pixels must be uint8 [rows, 3 * pixels], packed, on the CPU");
  }
  return tensor;
}

py::object normalised_pixels(const py::object& pixels, const std::vector<float>& values,
                             std::int64_t frames, std::int64_t copies) {
  if (frames < 1 || copies < 1 || values.size() != PixelTable::extent) {
    throw py::value_error(
        "frames and copies must be at least 1, and the table have 3 x 256 values");
  }
  const PixelTable table(values.data(), PixelTable::extent);
  const DLTensor& from = bytes_of(pixels.cast<py::capsule>());
  const std::int64_t rows = from.shape[0];
  if (rows % frames != 0) throw py::value_error("rows must be a multiple of frames");
  const std::int64_t width = from.shape[1];
  const auto size = static_cast<std::size_t>(rows * width);
  const std::size_t made = size * static_cast<std::size_t>(copies);
  const auto into = std::make_shared<Buffer>(
      BufferPool(0).allocate(static_cast<std::int64_t>(made * sizeof(float))));
  auto* const floats = reinterpret_cast<float*>(into->data());
  {
    const py::gil_scoped_release released;
    const auto* bytes = static_cast<const std::uint8_t*>(from.data) + from.byte_offset;
    normalise_pixels({bytes, size}, static_cast<std::size_t>(width / 3), table,
                     {static_cast<std::size_t>(frames), static_cast<std::size_t>(copies)},
                     {floats, made});
  }
  SharedTensor tensor;
  tensor.dtype = DType::kFloat32;
  tensor.shape = {rows / frames, width * frames * copies};
  tensor.data = into->data();
  tensor.owner = into;
  return to_dlpack(tensor);
}

}  // namespace

void bind_pixels(py::module_& module) {
  module.def("normalised_pixels", &normalised_pixels, py::arg("pixels"), py::arg("table"),
             py::arg("frames"), py::arg("copies"),
             "A DLPack capsule of float32 for one of uint8: trainer_adapter/normalise.h.");
}

}  // namespace isocost::python
