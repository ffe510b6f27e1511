#include "examples/multimodal_trainer/peers.h"

#include <charconv>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

namespace isocost {
namespace {

c10::intrusive_ptr<c10d::Store> open_store(const PeersOptions& options) {
  const std::size_t colon = options.store.rfind(':');
  std::uint16_t port = 0;
  const char* end = options.store.data() + options.store.size();
  const bool is_address = colon != std::string::npos &&
                          std::from_chars(options.store.data() + colon + 1, end, port).ptr == end &&
                          port != 0;
  if (!is_address) {
    return c10::make_intrusive<c10d::FileStore>(options.store, options.world_size);
  }
  c10d::TCPStoreOptions tcp;
  tcp.port = port;
  tcp.isServer = options.rank == 0;
  tcp.numWorkers = static_cast<std::size_t>(options.world_size);
  tcp.timeout = options.timeout;
  return c10::make_intrusive<c10d::TCPStore>(options.store.substr(0, colon), tcp);
}

}  // namespace

struct Peers::State {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
};

Peers::Peers(const PeersOptions& options) : state_(std::make_unique<State>()) {
  const auto store = open_store(options);
  store->setTimeout(options.timeout);
  auto gloo = c10d::ProcessGroupGloo::Options::create();
  gloo->timeout = options.timeout;
  // Example ranks share a host; on several, name the interface that joins them here.
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  state_->group =
      c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.world_size, gloo);
}

Peers::~Peers() = default;

void Peers::barrier() { state_->group->barrier()->wait(); }

void Peers::sum(torch::Tensor& values) {
  std::vector<torch::Tensor> bucket{values};
  state_->group->allreduce(bucket)->wait();
}

}  // namespace isocost
