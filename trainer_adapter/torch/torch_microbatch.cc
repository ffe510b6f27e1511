#include "trainer_adapter/torch/torch_microbatch.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdint>

#include "base/load.h"
#include "base/result.h"
#include "base/tensor_schema.h"
#include "trainer_adapter/sample_rows.h"

namespace isocost {
namespace {

constexpr std::string_view kLabels = "labels";
constexpr std::string_view kLossWeights = "loss_weights";

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return at::kByte;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kFloat32:
      return at::kFloat;
  }
  TORCH_CHECK(false, "unknown dtype ", static_cast<int>(dtype));
}

}  // namespace

at::Tensor to_torch(const SharedTensor& tensor) {
  // libtorch has no read-only tensors; the header asks callers not to write.
  auto* data =
      const_cast<std::byte*>(tensor.data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return at::from_blob(
      data, tensor.shape, [owner = tensor.owner](void*) mutable { owner.reset(); },
      at::TensorOptions().dtype(scalar_type(tensor.dtype)));
}

std::optional<at::Tensor> TorchMicrobatch::find(std::string_view name) const {
  for (const auto& [present, tensor] : tensors) {
    if (present == name) return tensor;
  }
  check_tensor_name(name);
  const std::string argument = argument_name(name);
  if (argument == name) return std::nullopt;
  return find(argument);
}

at::Tensor TorchMicrobatch::operator[](std::string_view name) const {
  if (auto tensor = find(name)) return *std::move(tensor);
  std::string names;
  for (const auto& [present, unused] : tensors) names += (names.empty() ? "" : ", ") + present;
  throw_exception(Error(ErrorCode::kInvalidArgument,
                        "this microbatch has no \"" + std::string(name) + "\"; it has " +
                            (names.empty() ? "none" : names) + ". Ask contains() first"));
}

at::Tensor TorchMicrobatch::rows(std::string_view name, std::size_t sample) const {
  const SampleRows rows = sample_rows(header, name, sample);
  return (*this)[name].narrow(0, rows.first, rows.count);
}

TorchMicrobatch to_torch(const Microbatch& microbatch) {
  TorchMicrobatch result{microbatch.header, {}, microbatch.waited};
  result.tensors.reserve(microbatch.tensors.size());
  for (const NamedTensor& named : microbatch.tensors) {
    result.tensors.emplace_back(argument_name(named.name), to_torch(named.tensor));
  }
  return result;
}

at::Tensor token_loss(const at::Tensor& logits, const TorchMicrobatch& microbatch) {
  const at::Tensor labels = microbatch[kLabels];
  const at::Tensor weights = microbatch[kLossWeights];
  // Labels are moved rather than logits, whose rows have a value for each token of the vocabulary.
  const std::int64_t last = std::min<std::int64_t>(1, labels.size(0));
  const at::Tensor next = at::constant_pad_nd(labels.slice(0, 1), {0, last}, kIgnoredLabel);
  const at::Tensor next_weights = at::constant_pad_nd(weights.slice(0, 1), {0, last});
  const at::Tensor losses =
      at::cross_entropy_loss(logits, next, /*weight=*/{}, at::Reduction::None, kIgnoredLabel);
  // A global batch of unlabelled samples has a loss of 0, not 0/0.
  const auto count = std::max<std::uint64_t>(1, microbatch.header.global_label_tokens);
  return (losses * next_weights.to(losses.dtype())).sum() / static_cast<double>(count);
}

}  // namespace isocost
