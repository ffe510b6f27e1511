#include "tests/trainer_adapter/scripted_node.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/support/admit_ranks.h"

namespace isocost {

ScriptedNode::ScriptedNode(const ServerOptions& options, std::uint32_t steps,
                           std::int64_t sample_bytes, std::int32_t ranks,
                           const SharedMemoryOffer& offer)
    : steps_(steps), sample_bytes_(sample_bytes) {
  const MutexLock lock(mutex_);  // events wait until the server is there
  Welcome welcome;
  welcome.ranks = ranks;
  welcome.shared_memory = offer;
  auto server = Server::create(options, admit_ranks(welcome),
                               [this](const ClientEvent& event) { on_event(event); }, {});
  if (!server) throw std::runtime_error(server.error().message());
  server_ = *std::move(server);
}

std::uint16_t ScriptedNode::port() const {
  return static_cast<std::uint16_t>(std::stoi(endpoint().substr(endpoint().rfind(':') + 1)));
}

bool ScriptedNode::wait(const std::function<bool(const Counts&)>& holds) {
  const MutexLock lock(mutex_);
  return changed_.wait_for(mutex_, std::chrono::seconds(10),
                           [&]() ISOCOST_REQUIRES(mutex_) { return holds(counts_); });
}

ScriptedNode::Counts ScriptedNode::counts() {
  const MutexLock lock(mutex_);
  return counts_;
}

std::vector<std::uint8_t> ScriptedNode::content(std::uint64_t id, std::int64_t size) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(id * 31 + i * 7);
  }
  return bytes;
}

void ScriptedNode::on_event(const ClientEvent& event) {
  const MutexLock lock(mutex_);
  if (const auto* joined = std::get_if<ClientJoined>(&event)) {
    counts_.joined[joined->rank] += 1;
    counts_.rejoined_as_same[joined->rank] += joined->same_client ? 1 : 0;
    counts_.credit[joined->rank] = 0;
    session_[joined->rank] = joined->session;
    const auto& done = counts_.acknowledged[joined->rank];
    std::uint32_t next = done.empty() ? 0 : done.back().step + 1;
    if (joined->received) next = std::max(next, joined->received->step + 1);
    next_[joined->rank] = next;
    ended_[joined->rank] = false;
  } else if (const auto* left = std::get_if<ClientLeft>(&event)) {
    counts_.left[left->rank] += 1;
    counts_.finished[left->rank] += left->finished ? 1 : 0;
  } else if (const auto* credit = std::get_if<CreditGranted>(&event)) {
    counts_.credit[credit->rank] += credit->microbatches;
    send_more(credit->rank);
  } else if (const auto* done = std::get_if<Acknowledged>(&event)) {
    counts_.acknowledged[done->rank].push_back(done->position);
  } else if (const auto* reported = std::get_if<Reported>(&event)) {
    counts_.reports.push_back(reported->report);
  }
  changed_.notify_all();
}

void ScriptedNode::send_more(std::int32_t rank) {
  while (counts_.credit[rank] > 0 && next_[rank] < steps_) {
    send_step(rank, next_[rank]++);
    counts_.credit[rank] -= 1;
    counts_.sent[rank] += 1;
    const auto acknowledged = static_cast<std::uint32_t>(counts_.acknowledged[rank].size());
    counts_.most_in_flight = std::max(counts_.most_in_flight, counts_.sent[rank] - acknowledged);
  }
  if (next_[rank] == steps_ && !ended_[rank]) {
    ended_[rank] = true;
    server_->epoch_end(rank, {0, steps_, 2ULL * steps_, 0, 0, true}, session_[rank]);
  }
}

void ScriptedNode::send_step(std::int32_t rank, std::uint32_t step) {
  constexpr std::uint32_t kSamples = 2;
  MicrobatchHeader header;
  header.position = {0, step, 0};
  header.tensors = {{"vision.patches", DType::kUInt8, {kSamples, sample_bytes_}}};
  header.rows = {1, 1};
  for (std::uint32_t i = 0; i < kSamples; ++i) header.samples.push_back({step * 10 + i, 1.0F, 1});
  server_->begin(rank, header, session_[rank]);
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    Buffer buffer = pool_->allocate(sample_bytes_);
    const auto bytes = content(header.samples[i].id, sample_bytes_);
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    auto tensor = make_tensor(std::move(buffer), DType::kUInt8, {1, sample_bytes_}).value();
    server_->fragment(rank, {header.position, i, {{"vision.patches", tensor}}}, nullptr,
                      session_[rank]);
  }
}

}  // namespace isocost
