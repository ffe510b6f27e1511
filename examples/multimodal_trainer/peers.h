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
  std::string
      store;  ///< Where ranks meet: a file that all of them see, or HOST:PORT (rank 0 listens).
  std::chrono::milliseconds timeout{120'000};  ///< A silent peer ends every call after this.
};

/// The data-parallel ranks of one training run, over gloo. Single-thread; throws what c10d throws.
class Peers {
 public:
  explicit Peers(const PeersOptions& options);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// Waits until every rank is here.
  void meet();
  /// Replaces the tensor's values by their sum over the ranks.
  void sum(torch::Tensor& values);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isocost
