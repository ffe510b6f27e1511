#pragma once

#include <c10/core/Device.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "base/load.h"
#include "base/log.h"
#include "base/result.h"
#include "base/units.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/own_work.h"
#include "trainer_adapter/state.h"
#include "trainer_adapter/torch/torch_microbatch.h"
#include "transport/wire/messages.h"

namespace isocost {

/// The options of a loader: those of ClientOptions, which says what each means, and the device. An
/// aggregate without a base, so that options can be named where they are given:
/// TorchLoader loader({.endpoint = "tcp://node:5800", .rank = 1, .world_size = 4});
struct LoaderOptions {
  std::string endpoint = ClientOptions().endpoint;
  std::int32_t rank = 0;
  std::int32_t world_size = 0;
  std::uint64_t layout = 0;
  std::uint32_t prefetch = 2;
  std::optional<StartPoint> start = {};
  bool accept_other_data = false;
  std::string hardware = {};
  std::chrono::milliseconds connect_timeout = ClientOptions().connect_timeout;
  LogSink log = print_warnings;
  std::string curve_server_key_file = {};
  std::string curve_secret_key_file = {};
  std::int64_t max_microbatch_bytes = ClientOptions().max_microbatch_bytes;
  /// The device that tensors are on. For another one than the CPU, microbatches are copied there
  /// while it computes: from shared memory directly, which is registered with the CUDA runtime for
  /// that. TorchLoader::own_work waits for it before it takes the time.
  at::Device device = at::kCPU;

  /// Returns the options of the loader's client, for example for a replica group
  /// (isocost/replicas.h).
  ClientOptions client() const;
};

namespace internal {

class LoaderSession;

/// The loop over one epoch's microbatches.
class EpochLoop {
 public:
  EpochLoop(LoaderSession& session, std::stop_token stop);

  std::uint32_t number() const { return number_; }
  bool begun() const { return begun_; }
  const std::optional<TorchMicrobatch>& microbatch() const { return microbatch_; }
  const std::optional<EpochEnd>& epoch_end() const { return end_; }

  void begin();
  void advance();
  /// Takes back what was said of the microbatch in use if an exception ends the loop.
  void note_exception() noexcept;

 private:
  LoaderSession* session_;
  std::stop_token stop_;
  std::uint32_t number_;
  bool begun_ = false;
  int exceptions_ = 0;                         // that unwound when its loop began
  std::optional<TorchMicrobatch> microbatch_;  // the one in use; empty at the end
  std::optional<EpochEnd> end_;
};

}  // namespace internal

/// One epoch of a loader, for a range-based `for` over its microbatches. It ends with the epoch's
/// last microbatch and nowhere else: anything that comes in between is an exception. After a
/// `break` another loop continues at the next microbatch. A microbatch whose body an exception
/// leaves is not trained, even if it was reported. Valid as long as the loader, which may be moved,
/// but not assigned to. Move-only: a loop takes it by reference, const or not. Single-thread.
class Epoch {
 public:
  class Iterator {
   public:
    using value_type = TorchMicrobatch;
    using difference_type = std::ptrdiff_t;

    Iterator(const Iterator&) = default;
    Iterator& operator=(const Iterator&) = default;
    ~Iterator() { loop_->note_exception(); }

    const TorchMicrobatch& operator*() const { return *loop_->microbatch(); }
    const TorchMicrobatch* operator->() const { return &*loop_->microbatch(); }
    Iterator& operator++() {
      loop_->advance();
      return *this;
    }
    void operator++(int) { loop_->advance(); }
    bool operator==(std::default_sentinel_t /*end*/) const { return !loop_->microbatch(); }

   private:
    friend class Epoch;
    explicit Iterator(internal::EpochLoop* loop) : loop_(loop) {}
    internal::EpochLoop* loop_;
  };

  /// Returns the epoch's number, from 0.
  std::uint32_t number() const { return loop_->number(); }

  /// Blocks for the epoch's next microbatch. Throws what TorchLoader::next throws, and
  /// isocost::Exception (kNotFound) if the node delivers no further epoch.
  Iterator begin() const {
    loop_->begin();
    return Iterator(loop_.get());
  }
  std::default_sentinel_t end() const { return {}; }

  /// Returns this epoch's end, once a loop has come to it: the numbers of steps and of bad and
  /// dropped samples. Nothing before, and where the node failed or a stop was requested between the
  /// last microbatch and the end; the next call for a microbatch then throws the reason.
  const std::optional<EpochEnd>& epoch_end() const { return loop_->epoch_end(); }

 private:
  friend class Epochs;
  Epoch(internal::LoaderSession& session, std::stop_token stop)
      : loop_(std::make_unique<internal::EpochLoop>(session, std::move(stop))) {}

  std::unique_ptr<internal::EpochLoop> loop_;
};

/// The epochs of a job that are not trained on yet, for a range-based `for`. Valid as an Epoch is.
class Epochs {
 public:
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  class Iterator {
   public:
    using value_type = Epoch;
    using difference_type = std::ptrdiff_t;

    Epoch& operator*() const { return *epochs_->epoch_; }
    Epoch* operator->() const { return &*epochs_->epoch_; }
    Iterator& operator++() {
      epochs_->advance();
      return *this;
    }
    void operator++(int) { epochs_->advance(); }
    bool operator==(std::default_sentinel_t /*end*/) const { return !epochs_->epoch_; }

   private:
    friend class Epochs;
    explicit Iterator(Epochs* epochs) : epochs_(epochs) {}
    Epochs* epochs_;
  };

  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class TorchLoader;
  Epochs(internal::LoaderSession& session, std::uint32_t count, std::stop_token stop);

  void advance();
  bool is_over() const;
  void show();

  internal::LoaderSession* session_;
  std::uint32_t count_;  // 0: no end
  std::stop_token stop_;
  std::optional<Epoch> epoch_;
};

/// A Client with libtorch tensors: one rank's microbatches, in place of a DataLoader.
///
///   TorchLoader loader({.endpoint = "tcp://127.0.0.1:5800",
///                       .world_size = 1,
///                       .start = saved ? State::parse(*saved) : State()});
///   for (const auto& epoch : loader.epochs()) {
///     for (const auto& microbatch : epoch) {
///       OwnWork work = loader.own_work(microbatch);
///       token_loss(model(microbatch["input_ids"]), microbatch).backward();
///       work.add(CostModule::kLlm);
///       loader.report(microbatch, work);
///       if (microbatch.last_of_step()) { /* all-reduce (sum), optimizer step, save state() */ }
///     }
///   }
///
/// Errors are thrown as isocost::Exception, with the codes of Client's functions; `code()` of a
/// node that was asked to stop is kDraining. Blocking and threads as for Client. The destructor
/// closes, and so acknowledges what is trained, except while an exception unwinds: the next client
/// of the rank then receives the microbatch in use again; so does assignment to a loader.
/// Move-only; a loader that was moved from throws kInvalidArgument.
class TorchLoader {
 public:
  /// Joins the node. Throws those errors of Client::connect; kUnsupported for a device that
  /// libtorch cannot use, before a rank is taken.
  explicit TorchLoader(const LoaderOptions& options, const std::stop_token& stop = {});
  /// Takes a connected client, for example of a replica group (isocost/replicas.h). Throws as above
  /// for the device, and kInvalidArgument for null.
  explicit TorchLoader(std::unique_ptr<Client> client, at::Device device = at::kCPU);
  ~TorchLoader();
  TorchLoader(TorchLoader&& other) noexcept;
  TorchLoader& operator=(TorchLoader&& other) noexcept;

  /// Returns a range over the job's epochs with numbers below `count`, from the one where the state
  /// stands; 0: over all that the node delivers. Throws kNotFound if the node delivers fewer, and
  /// when a range begins after this loader has delivered the last of them. Once `stop` was
  /// requested, the next microbatch that is asked for is the exception kCancelled.
  Epochs epochs(std::uint32_t count = 0, const std::stop_token& stop = {}) &;
  Epochs epochs(std::uint32_t count = 0, const std::stop_token& stop = {}) && = delete;

  /// Returns what Client::next does, with the tensors on the device; the device's current stream
  /// waits for them. Throws c10::Error if they cannot be copied there, for example for lack of
  /// memory; the next call then tries the same microbatch again.
  std::optional<TorchMicrobatch> next(const std::stop_token& stop = {});

  /// Returns a measurement that begins now, of this rank's own seconds on the loader's device. Its
  /// constructor, `add` and `leave_out` wait for the current stream of a device other than the CPU,
  /// and throw c10::Error if that fails. In a step that the node does not ask to be measured,
  /// returns OwnWork::none().
  OwnWork own_work(const TorchMicrobatch& microbatch) const;
  /// Does the same for the microbatch that is trained next. It measures as long as any microbatch
  /// of a step to be measured was handed out and not reported.
  OwnWork own_work() const;
  /// Sends the measured seconds of each module. The microbatch, and all before it, are then
  /// trained, so report it after its work, also in a step that is not to be measured. Throws
  /// kInvalidArgument if a microbatch that is to be measured has work of which nothing was, and the
  /// errors of Client::report.
  void report(const TorchMicrobatch& microbatch, const OwnWork& work);
  /// Does the same with seconds of each module, forward and backward, and the forward seconds among
  /// them over all modules; kNotMeasured if there are none. They must not contain waiting for
  /// other ranks: OwnWork leaves it out.
  void report(const TorchMicrobatch& microbatch, const std::array<double, kModules>& seconds,
              double forward_s = kNotMeasured);

  /// Returns the first step that is not trained yet, the same on all ranks. Within a step, it is
  /// the step of the last reported microbatch, since the step's gradient was not applied. After the
  /// step's last report, it is the next step. Save it after the optimizer's step. Microbatches that
  /// were only handed out do not count, so a loop may look ahead. Throws kInvalidArgument if steps
  /// were handed out and no step, or none of the last eight, was reported.
  State state() const;
  /// Records that `after` and all before it are trained, and returns the state that follows: for
  /// loops that do not report every microbatch. Throws kInvalidArgument if `after` was not handed
  /// out.
  State state(const TorchMicrobatch& after);
  const Welcome& welcome() const;
  /// Returns the last end of an epoch that was received, if any: with the call of `next` after the
  /// epoch's last microbatch, or where a range over it ends.
  const std::optional<EpochEnd>& epoch_end() const;

  /// Acknowledges what is trained, unless a microbatch could not be copied to the device, and
  /// leaves the node. Idempotent. Blocks for up to a second. May be called from any thread.
  void close();

  Client& client();

 private:
  internal::LoaderSession& session() const;
  OwnWork new_work(bool is_wanted) const;
  void leave() noexcept;

  std::unique_ptr<internal::LoaderSession> session_;
  int exceptions_;  // that unwound when it was made
};

}  // namespace isocost
