#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/zmq/server.h"

namespace isocost {

/// Notes what would be sent, as "begin 0:0.1.2" (rank, epoch, step, microbatch), and calls back.
class RecordingServer final : public Server {
 public:
  const std::string& endpoint() const override { return endpoint_; }
  void begin(std::int32_t rank, const MicrobatchHeader& header, std::uint64_t session) override {
    note("begin " + name(rank, header.position), session);
  }
  void fragment(std::int32_t rank, Fragment fragment, std::shared_ptr<const void> keep,
                std::uint64_t session) override {
    EXPECT_NE(keep, nullptr);
    note("sample " + name(rank, fragment.position) + "/" + std::to_string(fragment.sample) +
             " of " + std::to_string(fragment.tensors.size()),
         session);
  }
  void epoch_end(std::int32_t rank, const EpochEnd& end, std::uint64_t session) override {
    note("end " + std::to_string(rank) + ":" + std::to_string(end.epoch), session);
    if (end.last_epoch && on_end) on_end(rank);
  }
  void refuse(std::int32_t rank, const Refusal& refusal, std::uint64_t session) override {
    note("refuse " + std::to_string(rank) + ": " + refusal.message, session);
    if (on_refuse) on_refuse();
  }
  void notify(std::int32_t rank, const Notice& notice, std::uint64_t session) override {
    note("notice " + std::to_string(rank) + ": " + notice.text, session);
  }
  void notify_all(const Notice& notice) override { note("notice " + notice.text, 0); }
  void fail(const Error& error, const std::optional<Position>& /*resume_point*/) override {
    note("fail " + error.message(), 0);
  }
  std::chrono::nanoseconds since_last_turn() const override { return {}; }
  std::uint64_t microbatches_shared() const override { return 0; }

  std::vector<std::string> sent() const {
    const MutexLock lock(mutex_);
    return sent_;
  }
  std::vector<std::uint64_t> sessions() const {
    const MutexLock lock(mutex_);
    return sessions_;
  }

  std::function<void(std::int32_t rank)> on_end;
  std::function<void()> on_refuse;

 private:
  static std::string name(std::int32_t rank, const Position& at) {
    return std::to_string(rank) + ":" + std::to_string(at.epoch) + "." + std::to_string(at.step) +
           "." + std::to_string(at.microbatch);
  }
  void note(std::string what, std::uint64_t session) {
    const MutexLock lock(mutex_);
    sent_.push_back(std::move(what));
    sessions_.push_back(session);
  }

  const std::string endpoint_ = "tcp://nowhere";
  mutable Mutex mutex_;
  std::vector<std::string> sent_ ISOCOST_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> sessions_ ISOCOST_GUARDED_BY(mutex_);
};

}  // namespace isocost
