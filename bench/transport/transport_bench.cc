// What part of a bare ZeroMQ pair's throughput does a node's transport reach, with the assembly of
// bytes into tensors included?
//
// For each message size and way, one round measures two contenders: a pair of sockets whose
// receiver drops messages of one frame, and Server -> Client with microbatches of eight fragments
// of that size. The ways are tcp, without and with CURVE keys, ipc, and shared memory, beside which
// the bare pair goes by ipc.
// All are checked: all bytes arrived, and the microbatches hold what was sent; before the rounds,
// every byte of them. In the rounds a byte of each page is read, so that mapping pages is in the
// time. Prints medians over several rounds, and the range of the ratio, which is taken within a
// round because the machine's speed drifts.
// Usage: transport_bench [tcp|curve|ipc|shared]: only that way, for example under `perf record`.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/scratch_directory.h"
#include "base/statistics.h"
#include "trainer_adapter/client.h"
#include "transport/zmq/keys.h"
#include "transport/zmq/server.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kFragments = 8;
constexpr std::uint32_t kWarm = 4;  // microbatches before the clock starts: their memory is fresh
constexpr int kRounds = 7;
constexpr std::int64_t kBytesARound = std::int64_t{1} << 30;
constexpr std::int64_t kLeastMicrobatches = 32;  // some were received when the clock started

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "transport_bench: %s\n", what.c_str());
  std::exit(1);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Way {
  std::string name;
  std::string endpoint;
  bool shared = false;
  std::filesystem::path keys = {};  // of the node, as write_keys takes it; empty: no CURVE

  std::string secret_key() const { return keys.empty() ? "" : keys.string() + ".secret"; }
  std::string public_key() const { return keys.empty() ? "" : keys.string() + ".public"; }
};

void encrypt(const Way& way, zmq::socket_t& node, zmq::socket_t& client) {
  if (way.keys.empty()) return;
  const isocost::KeyPair keys = isocost::read_secret_key(way.secret_key()).value();
  const isocost::KeyPair own = isocost::generate_keys().value();
  node.set(zmq::sockopt::curve_server, true);
  node.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  client.set(zmq::sockopt::curve_serverkey, keys.public_key);
  client.set(zmq::sockopt::curve_publickey, own.public_key);
  client.set(zmq::sockopt::curve_secretkey, own.secret_key);
}

// GB/s of a bare pair: frames over the sender's memory, without a copy, received and dropped. The
// receiver grants credit as ours does, so that queues do not grow without bound.
double bare_pair(const Way& way, std::int64_t size, std::int64_t timed) {
  constexpr std::int64_t kFirst = std::int64_t{kWarm} * kFragments;
  const std::int64_t messages = kFirst + timed;
  zmq::context_t context(1);
  zmq::context_t other(1);
  zmq::socket_t sender(context, zmq::socket_type::dealer);
  zmq::socket_t receiver(other, zmq::socket_type::dealer);
  for (zmq::socket_t* socket : {&sender, &receiver}) {
    socket->set(zmq::sockopt::sndhwm, 0);
    socket->set(zmq::sockopt::rcvhwm, 0);
    socket->set(zmq::sockopt::linger, 0);
  }
  encrypt(way, sender, receiver);
  sender.bind(way.endpoint);
  receiver.connect(sender.get(zmq::sockopt::last_endpoint));
  const std::vector<char> bytes(static_cast<std::size_t>(size), 'x');
  constexpr std::int64_t kWindow = 2 * kFragments;

  std::jthread sending([&] {
    for (std::int64_t i = 0; i < messages; ++i) {
      if (i >= kWindow) {
        zmq::message_t credit;
        static_cast<void>(sender.recv(credit));
      }
      zmq::message_t message(
          const_cast<char*>(bytes.data()), bytes.size(), [](void*, void*) {}, nullptr);
      sender.send(message, zmq::send_flags::none);
    }
  });
  auto start = Clock::now();
  std::int64_t received = 0;
  for (std::int64_t i = 0; i < messages; ++i) {
    if (i == kFirst) start = Clock::now();
    zmq::message_t message;
    static_cast<void>(receiver.recv(message));
    received += static_cast<std::int64_t>(message.size());
    receiver.send(zmq::message_t(), zmq::send_flags::none);
  }
  const double seconds = seconds_since(start);
  if (received != messages * size) give_up("the bare pair lost bytes");
  return static_cast<double>(timed * size) / seconds / 1e9;
}

// The node's side: sends one tensor again and again, as credit allows.
class Sender {
 public:
  Sender(const Way& way, std::int64_t size, std::uint32_t microbatches)
      : size_(size), microbatches_(microbatches) {
    isocost::Buffer buffer = pool_.allocate(size);
    std::memset(buffer.data(), 'x', static_cast<std::size_t>(size));
    tensor_ = isocost::make_tensor(std::move(buffer), isocost::DType::kUInt8, {1, size}).value();
    isocost::ServerOptions options;
    options.bind = way.endpoint;
    options.curve_key = way.secret_key();
    if (way.shared) {
      options.reserve_block = [](std::int64_t) { return std::make_shared<const int>(0); };
    }
    const isocost::MutexLock lock(mutex_);
    auto server = isocost::Server::create(
        options, [](const auto&) { return isocost::Welcome{}; },
        [this](const isocost::ClientEvent& event) { on_event(event); }, {});
    if (!server) give_up(server.error().message());
    server_ = *std::move(server);
  }
  const std::string& endpoint() const { return server_->endpoint(); }

 private:
  void on_event(const isocost::ClientEvent& event) {
    const isocost::MutexLock lock(mutex_);
    const auto* credit = std::get_if<isocost::CreditGranted>(&event);
    if (credit == nullptr) return;
    for (std::uint32_t i = 0; i < credit->microbatches; ++i) send();
  }

  void send() ISOCOST_REQUIRES(mutex_) {
    if (next_ == microbatches_) return;
    isocost::MicrobatchHeader header;
    header.position = {0, next_++, 0};
    header.tensors = {{"vision.patches", isocost::DType::kUInt8, {kFragments, size_}}};
    for (std::uint32_t i = 0; i < kFragments; ++i) {
      header.samples.push_back({i, 1.0F, 1});
      header.rows.push_back(1);
    }
    server_->begin(0, header);
    for (std::uint32_t i = 0; i < kFragments; ++i) {
      server_->fragment(0, {header.position, i, {{"vision.patches", tensor_}}}, nullptr);
    }
    if (next_ == microbatches_) server_->epoch_end(0, {0, next_, 0, 0, 0, true});
  }

  const std::int64_t size_;
  const std::uint32_t microbatches_;
  isocost::BufferPool pool_;
  isocost::SharedTensor tensor_;
  isocost::Mutex mutex_;
  std::uint32_t next_ ISOCOST_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<isocost::Server> server_;
};

bool is_whole(std::span<const std::byte> bytes, std::int64_t size, std::size_t stride) {
  if (bytes.size() != static_cast<std::size_t>(size) * kFragments) return false;
  std::size_t others = bytes.back() == std::byte{'x'} ? 0 : 1;
  for (std::size_t i = 0; i < bytes.size(); i += stride)
    others += bytes[i] == std::byte{'x'} ? 0 : 1;
  return others == 0;
}

// GB/s of tensor bytes that arrive, of which every `stride`th is read.
double ours(const Way& way, std::int64_t size, std::int64_t messages, std::size_t stride = 4096) {
  const auto timed = static_cast<std::uint32_t>(messages / kFragments);
  const std::uint32_t microbatches = kWarm + timed;
  Sender sender(way, size, microbatches);
  isocost::ClientOptions options;
  options.endpoint = sender.endpoint();
  options.curve_server_key_file = way.public_key();
  auto client = isocost::Client::connect(options);
  if (!client) give_up(client.error().message());
  auto start = Clock::now();
  std::uint32_t received = 0;
  for (;;) {
    if (received == kWarm) start = Clock::now();
    auto next = (*client)->next({});
    if (!next) give_up(next.error().message());
    if (!next->has_value()) break;
    ++received;
    if (!is_whole((*next)->find("vision.patches")->bytes(), size, stride)) {
      give_up("a microbatch came with other bytes");
    }
  }
  const double seconds = seconds_since(start);
  if (received != microbatches) give_up("microbatches were lost");
  const std::int64_t all = size * kFragments * microbatches;
  if ((*client)->bytes_copied() != (way.shared ? 0 : all)) give_up("bytes went another way");
  return static_cast<double>(size * kFragments * timed) / seconds / 1e9;
}

void compare(const Way& way, std::int64_t size) {
  const std::int64_t messages =
      std::max<std::int64_t>(kBytesARound / size, kLeastMicrobatches * kFragments) / kFragments *
      kFragments;
  std::vector<double> bare;
  std::vector<double> isocost_rate;
  std::vector<double> ratio;
  ours(way, size, 4 * kFragments, /*stride=*/1);
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(bare_pair(way, size, messages));
    isocost_rate.push_back(ours(way, size, messages));
    ratio.push_back(isocost_rate.back() / bare.back());
  }
  const isocost::Distribution ratios = isocost::distribution_of(ratio);
  std::printf(
      "%-6s %8lld KiB   bare %6.2f GB/s   isocost %6.2f GB/s   ratio %5.2f  (%.2f to %.2f)\n",
      way.name.c_str(), static_cast<long long>(size / 1024), isocost::median(bare),
      isocost::median(isocost_rate), ratios.p50, ratios.least, ratios.most);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  const auto scratch = isocost::ScratchDirectory::create("isocost-transport-bench");
  if (!scratch) give_up(scratch.error().message());
  const std::string socket_file = "ipc://" + (*scratch / "socket").string();
  const std::filesystem::path keys = *scratch / "node";
  if (!isocost::write_keys(isocost::generate_keys().value(), keys)) give_up("cannot write keys");
  const std::vector<Way> ways = {{"tcp", "tcp://127.0.0.1:*"},
                                 {"curve", "tcp://127.0.0.1:*", /*shared=*/false, keys},
                                 {"ipc", socket_file},
                                 {"shared", socket_file, /*shared=*/true}};
  std::printf("medians of %d rounds; the ratio's range in brackets\n", kRounds);
  for (const std::int64_t size : {64 << 10, 1 << 20, 16 << 20}) {
    for (const Way& way : ways) {
      if (only.empty() || only == way.name) compare(way, size);
    }
  }
}
