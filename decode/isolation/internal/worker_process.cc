#include "decode/isolation/internal/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/load.h"
#include "base/tensor_schema.h"
#include "base/utf8.h"
#include "decode/isolation/internal/worker_environment.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kPoll{200};
constexpr const char* kNothing = "/dev/null";
// Most bytes of a worker's arena that are kept between samples.
constexpr std::int64_t kKeptArena = 16 << 20;

Error unavailable(const std::string& what, int code) {
  return {ErrorCode::kUnavailable, "cannot start a decode worker: " + what + ": " + strerror(code)};
}

// Returns a duplicate above the numbers that descriptors get in the worker.
FileDescriptor moved_up(int descriptor) {
  constexpr int kAbove = 16;
  return FileDescriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, kAbove));
}

// Starts a process in a group of its own, which terminal signals do not reach, with the two
// descriptors, standard error and little of the environment, and with no signal blocked or ignored.
class Spawning {
 public:
  Spawning() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~Spawning() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;

  // Starts the program, with `nothing` as standard input and output. Returns errno's number.
  int start(const std::filesystem::path& program, int nothing, int socket, int memory,
            pid_t& process) {
    posix_spawn_file_actions_adddup2(&actions_, nothing, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, nothing, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, socket, kWorkerSocket);
    posix_spawn_file_actions_adddup2(&actions_, memory, kWorkerMemory);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kWorkerMemory + 1);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::string name = "isocost";
    std::string command = "decode-worker";
    const std::array<char*, 3> arguments = {name.data(), command.data(), nullptr};
    std::vector<std::string> kept = worker_environment(environ);
    std::vector<char*> environment;
    environment.reserve(kept.size() + 1);
    for (std::string& variable : kept) environment.push_back(variable.data());
    environment.push_back(nullptr);
    return posix_spawn(&process, program.c_str(), &actions_, &attributes_, arguments.data(),
                       environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

struct Spawned {
  pid_t process = 0;
  FileDescriptor socket;
};

// Starts a worker. Only the worker holds the other end of the socket, so its end closes the
// connection.
Result<Spawned> spawn(const std::filesystem::path& program, const WorkerMemory& memory) {
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    return unavailable("socketpair", errno);
  }
  Spawned spawned{0, FileDescriptor(pair[0])};
  const FileDescriptor theirs(pair[1]);
  const FileDescriptor nothing(open(kNothing, O_RDWR | O_CLOEXEC));
  // Roots of containers have an empty /dev until a runtime fills it.
  if (!nothing.is_open()) return unavailable(kNothing, errno);
  const FileDescriptor nothing_up = moved_up(nothing.get());
  const FileDescriptor socket_up = moved_up(theirs.get());
  const FileDescriptor memory_up = moved_up(memory.descriptor());
  if (!nothing_up.is_open() || !socket_up.is_open() || !memory_up.is_open()) {
    return unavailable("descriptors", errno);
  }
  const int refused = Spawning().start(program, nothing_up.get(), socket_up.get(), memory_up.get(),
                                       spawned.process);
  if (refused == 0) return spawned;
  if (refused != ENOENT && refused != EACCES && refused != ENOEXEC) {
    return unavailable(program.string(), refused);
  }
  return Error(ErrorCode::kInvalidArgument,
               program.string() + " cannot be started as a decode worker: " + strerror(refused));
}

// Waits for at most `limit` for a packet or the end of the connection. Returns whether one came.
// Signals do not end the wait.
bool is_readable(int socket, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{socket, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// Returns whether each module's lengths add up to the rows of its other tensors, on which clients
// rely.
bool lengths_add_up(std::span<const NamedTensor> tensors) {
  std::array<std::int64_t, kModules> sums{};
  for (const NamedTensor& named : tensors) {
    const TensorEntry* entry = find_tensor(named.name);
    if (entry->role != TensorRole::kLengths) continue;
    for (const std::int32_t length : named.tensor.as<std::int32_t>()) {
      if (length < 0) return false;
      sums.at(static_cast<std::size_t>(entry->module)) += length;
    }
  }
  return std::ranges::all_of(tensors, [&](const NamedTensor& named) {
    const TensorEntry* entry = find_tensor(named.name);
    return !entry->is_per_unit() ||
           named.tensor.shape.front() == sums.at(static_cast<std::size_t>(entry->module));
  });
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")" +
           (signal == SIGKILL ? ", as the system does when memory runs out" : "");
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

// Calls the kernel, since glibc has a function for it from 2.36 on, and training containers have
// older ones.
FileDescriptor open_pidfd(pid_t process) {
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const std::filesystem::path& program,
                                                            const WorkerSetup& setup) {
  ISOCOST_ASSIGN(WorkerMemory memory, WorkerMemory::create(setup.memory));
  ISOCOST_ASSIGN(Spawned spawned, spawn(program, memory));
  Child process{spawned.process, open_pidfd(spawned.process)};
  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(std::move(process), std::move(spawned.socket), std::move(memory), setup));
  ISOCOST_TRY_CONTEXT(worker->greet(setup), program.string());
  return worker;
}

WorkerProcess::WorkerProcess(Child process, FileDescriptor socket, WorkerMemory memory,
                             const WorkerSetup& setup)
    : process_(std::move(process)),
      socket_(std::move(socket)),
      memory_(std::move(memory)),
      cpu_limit_(setup.cpu_time_ns) {}

Status WorkerProcess::greet(const WorkerSetup& setup) {
  constexpr milliseconds kStartTimeout{30'000};
  const std::string text = to_json(setup);
  const bool answered = send_packet(socket_.get(), std::as_bytes(std::span(text))).has_value() &&
                        is_readable(socket_.get(), kStartTimeout);
  const auto ready = as_message<ReadyMessage>(answered ? receive_packet(socket_.get()) : "");
  if (!ready) {
    return Error(ErrorCode::kInvalidArgument,
                 "it does not start as a decode worker of this version of Isocost");
  }
  filtered_ = ready->filtered != 0;
  return {};
}

WorkerProcess::~WorkerProcess() {
  if (process_.id == 0 || owner_ != getpid()) return;
  kill();
  reap();
}

void WorkerProcess::kill() {
  if (process_.descriptor.is_open()) {
    syscall(SYS_pidfd_send_signal, process_.descriptor.get(), SIGKILL, nullptr, 0);
  } else {
    ::kill(process_.id, SIGKILL);
  }
}

// Blocks until the process, which was killed or is about to end, has ended.
int WorkerProcess::reap() {
  int status = 0;
  const Child process = std::exchange(process_, {});
  while (waitpid(process.id, &status, 0) < 0) {
    if (errno != EINTR) return 0;  // another thread or handler waited for it
  }
  return status;
}

std::variant<WorkerProcess::Tensors, WorkerProcess::Died> WorkerProcess::decode(
    std::span<const PartBytes> parts, std::span<const TensorPlan> planned, BufferPool& pool,
    const std::stop_token& stop) {
  if (parts.size() > kMaxParts) {
    return Tensors(
        tl::unexpected(PartError{Error(ErrorCode::kResourceExhausted,
                                       "it has more than " + std::to_string(kMaxParts) + " parts"),
                                 0}));
  }
  part_ = 0;
  read_failed_ = false;
  has_read_ = false;
  auto* wire = reinterpret_cast<WirePart*>(memory_.window().data());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    wire[i] = {*parts[i].shape, parts[i].source->size()};
  }
  const Request request{parts, planned, cpu_time()};
  // Ignored, because waiting for the answer finds out how a worker that is gone has ended.
  (void)send_message(socket_.get(),
                     RequestMessage{.parts = static_cast<std::uint32_t>(parts.size())});
  for (;;) {
    auto packet = wait_for_packet(request, stop);
    if (!packet) return std::move(packet).error();
    if (const auto read = as_message<ReadMessage>(*packet); read && read->part < parts.size()) {
      const Status served = serve_read(*read, parts);
      if (!served && served.error().code() == ErrorCode::kResourceExhausted) {
        return end("broke its protocol and was ended");
      }
      continue;
    }
    const auto result = as_message<ResultMessage>(*packet);
    if (!result) return end("broke its protocol and was ended");
    auto tensors = take_result(*result, request, pool);
    memory_.release_beyond(kKeptArena);
    if (!tensors) return end("gave an answer that cannot be, and was ended");
    return *std::move(tensors);
  }
}

tl::expected<std::string, WorkerProcess::Died> WorkerProcess::wait_for_packet(
    const Request& request, const std::stop_token& stop) {
  WorkerDeadline deadline(cpu_limit_, request.cpu_time);
  for (;;) {
    const bool ready = is_readable(socket_.get(), kPoll);
    const auto due = deadline.after_wait(cpu_time(), kPoll, ready, stop);
    if (due != WorkerDeadline::Due::kNo) return tl::unexpected(end_because(due));
    if (ready) break;
  }
  std::string packet = receive_packet(socket_.get());
  if (packet.empty()) return tl::unexpected(died());
  return packet;
}

WorkerProcess::Died WorkerProcess::end_because(WorkerDeadline::Due due) {
  if (due == WorkerDeadline::Due::kStoodStill) return end("stood still and was ended");
  const bool over = due == WorkerDeadline::Due::kOverTime;
  Died died =
      end(over ? "used up its CPU time and was ended" : "was ended, as a stop was requested");
  died.over_time = over;
  died.cancelled = !over;
  return died;
}

Status WorkerProcess::serve_read(const ReadMessage& message, std::span<const PartBytes> parts) {
  part_ = message.part;
  has_read_ = true;
  ReadDoneMessage done;
  const std::int64_t bytes =
      std::clamp<std::int64_t>(message.bytes, 0, static_cast<std::int64_t>(kWindowBytes));
  const auto read = parts[part_].source->read_at(
      message.offset, memory_.window().first(static_cast<std::size_t>(bytes)));
  if (read) {
    done.bytes = static_cast<std::int64_t>(*read);
  } else {
    done.failed = 1;
    read_failed_ = true;
  }
  return send_message(socket_.get(), done);
}

// Returns the tensors; nothing if a correct worker could not have sent the message.
std::optional<WorkerProcess::Tensors> WorkerProcess::take_result(const ResultMessage& message,
                                                                 const Request& request,
                                                                 BufferPool& pool) const {
  if (message.tensors == 0) {
    const std::size_t length = strnlen(message.message.data(), message.message.size());
    PartError error{Error(message.code, std::string(message.message.data(), length)), message.part};
    if (!is_possible(error, request)) return std::nullopt;
    return Tensors(tl::unexpected(std::move(error)));
  }
  if (message.tensors > message.tensor.size() || message.tensors != request.tensors.size()) {
    return std::nullopt;
  }
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < message.tensors; ++i) {
    auto tensor = copy(message.tensor.at(i), request.tensors[i], pool);
    if (!tensor) return std::nullopt;
    tensors.push_back(*std::move(tensor));
  }
  if (!lengths_add_up(tensors)) return std::nullopt;
  return Tensors(std::move(tensors));
}

bool WorkerProcess::is_possible(const PartError& error, const Request& request) const {
  if (error.part >= request.parts.size() || !is_utf8(error.error.message())) return false;
  switch (error.error.code()) {
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kInternal:
    case ErrorCode::kOutOfMemory:
      return true;
    case ErrorCode::kIo:
      return read_failed_;
    default:
      return false;
  }
}

// Returns a copy of the tensor; nothing if it is not the one that the sample has here, or does not
// lie within the arena.
std::optional<NamedTensor> WorkerProcess::copy(const WireTensor& wire, const TensorPlan& planned,
                                               BufferPool& pool) const {
  const std::string_view name(wire.name.data(), strnlen(wire.name.data(), wire.name.size()));
  if (name != planned.entry->name || wire.dtype != planned.entry->dtype) return std::nullopt;
  const auto end = wire.shape.begin() + std::min<std::ptrdiff_t>(wire.dimensions, 4);
  if (!std::equal(planned.shape.begin(), planned.shape.end(), wire.shape.begin(), end)) {
    return std::nullopt;
  }
  std::optional<std::int64_t> bytes = dtype_size(wire.dtype);
  for (const std::int64_t side : planned.shape) {
    if (bytes) bytes = checked_product(*bytes, side);
  }
  const std::span<const std::byte> arena = memory_.arena();
  if (!bytes || wire.offset < 0 || wire.offset > std::ssize(arena) ||
      *bytes > std::ssize(arena) - wire.offset) {
    return std::nullopt;
  }
  Buffer buffer = pool.allocate(*bytes);
  std::memcpy(buffer.data(), arena.data() + wire.offset, static_cast<std::size_t>(*bytes));
  auto tensor = make_tensor(std::move(buffer), wire.dtype, planned.shape);
  if (!tensor) return std::nullopt;
  return NamedTensor{std::string(name), *std::move(tensor)};
}

WorkerProcess::Died WorkerProcess::end(std::string how) {
  kill();
  reap();
  return {std::move(how), part_};
}

// Returns how the process ended. The connection is closed, so the process has ended or is about to.
WorkerProcess::Died WorkerProcess::died() {
  const int status = reap();
  Died died{how_it_ended(status), part_};
  died.read_nothing = !has_read_;
  died.over_time = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
  return died;
}

nanoseconds WorkerProcess::cpu_time() const {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(process_.id, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return nanoseconds(0);
  }
  return std::chrono::seconds(used.tv_sec) + nanoseconds(used.tv_nsec);
}

}  // namespace isocost
