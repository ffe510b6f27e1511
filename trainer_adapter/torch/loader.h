#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/load.h"
#include "base/result.h"
#include "base/tensor.h"
#include "base/units.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/torch/device_copies.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Returns a view of the tensor's bytes as a libtorch tensor on the CPU, without a copy. It keeps
/// the bytes alive, so it may outlive the microbatch and the client. The bytes are shared: do not
/// write in place.
at::Tensor to_torch(const SharedTensor& tensor);

/// A microbatch with libtorch tensors, by the names of base/tensor_schema.h. Value type; copies
/// share tensors.
struct TorchMicrobatch {
  MicrobatchHeader header;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::chrono::nanoseconds waited{0};  ///< Time that `next` blocked for it.

  /// Returns the tensor; an undefined one if this microbatch has none of this name, for example no
  /// audio.
  at::Tensor find(std::string_view name) const;
};

TorchMicrobatch to_torch(const Microbatch& microbatch);

/// Returns the next-token loss of a microbatch: the sum over its label tokens of weight × cross
/// entropy, divided by the number of label tokens of the whole global batch. Summed over
/// microbatches and ranks it is the global batch's weighted mean, whatever the plan, so gradients
/// must be summed and not averaged. `logits` is [tokens, vocabulary], and the logits of a position
/// are compared with the next position's label; the result is a scalar of their dtype. Throws
/// c10::Error if the shapes disagree, as every libtorch function does.
at::Tensor token_loss(const at::Tensor& logits, const TorchMicrobatch& microbatch);

/// A Client with libtorch tensors: one rank's microbatches, in place of a DataLoader.
///
///   ISOCOST_ASSIGN(TorchLoader loader, TorchLoader::connect(options));
///   while (true) {
///     ISOCOST_ASSIGN(std::optional<TorchMicrobatch> microbatch, loader.next(stop));
///     if (!microbatch) break;  // end of epoch
///     OwnWork work;  // trainer_adapter/own_work.h
///     token_loss(model(*microbatch), *microbatch).backward();
///     work.add(Module::kLlm);
///     ISOCOST_TRY(loader.report(*microbatch, work.seconds()));
///     if (microbatch->header.last_of_step()) { /* all-reduce (sum), optimizer step */ }
///   }
///
/// For a device other than the CPU, microbatches are copied there while it computes: from shared
/// memory directly, which is registered with the CUDA runtime for that. Wait for the device before
/// measured seconds are taken (own_work.h).
///
/// Blocking, errors and threads as for Client. Move-only.
class TorchLoader {
 public:
  /// Connects. Errors: kUnsupported for a device that libtorch cannot use, before a rank is taken;
  /// those of Client::connect.
  static Result<TorchLoader> connect(const ClientOptions& options, at::Device device = at::kCPU);
  /// Takes a connected client, for example of a replica group (trainer_adapter/replicas.h). Throws
  /// c10::Error for a device that libtorch cannot use.
  explicit TorchLoader(std::unique_ptr<Client> client, at::Device device = at::kCPU);

  /// Returns what Client::next does, with the tensors on the device; the device's current stream
  /// waits for them. Throws c10::Error where they cannot be copied there, for example for lack of
  /// memory; the next call then tries the same microbatch again.
  Result<std::optional<TorchMicrobatch>> next(const std::stop_token& stop);

  /// Sends the measured seconds of each module, forward and backward, and the forward seconds among
  /// them over all modules; kNotMeasured where there are none. They must not contain waiting for
  /// other ranks: OwnWork leaves it out.
  Status report(const TorchMicrobatch& microbatch, const std::array<double, kModules>& seconds,
                double forward_s = kNotMeasured);

  Client& client() { return *client_; }

 private:
  TorchLoader(std::unique_ptr<Client> client, std::unique_ptr<DeviceCopies> copies);

  std::unique_ptr<Client> client_;
  std::unique_ptr<DeviceCopies> copies_;  // null for the CPU
  std::optional<Microbatch> taken_;       // received from the client, and not returned yet
};

}  // namespace isocost
