#include "trainer_adapter/torch/torch_loader.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer_adapter/torch/internal/device_copies.h"
#include "trainer_adapter/trained_steps.h"

namespace isocost {

namespace internal {

/// A connected client, and where its loop is. It stays in place while its loader is moved.
class LoaderSession {
 public:
  LoaderSession(std::unique_ptr<Client> joined, std::unique_ptr<DeviceCopies> to_device,
                std::string cost_model_state = {})
      : client(std::move(joined)),
        copies_(std::move(to_device)),
        next_(start_of(*client, std::move(cost_model_state))),
        trained_(next_) {}

  std::optional<TorchMicrobatch> next(const std::stop_token& stop);
  void close();
  /// Acknowledges what is trained, and returns the end of an epoch whose last microbatch was
  /// handed out. Blocks until it has come. Returns nothing if it does not come; `next` then
  /// says why.
  std::optional<EpochEnd> receive_end(std::uint32_t epoch, const std::stop_token& stop);
  void report(const MicrobatchHeader& header, const Report& report);
  /// Records that the microbatch is not trained, because an exception left its body.
  void revoke(const Position& position) {
    trained_.revoke(position);
    client->revoke(position);
  }

  State state() const;
  State state_after(const MicrobatchHeader& header);
  /// Returns the epoch of the microbatch that comes next.
  std::uint32_t epoch() const { return next_.epoch; }
  bool has_handed_out() const { return has_handed_out_; }
  /// Returns false if all microbatches that were handed out and not reported yet are not to be
  /// measured, and there are any. Otherwise the one that is trained next may have to be: a loop may
  /// have taken another one already, or none.
  bool is_to_measure() const { return to_measure_ || !unmeasured_; }
  at::Device device() const { return copies_ ? copies_->device() : at::kCPU; }

  const std::unique_ptr<Client> client;

 private:
  static StartPoint start_of(const Client& client, std::string cost_model_state) {
    StartPoint start = client.welcome().start;
    start.cost_model_state = std::move(cost_model_state);
    return start;
  }
  void follow(const MicrobatchHeader& header);

  const std::unique_ptr<DeviceCopies> copies_;  // null for the CPU
  std::optional<Microbatch> taken_;             // received from the client, and not returned yet
  StartPoint next_;                             // the step of the microbatch that comes next
  TrainedSteps trained_;
  bool has_handed_out_ = false;
  std::optional<Position> to_measure_;    // the last one to be measured, until it is reported
  std::optional<Position> unmeasured_;    // the last other one, until it is reported
  std::atomic<bool> keeps_back_ = false;  // whether `taken_` was received and not handed out
  std::atomic<bool> closed_ = false;
};

}  // namespace internal

namespace {

using internal::LoaderSession;

std::unique_ptr<DeviceCopies> copies_to(at::Device device) {
  if (device.is_cpu()) return nullptr;
  try {
    return std::make_unique<DeviceCopies>(device);
  } catch (const c10::Error& error) {
    throw_exception(Error(ErrorCode::kUnsupported, "cannot copy to device " + device.str() + ": " +
                                                       error.what_without_backtrace()));
  }
}

// The copies are made before a rank is taken, because that may throw.
std::unique_ptr<LoaderSession> connect(const LoaderOptions& options, const std::stop_token& stop) {
  auto copies = copies_to(options.device);
  std::string cost_model_state = options.start ? options.start->cost_model_state : std::string();
  return std::make_unique<LoaderSession>(Client::connect(options.client(), stop).value(),
                                         std::move(copies), std::move(cost_model_state));
}

void move_to_device(TorchMicrobatch& microbatch, DeviceCopies& copies,
                    const std::function<bool()>& pin) {
  std::vector<at::Tensor> sources;
  sources.reserve(microbatch.tensors.size());
  for (auto& [name, tensor] : microbatch.tensors) sources.push_back(std::move(tensor));
  std::vector<at::Tensor> moved = copies.copy(std::move(sources), pin);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    microbatch.tensors[i].second = std::move(moved[i]);
  }
}

}  // namespace

std::optional<TorchMicrobatch> LoaderSession::next(const std::stop_token& stop) {
  if (closed_) throw_exception(Error(ErrorCode::kCancelled, "the loader is closed"));
  if (!taken_) taken_ = client->next(stop).value();
  if (!taken_) {
    if (const auto& end = client->epoch_end(); end && end->epoch >= next_.epoch) {
      next_.epoch = end->epoch + 1;
      next_.step = 0;
      trained_.end_epoch(end->epoch);
    }
    return std::nullopt;
  }
  TorchMicrobatch microbatch = to_torch(*taken_);
  if (copies_) {
    keeps_back_ = true;
    move_to_device(microbatch, *copies_, taken_->pin);
  }
  keeps_back_ = false;
  taken_.reset();
  follow(microbatch.header);
  return microbatch;
}

std::optional<EpochEnd> LoaderSession::receive_end(std::uint32_t epoch,
                                                   const std::stop_token& stop) {
  const auto& last = client->epoch_end();
  if (last && last->epoch >= epoch) {  // received before, by a loop over the same epoch
    client->wait(std::chrono::milliseconds(0));
    return last->epoch == epoch ? last : std::nullopt;
  }
  if (closed_ || taken_) return std::nullopt;
  auto next = client->next(stop);
  if (!next) return std::nullopt;
  if (next->has_value()) {
    taken_ = *std::move(next);
    keeps_back_ = true;
    return std::nullopt;
  }
  return last;
}

void LoaderSession::close() {
  closed_ = true;
  // A microbatch that could not be copied to the device was not trained on, but counts as in use.
  if (keeps_back_) {
    client->leave();
  } else {
    client->close();
  }
}

void LoaderSession::follow(const MicrobatchHeader& header) {
  has_handed_out_ = true;
  (header.seconds_wanted ? to_measure_ : unmeasured_) = header.position;
  trained_.hand_out(OrderedMicrobatch::of(header), header.cost_model_state);
  next_.epoch = header.position.epoch + (header.last_of_epoch() ? 1 : 0);
  next_.step = header.position.step + (header.last_of_step() ? 1 : 0);
  if (header.last_of_epoch()) next_.step = 0;
}

void LoaderSession::report(const MicrobatchHeader& header, const Report& report) {
  client->report(report).value();
  for (std::optional<Position>* last : {&to_measure_, &unmeasured_}) {
    if (*last && **last <= header.position) last->reset();
  }
  trained_.train(OrderedMicrobatch::of(header)).value();
}

State LoaderSession::state() const {
  auto state = trained_.state();
  if (state) return State(*std::move(state));
  throw_exception(
      Error(state.error().code(),
            "state: " + state.error().message() +
                ". Report each microbatch after its work (TorchLoader::report), or name "
                "the last one that is trained: state(microbatch)"));
}

State LoaderSession::state_after(const MicrobatchHeader& header) {
  const auto after = OrderedMicrobatch::of(header);
  StartPoint state = trained_.state_after(after).value();
  trained_.train(after).value();
  client->trained(header.position).value();
  return State(std::move(state));
}

internal::EpochLoop::EpochLoop(LoaderSession& session, std::stop_token stop)
    : session_(&session), stop_(std::move(stop)), number_(session.epoch()) {}

void internal::EpochLoop::begin() {
  begun_ = true;
  exceptions_ = std::uncaught_exceptions();
  advance();
}

void internal::EpochLoop::note_exception() noexcept {
  if (microbatch_ && std::uncaught_exceptions() > exceptions_) {
    session_->revoke(microbatch_->header.position);
  }
}

void internal::EpochLoop::advance() {
  const bool ended = microbatch_ && microbatch_->last_of_epoch();
  microbatch_.reset();
  if (ended || session_->epoch() > number_) {
    end_ = session_->receive_end(number_, stop_);
    return;
  }
  for (;;) {
    microbatch_ = session_->next(stop_);
    if (microbatch_) {
      // Nothing comes of an epoch whose remaining samples are all bad.
      number_ = microbatch_->header.position.epoch;
      return;
    }
    const auto& end = session_->client->epoch_end();
    if (end && end->epoch == number_) {  // an epoch without a microbatch from here on
      end_ = end;
      return;
    }
    if (!end || end->last_epoch) {
      throw_exception(
          Error(ErrorCode::kNotFound, "the node delivers no epoch " + std::to_string(number_) +
                                          ": every one that it was given (--epochs) is over"));
    }
  }
}

Epochs::Epochs(LoaderSession& session, std::uint32_t count, std::stop_token stop)
    : session_(&session), count_(count), stop_(std::move(stop)) {}

Epochs::Iterator Epochs::begin() {
  // A job that resumes after its last epoch has nothing to do; one that continues there has a
  // fault.
  if (session_->has_handed_out() && is_over()) {
    const std::string next = std::to_string(session_->epoch());
    const std::uint32_t all = session_->client->welcome().epochs;
    throw_exception(
        Error(ErrorCode::kNotFound,
              "epochs(" + std::to_string(count_) + ") are those with numbers below " +
                  std::to_string(count_) + ", and this loader stands at epoch " + next +
                  (all != 0 && session_->epoch() >= all
                       ? ": the node delivers no further (--epochs)"
                       : ". Ask for epochs(" + std::to_string(session_->epoch() + 1) + ")")));
  }
  show();
  return Iterator(this);
}

void Epochs::advance() {
  if (!epoch_->loop_->begun()) {
    throw_exception(
        Error(ErrorCode::kInvalidArgument, "epoch " + std::to_string(epoch_->number()) +
                                               " was left without a loop over its microbatches"));
  }
  show();
}

bool Epochs::is_over() const { return count_ != 0 && session_->epoch() >= count_; }

// Makes the epoch where the state stands the one in use.
void Epochs::show() {
  epoch_.reset();
  if (is_over()) return;
  epoch_ = Epoch(*session_, stop_);
}

// A member that ClientOptions gets must be one of LoaderOptions, too, and changes its size unless
// it fits into padding. `prepares_ahead` is the loader's own matter.
static_assert(sizeof(LoaderOptions) == sizeof(ClientOptions) + alignof(ClientOptions));

ClientOptions LoaderOptions::client() const {
  ClientOptions options;
  options.endpoint = endpoint;
  options.rank = rank;
  options.world_size = world_size;
  options.layout = layout;
  options.prefetch = prefetch;
  options.start = start;
  options.accept_other_data = accept_other_data;
  options.hardware = hardware;
  options.connect_timeout = connect_timeout;
  options.log = log;
  options.curve_server_key_file = curve_server_key_file;
  options.curve_secret_key_file = curve_secret_key_file;
  options.max_microbatch_bytes = max_microbatch_bytes;
  return options;
}

TorchLoader::TorchLoader(const LoaderOptions& options, const std::stop_token& stop)
    : session_(connect(options, stop)), exceptions_(std::uncaught_exceptions()) {}

TorchLoader::TorchLoader(std::unique_ptr<Client> client, at::Device device)
    : exceptions_(std::uncaught_exceptions()) {
  if (client == nullptr) {
    throw_exception(Error(ErrorCode::kInvalidArgument, "TorchLoader: the client is null"));
  }
  auto copies = copies_to(device);
  session_ = std::make_unique<LoaderSession>(std::move(client), std::move(copies));
}

TorchLoader::~TorchLoader() { leave(); }

TorchLoader::TorchLoader(TorchLoader&& other) noexcept = default;

TorchLoader& TorchLoader::operator=(TorchLoader&& other) noexcept {
  if (this == &other) return *this;
  leave();
  session_ = std::move(other.session_);
  exceptions_ = other.exceptions_;
  return *this;
}

void TorchLoader::leave() noexcept {
  if (session_ && std::uncaught_exceptions() <= exceptions_) session_->close();
  session_.reset();
}

LoaderSession& TorchLoader::session() const {
  if (session_) return *session_;
  throw_exception(Error(ErrorCode::kInvalidArgument,
                        "this TorchLoader was moved from: use the one that it was moved to"));
}

Epochs TorchLoader::epochs(std::uint32_t count, const std::stop_token& stop) & {
  LoaderSession& session = this->session();
  const std::uint32_t all = session.client->welcome().epochs;
  if (all != 0 && count > all) {
    throw_exception(Error(ErrorCode::kNotFound, "epochs(" + std::to_string(count) +
                                                    "): the node delivers " + std::to_string(all) +
                                                    " (--epochs)"));
  }
  return {session, count != 0 ? count : all, stop};
}

std::optional<TorchMicrobatch> TorchLoader::next(const std::stop_token& stop) {
  return session().next(stop);
}

OwnWork TorchLoader::own_work(const TorchMicrobatch& microbatch) const {
  return new_work(microbatch.header.seconds_wanted);
}

OwnWork TorchLoader::own_work() const { return new_work(session().is_to_measure()); }

OwnWork TorchLoader::new_work(bool is_wanted) const {
  if (!is_wanted) return OwnWork::none();
  const at::Device device = session().device();
  return device.is_cpu() ? OwnWork() : OwnWork(steady_clock(), [device] { wait_for(device); });
}

void TorchLoader::report(const TorchMicrobatch& microbatch, const OwnWork& work) {
  report(microbatch, work.seconds());
}

void TorchLoader::report(const TorchMicrobatch& microbatch,
                         const std::array<double, kModules>& seconds, double forward_s) {
  Report report{microbatch.header.position, seconds};
  report.forward_s = forward_s;
  session().report(microbatch.header, report);
}

State TorchLoader::state() const { return session().state(); }

State TorchLoader::state(const TorchMicrobatch& after) {
  return session().state_after(after.header);
}

const Welcome& TorchLoader::welcome() const { return session().client->welcome(); }

const std::optional<EpochEnd>& TorchLoader::epoch_end() const {
  return session().client->epoch_end();
}

void TorchLoader::close() { session().close(); }

Client& TorchLoader::client() { return *session().client; }

}  // namespace isocost
