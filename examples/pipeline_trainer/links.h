#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "balancer/layout/layout.h"
#include "base/result.h"

namespace isocost {

struct LinksOptions {
  Layout layout;
  std::size_t receiver = 0;
  std::filesystem::path store;  ///< A file, of this run alone, by which processes meet.
  std::chrono::milliseconds timeout{60'000};
};

/// What a message between two processes is about; with the direction it names one message of a
/// step.
struct Subject {
  std::uint32_t sender_microbatch = 0;
  std::uint32_t receiver_microbatch = 0;
};

/// The processes of a pipeline, over gloo: tensors from one to another, matched by subject and so
/// in any order, and sums over the replicas of a stage. Single-thread. All errors are kUnavailable
/// and name the process that was waited for: it has ended, or was silent for the time-out.
class Links {
 public:
  static Result<std::unique_ptr<Links>> connect(const LinksOptions& options);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Returns at once; the tensor is kept until `settle`, and must not be written before.
  Status send(const torch::Tensor& tensor, std::size_t to, const Subject& subject);
  /// Fills a tensor of this shape with what `from` sends.
  Result<torch::Tensor> receive(at::IntArrayRef shape, torch::Dtype dtype, std::size_t from,
                                const Subject& subject);
  /// Waits until all that was sent has arrived: once a step, so that subjects name messages of one
  /// step only.
  Status settle();
  /// Replaces the values by their sum over the replicas of this stage.
  Status sum(torch::Tensor& values);

 private:
  struct State;
  explicit Links(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace isocost
