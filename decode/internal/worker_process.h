#pragma once

#include <sys/types.h>

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
#include "decode/internal/worker_memory.h"
#include "decode/internal/worker_protocol.h"
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
    std::string how;         ///< "was ended by signal 11 (Segmentation fault)"
    std::size_t part = 0;    ///< Of which it read last.
    bool over_time = false;  ///< It used up its CPU time.
    bool cancelled = false;  ///< `stop` was requested.
  };

  /// Decodes one sample. Blocks; the tensors own memory from `pool`. After Died there is nobody to
  /// decode another one.
  std::variant<Tensors, Died> decode(std::span<const PartBytes> parts, BufferPool& pool,
                                     const std::stop_token& stop);

  bool filtered() const { return filtered_; }

 private:
  WorkerProcess(pid_t process, FileDescriptor socket, WorkerMemory memory,
                const WorkerSetup& setup);
  Status greet(const WorkerSetup& setup);
  tl::expected<std::string, Died> wait_for_packet(const std::stop_token& stop);
  void serve_read(const ReadMessage& message, std::span<const PartBytes> parts);
  std::optional<Tensors> take_result(const ResultMessage& message, BufferPool& pool) const;
  Result<NamedTensor> copy(const WireTensor& tensor, BufferPool& pool) const;
  Died end(std::string how);
  Died died();
  std::chrono::nanoseconds cpu_time() const;

  pid_t process_;
  FileDescriptor socket_;
  const WorkerMemory memory_;
  const std::chrono::nanoseconds stands_still_after_;
  bool filtered_ = false;
  std::size_t part_ = 0;      // of which it read last
  bool read_failed_ = false;  // of this sample
};

}  // namespace isocost
