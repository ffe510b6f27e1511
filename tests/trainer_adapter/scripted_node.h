#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "transport/zmq/server.h"

namespace isocost {

/// A node with a script instead of media: `steps` steps of one microbatch a rank with two samples,
/// whose bytes follow from their ids. It sends as credit allows, resends from what a client says it
/// holds, and keeps count of everything, so that tests may look.
class ScriptedNode {
 public:
  /// `offer`: the shared memory that clients are offered if the options share none.
  ScriptedNode(const ServerOptions& options, std::uint32_t steps, std::int64_t sample_bytes,
               std::int32_t ranks = 1, const SharedMemoryOffer& offer = {});

  const std::string& endpoint() const { return server_->endpoint(); }
  std::uint16_t port() const;
  Server& server() { return *server_; }

  /// Waits until `holds` is true of the counts, at most 10 s; false then.
  struct Counts {
    std::map<std::int32_t, int> joined;
    std::map<std::int32_t, int> rejoined_as_same;
    std::map<std::int32_t, int> left;
    std::map<std::int32_t, int> finished;
    std::map<std::int32_t, std::uint32_t> sent;
    std::map<std::int32_t, std::uint32_t> credit;
    std::map<std::int32_t, std::vector<Position>> acknowledged;
    std::vector<Report> reports;
    std::uint32_t most_in_flight = 0;  ///< Sent and not yet acknowledged, of any rank.
  };
  bool wait(const std::function<bool(const Counts&)>& holds) ISOCOST_EXCLUDES(mutex_);
  Counts counts() ISOCOST_EXCLUDES(mutex_);
  std::int64_t bytes_held() const { return pool_->bytes_in_use(); }

  /// The tensor bytes of sample `id`.
  static std::vector<std::uint8_t> content(std::uint64_t id, std::int64_t size);

 private:
  void on_event(const ClientEvent& event) ISOCOST_EXCLUDES(mutex_);
  void send_more(std::int32_t rank) ISOCOST_REQUIRES(mutex_);
  void send_step(std::int32_t rank, std::uint32_t step) ISOCOST_REQUIRES(mutex_);

  const std::uint32_t steps_;
  const std::int64_t sample_bytes_;
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(0);
  Mutex mutex_;
  ConditionVariable changed_;
  Counts counts_ ISOCOST_GUARDED_BY(mutex_);
  std::map<std::int32_t, std::uint32_t> next_ ISOCOST_GUARDED_BY(mutex_);
  std::map<std::int32_t, bool> ended_ ISOCOST_GUARDED_BY(mutex_);
  std::map<std::int32_t, std::uint64_t> session_ ISOCOST_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
};

}  // namespace isocost
