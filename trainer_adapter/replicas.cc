#include "trainer_adapter/replicas.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "trainer_adapter/internal/assembly.h"
#include "transport/wire/wire.h"

namespace isocost {
namespace {

using Clock = std::chrono::steady_clock;

Failure failure_of(const Error& error, const std::optional<Position>& resume_point = {}) {
  return {error.code(), error.message().substr(0, kMaxTextBytes), resume_point.has_value(),
          resume_point.value_or(Position{})};
}

// Returns the bytes of a tensor, for reading on rank 0 and for writing elsewhere.
std::span<std::byte> bytes_of(const SharedTensor& tensor) {
  const std::span<const std::byte> bytes = tensor.bytes();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): rank 0 does not write
  // (see ReplicaGroup).
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

class ReplicaClient final : public Client {
 public:
  ReplicaClient(const ClientOptions& options, ReplicaGroup group)
      : options_(options), group_(std::move(group)) {}

  Status join(const std::stop_token& stop);

  const Welcome& welcome() const override { return welcome_; }
  Result<std::optional<Microbatch>> next(const std::stop_token& stop) override;
  bool wait(std::chrono::milliseconds limit) override { return !first_ || first_->wait(limit); }
  const std::optional<EpochEnd>& epoch_end() const override { return epoch_end_; }
  std::optional<Position> resume_point() const override { return resume_point_; }
  void use(const Position& position, std::chrono::nanoseconds waited) override {
    if (first_) first_->use(position, waited);
  }
  void acknowledge() override {
    if (first_) first_->acknowledge();
  }
  Status trained(const Position& position) override {
    return first_ ? first_->trained(position) : Status();
  }
  void revoke(const Position& position) override {
    if (first_) first_->revoke(position);
  }
  Status report(const Report& report) override {
    return first_ ? first_->report(report) : Status();
  }
  Status send_profile(const ProfileUpdate& update) override {
    return first_ ? first_->send_profile(update) : Status();
  }
  void close() override { end(true); }
  void leave() override { end(false); }
  std::int64_t bytes_copied() const override { return first_ ? first_->bytes_copied() : 0; }
  std::int64_t bytes_in_use() const override {
    return first_ ? first_->bytes_in_use() : pool_.bytes_in_use();
  }
  const BufferPool& pool() const override { return first_ ? first_->pool() : pool_; }

 private:
  void end(bool acknowledge_last);
  Result<std::optional<Microbatch>> take_together(const std::stop_token& stop);
  Message receive_first(const std::stop_token& stop, Microbatch& received);
  Status share(Message& message);
  Status broadcast_tensors(const Microbatch& microbatch);
  Result<Microbatch> receive_from_first(MicrobatchHeader header);

  const ClientOptions options_;
  const ReplicaGroup group_;
  std::unique_ptr<Client> first_;  // the client of rank 0
  Welcome welcome_;
  std::optional<EpochEnd> epoch_end_;
  std::optional<Position> resume_point_;
  std::optional<Error> broken_;  // members no longer make the same calls, so `next` fails
  bool closed_ = false;
  BufferPool pool_{kKeepBytes};  // used by members other than rank 0
};

Status ReplicaClient::join(const std::stop_token& stop) {
  Message answer;
  if (group_.rank == 0) {
    auto client = Client::connect(options_, stop);
    if (client) {
      first_ = *std::move(client);
      answer = first_->welcome();
    } else {
      answer = failure_of(client.error());
    }
  }
  ISOCOST_TRY(share(answer));
  if (const auto* failure = std::get_if<Failure>(&answer)) {
    return Error(failure->code, failure->message);
  }
  const auto* welcome = std::get_if<Welcome>(&answer);
  if (welcome == nullptr) return Error(ErrorCode::kCorrupt, "replicas: no welcome from rank 0");
  welcome_ = *welcome;
  return {};
}

// Returns the next microbatch. After only one member has failed, its calls would no longer match
// those of the others, so it fails permanently.
Result<std::optional<Microbatch>> ReplicaClient::next(const std::stop_token& stop) {
  if (closed_) return Error(ErrorCode::kCancelled, "the client is closed");
  if (broken_) return *broken_;
  auto next = take_together(stop);
  if (!next) broken_ = next.error();
  return next;
}

void ReplicaClient::end(bool acknowledge_last) {
  closed_ = true;
  if (!first_) return;
  // A microbatch that did not reach the others was not trained on, and is not acknowledged.
  if (broken_) {
    first_.reset();
  } else if (acknowledge_last) {
    first_->close();
  } else {
    first_->leave();
  }
}

Result<std::optional<Microbatch>> ReplicaClient::take_together(const std::stop_token& stop) {
  const auto asked = Clock::now();
  Microbatch microbatch;
  Message news;
  if (first_) news = receive_first(stop, microbatch);
  ISOCOST_TRY(share(news));
  if (const auto* failure = std::get_if<Failure>(&news)) {
    if (failure->has_resume_point) resume_point_ = failure->resume_point;
    return Error(failure->code, failure->message);
  }
  if (const auto* end = std::get_if<EpochEnd>(&news)) {
    epoch_end_ = *end;
    return std::optional<Microbatch>();
  }
  auto* header = std::get_if<MicrobatchHeader>(&news);
  if (header == nullptr) return Error(ErrorCode::kCorrupt, "replicas: no microbatch from rank 0");
  if (first_) {
    ISOCOST_TRY(broadcast_tensors(microbatch));
  } else {
    ISOCOST_ASSIGN(microbatch, receive_from_first(std::move(*header)));
  }
  microbatch.waited = Clock::now() - asked;
  return std::optional(std::move(microbatch));
}

Message ReplicaClient::receive_first(const std::stop_token& stop, Microbatch& received) {
  auto result = first_->next(stop);
  if (!result) return failure_of(result.error(), first_->resume_point());
  std::optional<Microbatch> next = *std::move(result);
  if (!next) return first_->epoch_end().value_or(EpochEnd{});
  received = *std::move(next);
  return received.header;
}

// Replaces `message` by rank 0's on every member.
Status ReplicaClient::share(Message& message) {
  using Length = std::array<std::byte, sizeof(std::uint64_t)>;
  std::vector<std::byte> frame;
  if (group_.rank == 0) frame = encode(message);
  auto length = std::bit_cast<Length>(std::uint64_t{frame.size()});
  ISOCOST_TRY(group_.broadcast(length));
  const auto size = std::bit_cast<std::uint64_t>(length);
  if (size == 0 || size > static_cast<std::uint64_t>(kMaxMessageBytes)) {
    return Error(ErrorCode::kCorrupt, "replicas: rank 0 announces a message of " +
                                          std::to_string(size) +
                                          " bytes: do all members make the same calls?");
  }
  frame.resize(size);
  ISOCOST_TRY(group_.broadcast(frame));
  if (group_.rank == 0) return {};
  ISOCOST_ASSIGN(message, decode(frame));
  return {};
}

// Broadcasts the announced tensors only, since every member computes the others from them.
Status ReplicaClient::broadcast_tensors(const Microbatch& microbatch) {
  for (const TensorSpec& spec : microbatch.header.tensors) {
    const std::span<std::byte> bytes = bytes_of(microbatch[spec.name]);
    if (!bytes.empty()) ISOCOST_TRY(group_.broadcast(bytes));
  }
  return {};
}

Result<Microbatch> ReplicaClient::receive_from_first(MicrobatchHeader header) {
  ISOCOST_ASSIGN(Assembly assembly,
                 Assembly::begin(std::move(header), pool_, options_.max_microbatch_bytes));
  ISOCOST_ASSIGN(const auto tensors, assembly.expose_all());
  for (const std::span<std::byte> bytes : tensors) {
    if (!bytes.empty()) ISOCOST_TRY(group_.broadcast(bytes));
  }
  return assembly.finish();
}

}  // namespace

Result<std::unique_ptr<Client>> connect_replica(const ClientOptions& options, ReplicaGroup group,
                                                const std::stop_token& stop) {
  auto client = std::make_unique<ReplicaClient>(options, std::move(group));
  ISOCOST_TRY(client->join(stop));
  return std::unique_ptr<Client>(std::move(client));
}

}  // namespace isocost
