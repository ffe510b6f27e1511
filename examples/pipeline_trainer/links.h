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
  std::filesystem::path store;  ///< A file by which the processes of this run find each other.
  std::chrono::milliseconds timeout{60'000};
};

/// The microbatches that a message between two processes belongs to. Together with the direction
/// they identify one message of a step.
struct Subject {
  std::uint32_t sender_microbatch = 0;
  std::uint32_t receiver_microbatch = 0;
};

/// Communication between the processes of a pipeline, over gloo: tensors from one process to
/// another, which are matched by subject and may arrive in any order, and sums over the replicas of
/// a stage. Single-thread. All errors are kUnavailable and name the process that has ended or did
/// not answer within the time-out.
class Links {
 public:
  static Result<std::unique_ptr<Links>> connect(const LinksOptions& options);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Returns without waiting. The tensor is kept until `settle` and must not be changed before.
  Status send(const torch::Tensor& tensor, std::size_t to, const Subject& subject);
  /// Blocks until `from` has sent a tensor of this shape, and returns it.
  Result<torch::Tensor> receive(at::IntArrayRef shape, torch::Dtype dtype, std::size_t from,
                                const Subject& subject);
  /// Blocks until everything that was sent has arrived. Call it once per step, since subjects are
  /// unique within a step only.
  Status settle();
  /// Replaces the values by their sum over the replicas of this stage. Blocks until all have
  /// called.
  Status sum(torch::Tensor& values);

 private:
  struct State;
  explicit Links(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace isocost
