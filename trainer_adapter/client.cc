#include "trainer_adapter/client.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/tensor_schema.h"
#include "base/units.h"
#include "trainer_adapter/internal/assembler.h"
#include "trainer_adapter/internal/client_session.h"
#include "trainer_adapter/internal/hand_out.h"
#include "transport/zmq/connection.h"

namespace isocost {
namespace {

// Returns the options of the connection. No frame of an announced microbatch is larger than all of
// it.
ConnectionOptions connection_options(const ClientOptions& options) {
  return {.endpoint = options.endpoint,
          .curve_server_key_file = options.curve_server_key_file,
          .curve_secret_key_file = options.curve_secret_key_file,
          .max_frame_bytes = std::max(options.max_microbatch_bytes, kMaxMessageBytes)};
}

Status check_size(const char* field, std::size_t bytes, std::size_t most) {
  if (bytes <= most) return {};
  return Error(ErrorCode::kInvalidArgument,
               std::string("start.") + field + ": " + std::to_string(bytes) +
                   " bytes are more than a node ever sends: the saved state is corrupt");
}

Status check_start(const ClientOptions& options) {
  if (!options.start) return {};
  const bool is_first = options.start->epoch == 0 && options.start->step == 0;
  if (options.start->cursor == 0 && !is_first && !options.accept_other_data) {
    return Error(ErrorCode::kInvalidArgument,
                 "start: a state without a cursor says not in which data its step is counted. Give "
                 "the state that was saved, or set accept_other_data");
  }
  ISOCOST_TRY(check_size("cost_model_state", options.start->cost_model_state.size(),
                         kMaxCostModelStateBytes));
  return check_size("mixture", options.start->mixture.size(), kMaxMixtureBytes);
}

Status check_forward(const Report& report) {
  double all = 0;
  for (const double seconds : report.seconds) all += std::max(seconds, 0.0);
  const bool is_part = report.forward_s >= 0 && report.forward_s <= all;  // also false for NaN
  if (report.forward_s == kNotMeasured || is_part) return {};
  return Error(ErrorCode::kInvalidArgument, "forward_s: " + std::to_string(report.forward_s) +
                                                " seconds are not a part of the " +
                                                std::to_string(all) + " reported");
}

Status check_report(const Report& report) {
  for (std::size_t i = 0; i < kModules; ++i) {
    const double seconds = report.seconds.at(i);
    if (!is_reportable(seconds)) {
      return Error(ErrorCode::kInvalidArgument,
                   std::string(module_name(static_cast<CostModule>(i))) + ": " +
                       std::to_string(seconds) +
                       " seconds is neither -1 (not measured) nor 0 nor between 1 ns and a day");
    }
  }
  if (!is_reportable(report.measuring_s)) {
    return Error(ErrorCode::kInvalidArgument,
                 "measuring_s: " + std::to_string(report.measuring_s) +
                     " seconds is neither -1 (unknown) nor 0 nor between 1 ns and a day");
  }
  return check_forward(report);
}

class ClientImpl final : public Client {
 public:
  ClientImpl(const ClientOptions& options, std::unique_ptr<Connection> connection)
      : options_(options), connection_(std::move(connection)) {}

  Status join(const std::stop_token& stop) {
    ISOCOST_ASSIGN(welcome_, session_.join(stop));
    return {};
  }

  const Welcome& welcome() const override { return welcome_; }
  Result<std::optional<Microbatch>> next(const std::stop_token& stop) override {
    return hand_out_.next(stop);
  }
  bool wait(std::chrono::milliseconds limit) override { return hand_out_.wait(limit); }
  void use(const Position& position, std::chrono::nanoseconds waited) override {
    hand_out_.use(position, waited);
  }
  void acknowledge() override { hand_out_.acknowledge(); }
  Status trained(const Position& position) override { return hand_out_.trained(position); }
  void revoke(const Position& position) override { hand_out_.revoke(position); }
  const std::optional<EpochEnd>& epoch_end() const override { return hand_out_.epoch_end(); }
  std::optional<Position> resume_point() const override { return hand_out_.resume_point(); }
  Status report(const Report& report) override;
  Status send_profile(const ProfileUpdate& update) override;
  void close() override { session_.leave(true); }
  void leave() override { session_.leave(false); }
  std::int64_t bytes_copied() const override { return assembler_.bytes_copied(); }
  std::int64_t bytes_in_use() const override {
    return pool_.bytes_in_use() + assembler_.block_bytes_in_use();
  }
  const BufferPool& pool() const override { return pool_; }

 private:
  const ClientOptions options_;
  const std::unique_ptr<Connection> connection_;
  BufferPool pool_{kKeepBytes};
  HandOut hand_out_{options_, *connection_};
  Assembler assembler_{options_, pool_};
  ClientSession session_{options_, *connection_, hand_out_, assembler_};
  Welcome welcome_;
};

Status ClientImpl::report(const Report& report) {
  ISOCOST_TRY(check_report(report));
  return hand_out_.send(report);
}

Status ClientImpl::send_profile(const ProfileUpdate& update) {
  if (update.profile.size() > kMaxProfileBytes) {
    return Error(ErrorCode::kInvalidArgument,
                 "a profile of " + std::to_string(update.profile.size()) + " bytes; at most " +
                     std::to_string(kMaxProfileBytes) + " are sent");
  }
  return hand_out_.send(update);
}

}  // namespace

void print_warnings(LogLevel level, std::string_view text) {
  if (level < LogLevel::kWarning) return;
  std::fprintf(stderr, "isocost: %.*s\n", static_cast<int>(text.size()), text.data());
}

std::optional<SharedTensor> Microbatch::find(std::string_view name) const {
  for (const NamedTensor& named : tensors) {
    if (named.name == name || argument_name(named.name) == name) return named.tensor;
  }
  check_tensor_name(name);
  return std::nullopt;
}

SharedTensor Microbatch::operator[](std::string_view name) const {
  if (auto tensor = find(name)) return *std::move(tensor);
  std::string names;
  for (const NamedTensor& named : tensors) {
    names += (names.empty() ? "" : ", ") + argument_name(named.name);
  }
  throw_exception(Error(ErrorCode::kInvalidArgument,
                        "this microbatch has no \"" + std::string(name) + "\"; it has " +
                            (names.empty() ? "none" : names) + ". Ask contains() first"));
}

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options,
                                                const std::stop_token& stop) {
  ISOCOST_TRY(check_start(options));
  ISOCOST_ASSIGN(auto connection, Connection::open(connection_options(options)));
  auto client = std::make_unique<ClientImpl>(options, std::move(connection));
  ISOCOST_TRY(client->join(stop));
  return std::unique_ptr<Client>(std::move(client));
}

}  // namespace isocost
