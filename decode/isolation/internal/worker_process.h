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
  /// The process has ended without an answer, or was ended here because it stood still.
  struct Died {
    std::string how;            ///< "was ended by signal 11 (Segmentation fault)"
    std::size_t part = 0;       ///< Of which it read last.
    bool over_time = false;     ///< It used up its CPU time.
    bool cancelled = false;     ///< `stop` was requested.
    bool read_nothing = false;  ///< It had ended by itself before it read any of the sample.
  };

  /// Decodes one sample, whose tensors must be those of the plan. Blocks; the tensors own memory
  /// from `pool`. After Died the process is gone.
  std::variant<Tensors, Died> decode(std::span<const PartBytes> parts,
                                     std::span<const TensorPlan> planned, BufferPool& pool,
                                     const std::stop_token& stop);

  /// Whether a filter of system calls holds for the process.
  bool filtered() const { return filtered_; }

 private:
  /// A process that nobody has waited for. Where the system has pidfds it is known by one, because
  /// a program that embeds a node may wait for all its children, and then its number can be
  /// another's.
  struct Child {
    pid_t id = 0;  ///< 0: none.
    FileDescriptor descriptor;
  };
  WorkerProcess(Child process, FileDescriptor socket, WorkerMemory memory,
                const WorkerSetup& setup);
  Status greet(const WorkerSetup& setup);
  struct Request {
    std::span<const PartBytes> parts;
    std::span<const TensorPlan> tensors;
    std::chrono::nanoseconds cpu_time;  ///< Of the process when it began.
  };
  tl::expected<std::string, Died> wait_for_packet(const Request& request,
                                                  const std::stop_token& stop);
  std::optional<Died> end_if_due(const Request& request, const std::stop_token& stop);
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
  const pid_t owner_ = getpid();  // a forked child has this object, but not the process
  const std::chrono::nanoseconds cpu_limit_;
  bool filtered_ = false;
  std::size_t part_ = 0;      // of which it read last
  bool read_failed_ = false;  // of this sample
  bool has_read_ = false;
};

}  // namespace isocost
