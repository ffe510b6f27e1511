#include "trainer_adapter/torch/loader.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/tensor_schema.h"

namespace isocost {
namespace {

constexpr std::string_view kLabels = tensor_entry(Module::kLlm, TensorRole::kLabels).name;
constexpr std::string_view kLossWeights = tensor_entry(Module::kLlm, TensorRole::kLossWeights).name;

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

std::unique_ptr<DeviceCopies> copies_to(at::Device device) {
  return device.is_cpu() ? nullptr : std::make_unique<DeviceCopies>(device);
}

void move_to_device(TorchMicrobatch& microbatch, DeviceCopies& copies,
                    const std::function<bool()>& pin) {
  std::vector<at::Tensor> sources;
  sources.reserve(microbatch.tensors.size());
  for (auto& [name, tensor] : microbatch.tensors) sources.push_back(std::move(tensor));
  std::vector<at::Tensor> moved = copies.copy(std::move(sources), pin);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    microbatch.tensors[i].second = std::move(moved[i]);
  }
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

at::Tensor TorchMicrobatch::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.first == name; });
  return found == tensors.end() ? at::Tensor() : found->second;
}

TorchMicrobatch to_torch(const Microbatch& microbatch) {
  TorchMicrobatch result{microbatch.header, {}, microbatch.waited};
  result.tensors.reserve(microbatch.tensors.size());
  for (const NamedTensor& named : microbatch.tensors) {
    result.tensors.emplace_back(named.name, to_torch(named.tensor));
  }
  return result;
}

at::Tensor token_loss(const at::Tensor& logits, const TorchMicrobatch& microbatch) {
  const at::Tensor labels = microbatch.find(kLabels);
  const at::Tensor weights = microbatch.find(kLossWeights);
  TORCH_CHECK(labels.defined() && weights.defined(), "a microbatch without ", kLabels);
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

Result<TorchLoader> TorchLoader::connect(const ClientOptions& options, at::Device device) {
  // Made before a rank is taken, because it may throw.
  std::unique_ptr<DeviceCopies> copies;
  try {
    copies = copies_to(device);
  } catch (const c10::Error& error) {
    return Error(ErrorCode::kUnsupported,
                 "cannot copy to device " + device.str() + ": " + error.what_without_backtrace());
  }
  ISOCOST_ASSIGN(std::unique_ptr<Client> client, Client::connect(options));
  return TorchLoader(std::move(client), std::move(copies));
}

TorchLoader::TorchLoader(std::unique_ptr<Client> client, at::Device device)
    : TorchLoader(std::move(client), copies_to(device)) {}

TorchLoader::TorchLoader(std::unique_ptr<Client> client, std::unique_ptr<DeviceCopies> copies)
    : client_(std::move(client)), copies_(std::move(copies)) {}

Result<std::optional<TorchMicrobatch>> TorchLoader::next(const std::stop_token& stop) {
  if (!taken_) {
    ISOCOST_ASSIGN(taken_, client_->next(stop));
  }
  if (!taken_) return std::optional<TorchMicrobatch>();
  TorchMicrobatch microbatch = to_torch(*taken_);
  if (copies_) move_to_device(microbatch, *copies_, taken_->pin);
  taken_.reset();
  return std::optional<TorchMicrobatch>(std::move(microbatch));
}

Status TorchLoader::report(const TorchMicrobatch& microbatch,
                           const std::array<double, kModules>& seconds, double forward_s) {
  Report report{microbatch.header.position, seconds};
  report.forward_s = forward_s;
  return client_->report(report);
}

}  // namespace isocost
