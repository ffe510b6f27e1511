#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace isocost {

struct PeersOptions {
  std::int32_t rank = 0;
  std::int32_t world_size = 1;
  /// How ranks find each other: a file that all of them see, or HOST:PORT, where rank 0 listens.
  std::string store;
  /// Every call throws after it has waited this long for another rank.
  std::chrono::milliseconds timeout{120'000};
};

/// Communication between the data-parallel ranks of a training run, over gloo. Single-thread.
/// Throws the exceptions of c10d.
class Peers {
 public:
  explicit Peers(const PeersOptions& options);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Blocks until every rank has called it.
  void barrier();
  /// Replaces the tensor's values by their sum over the ranks. Blocks until every rank has called
  /// it.
  void sum(torch::Tensor& values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isocost
