#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/result.h"

namespace isocost {

/// Memory that is registered with this process's CUDA runtime, so that copies between it and a
/// device need no staging and do not block. Unregistered on destruction, on the device that was
/// current at registration; destroy it before the memory is unmapped, on any thread. Move-only. The
/// runtime is found at run time: nothing links against it.
class HostRegistration {
 public:
  /// Registers memory for all devices, which pins its pages: some milliseconds for 128 MiB. Uses
  /// the calling thread's current device. Errors: kNotFound if this process does not use CUDA;
  /// kUnsupported if it uses CUDA, but no runtime is found among its libraries; kUnavailable if the
  /// runtime refuses, for example because too much memory is locked.
  static Result<HostRegistration> of(std::span<std::byte> bytes);

  HostRegistration(HostRegistration&& other) noexcept;
  HostRegistration& operator=(HostRegistration&& other) noexcept;
  HostRegistration(const HostRegistration&) = delete;
  HostRegistration& operator=(const HostRegistration&) = delete;
  ~HostRegistration();

 private:
  HostRegistration(void* address, int device);

  pid_t process_ = -1;
  void* address_ = nullptr;
  int device_ = 0;
};

}  // namespace isocost
