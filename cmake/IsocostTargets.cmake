# How a component, a test, a fuzz replayer and a benchmark are declared.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(isocost_flags INTERFACE)
# g++ 12 misfires: -Wrestrict on string concatenation (gcc bug 105651), -Wmaybe-uninitialized on moved strings
# in aggregates (bug 105562).
target_compile_options(isocost_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                               -Wold-style-cast -Wcast-qual -Woverloaded-virtual
                                               -Wimplicit-fallthrough $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-maybe-uninitialized>
                                               # In a unity build it takes source files for headers.
                                               $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>
                                               # Which mutex guards what: see base/mutex.h.
                                               $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Werror=thread-safety>
                                               $<$<BOOL:${ISOCOST_WERROR}>:-Werror>)

# Programs of release builds fail early if they misuse memory.
target_compile_options(isocost_flags INTERFACE
  $<$<CONFIG:Release>:-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>)
target_link_options(isocost_flags INTERFACE $<$<CONFIG:Release>:LINKER:-z,relro,-z,now>)

# isocost_component(NAME SOURCES ... HEADERS ... [PUBLIC libs...] [PRIVATE libs...])
# A folder is a component is a library: isocost_NAME with alias isocost::NAME. HEADERS are the public ones.
function(isocost_component name)
  cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  set(target isocost_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(isocost::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  # Private, since cmake/IsocostHeaders.cmake says which of them are installed, and where.
  target_sources(${target} PRIVATE FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${arg_HEADERS})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE $<BUILD_INTERFACE:isocost_flags> ${arg_PRIVATE})
endfunction()

# isocost_program(NAME SOURCES ... LINK ...): an executable with our warnings.
function(isocost_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE isocost_flags ${arg_LINK})
endfunction()

# isocost_test(NAME SOURCES ... LINK ... [LABELS unit|concurrency|e2e|slow] [TIMEOUT seconds])
function(isocost_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  isocost_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE ISOCOST_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# isocost_memory_transport(TEST [EXCEPT filter]): with ISOCOST_MEMORY_TRANSPORT, the test runs over messages in memory
# (tests/support/memory_zmq.cc) and as concurrent code; EXCEPT are the cases, as GTEST_FILTER names them, that need a
# real socket.
option(ISOCOST_MEMORY_TRANSPORT "Tests of the transport pass messages in memory, for ThreadSanitizer" OFF)
function(isocost_memory_transport name)
  cmake_parse_arguments(arg "" "EXCEPT" "" ${ARGN})
  if(ISOCOST_MEMORY_TRANSPORT)
    target_link_libraries(${name} PRIVATE isocost_test_memory_zmq)
    set_tests_properties(${name} PROPERTIES LABELS concurrency TIMEOUT 600 ENVIRONMENT "GTEST_FILTER=-${arg_EXCEPT}")
  endif()
endfunction()

# isocost_fuzz(NAME SOURCES ... LINK ...): LLVMFuzzerTestOneInput with a replaying main, run as a test over
# corpus/NAME beside the test and mutations of it from a fixed seed. With ISOCOST_FUZZ (clang) it is a fuzzer.
option(ISOCOST_FUZZ "Build the fuzz targets with libFuzzer (clang)" OFF)
function(isocost_fuzz name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  if(ISOCOST_FUZZ)
    isocost_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    isocost_program(${name} SOURCES ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/support/fuzz_replay_main.cc
                    LINK ${arg_LINK})
    add_test(NAME ${name} COMMAND ${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    # Under ThreadSanitizer some replay for minutes.
    set_tests_properties(${name} PROPERTIES LABELS "fuzz" TIMEOUT 900)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# isocost_bench(NAME SOURCES ... LINK ...): a benchmark program; never a test.
function(isocost_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  isocost_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
endfunction()
