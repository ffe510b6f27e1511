#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/log.h"
#include "base/result.h"
#include "decode/sample_decoder.h"

namespace isocost {

struct IsolationOptions {
  /// Program that is started as `PROGRAM decode-worker`; it calls run_decode_worker.
  std::filesystem::path program = "/proc/self/exe";
  std::size_t workers = 0;              ///< Number of processes; 0: one per core.
  std::chrono::nanoseconds cpu_time{};  ///< DecodeOptions::decode_timeout.
  std::int64_t memory = 0;              ///< Most bytes that decoding one sample may take.
  LogSink log;
};

/// Decodes in worker processes, a sample at a time in each, so that a decoder can damage only its
/// own sample. Calls block until a worker is free.
///
/// A worker has no file, no network, and no memory beyond its share; it asks this process for the
/// bytes of its sample, and its tensors are copied out of shared memory. If the kernel allows
/// it, a system-call filter enforces that. A sample whose worker crashed, was killed, or made no
/// progress is decoded again while no other sample is; if that ends in the same way, the sample
/// is kCorrupt. Samples with only text need no codec and are decoded on the calling thread.
///
/// Errors: kInvalidArgument if the program does not start as a decode worker of this version;
/// kUnavailable for lack of processes, descriptors or memory.
Result<std::unique_ptr<SampleDecoder>> make_isolated_decoder(const Recipe& recipe,
                                                             const IsolationOptions& options);

/// Serves the process that started this one as a decode worker, until that one closes the
/// connection. Returns the process's exit status: 0, or 2 if no node is connected.
int run_decode_worker();

}  // namespace isocost
