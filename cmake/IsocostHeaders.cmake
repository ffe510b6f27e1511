# The public headers: those that C++ trainers include as <isocost/NAME>, and those that these include. A header that is
# installed, and no other, has a row "name below isocost/=source". In this tree, what is included by these names is below
# ISOCOST_INCLUDES; cmake/WriteHeaders.cmake makes the installed ones.
set(ISOCOST_PUBLIC_HEADERS
    client.h=trainer_adapter/client.h
    layout.h=balancer/layout/layout_receiver.h
    normalise.h=trainer_adapter/normalise.h
    own_work.h=trainer_adapter/own_work.h
    replicas.h=trainer_adapter/replicas.h
    state.h=trainer_adapter/state.h
    base/buffer.h=base/buffer.h
    base/clock.h=base/clock.h
    base/language.h=base/language.h
    base/load.h=base/load.h
    base/log.h=base/log.h
    base/result.h=base/result.h
    base/sample_part.h=base/sample_part.h
    base/tensor.h=base/tensor.h
    base/units.h=base/units.h
    wire/messages.h=transport/wire/messages.h)
set(ISOCOST_PUBLIC_TORCH_HEADERS
    pixel_normaliser.h=trainer_adapter/torch/pixel_normaliser.h
    torch_loader.h=trainer_adapter/torch/torch_loader.h
    torch_microbatch.h=trainer_adapter/torch/torch_microbatch.h
    torch_profiler.h=trainer_adapter/torch/profiler.h
    costmodel/architecture.h=costmodel/architecture.h
    costmodel/profile.h=costmodel/profile.h)

set(ISOCOST_INCLUDES ${CMAKE_BINARY_DIR}/include)
foreach(row ${ISOCOST_PUBLIC_HEADERS} ${ISOCOST_PUBLIC_TORCH_HEADERS})
  string(REGEX MATCH "^(.*)=(.*)$" row ${row})
  file(CONFIGURE OUTPUT ${ISOCOST_INCLUDES}/isocost/${CMAKE_MATCH_1}
       CONTENT "#include \"${CMAKE_MATCH_2}\"  // IWYU pragma: export\n" @ONLY)
endforeach()
