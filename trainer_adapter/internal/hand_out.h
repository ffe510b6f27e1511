#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <variant>

#include "base/mutex.h"
#include "base/result.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/internal/prefetch_credit.h"
#include "transport/wire/messages.h"

namespace isocost {

class Connection;

/// Hands microbatches to the training loop in the order in which they were added, grants credit for
/// further ones (prefetch_credit.h), and acknowledges those that are trained once the loop
/// continues. A loop that does not say which are has trained, for the node, the one in use when it
/// asks for the next one.
/// Internally synchronised.
class HandOut {
 public:
  /// `connection` receives credit, acknowledgements and what the trainer sends.
  HandOut(const ClientOptions& options, Connection& connection);

  /// Returns the limit of microbatches that are ready or on their way.
  std::uint32_t prefetch() const { return prefetch_; }

  // For the connection's thread.

  /// Grants credit in a session that the node has begun. Repeats the last acknowledgement, for
  /// which the node waits and which may have been lost with the last connection.
  void begin_session(std::uint64_t session);
  /// Grants no credit until the next session begins.
  void end_session();
  /// Adds a microbatch, for which the node has spent a credit. Drops it and returns false if a
  /// failure lies before it.
  bool add(Microbatch microbatch);
  /// Adds an end of epoch, with the same result.
  bool add(const EpochEnd& end);
  /// Grants the credit again that the node has spent on a microbatch that came before.
  void return_credit();
  /// Ends the sequence with an error, which `next` returns after all that was added, and the point
  /// where training resumes, if the node said it. The first error counts.
  void fail(Error error, const std::optional<Position>& resume_point = {});
  /// Forgets the error: microbatches may be added again.
  void recover();
  /// Returns whether nothing more can be added: the last epoch has ended, or `fail` was called.
  bool is_over() const;

  // For the trainer's threads, as the functions of Client with the same names.

  Result<std::optional<Microbatch>> next(const std::stop_token& stop);
  bool wait(std::chrono::milliseconds limit);
  void use(const Position& position, std::chrono::nanoseconds waited);
  void acknowledge();
  Status trained(const Position& position);
  void revoke(const Position& position);
  const std::optional<EpochEnd>& epoch_end() const { return epoch_end_; }
  std::optional<Position> resume_point() const;

  /// Sends a report with the time that the loop was blocked since the last one, and records that
  /// its microbatch is trained unless the caller says so itself (prepares_ahead). In a step whose
  /// seconds are not wanted, it sends only that time, with the last microbatch. Errors:
  /// kInvalidArgument for a microbatch that was not handed out yet, or with work of which nothing
  /// was measured; kCancelled after `close`.
  Status send(Report report);
  /// Sends a profile, as the answer to the last microbatch that asked for one. Errors: kCancelled
  /// after `close`.
  Status send(ProfileUpdate profile);

  /// Ends waits, and sends nothing more for the trainer. Acknowledges what is trained first if
  /// `acknowledge_last`.
  void close(bool acknowledge_last);

 private:
  using Clock = std::chrono::steady_clock;
  using Ready = std::variant<Microbatch, EpochEnd>;

  bool is_ready() const ISOCOST_REQUIRES(mutex_);
  Status check_taken(const char* what, const Position& position) const ISOCOST_REQUIRES(mutex_);
  Status check_measured(const Report& report) const ISOCOST_REQUIRES(mutex_);
  bool is_wanted(const Position& position) const ISOCOST_REQUIRES(mutex_);
  void note_unwanted(const MicrobatchHeader& header) ISOCOST_REQUIRES(mutex_);
  void send_now(Report report) ISOCOST_REQUIRES(mutex_);
  void grant_credit() ISOCOST_REQUIRES(mutex_);
  void begin_use(const Position& position) ISOCOST_REQUIRES(mutex_);
  void end_use() ISOCOST_REQUIRES(mutex_);
  void end_last_use() ISOCOST_REQUIRES(mutex_);
  void acknowledge_up_to(const Position& position) ISOCOST_REQUIRES(mutex_);
  void note_trained(const Position& position) ISOCOST_REQUIRES(mutex_);
  bool says_what_is_trained() const ISOCOST_REQUIRES(mutex_);
  void begin_wait() ISOCOST_REQUIRES(mutex_);
  void end_wait(Clock::time_point asked) ISOCOST_REQUIRES(mutex_);
  std::optional<Microbatch> take_first(Clock::time_point asked) ISOCOST_REQUIRES(mutex_);

  const std::uint32_t prefetch_;
  const bool prepares_ahead_;
  const bool receives_;  // whether the client has a rank
  Connection& connection_;
  std::optional<EpochEnd> epoch_end_;    // used by the thread that calls `next` only
  std::atomic<bool> asked_for_ = false;  // whether a thread is in `next` or `wait`

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Ready> ready_ ISOCOST_GUARDED_BY(mutex_);
  std::uint32_t microbatches_ready_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Position> resume_point_ ISOCOST_GUARDED_BY(mutex_);  // said with the failure
  bool last_epoch_ended_ ISOCOST_GUARDED_BY(mutex_) = false;
  bool took_last_end_ ISOCOST_GUARDED_BY(mutex_) = false;  // whether `next` returned that end
  bool closed_ ISOCOST_GUARDED_BY(mutex_) = false;
  PrefetchCredit credit_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Position> in_use_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Position> used_ ISOCOST_GUARDED_BY(mutex_);     // the last one that was in use
  std::optional<Position> trained_ ISOCOST_GUARDED_BY(mutex_);  // the last one by the loop's word
  std::optional<Position> trained_before_
      ISOCOST_GUARDED_BY(mutex_);  // `trained_` before that word
  // Steps that were in use since the loop's last word.
  std::uint32_t steps_since_told_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::optional<Position> acknowledged_ ISOCOST_GUARDED_BY(mutex_);
  std::optional<Position> taken_ ISOCOST_GUARDED_BY(mutex_);  // the last one that `next` returned
  Position asked_ ISOCOST_GUARDED_BY(mutex_);  // the last one taken that asks for a profile
  // The last kRemembered that `next` returned and that have no work.
  std::deque<Position> without_work_ ISOCOST_GUARDED_BY(mutex_);
  // The last microbatches of the last kRemembered steps that `next` began and whose seconds are not
  // wanted.
  std::deque<Position> unwanted_ ISOCOST_GUARDED_BY(mutex_);
  // Time that the loop was blocked since the last report.
  std::chrono::nanoseconds data_wait_ ISOCOST_GUARDED_BY(mutex_){0};
  // Time that sending the last report of measured seconds took.
  std::chrono::nanoseconds reporting_ ISOCOST_GUARDED_BY(mutex_){0};
};

}  // namespace isocost
