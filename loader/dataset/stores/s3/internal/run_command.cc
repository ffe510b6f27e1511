#include "loader/dataset/stores/s3/internal/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/file_descriptor.h"
#include "base/utf8.h"

namespace isocost {
namespace {

using std::chrono::milliseconds;

// How soon a request to stop is noticed.
constexpr milliseconds kStep{50};
constexpr std::size_t kMostOfErrors = 4096;
constexpr std::size_t kMostShown = 300;

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Result<Pipe> open_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error(ErrorCode::kIo, std::string("cannot be given a pipe: ") + std::strerror(errno));
  }
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// The lists of pointers that posix_spawn takes.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A process, which is killed in the end with all that it has started, and waited for.
class ChildGroup {
 public:
  static Result<ChildGroup> start(std::vector<std::string> words, const AwsEnvironment& environment,
                                  int output, int errors);
  ChildGroup(ChildGroup&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  ChildGroup& operator=(ChildGroup&&) = delete;
  // Until the process is waited for, no other group can have its number.
  ~ChildGroup() {
    if (id_ == 0) return;
    kill(-id_, SIGKILL);
    while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // Returns how the process has ended; nothing while it runs.
  std::optional<siginfo_t> ending() const {
    siginfo_t info{};
    const int failed = waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT);
    // Another handler of this process may have waited for it.
    if (failed != 0 && errno != EINTR) return siginfo_t{};
    if (failed != 0 || info.si_pid == 0) return std::nullopt;
    return info;
  }

 private:
  explicit ChildGroup(pid_t id) : id_(id) {}
  pid_t id_;
};

Result<ChildGroup> ChildGroup::start(std::vector<std::string> words,
                                     const AwsEnvironment& environment, int output, int errors) {
  std::vector<std::string> variables;
  variables.reserve(environment.variables.size());
  for (const auto& [name, value] : environment.variables) {
    variables.emplace_back(name).append("=").append(value);
  }
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> settings = pointers_to(variables);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // A process that writes to sockets may ignore it, which a child would inherit.
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  pid_t id = 0;
  const int refused =
      posix_spawnp(&id, arguments.front(), &files, &attributes, arguments.data(), settings.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (refused == 0) return ChildGroup(id);
  return Error(ErrorCode::kNotFound, std::string("cannot be started: ") + std::strerror(refused));
}

// The two streams that a process writes, until both are closed.
class Streams {
 public:
  Streams(FileDescriptor output, FileDescriptor errors)
      : output_(std::move(output)), errors_(std::move(errors)) {}

  bool are_open() const { return output_.is_open() || errors_.is_open(); }
  const std::string& output() const { return output_text_; }
  const std::string& errors() const { return errors_text_; }

  // Waits for up to `limit` for more of them, and reads it.
  void read_more(milliseconds limit) {
    std::array<pollfd, 2> waiting{pollfd{output_.get(), POLLIN, 0},
                                  pollfd{errors_.get(), POLLIN, 0}};
    if (poll(waiting.data(), waiting.size(), static_cast<int>(limit.count())) <= 0) return;
    if (waiting[0].revents != 0) read_some(output_, output_text_);
    if (waiting[1].revents == 0) return;
    read_some(errors_, errors_text_);
    // The last lines say why it failed.
    if (errors_text_.size() > kMostOfErrors) {
      errors_text_.erase(0, errors_text_.size() - kMostOfErrors);
    }
  }

 private:
  static void read_some(FileDescriptor& stream, std::string& text) {
    std::array<char, 4096> bytes{};
    const ssize_t count = read(stream.get(), bytes.data(), bytes.size());
    if (count > 0) {
      text.append(bytes.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      stream = FileDescriptor();
    }
  }

  FileDescriptor output_;
  FileDescriptor errors_;
  std::string output_text_;
  std::string errors_text_;
};

std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \r\n\t");
  if (end == text.npos) return "";
  text = text.substr(0, end + 1);
  text = text.substr(text.rfind('\n') + 1);
  return ": " + printable_utf8(text.substr(0, kMostShown));
}

Result<std::string> outcome(const siginfo_t& ending, const Streams& streams) {
  if (ending.si_status == 0) return streams.output();
  const std::string how =
      ending.si_code == CLD_EXITED ? "ends with status " : "is ended by signal ";
  return Error(ErrorCode::kIo,
               how + std::to_string(ending.si_status) + last_line(streams.errors()));
}

}  // namespace

Result<std::string> run_command(const std::vector<std::string>& words,
                                const AwsEnvironment& environment, const std::stop_token& stop,
                                const CommandLimits& limits) {
  if (words.empty()) return Error(ErrorCode::kNotFound, "names no program");
  const auto deadline = std::chrono::steady_clock::now() + limits.deadline;
  ISOCOST_ASSIGN(Pipe output, open_pipe());
  ISOCOST_ASSIGN(Pipe errors, open_pipe());
  ISOCOST_ASSIGN(ChildGroup child,
                 ChildGroup::start(words, environment, output.write.get(), errors.write.get()));
  output.write = FileDescriptor();
  errors.write = FileDescriptor();
  Streams streams(std::move(output.read), std::move(errors.read));
  // The process may end and leave its streams to another, or close them and not end.
  std::optional<siginfo_t> ending;
  while (!ending || streams.are_open()) {
    if (stop.stop_requested()) return Error(ErrorCode::kCancelled, "was stopped");
    if (std::chrono::steady_clock::now() >= deadline) {
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(limits.deadline);
      return Error(ErrorCode::kDeadlineExceeded,
                   "takes longer than " + std::to_string(seconds.count()) + " s");
    }
    if (streams.are_open()) {
      streams.read_more(kStep);
    } else {
      std::this_thread::sleep_for(kStep / 10);
    }
    if (streams.output().size() > limits.max_bytes) {
      return Error(ErrorCode::kResourceExhausted,
                   "writes more than " + std::to_string(limits.max_bytes) + " bytes");
    }
    if (!ending) ending = child.ending();
  }
  return outcome(*ending, streams);
}

}  // namespace isocost
