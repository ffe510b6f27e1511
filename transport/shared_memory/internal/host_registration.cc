#include "transport/shared_memory/internal/host_registration.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace isocost {
namespace {

// https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html
using Register = int (*)(void* address, std::size_t size, unsigned flags);
using Unregister = int (*)(void* address);
using GetLastError = int (*)();
using GetErrorString = const char* (*)(int error);
// https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__DEVICE.html
using GetDevice = int (*)(int* device);
using SetDevice = int (*)(int device);
constexpr unsigned kPortable = 1;  // cudaHostRegisterPortable: registers for all devices
constexpr int kSuccess = 0;

// Returns the paths of loaded libraries whose file name begins with `prefix`: a wheel may have put
// a hash into the name (libcudart-d0da41ae.so.11.0).
std::vector<std::string> loaded_libraries(std::string_view prefix) {
  struct Search {
    std::string_view prefix;
    std::vector<std::string> found;
  } search{prefix, {}};
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    const std::string_view path = info->dlpi_name;
    const std::string_view name = path.substr(path.rfind('/') + 1);
    if (name.starts_with(wanted.prefix)) wanted.found.emplace_back(path);
    return 0;
  };
  dl_iterate_phdr(look, &search);
  return std::move(search.found);
}

// Returns a symbol of the CUDA runtime, even if the library was loaded with local symbols.
void* find_symbol(const char* name) {
  if (void* const symbol = dlsym(RTLD_DEFAULT, name)) return symbol;
  for (const std::string& library : loaded_libraries("libcudart")) {
    void* const loaded = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (loaded == nullptr) continue;
    void* const symbol = dlsym(loaded, name);
    dlclose(loaded);  // the library stays loaded by whoever loaded it
    if (symbol != nullptr) return symbol;
  }
  return nullptr;
}

// Clears the runtime's last error after a call of ours failed: otherwise the next caller of
// cudaGetLastError would take it for its own.
void forget_error() {
  const auto get_last_error = reinterpret_cast<GetLastError>(find_symbol("cudaGetLastError"));
  if (get_last_error != nullptr) get_last_error();
}

// Says why the runtime refused `size` bytes, and what allows them.
std::string refusal(int code, std::size_t size) {
  std::string text = "cudaHostRegister failed with error " + std::to_string(code);
  const auto get_error_string = reinterpret_cast<GetErrorString>(find_symbol("cudaGetErrorString"));
  if (get_error_string != nullptr) text += std::string(" (") + get_error_string(code) + ")";
  text += " for " + std::to_string(size) + " bytes";
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < size) {
    text +=
        "; this process may lock " + std::to_string(locked.rlim_cur) +
        " bytes of memory, and more after `ulimit -l unlimited` (which /etc/security/limits.conf "
        "has to allow), or in a container that was started with `--ulimit memlock=-1`";
  }
  return text;
}

// Returns the calling thread's device, which is 0 if the thread has set none.
std::optional<int> current_device() {
  const auto get_device = reinterpret_cast<GetDevice>(find_symbol("cudaGetDevice"));
  int device = 0;
  if (get_device == nullptr || get_device(&device) != kSuccess) return std::nullopt;
  return device;
}

void unregister(void* address) {
  // At the end of the process the runtime may be gone, and the registration with it.
  const auto unregister_memory = reinterpret_cast<Unregister>(find_symbol("cudaHostUnregister"));
  if (unregister_memory != nullptr && unregister_memory(address) != kSuccess) forget_error();
}

// Unregisters `address` on `device`, on a thread of its own. The runtime makes a context on the
// calling thread's device if there is none, which takes hundreds of megabytes of a device that may
// belong to another process. CUDA 12 does so even when a device is set, so the calling thread's
// device could not be restored. The new thread looks no symbols up, because the calling thread may
// hold the dynamic loader's lock.
void unregister_on(int device, void* address) {
  const auto set_device = reinterpret_cast<SetDevice>(find_symbol("cudaSetDevice"));
  const auto unregister_memory = reinterpret_cast<Unregister>(find_symbol("cudaHostUnregister"));
  if (set_device == nullptr || unregister_memory == nullptr || current_device() == device) {
    unregister(address);
    return;
  }
  try {
    std::jthread([=] {
      if (set_device(device) == kSuccess) unregister_memory(address);
    }).join();
  } catch (const std::system_error&) {  // the system has no further thread
    unregister(address);
  }
}

}  // namespace

Result<HostRegistration> HostRegistration::of(std::span<std::byte> bytes) {
  const auto register_memory = reinterpret_cast<Register>(find_symbol("cudaHostRegister"));
  if (register_memory == nullptr || find_symbol("cudaHostUnregister") == nullptr) {
    if (loaded_libraries("libcuda.so").empty()) {
      return Error(ErrorCode::kNotFound, "this process does not use CUDA");
    }
    return Error(ErrorCode::kUnsupported,
                 "this process uses CUDA, but has loaded no library libcudart");
  }
  const int code = register_memory(bytes.data(), bytes.size(), kPortable);
  if (code != kSuccess) {
    forget_error();
    return Error(ErrorCode::kUnavailable, refusal(code, bytes.size()));
  }
  return HostRegistration(bytes.data(), current_device().value_or(0));
}

HostRegistration::HostRegistration(void* address, int device)
    : process_(getpid()), address_(address), device_(device) {}

HostRegistration::HostRegistration(HostRegistration&& other) noexcept
    : process_(other.process_),
      address_(std::exchange(other.address_, nullptr)),
      device_(other.device_) {}

HostRegistration& HostRegistration::operator=(HostRegistration&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(address_, other.address_);
  std::swap(device_, other.device_);
  return *this;
}

HostRegistration::~HostRegistration() {
  if (address_ == nullptr || getpid() != process_) return;  // a child of fork cannot use CUDA
  unregister_on(device_, address_);
}

}  // namespace isocost
