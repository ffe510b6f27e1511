// Two epochs from two nodes that deliver the same microbatches: one to the host, one to a CUDA
// device by a TorchLoader. Every tensor must be the same, and the time until a microbatch is on the
// device is printed.
//
//   torch_loader HOST_ENDPOINT DEVICE_ENDPOINT
//
// Exit status: 1 if something differs or fails, with the reason.

#include <ATen/ATen.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "base/result.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/torch/torch_loader.h"

namespace isocost {
namespace {

TorchLoader connect(const std::string& endpoint, at::Device device) {
  LoaderOptions options;
  options.endpoint = endpoint;
  options.world_size = 1;
  options.device = device;
  return TorchLoader(options);
}

/// Returns what differs first, or nothing.
std::optional<std::string> difference(const TorchMicrobatch& host, const TorchMicrobatch& device) {
  if (host.tensors.size() != device.tensors.size()) return "number of tensors";
  for (const auto& [name, tensor] : host.tensors) {
    const auto there = device.find(name);
    if (!there || !there->is_cuda()) return name + " is not on the device";
    if (!at::equal(tensor, there->cpu())) return name + " has other values";
  }
  return std::nullopt;
}

void wait_for_device(at::Device device) {
  const c10::impl::VirtualGuardImpl backend(device.type());
  backend.getStream(device).synchronize();
}

Status compare(const std::string& host_endpoint, const std::string& device_endpoint) {
  const at::Device cuda(at::kCUDA, 0);
  TorchLoader host = connect(host_endpoint, at::kCPU);
  TorchLoader device = connect(device_endpoint, cuda);
  int microbatches = 0;
  double bytes = 0;
  std::chrono::nanoseconds copying{0};
  while (true) {
    const std::optional<TorchMicrobatch> expected = host.next();
    const auto begun = std::chrono::steady_clock::now();
    const std::optional<TorchMicrobatch> got = device.next();
    if (!expected || !got) {
      if (expected || got) return Error(ErrorCode::kInternal, "one epoch is longer");
      break;
    }
    wait_for_device(cuda);
    copying += std::chrono::steady_clock::now() - begun - got->waited;
    if (const auto what = difference(*expected, *got)) return Error(ErrorCode::kInternal, *what);
    for (const auto& [name, tensor] : expected->tensors)
      bytes += static_cast<double>(tensor.nbytes());
    ++microbatches;
  }
  host.close();
  device.close();
  if (microbatches == 0) return Error(ErrorCode::kInternal, "no microbatch came");
  std::printf(
      "ok     torch_loader: %d microbatches, %.1f MB, %.3f ms a microbatch from asking, "
      "without waiting for data, to tensors on the device\n",
      microbatches, bytes / 1e6,
      std::chrono::duration<double, std::milli>(copying).count() / microbatches);
  return {};
}

}  // namespace
}  // namespace isocost

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: torch_loader HOST_ENDPOINT DEVICE_ENDPOINT\n");
    return 2;
  }
  const isocost::Status status = isocost::compare(argv[1], argv[2]);
  if (!status) std::fprintf(stderr, "torch_loader: %s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
} catch (const std::exception& error) {  // what libtorch throws
  std::fprintf(stderr, "torch_loader: %s\n", error.what());
  return 1;
}
