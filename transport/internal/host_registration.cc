#include "transport/internal/host_registration.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace isocost {
namespace {

// https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
using Register = int (*)(void* address, std::size_t size, unsigned flags);
using Unregister = int (*)(void* address);
using GetLastError = int (*)();
constexpr unsigned kPortable = 1;  // cudaHostRegisterPortable: for all devices
constexpr int kSuccess = 0;

// Of a library that the process has loaded already, visible to all or not.
void* find_symbol(const char* name) {
  if (void* const symbol = dlsym(RTLD_DEFAULT, name)) return symbol;
  constexpr int kOldestMajor = 11;
  constexpr int kNewestMajor = 20;
  for (int major = kNewestMajor; major >= kOldestMajor; --major) {
    const std::string library =
        "libcudart.so." + (major == 11 ? std::string("11.0") : std::to_string(major));
    void* const loaded = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (loaded == nullptr) continue;
    void* const symbol = dlsym(loaded, name);
    dlclose(loaded);  // whoever has loaded it keeps it
    if (symbol != nullptr) return symbol;
  }
  return nullptr;
}

// The runtime keeps the error of a call that failed, and who asks for one next would take it for
// his own.
void forget_error() {
  const auto get_last_error = reinterpret_cast<GetLastError>(find_symbol("cudaGetLastError"));
  if (get_last_error != nullptr) get_last_error();
}

}  // namespace

std::optional<HostRegistration> HostRegistration::of(std::span<std::byte> bytes) {
  const auto register_memory = reinterpret_cast<Register>(find_symbol("cudaHostRegister"));
  if (register_memory == nullptr || find_symbol("cudaHostUnregister") == nullptr) {
    return std::nullopt;
  }
  if (register_memory(bytes.data(), bytes.size(), kPortable) != kSuccess) {
    forget_error();
    return std::nullopt;
  }
  return HostRegistration(bytes.data());
}

HostRegistration::HostRegistration(void* address) : process_(getpid()), address_(address) {}

HostRegistration::HostRegistration(HostRegistration&& other) noexcept
    : process_(other.process_), address_(std::exchange(other.address_, nullptr)) {}

HostRegistration& HostRegistration::operator=(HostRegistration&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(address_, other.address_);
  return *this;
}

HostRegistration::~HostRegistration() {
  if (address_ == nullptr || getpid() != process_) return;  // a child of fork has no CUDA
  // The runtime may be gone at the end of the process, and the registration with it.
  const auto unregister = reinterpret_cast<Unregister>(find_symbol("cudaHostUnregister"));
  if (unregister != nullptr && unregister(address_) != kSuccess) forget_error();
}

}  // namespace isocost
