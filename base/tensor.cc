#include "base/tensor.h"

#include <utility>

#include "base/checked.h"

namespace isocost {

std::int64_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return 1;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "uint8";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat32:
      return "float32";
  }
  return "unknown";
}

std::int64_t SharedTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

void SharedTensor::throw_other_dtype(DType asked) const {
  throw_exception(Error(ErrorCode::kInvalidArgument,
                        "the tensor is " + std::string(dtype_name(dtype)) + ", and not " +
                            std::string(dtype_name(asked)) + ": ask for its own type"));
}

Result<SharedTensor> make_tensor(Buffer&& buffer, DType dtype, std::vector<std::int64_t> shape) {
  std::int64_t bytes = dtype_size(dtype);
  for (const std::int64_t extent : shape) {
    const auto product = checked_product(bytes, extent);
    if (!product) return Error(ErrorCode::kInvalidArgument, "tensor shape overflows");
    bytes = *product;
  }
  if (bytes != buffer.size()) {
    return Error(ErrorCode::kInvalidArgument, "tensor shape needs " + std::to_string(bytes) +
                                                  " bytes, its buffer holds " +
                                                  std::to_string(buffer.size()));
  }
  auto owner = std::make_shared<const Buffer>(std::move(buffer));
  return SharedTensor{dtype, std::move(shape), owner->data(), owner};
}

}  // namespace isocost
