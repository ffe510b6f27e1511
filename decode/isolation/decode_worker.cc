// A decode worker: the counterpart of isolated_decoder.cc.
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_source.h"
#include "decode/isolation/internal/sandbox.h"
#include "decode/isolation/internal/worker_memory.h"
#include "decode/isolation/internal/worker_protocol.h"
#include "decode/isolation/isolated_decoder.h"

namespace isocost {
namespace {

// Asks the node for bytes of the sample's parts. The window holds those of the last request.
class Reader {
 public:
  Reader(std::span<std::byte> window, pid_t parent) : window_(window), parent_(parent) {}

  /// Returns at most as many bytes as the window holds; none at the end. Errors: kIo.
  Result<std::span<const std::byte>> read(std::uint32_t part, std::int64_t offset,
                                          std::int64_t bytes) {
    if (part != part_ || offset < offset_ || offset >= offset_ + bytes_) {
      ISOCOST_TRY(fetch(part, offset, bytes));
    }
    const auto begin = static_cast<std::size_t>(offset - offset_);
    return window_.subspan(begin, static_cast<std::size_t>(bytes_) - begin);
  }
  /// Drops the bytes, because the window is used for something else.
  void forget() { bytes_ = 0; }

 private:
  Status fetch(std::uint32_t part, std::int64_t offset, std::int64_t bytes) {
    constexpr std::int64_t kLeast = 128 << 10;
    bytes_ = 0;
    const std::int64_t wanted = std::clamp<std::int64_t>(bytes, kLeast, std::ssize(window_));
    ISOCOST_TRY(
        send_message(kWorkerSocket, ReadMessage{.part = part, .offset = offset, .bytes = wanted}));
    const auto done = as_message<ReadDoneMessage>(receive_packet(kWorkerSocket, parent_));
    if (!done || done->failed != 0 || done->bytes < 0 || done->bytes > wanted) {
      return Error(ErrorCode::kIo, "its bytes cannot be read");
    }
    part_ = part;
    offset_ = offset;
    bytes_ = done->bytes;
    return {};
  }

  const std::span<std::byte> window_;
  const pid_t parent_;
  std::uint32_t part_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t bytes_ = 0;
};

class RemoteSource final : public ByteSource {
 public:
  RemoteSource(Reader& reader, std::uint32_t part, std::int64_t size)
      : reader_(reader), part_(part), size_(size) {}

  std::int64_t size() const override { return size_; }
  Result<std::size_t> read_at(std::int64_t offset, std::span<std::byte> to) const override {
    if (offset < 0) return Error(ErrorCode::kInvalidArgument, "a read before the beginning");
    std::size_t done = 0;
    while (done < to.size()) {
      const std::int64_t at = offset + static_cast<std::int64_t>(done);
      if (at >= size_) break;
      ISOCOST_ASSIGN(const auto bytes, reader_.read(part_, at, std::ssize(to.subspan(done))));
      if (bytes.empty()) break;
      const std::size_t count = std::min(bytes.size(), to.size() - done);
      std::memcpy(to.data() + done, bytes.data(), count);
      done += count;
    }
    return done;
  }

 private:
  Reader& reader_;
  const std::uint32_t part_;
  const std::int64_t size_;
};

// Ends this process after `cpu_time`, also if a decoder does not check its limit or the node is
// gone.
void end_after(std::chrono::nanoseconds cpu_time) {
  constexpr std::chrono::seconds kGrace{2};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(cpu_time) + kGrace;
  const itimerval timer{{0, 0}, {seconds.count(), 0}};
  (void)setitimer(ITIMER_PROF, &timer, nullptr);
}

class Worker {
 public:
  Worker(const WorkerSetup& setup, Recipe recipe, const WorkerMemory& memory, pid_t parent)
      : setup_(setup),
        parent_(parent),
        recipe_(std::move(recipe)),
        memory_(memory),
        reader_(memory.window(), parent),
        pool_(memory.arena()) {}

  /// Serves requests until the node is gone.
  void run() {
    for (;;) {
      const auto request = as_message<RequestMessage>(receive_packet(kWorkerSocket, parent_));
      if (!request || request->parts > kMaxParts) return;
      const std::chrono::nanoseconds limit(setup_.cpu_time_ns);
      end_after(limit);
      if (!send_message(kWorkerSocket, decode(request->parts))) return;
    }
  }

 private:
  ResultMessage decode(std::uint32_t count) {
    std::vector<WirePart> wire(count);
    std::memcpy(wire.data(), memory_.window().data(), count * sizeof(WirePart));
    reader_.forget();
    std::vector<std::unique_ptr<RemoteSource>> sources;
    std::vector<PartBytes> parts;
    for (std::uint32_t i = 0; i < count; ++i) {
      sources.push_back(std::make_unique<RemoteSource>(reader_, i, wire[i].bytes));
      parts.push_back({&wire[i].shape, sources.back().get()});
    }
    try {
      return result_of(
          recipe_.tensors(parts, pool_, DecodeLimit(std::chrono::nanoseconds(setup_.cpu_time_ns))));
    } catch (const std::bad_alloc&) {
      return failure({Error(ErrorCode::kOutOfMemory,
                            "decoding it takes more memory than its share of the memory budget"),
                      0});
    }
  }

  static ResultMessage failure(const PartError& failed) {
    ResultMessage message;
    message.part = static_cast<std::uint32_t>(failed.part);
    message.code = failed.error.code();
    const std::string& text = failed.error.message();
    text.copy(message.message.data(), message.message.size() - 1);
    return message;
  }

  ResultMessage result_of(const tl::expected<std::vector<NamedTensor>, PartError>& tensors) const {
    if (!tensors) return failure(tensors.error());
    ResultMessage message;
    for (const NamedTensor& named : *tensors) {
      WireTensor& out = message.tensor.at(message.tensors++);
      named.name.copy(out.name.data(), out.name.size() - 1);
      out.dtype = named.tensor.dtype;
      out.dimensions = static_cast<std::uint32_t>(named.tensor.shape.size());
      std::copy(named.tensor.shape.begin(), named.tensor.shape.end(), out.shape.begin());
      out.offset = named.tensor.data - memory_.arena().data();
    }
    return message;
  }

  const WorkerSetup setup_;
  const pid_t parent_;
  const Recipe recipe_;
  const WorkerMemory& memory_;
  Reader reader_;
  BufferPool pool_;
};

}  // namespace

int run_decode_worker() {
  constexpr int kNobody = 2;
  const pid_t parent = getppid();
  const timeval look_for_parent{5, 0};
  setsockopt(kWorkerSocket, SOL_SOCKET, SO_RCVTIMEO, &look_for_parent, sizeof(look_for_parent));
  const std::string packet = receive_packet(kWorkerSocket, parent);
  const auto setup = parse_worker_setup(packet);
  if (!setup) return kNobody;
  auto recipe = Recipe::parse(setup->recipe);
  const auto memory = WorkerMemory::map(FileDescriptor(kWorkerMemory));
  if (!recipe || !memory) return kNobody;
  const ReadyMessage ready{.filtered = enter_sandbox(setup->memory) ? 1U : 0U};
  if (!send_message(kWorkerSocket, ready)) return 0;
  Worker(*setup, *std::move(recipe), *memory, parent).run();
  return 0;
}

}  // namespace isocost
