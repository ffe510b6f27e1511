#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"

namespace isocost {

enum class DType : std::uint8_t { kUInt8 = 0, kInt32 = 1, kInt64 = 2, kFloat32 = 3 };

/// Returns the bytes of one element.
std::int64_t dtype_size(DType dtype);
/// Returns "uint8", "int32", "int64" or "float32".
std::string_view dtype_name(DType dtype);

/// The DType of a C++ type.
template <typename T>
inline constexpr DType kDTypeOf = T::is_no_element_of_a_tensor;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::kUInt8;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;

/// A dense row-major tensor that shares its bytes: a copy copies a pointer. Immutable once
/// published. `data` points into the buffer that `owner` keeps alive.
struct SharedTensor {
  DType dtype = DType::kUInt8;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;

  std::int64_t elements() const;
  std::int64_t size_bytes() const { return elements() * dtype_size(dtype); }
  std::span<const std::byte> bytes() const {
    return {data, static_cast<std::size_t>(size_bytes())};
  }
  /// Returns a typed view. Throws isocost::Exception (kInvalidArgument) unless T is the C++ type of
  /// `dtype`.
  template <typename T>
  std::span<const T> as() const {
    if (kDTypeOf<T> != dtype) throw_other_dtype(kDTypeOf<T>);
    return {reinterpret_cast<const T*>(data), static_cast<std::size_t>(elements())};
  }

 private:
  [[noreturn]] void throw_other_dtype(DType asked) const;
};

/// A tensor with its name, "<module>.<tensor>"; see base/tensor_schema.h.
struct NamedTensor {
  std::string name;
  SharedTensor tensor;
};

/// Publishes a filled buffer as a tensor. Errors: kInvalidArgument if the buffer's size is not that
/// of the shape, or a dimension is negative.
Result<SharedTensor> make_tensor(Buffer&& buffer, DType dtype, std::vector<std::int64_t> shape);

}  // namespace isocost
