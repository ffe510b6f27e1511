// The node of bench/loader/handover_bench.py: sends microbatches of which the last sample says when
// it was sent. It is small, so that this is when the block is complete, or the last frame leaves.
// The header goes out some time before, as that of a microbatch whose samples are being decoded.
//
//   handover_node BYTES MICROBATCHES on|off MILLISECONDS
//
// Prints its endpoint, and ends with its standard input. `on`: in shared memory. MILLISECONDS: from
// a header to its last sample, whatever the size, so that the trainer waits for as long. Copying
// may take longer. 0: each is sent as soon as the trainer has room for it.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "transport/zmq/server.h"

namespace {

using isocost::DType;

using Clock = std::chrono::steady_clock;

isocost::SharedTensor tensor(isocost::BufferPool& pool, DType dtype,
                             std::vector<std::int64_t> shape, std::int64_t bytes,
                             const void* from) {
  isocost::Buffer buffer = pool.allocate(bytes);
  if (from != nullptr) std::memcpy(buffer.data(), from, static_cast<std::size_t>(bytes));
  if (from == nullptr) std::memset(buffer.data(), 'x', static_cast<std::size_t>(bytes));
  return isocost::make_tensor(std::move(buffer), dtype, std::move(shape)).value();
}

class Node {
 public:
  Node(std::int64_t bytes, std::uint32_t microbatches, bool shared, std::chrono::milliseconds until)
      : bytes_(bytes),
        microbatches_(microbatches),
        until_(until),
        large_(tensor(pool_, DType::kUInt8, {1, bytes}, bytes, nullptr)) {
    isocost::ServerOptions options;
    options.bind = "tcp://127.0.0.1:*";
    if (shared) {
      options.reserve_block = [](std::int64_t) { return std::make_shared<const int>(0); };
    }
    server_ = isocost::Server::create(
                  options, [](const auto&) { return isocost::Welcome{}; },
                  [this](const isocost::ClientEvent& event) { on_event(event); }, {})
                  .value();
    std::puts(server_->endpoint().c_str());
    std::fflush(stdout);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      for (std::uint32_t step = 0; step < microbatches_ && wait(stop); ++step) send(step);
    });
  }

 private:
  void on_event(const isocost::ClientEvent& event) {
    // A trainer acknowledges the last microbatch when it begins to wait for the next.
    const bool waits = std::holds_alternative<isocost::Acknowledged>(event);
    const auto* room = std::get_if<isocost::CreditGranted>(&event);
    const isocost::MutexLock lock(mutex_);
    if (until_ == until_.zero()) {
      if (room != nullptr) wanted_ += room->microbatches;
    } else if (waits || (room != nullptr && !has_begun_)) {
      has_begun_ = true;
      wanted_ += 1;
    }
    changed_.notify_one();
  }

  // Returns false when it is stopped.
  bool wait(const std::stop_token& stop) {
    const isocost::MutexLock lock(mutex_);
    if (!changed_.wait(mutex_, stop, [this]() ISOCOST_REQUIRES(mutex_) { return wanted_ > 0; })) {
      return false;
    }
    wanted_ -= 1;
    return true;
  }

  void send(std::uint32_t step) {
    isocost::MicrobatchHeader header;
    header.position = {0, step, 0};
    header.samples = {{1, 1.0F, 1}, {2, 1.0F, 1}};
    header.tensors = {{"vision.patches", DType::kUInt8, {1, bytes_}},
                      {"llm.position_ids", DType::kInt64, {1}}};
    header.rows = {1, 0, 0, 1};
    server_->begin(0, header);
    std::this_thread::sleep_for(until_ - copying_);
    const auto decoded = Clock::now();
    server_->fragment(0, {header.position, 0, {{"vision.patches", large_}}}, nullptr);
    copying_ = Clock::now() - decoded;
    const std::int64_t now = Clock::now().time_since_epoch().count();
    server_->fragment(
        0,
        {header.position,
         1,
         {{"llm.position_ids", tensor(pool_, DType::kInt64, {1}, sizeof(now), &now)}}},
        nullptr);
    if (step + 1 == microbatches_) server_->epoch_end(0, {0, microbatches_, 0, 0, 0, true});
  }

  const std::int64_t bytes_;
  const std::uint32_t microbatches_;
  const std::chrono::milliseconds until_;
  Clock::duration copying_{0};  // of the last microbatch
  isocost::BufferPool pool_;
  const isocost::SharedTensor large_;
  isocost::Mutex mutex_;
  isocost::ConditionVariable changed_;
  bool has_begun_ ISOCOST_GUARDED_BY(mutex_) = false;
  std::uint32_t wanted_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<isocost::Server> server_;
  std::jthread thread_;  // last: joined first
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const Node node(std::atoll(arguments[1]), static_cast<std::uint32_t>(std::atoi(arguments[2])),
                  std::string(arguments[3]) == "on",
                  std::chrono::milliseconds(std::atoi(arguments[4])));
  while (std::getchar() != EOF) {
  }
}
