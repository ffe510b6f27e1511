#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/file_descriptor.h"
#include "base/result.h"
#include "base/tensor.h"
#include "decode/isolation/internal/worker_deadline.h"
#include "decode/isolation/internal/worker_memory.h"
#include "decode/isolation/internal/worker_protocol.h"
#include "decode/recipe.h"

namespace isocost {

/// A decode worker and the node's end of its connection. Single-thread; ends the process when it is
/// destroyed.
class WorkerProcess {
 public:
  /// Starts `program` and waits until it is ready. Errors: kInvalidArgument if it does not start as
  /// a decode worker; kUnavailable for lack of processes, descriptors or memory.
  static Result<std::unique_ptr<WorkerProcess>> start(const std::filesystem::path& program,
                                                      const WorkerSetup& setup);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  using Tensors = tl::expected<std::vector<NamedTensor>, PartError>;
  /// A process that ended without an answer: it died, or it made no progress and was killed here.
  struct Died {
    std::string how;            ///< "was ended by signal 11 (Segmentation fault)"
    std::size_t part = 0;       ///< Part that it read last.
    bool over_time = false;     ///< Whether it used up its CPU time.
    bool cancelled = false;     ///< Whether `stop` was requested.
    bool read_nothing = false;  ///< Whether it died before it read any of the sample.
  };

  /// Decodes one sample, whose tensors must be those of the plan. Blocks; the tensors own memory
  /// from `pool`. After Died the process is gone.
  std::variant<Tensors, Died> decode(std::span<const PartBytes> parts,
                                     std::span<const TensorPlan> planned, BufferPool& pool,
                                     const std::stop_token& stop);

  /// Returns whether a filter of system calls is in force for the process.
  bool filtered() const { return filtered_; }

 private:
  /// A process that must still be waited for. If the system has pidfds it is identified by one,
  /// because a program that embeds a node may wait for all its children, and the number may then
  /// belong to another process.
  struct Child {
    pid_t id = 0;  ///< 0: no process.
    FileDescriptor descriptor;
  };
  WorkerProcess(Child process, FileDescriptor socket, WorkerMemory memory,
                const WorkerSetup& setup);
  Status greet(const WorkerSetup& setup);
  struct Request {
    std::span<const PartBytes> parts;
    std::span<const TensorPlan> tensors;
    std::chrono::nanoseconds cpu_time;  ///< CPU time of the process when the request began.
  };
  tl::expected<std::string, Died> wait_for_packet(const Request& request,
                                                  const std::stop_token& stop);
  Died end_because(WorkerDeadline::Due due);
  Status serve_read(const ReadMessage& message, std::span<const PartBytes> parts);
  std::optional<Tensors> take_result(const ResultMessage& message, const Request& request,
                                     BufferPool& pool) const;
  bool is_possible(const PartError& error, const Request& request) const;
  std::optional<NamedTensor> copy(const WireTensor& tensor, const TensorPlan& planned,
                                  BufferPool& pool) const;
  Died end(std::string how);
  Died died();
  void kill();
  int reap();
  std::chrono::nanoseconds cpu_time() const;

  Child process_;
  FileDescriptor socket_;
  const WorkerMemory memory_;
  const pid_t owner_ = getpid();  // a forked child has this object, but must not end the process
  const std::chrono::nanoseconds cpu_limit_;
  bool filtered_ = false;
  std::size_t part_ = 0;      // part that it read last
  bool read_failed_ = false;  // whether a read of this sample failed
  bool has_read_ = false;
};

}  // namespace isocost
