#include "trainer_adapter/python/extension/pixels.h"

#include <dlpack/dlpack.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/tensor.h"
#include "base/units.h"
#include "trainer_adapter/normalise.h"
#include "trainer_adapter/python/extension/tensor.h"

namespace isocost::python {
namespace {

namespace py = pybind11;

// Most bytes of a row: with two further factors of at most 1024, a tensor's size fits in 64 bits.
constexpr std::int64_t kWidest = kGiB;

// Returns the tensor in a capsule, which stays its owner's. It must be uint8 [rows, values],
// packed, on the CPU.
const DLTensor& bytes_of(const py::capsule& capsule) {
  const DLTensor& tensor = capsule.get_pointer<DLManagedTensor>()->dl_tensor;
  const bool packed =
      tensor.ndim == 2 &&
      (tensor.strides == nullptr ||
       (tensor.strides[1] == 1 && (tensor.strides[0] == tensor.shape[1] || tensor.shape[0] <= 1)));
  if (tensor.device.device_type != kDLCPU || tensor.dtype.code != kDLUInt ||
      tensor.dtype.bits != 8 || !packed || tensor.shape[1] % 3 != 0 || tensor.shape[1] > kWidest) {
    throw py::value_error(
        "pixels must be uint8 [rows, 3 * pixels], packed, on the CPU, in rows of at most 1 GiB");
  }
  return tensor;
}

// Most memory of past tensors that is kept for the next ones. Their sizes vary with the pictures,
// and fresh pages of float32 cost more than computing the values in them.
constexpr std::int64_t kKeptBytes = kGiB;

// Makes a model's pixel values, in memory that it reuses. Internally synchronised.
class PixelNormaliser {
 public:
  PixelNormaliser(const std::vector<float>& table, double rescale, const std::array<float, 3>& mean,
                  const std::array<float, 3>& deviation)
      : values_(checked(table), PixelArithmetic{rescale, mean, deviation}) {}

  py::object rows(const py::object& pixels, std::int64_t frames, std::int64_t copies) {
    constexpr std::int64_t kMost = 1024;
    if (std::min(frames, copies) < 1 || std::max(frames, copies) > kMost) {
      throw py::value_error("frames and copies must be from 1 to 1024");
    }
    const DLTensor& from = bytes_of(pixels.cast<py::capsule>());
    const std::int64_t rows = from.shape[0];
    if (rows % frames != 0) throw py::value_error("rows must be a multiple of frames");
    const std::int64_t width = from.shape[1];
    return made({rows / frames, width * frames * copies}, [&](std::span<float> into) {
      normalise_pixels(values_of(from), static_cast<std::size_t>(width / 3), values_,
                       {static_cast<std::size_t>(frames), static_cast<std::size_t>(copies)}, into);
    });
  }

  py::object pictures(const py::object& patches, std::int64_t height, std::int64_t width) {
    constexpr std::int64_t kLongestSide = 1 << 20;
    if (std::min(height, width) < 1 || std::max(height, width) > kLongestSide) {
      throw py::value_error("height and width must be from 1 to 2^20");
    }
    const PictureLayout layout{static_cast<std::size_t>(height), static_cast<std::size_t>(width)};
    const DLTensor& from = bytes_of(patches.cast<py::capsule>());
    const auto own = static_cast<std::int64_t>(layout.patches());
    if (!std::cmp_equal(from.shape[1], layout.patch_bytes()) || from.shape[0] % own != 0) {
      throw py::value_error("patches must be uint8 [n * patches of a picture, 588]");
    }
    return made({from.shape[0] / own, 3, height, width}, [&](std::span<float> into) {
      normalise_pictures(values_of(from), layout, values_, into);
    });
  }

 private:
  static PixelTable checked(const std::vector<float>& table) {
    if (table.size() != PixelTable::extent) throw py::value_error("the table has 3 x 256 values");
    return PixelTable(table.data(), PixelTable::extent);
  }

  static std::span<const std::uint8_t> values_of(const DLTensor& tensor) {
    return {static_cast<const std::uint8_t*>(tensor.data) + tensor.byte_offset,
            static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1])};
  }

  template <typename Make>
  py::object made(std::vector<std::int64_t> shape, const Make& make) {
    std::int64_t values = 1;
    for (const std::int64_t side : shape)
      values *= side;  // factors: sizes of tensors that exist, and `copies`
    const auto into =
        std::make_shared<Buffer>(pool_.allocate(values * static_cast<std::int64_t>(sizeof(float))));
    {
      const py::gil_scoped_release released;
      make({reinterpret_cast<float*>(into->data()), static_cast<std::size_t>(values)});
    }
    SharedTensor tensor;
    tensor.dtype = DType::kFloat32;
    tensor.shape = std::move(shape);
    tensor.data = into->data();
    tensor.owner = into;
    return to_dlpack(tensor);
  }

  PixelValues values_;
  BufferPool pool_{kKeptBytes, BlockFit::kLoose};
};

}  // namespace

void bind_pixels(py::module_& module) {
  py::class_<PixelNormaliser>(module, "PixelNormaliser")
      .def(py::init<const std::vector<float>&, double, const std::array<float, 3>&,
                    const std::array<float, 3>&>(),
           py::arg("table"), py::arg("rescale"), py::arg("mean"), py::arg("deviation"),
           "PixelValues of trainer_adapter/normalise.h.")
      .def("rows", &PixelNormaliser::rows, py::arg("pixels"), py::arg("frames"), py::arg("copies"),
           "A DLPack capsule of float32 for one of uint8: normalise_pixels of "
           "trainer_adapter/normalise.h.")
      .def("pictures", &PixelNormaliser::pictures, py::arg("patches"), py::arg("height"),
           py::arg("width"), "Likewise: normalise_pictures.");
}

}  // namespace isocost::python
