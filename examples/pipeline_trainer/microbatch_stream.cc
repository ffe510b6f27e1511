#include "examples/pipeline_trainer/microbatch_stream.h"

#include <cstddef>
#include <set>
#include <utility>

#include "base/tensor_schema.h"
#include "transport/wire/wire.h"

namespace isocost {

Result<MicrobatchStream> MicrobatchStream::connect(const StreamOptions& options) {
  ClientOptions joining;
  joining.endpoint = options.endpoint;
  joining.rank = options.receiver;
  joining.world_size = options.receivers;
  joining.layout = options.layout;
  joining.start = options.start;
  joining.connect_timeout = options.timeout;
  joining.accept_other_data = options.start.cursor == 0;  // steps are counted from --start-step
  ISOCOST_ASSIGN(auto client, Client::connect(joining));
  MicrobatchStream stream(std::move(client), options.timeout);
  stream.cost_model_state_ = options.start.cost_model_state;
  return stream;
}

Result<std::optional<TorchMicrobatch>> MicrobatchStream::next() {
  const auto start = std::chrono::steady_clock::now();
  if (!client_->wait(timeout_)) {
    return Error(ErrorCode::kDeadlineExceeded,
                 "no microbatch from the node within " +
                     std::to_string(std::chrono::duration<double>(timeout_).count()) + " s");
  }
  ISOCOST_ASSIGN(const std::optional<Microbatch> received, client_->next());
  waited_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!received) return std::optional<TorchMicrobatch>();
  return std::optional<TorchMicrobatch>(to_torch(*received));
}

void MicrobatchStream::count(const TorchMicrobatch& microbatch) {
  const MicrobatchHeader& header = microbatch.header;
  if (!header.cost_model_state.empty()) cost_model_state_ = header.cost_model_state;
  for (const TensorSpec& spec : header.tensors) {
    const auto tensor = microbatch.find(argument_name(spec.name));
    if (tensor) tally_.tensor_bytes += static_cast<std::int64_t>(tensor->nbytes());
  }
  MicrobatchHeader without = header;
  without.routes.clear();
  tally_.routing_bytes += static_cast<std::int64_t>(encode(header).size() - encode(without).size());
  std::vector<bool> routed(header.samples.size(), false);
  std::set<std::pair<std::uint32_t, std::uint32_t>> joined;
  for (const Route& route : header.routes) {
    routed[route.sample] = true;
    joined.emplace(route.replica, route.microbatch);
  }
  if (joined.size() > 1) ++tally_.decoupled;
  for (std::size_t i = 0; i < header.samples.size(); ++i) {
    if (header.samples[i].weight <= 0) continue;
    tally_.samples.emplace_back(header.position.step, header.samples[i].id);
    if (routed[i]) tally_.with_routes.push_back(tally_.samples.back());
  }
}

Result<const MicrobatchHeader*> MicrobatchStream::peek() {
  if (!ahead_) {
    ISOCOST_ASSIGN(ahead_, next());
    if (!ahead_) return Error(ErrorCode::kNotFound, "the node has no more microbatches");
    count(*ahead_);
  }
  return &ahead_->header;
}

Result<TorchMicrobatch> MicrobatchStream::take() {
  ISOCOST_TRY(peek());
  TorchMicrobatch microbatch = *std::move(ahead_);
  ahead_.reset();
  return microbatch;
}

Status MicrobatchStream::report(const TorchMicrobatch& microbatch,
                                const std::array<double, kModules>& seconds, double forward_s) {
  Report report{microbatch.header.position, seconds};
  report.forward_s = forward_s;
  return client_->report(report);
}

Result<std::uint64_t> MicrobatchStream::finish() {
  ISOCOST_ASSIGN(const std::optional<TorchMicrobatch> more, next());
  if (more) return Error(ErrorCode::kInternal, "the node has microbatches beyond the last step");
  const std::uint64_t planned = client_->epoch_end()->planned;
  client_->close();
  return planned;
}

double MicrobatchStream::waited_s() { return std::exchange(waited_s_, 0); }

}  // namespace isocost
