# Debian packages by CPack: isocost (the programs), libisocost-dev (C++ trainers), python3-isocost.
# `./run package` makes and tries them.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME isocost)
set(CPACK_PACKAGE_CONTACT "The Isocost developers <isocost@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_SOURCE_DIR}/build/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development python)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # what the binaries link, by Debian's names
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME isocost)
set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-isocost)
math(EXPR next_python "${Python_VERSION_MINOR} + 1")
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next_python})")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "isocost")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-torch")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libisocost-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "g++, libexpected-dev, libglpk-dev, libhwy-dev, libzmq3-dev, nlohmann-json3-dev, pkg-config")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "cmake, isocost, libtorch-dev")
include(CPack)
