# libtorch as the target isocost_libtorch, its version as ISOCOST_TORCH_VERSION: Debian's package, or, with
# ISOCOST_TORCH_ROOT, what lies inside a PyTorch wheel.
set(ISOCOST_TORCH_ROOT "" CACHE PATH
    "Folder of an installed PyTorch 2.x wheel, .../site-packages/torch, instead of Debian's libtorch")
add_library(isocost_libtorch INTERFACE)

set_property(GLOBAL APPEND PROPERTY JOB_POOLS torch=1)  # see trainer_adapter/torch/CMakeLists.txt

# isocost_torch_test(NAME ...): isocost_test of what links libtorch; one of those that `./run test --torch2` builds, by
# the target torch_tests, and runs, by their label.
add_custom_target(torch_tests)
function(isocost_torch_test name)
  isocost_test(${name} ${ARGN})
  add_dependencies(torch_tests ${name})
  set_target_properties(${name} PROPERTIES JOB_POOL_COMPILE torch)
  set_property(TEST ${name} APPEND PROPERTY LABELS torch)
  # OpenBLAS starts a thread a core and spins for them; with tests side by side that costs more than it gives.
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "OPENBLAS_NUM_THREADS=1;OMP_NUM_THREADS=1")
endfunction()

if(NOT ISOCOST_TORCH_ROOT)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # the tests and examples link them, too
  find_package(Torch REQUIRED)
  set(ISOCOST_TORCH_VERSION ${Torch_VERSION})
  target_link_libraries(isocost_libtorch INTERFACE torch)
  return()
endif()

# Not by the wheel's CMake package: where Debian's libtorch is installed, it finds that one's libraries beside the
# wheel's headers, and the program aborts at its start.
foreach(file version.py include/torch/csrc/api/include/torch/torch.h lib/libtorch.so lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS ${ISOCOST_TORCH_ROOT}/${file})
    message(FATAL_ERROR "ISOCOST_TORCH_ROOT=${ISOCOST_TORCH_ROOT}: no ${file} there. Give the folder `torch` of an "
                        "installed wheel: python -c 'import torch; print(torch.__path__[0])'")
  endif()
endforeach()

file(STRINGS ${ISOCOST_TORCH_ROOT}/version.py line REGEX "^__version__ = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" ISOCOST_TORCH_VERSION "${line}")
# Older wheels were built with GCC's former ABI, in which std::string is another type than in Debian's libraries.
file(STRINGS ${ISOCOST_TORCH_ROOT}/lib/libc10.so constructor REGEX "_ZN3c105ErrorC1.*__cxx11" LIMIT_COUNT 1)
if(NOT constructor OR ISOCOST_TORCH_VERSION VERSION_LESS 2.0.0)
  message(FATAL_ERROR "ISOCOST_TORCH_ROOT=${ISOCOST_TORCH_ROOT}: torch ${ISOCOST_TORCH_VERSION} is older than 2.0 or built "
                      "with the C++ ABI of before GCC 5. Install a newer one; all wheels of 2.7 and later do.")
endif()
message(STATUS "torch ${ISOCOST_TORCH_VERSION} from ${ISOCOST_TORCH_ROOT}")

target_include_directories(isocost_libtorch SYSTEM INTERFACE
  ${ISOCOST_TORCH_ROOT}/include ${ISOCOST_TORCH_ROOT}/include/torch/csrc/api/include)
target_link_libraries(isocost_libtorch INTERFACE
  ${ISOCOST_TORCH_ROOT}/lib/libtorch.so ${ISOCOST_TORCH_ROOT}/lib/libtorch_cpu.so ${ISOCOST_TORCH_ROOT}/lib/libc10.so)
