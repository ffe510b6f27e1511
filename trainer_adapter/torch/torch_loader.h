#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>

#include "base/load.h"
#include "base/result.h"
#include "base/units.h"
#include "trainer_adapter/client.h"
#include "trainer_adapter/own_work.h"
#include "trainer_adapter/state.h"
#include "trainer_adapter/torch/torch_microbatch.h"
#include "transport/wire/messages.h"

namespace isocost {

struct LoaderOptions : ClientOptions {
  /// The device that tensors are on. For another one than the CPU, microbatches are copied there
  /// while it computes: from shared memory directly, which is registered with the CUDA runtime for
  /// that. Wait for the device before measured seconds are taken (own_work.h).
  at::Device device = at::kCPU;
};

namespace internal {
class LoaderSession;
}  // namespace internal

/// One epoch of a loader, for a range-based `for` over its microbatches. It ends with the epoch's
/// last microbatch and nowhere else: anything that comes in between is an exception. After a
/// `break` another loop goes on at the next microbatch. A microbatch whose body an exception leaves
/// is not trained, even if it was reported. Valid as long as the loader, which may be
/// moved, but not assigned to. Move-only: a loop takes it by reference.
class Epoch {
 public:
  Epoch(Epoch&&) = default;
  Epoch& operator=(Epoch&&) = default;

  class Iterator {
   public:
    using value_type = TorchMicrobatch;
    using difference_type = std::ptrdiff_t;

    Iterator(const Iterator&) = default;
    Iterator& operator=(const Iterator&) = default;
    ~Iterator() { epoch_->note_exception(); }

    const TorchMicrobatch& operator*() const { return *epoch_->microbatch_; }
    const TorchMicrobatch* operator->() const { return &*epoch_->microbatch_; }
    Iterator& operator++() {
      epoch_->advance();
      return *this;
    }
    void operator++(int) { epoch_->advance(); }
    bool operator==(std::default_sentinel_t /*end*/) const { return !epoch_->microbatch_; }

   private:
    friend class Epoch;
    explicit Iterator(Epoch* epoch) : epoch_(epoch) {}
    Epoch* epoch_;
  };

  /// Returns the epoch's number, from 0.
  std::uint32_t number() const { return number_; }

  /// Blocks for the epoch's next microbatch. Throws what TorchLoader::next throws, and
  /// isocost::Exception (kNotFound) if the node delivers no further epoch.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Epochs;
  Epoch(internal::LoaderSession& session, std::stop_token stop);

  void advance();
  void note_exception() noexcept;

  internal::LoaderSession* session_;
  std::stop_token stop_;
  std::uint32_t number_;
  bool begun_ = false;
  int exceptions_ = 0;                         // that unwound when its loop began
  std::optional<TorchMicrobatch> microbatch_;  // the one in use; empty at the end
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
///   LoaderOptions options;
///   options.endpoint = "tcp://127.0.0.1:5800";
///   if (saved) options.start = State::parse(*saved);
///   TorchLoader loader(options);
///   for (auto& epoch : loader.epochs()) {
///     for (const auto& microbatch : epoch) {
///       OwnWork work;  // isocost/own_work.h
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
  /// waits for them. Throws c10::Error where they cannot be copied there, for example for lack of
  /// memory; the next call then tries the same microbatch again.
  std::optional<TorchMicrobatch> next(const std::stop_token& stop = {});

  /// Sends the measured seconds of each module. The microbatch, and all before it, are then
  /// trained: report it after its work. Throws kInvalidArgument for a microbatch with work of which
  /// nothing was measured, and the errors of Client::report.
  void report(const TorchMicrobatch& microbatch, const OwnWork& work);
  /// Does the same with seconds of each module, forward and backward, and the forward seconds among
  /// them over all modules; kNotMeasured where there are none. They must not contain waiting for
  /// other ranks: OwnWork leaves it out.
  void report(const TorchMicrobatch& microbatch, const std::array<double, kModules>& seconds,
              double forward_s = kNotMeasured);

  /// Returns the first step that is not trained yet, the same on all ranks: that of the last
  /// microbatch that was reported, since the step's gradient was not applied, or the next one if it
  /// was the step's last. Save it after the optimizer's step. Microbatches that were only handed
  /// out do not count, so the loop may ask for them ahead. Throws kInvalidArgument where steps were
  /// handed out and none, or none of the last eight, was reported.
  State state() const;
  /// Records that `after` and all before it are trained, and returns the state that follows: for
  /// loops that do not report every microbatch. Throws kInvalidArgument if `after` was not handed
  /// out.
  State state(const TorchMicrobatch& after);
  const Welcome& welcome() const;
  /// Returns the last end of an epoch that was received, if any: it comes after the epoch's last
  /// microbatch, with the call that asks for the next one.
  const std::optional<EpochEnd>& epoch_end() const;

  /// Acknowledges what is trained, unless a microbatch could not be copied to the device, and
  /// leaves the node. Idempotent. Blocks for up to a second. May be called from any thread.
  void close();

  Client& client();

 private:
  internal::LoaderSession& session() const;
  void leave() noexcept;

  std::unique_ptr<internal::LoaderSession> session_;
  int exceptions_;  // that unwound when it was made
};

}  // namespace isocost
