# Destinations of `cmake --install`. Components: `program`, `development` (the client for C++ trainers), `python`.
# A trainer in another tree: find_package(Isocost COMPONENTS client) or, for libtorch, COMPONENTS torch.

include(CMakePackageConfigHelpers)

# A wheel has folders of its own for programs and packages.
if(DEFINED SKBUILD)
  set(program_folder ${SKBUILD_SCRIPTS_DIR})
  set(python_folder .)
else()
  set(program_folder ${CMAKE_INSTALL_BINDIR})
  # The prefix is known when this is installed: `cmake --install --prefix`, and CPack's /usr.
  set(python_folder "\${isocost_python_folder}")
  # Each component is a Debian package, and two packages cannot hold one file.
  foreach(place program:isocost development:libisocost-dev python:python3-isocost)
    string(REPLACE ":" ";" place ${place})
    list(GET place 0 component)
    list(GET place 1 package)
    install(FILES NOTICE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} COMPONENT ${component})
    install(FILES LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package}
            COMPONENT ${component})
  endforeach()
endif()

install(TARGETS isocost isocost-lab RUNTIME DESTINATION ${program_folder} COMPONENT program)

if(ISOCOST_BUILD_PYTHON)
  # Debian's Python finds packages in another folder below /usr/local than below /usr.
  install(CODE "
    set(isocost_python_folder lib/python3/dist-packages)
    if(CMAKE_INSTALL_PREFIX MATCHES \"^/usr/local/*$\")
      set(isocost_python_folder lib/python3.${Python_VERSION_MINOR}/dist-packages)
    endif()" COMPONENT python)
  install(TARGETS isocost_python DESTINATION ${python_folder}/isocost COMPONENT python)
  install(DIRECTORY trainer_adapter/python/isocost DESTINATION ${python_folder} COMPONENT python
          PATTERN __pycache__ EXCLUDE)
endif()

# isocost_export(COMPONENT TARGETS...): libraries, headers and CMake targets of one component of find_package.
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Isocost)
function(isocost_export component)
  install(TARGETS ${ARGN} EXPORT isocost_${component}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT isocost_${component} NAMESPACE isocost:: FILE isocost-${component}.cmake
          DESTINATION ${config_folder} COMPONENT development)
endfunction()

set(installed_headers ${ISOCOST_PUBLIC_HEADERS})
set_target_properties(isocost_trainer_adapter PROPERTIES EXPORT_NAME client)
isocost_export(client isocost_base isocost_transport_wire isocost_transport_protocol isocost_transport_shared_memory
               isocost_transport_zmq isocost_trainer_adapter)
# Reads layouts: not in the client, which links no solver.
isocost_export(layout isocost_costmodel isocost_balancer_partition isocost_balancer_pipeline isocost_balancer_layout)
set_target_properties(isocost_balancer_layout PROPERTIES EXPORT_NAME layout)
# A wheel's libtorch below this folder, as in `./run test --torch2`, has no place in an installed package.
cmake_path(IS_PREFIX CMAKE_SOURCE_DIR "${ISOCOST_TORCH_ROOT}" torch_is_ours)
if(ISOCOST_BUILD_TORCH AND NOT torch_is_ours)
  isocost_export(torch isocost_libtorch isocost_torch)
  list(APPEND installed_headers ${ISOCOST_PUBLIC_TORCH_HEADERS})
endif()
install(CODE "
  set(SOURCE \"${CMAKE_SOURCE_DIR}\")
  set(INTO \"${CMAKE_BINARY_DIR}/installed_headers\")
  set(ROWS \"${installed_headers}\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/WriteHeaders.cmake\")" COMPONENT development)
install(DIRECTORY ${CMAKE_BINARY_DIR}/installed_headers/isocost DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development)

configure_package_config_file(cmake/IsocostConfig.cmake.in ${CMAKE_BINARY_DIR}/IsocostConfig.cmake
                              INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/IsocostConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# For builds without CMake. The prefix is known when this is installed.
install(CODE "
  set(SOURCE \"${CMAKE_SOURCE_DIR}\")
  set(INTO \"${CMAKE_BINARY_DIR}/isocost.pc\")
  set(PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
  set(VERSION \"${PROJECT_VERSION}\")
  set(LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
  set(INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
  include(\"${CMAKE_SOURCE_DIR}/cmake/WritePkgConfig.cmake\")" COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/isocost.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/IsocostConfig.cmake ${CMAKE_BINARY_DIR}/IsocostConfigVersion.cmake
        DESTINATION ${config_folder} COMPONENT development)
