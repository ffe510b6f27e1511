#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/executor/executor.h"
#include "base/memory_budget.h"
#include "base/result.h"
#include "decode/recipe.h"
#include "decode/sample_decoder.h"
#include "loader/dataset/bad_samples.h"
#include "loader/dataset/dataset.h"
#include "loader/node/decoding/internal/decode_admission.h"
#include "loader/node/decoding/internal/decode_tasks.h"
#include "loader/node/decoding/internal/decodes_in_flight.h"
#include "loader/node/decoding/internal/read_ahead.h"
#include "loader/node/decoding/internal/sample_preparer.h"
#include "loader/node/decoding/internal/waiting_samples.h"
#include "loader/node/decoding/load_hook.h"
#include "loader/node/decoding/read_retry.h"
#include "loader/node/decoding/sample_examiner.h"
#include "loader/node/decoding/step_sample.h"
#include "loader/plan/microbatch_limits.h"
#include "loader/plan/served_layout.h"

namespace isocost {

/// Decodes the samples of a global batch on the workers, and finds out which are bad. Memory stays
/// within the budget. Decoded samples that wait to be sent, and blocks of shared memory, may hold
/// half of it, and the other half is always free for decoding, so neither can starve the other. A
/// decoded sample that does not fit into its half is released, and decoded again when it is sent.
/// Bytes of samples that are fetched from servers ahead may hold a sixteenth of the budget, which
/// the half of what waits gives up: one half of it for samples that are decoded for the first time,
/// and the other for those that are decoded again.
///
/// Workers that have nothing left to do for a step begin the samples that follow, in their order,
/// as far as there is room in three quarters of the first half. Nothing but the time of their
/// decoding depends on it.
///
/// `decode_step` and `drop_begun` belong to one thread; the other functions may be called from any.
/// The destructor waits for the tasks on the workers.
class StepDecoder {
 public:
  struct Context {
    const Dataset* dataset;
    const Recipe* recipe;
    SampleDecoder* decoder;
    Executor* executor;
    MemoryBudget* budget;
    BufferPool* pool;
    BadSampleList* bad;
    LoadHook load_hook;          ///< Empty: the recipe's loads are used.
    const ServedLayout* layout;  ///< Layout whose stages must hold each sample; null: none.
    ReadRetry* retry;            ///< Repeats reads that the machine refuses.
    /// Limits of a microbatch that every single sample must keep; null: none.
    const MicrobatchLimits* limits = nullptr;
    /// Samples of the windows of shards that are drawn from at a time, if a cache keeps these
    /// shards; else 0.
    std::size_t window_samples = 0;
  };
  /// `seed`: decides, with the bad sample, what replaces it.
  StepDecoder(const Context& context, BadSamplePolicy policy, std::uint64_t seed)
      : context_(context),
        policy_(policy),
        seed_(seed),
        admission_(*context.dataset, *context.recipe, *context.budget, waiting_bytes(context)),
        examiner_({context.dataset, context.recipe, context.budget->limit(), context.load_hook,
                   context.layout, context.limits}),
        preparer_(*context.dataset, *context.decoder, *context.pool),
        waiting_(waiting_bytes(context)),
        reading_(make_thread_executor(kReadingThreads, "isocost-read")),
        read_ahead_(*context.dataset, *reading_, memory_ahead(context), context.window_samples),
        tasks_(*context.executor) {}

  /// Returns the sample at an index of those that follow a step; nothing if no more may be
  /// begun.
  using Following = std::function<std::optional<SampleId>(std::size_t index)>;

  /// Returns the good samples of `ids` in their order, each decoded once. With the policy `replace`
  /// another sample of the same source, the same in every run, takes a bad one's place. Blocks
  /// until all are decoded. Samples of `following` that were begun meanwhile are taken up by the
  /// calls for their steps, which must be the next ones; any other call drops them. Errors: those
  /// of BadSampleList::add, of the load hook and of ReadRetry::run. `drawn`: the same samples as
  /// far as they are known, to be read ahead from servers; empty: those of `following`.
  Result<std::vector<StepSample>> decode_step(std::span<const SampleId> ids,
                                              const Following& following,
                                              const std::stop_token& stop,
                                              const Following& drawn = {});

  /// Drops the samples that were begun for steps that will not come.
  void drop_begun() { begun_.clear(); }

  /// Runs a task on the next worker that is free, before all samples that are decoded for later: a
  /// trainer may be waiting for it.
  void submit(std::function<void()> task) {
    tasks_.submit(DecodeTasks::Turn::kFirst, std::move(task));
  }

  /// Blocks until the memory that decoding this sample takes is granted. Errors: kCancelled.
  Result<MemoryBudget::Grant> admit(SampleId id, const std::stop_token& stop) const {
    return admission_.acquire(id, stop);
  }

  /// A value, or the reason why the sample is bad.
  template <typename T>
  using OrBad = SamplePreparer::OrBad<T>;

  /// Begins to read a sample that is to be decoded again: see ReadAhead::read_again.
  std::shared_ptr<SampleRead> read_again(SampleId id) const { return read_ahead_.read_again(id); }
  bool reads_servers() const { return context_.dataset->reads_servers(); }

  /// Decodes on the calling thread, within a grant from `admit`; the grant shrinks to what the
  /// tensors hold. `read`: see StepSample. Blocks while the machine refuses to read. Errors: those
  /// of ReadRetry::run.
  Result<OrBad<std::shared_ptr<const DecodedSample>>> decode(
      SampleId id, const std::shared_ptr<SampleRead>& read, MemoryBudget::Grant grant,
      const std::stop_token& stop) const;

  /// The half of the budget that what waits may hold; also for what waits elsewhere.
  std::shared_ptr<MemoryBudget> waiting_budget() const { return waiting_.budget(); }

  /// Returns what repeats reads that the machine refuses.
  ReadRetry& retry() const { return *context_.retry; }

  /// Returns the number of bad samples replaced so far.
  std::uint64_t replaced() const { return replaced_; }
  /// Samples that are kept until they are sent, and the bytes granted for them.
  std::int64_t waiting_bytes() const { return waiting_.bytes(); }
  std::int64_t waiting_samples() const { return waiting_.samples(); }
  /// Tensor bytes of all samples decoded so far; a sample decoded again counts again.
  std::int64_t decoded_bytes() const { return decoded_bytes_; }
  /// Returns the sample that has been decoded, or read, for the longest time, if any is.
  std::optional<DecodesInFlight::Oldest> oldest_decode() const { return in_flight_.oldest(); }

 private:
  // Threads of `reading_`; they wait for files to be opened.
  static constexpr std::size_t kReadingThreads = 8;

  struct Attempt {
    explicit Attempt(SampleId id) { sample.id = id; }
    StepSample sample;
    std::optional<BadSample> bad;
    std::optional<Error> failed;
    std::shared_ptr<SampleRead> read;  // null: the sample was not read ahead
    DecodeTasks::TaskHandle task;      // null: nothing is to be decoded
  };
  using Attempts = std::vector<std::shared_ptr<Attempt>>;

  static std::int64_t memory_ahead(const Context& context) {
    return context.dataset->reads_servers() ? context.budget->limit() / 16 : 0;
  }
  static std::int64_t waiting_bytes(const Context& context) {
    return context.budget->limit() / 2 - memory_ahead(context);
  }

  Result<std::shared_ptr<Attempt>> take_or_begin(SampleId id, const ReadAhead::Upcoming& upcoming,
                                                 const std::stop_token& stop);
  Result<std::shared_ptr<Attempt>> begin(SampleId id, std::shared_ptr<SampleRead> read,
                                         const std::stop_token& stop);
  bool begin_ahead(const Following& following, const std::stop_token& stop);
  void start(const std::shared_ptr<Attempt>& attempt, MemoryBudget::Grant grant,
             const std::stop_token& stop);
  Status end(const Attempts& attempts, const Following& following, const std::stop_token& stop);

  std::shared_ptr<const DecodedSample> hold(std::vector<NamedTensor> tensors,
                                            MemoryBudget::Grant grant) const;
  void finish(Attempt& attempt, MemoryBudget::Grant grant, const std::stop_token& stop);
  Status fill(Attempt& attempt, MemoryBudget::Grant grant, const std::stop_token& stop);
  Result<std::optional<StepSample>> replacement(SampleId bad, std::span<const SampleId> taken,
                                                const Following& following,
                                                const std::stop_token& stop);

  const Context context_;
  const BadSamplePolicy policy_;
  const std::uint64_t seed_;
  const DecodeAdmission admission_;
  const SampleExaminer examiner_;
  const SamplePreparer preparer_;
  WaitingSamples waiting_;
  mutable std::atomic<std::int64_t> decoded_bytes_ = 0;
  std::atomic<std::uint64_t> replaced_ = 0;
  mutable DecodesInFlight in_flight_;
  Following drawn_;                             // of the present call
  std::deque<std::shared_ptr<Attempt>> begun_;  // attempts of the following steps, in their order
  const std::unique_ptr<Executor> reading_;
  ReadAhead read_ahead_;
  DecodeTasks tasks_;  // declared last: its destructor waits for its tasks, which use the others
};

}  // namespace isocost
