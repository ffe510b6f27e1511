#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "trainer_adapter/client.h"
#include "transport/wire/messages.h"

namespace isocost {

/// Returns a view of the tensor's bytes as a libtorch tensor on the CPU, without a copy. It keeps
/// the bytes alive, so it may outlive the microbatch and the client. The bytes are shared: do not
/// write in place.
at::Tensor to_torch(const SharedTensor& tensor);

/// A microbatch with libtorch tensors, by the argument names of docs/cpp.md ("input_ids",
/// "vision_patches"), which are Python's. Value type; copies share tensors, and tensors share their
/// bytes with those of all copies, so do not write in place.
struct TorchMicrobatch {
  MicrobatchHeader header;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::chrono::nanoseconds waited{0};  ///< Time that `next` blocked for it.

  /// Returns the tensor of this name. Throws isocost::Exception (kInvalidArgument), with the names
  /// that are there, if this microbatch has none.
  at::Tensor operator[](std::string_view name) const;
  /// Returns the tensor; nothing if this microbatch has none of this name, for example no audio.
  /// Throws isocost::Exception (kInvalidArgument) for a name that no tensor has. Names on the wire
  /// ("llm.input_ids") are taken as well.
  std::optional<at::Tensor> find(std::string_view name) const;
  /// Returns whether this microbatch has the tensor. Throws as `find` does.
  bool contains(std::string_view name) const { return find(name).has_value(); }
  /// Returns a view of the rows of one sample, an index into header.samples, in the tensor of this
  /// name. Throws as `[]` does, and for a tensor without rows of samples, such as "cu_seqlens".
  at::Tensor rows(std::string_view name, std::size_t sample) const;

  /// Returns whether the optimizer is to step after this microbatch.
  bool last_of_step() const { return header.last_of_step(); }
  /// Returns whether this is the rank's last microbatch of the epoch.
  bool last_of_epoch() const { return header.last_of_epoch(); }
};

/// Returns a microbatch whose tensors view the bytes of the given one, without a copy.
TorchMicrobatch to_torch(const Microbatch& microbatch);

/// Returns the next-token loss of a microbatch: the sum over its label tokens of weight × cross
/// entropy, divided by the number of label tokens of the whole global batch. Summed over
/// microbatches and ranks it is the global batch's weighted mean, whatever the plan, so gradients
/// must be summed and not averaged. `logits` is [tokens, vocabulary], and the logits of a position
/// are compared with the next position's label; the result is a scalar of their dtype. Throws
/// c10::Error if the shapes disagree, as every libtorch function does.
at::Tensor token_loss(const at::Tensor& logits, const TorchMicrobatch& microbatch);

}  // namespace isocost
