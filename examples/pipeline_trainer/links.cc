#include "examples/pipeline_trainer/links.h"

#include <exception>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "balancer/layout/place.h"

namespace isocost {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

constexpr int kMicrobatchBits = 15;
constexpr std::uint32_t kMostMicrobatches = 1U << kMicrobatchBits;

Group make_group(const c10::intrusive_ptr<c10d::Store>& store, std::size_t rank, std::size_t size,
                 std::chrono::milliseconds timeout) {
  auto gloo = c10d::ProcessGroupGloo::Options::create();
  gloo->timeout = timeout;
  gloo->threads = 1;
  // All processes are on this host; on several, name the interface that joins them here.
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank),
                                                     static_cast<int>(size), gloo);
}

// The first line of the message, without the C++ stack that libtorch adds.
std::string reason(const std::exception& error) {
  const auto* ours = dynamic_cast<const c10::Error*>(&error);
  const std::string text = ours != nullptr ? ours->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

// Receivers of the replicas of one stage, ordered by data index.
std::vector<std::size_t> replicas_of(const Layout& layout, std::size_t receiver) {
  const Place here = place_of_receiver(layout, receiver);
  std::vector<std::size_t> replicas;
  for (std::size_t other = 0; other < receivers(layout); ++other) {
    const Place place = place_of_receiver(layout, other);
    if (place.module == here.module && place.stage == here.stage) replicas.push_back(other);
  }
  return replicas;
}

}  // namespace

struct Links::State {
  LinksOptions options;
  Group all;
  Group replicas;  ///< Null if there is one replica.
  std::vector<std::pair<std::size_t, c10::intrusive_ptr<c10d::Work>>> sent;  ///< Receiver and work.

  std::string name(std::size_t receiver) const {
    return place_of_receiver(options.layout, receiver).to_string();
  }

  static Result<int> tag(const Subject& subject) {
    if (subject.sender_microbatch >= kMostMicrobatches ||
        subject.receiver_microbatch >= kMostMicrobatches) {
      return Error(ErrorCode::kUnsupported,
                   "more than " + std::to_string(kMostMicrobatches) + " microbatches in a step");
    }
    return static_cast<int>(subject.sender_microbatch << kMicrobatchBits |
                            subject.receiver_microbatch);
  }
};

Links::Links(std::unique_ptr<State> state) : state_(std::move(state)) {}
Links::~Links() = default;

Result<std::unique_ptr<Links>> Links::connect(const LinksOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  const std::vector<std::size_t> replicas = replicas_of(options.layout, options.receiver);
  const Place here = place_of_receiver(options.layout, options.receiver);
  try {
    const auto file = c10::make_intrusive<c10d::FileStore>(
        options.store.string(), static_cast<int>(receivers(options.layout)));
    file->setTimeout(options.timeout);
    state->all = make_group(c10::make_intrusive<c10d::PrefixStore>("all", file), options.receiver,
                            receivers(options.layout), options.timeout);
    if (replicas.size() > 1) {
      const auto store = c10::make_intrusive<c10d::PrefixStore>(
          "replicas-of-" + std::to_string(replicas.front()), file);
      state->replicas = make_group(store, here.data, replicas.size(), options.timeout);
    }
  } catch (const std::exception& error) {
    return Error(ErrorCode::kUnavailable, "connecting to the other processes: " + reason(error));
  }
  return std::unique_ptr<Links>(new Links(std::move(state)));
}

Status Links::send(const torch::Tensor& tensor, std::size_t to, const Subject& subject) {
  ISOCOST_ASSIGN(const int tag, State::tag(subject));
  std::vector<at::Tensor> message{tensor.contiguous()};
  try {
    state_->sent.emplace_back(to, state_->all->send(message, static_cast<int>(to), tag));
  } catch (const std::exception& error) {
    return Error(ErrorCode::kUnavailable, "sending to " + state_->name(to) + ": " + reason(error));
  }
  return {};
}

Result<torch::Tensor> Links::receive(at::IntArrayRef shape, torch::Dtype dtype, std::size_t from,
                                     const Subject& subject) {
  ISOCOST_ASSIGN(const int tag, State::tag(subject));
  std::vector<at::Tensor> message{torch::empty(shape, dtype)};
  try {
    state_->all->recv(message, static_cast<int>(from), tag)->wait(state_->options.timeout);
  } catch (const std::exception& error) {
    return Error(ErrorCode::kUnavailable,
                 "waiting for " + state_->name(from) + ": " + reason(error));
  }
  return message.front();
}

Status Links::settle() {
  for (const auto& [to, work] : state_->sent) {
    try {
      work->wait(state_->options.timeout);
    } catch (const std::exception& error) {
      return Error(ErrorCode::kUnavailable,
                   "sending to " + state_->name(to) + ": " + reason(error));
    }
  }
  state_->sent.clear();
  return {};
}

Status Links::sum(torch::Tensor& values) {
  if (!state_->replicas) return {};
  std::vector<at::Tensor> bucket{values};
  try {
    state_->replicas->allreduce(bucket)->wait();
  } catch (const std::exception& error) {
    return Error(ErrorCode::kUnavailable,
                 "summing gradients over the replicas of this stage: " + reason(error));
  }
  return {};
}

}  // namespace isocost
