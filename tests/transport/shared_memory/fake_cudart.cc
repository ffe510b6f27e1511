// A stand-in for the CUDA runtime, which loaded_runtime_test.cc loads.

#include <cstddef>

// NOLINTBEGIN(readability-identifier-naming): the runtime's names
extern "C" {

int isocost_registered = 0;

int cudaHostRegister(void* /*address*/, std::size_t /*size*/, unsigned /*flags*/) {
  isocost_registered += 1;
  return 0;
}

int cudaHostUnregister(void* /*address*/) {
  isocost_registered -= 1;
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
