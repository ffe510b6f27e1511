# Every third-party library, found once. setup/packages.txt names the Debian packages.

find_package(Threads REQUIRED)
find_package(tl-expected REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)

pkg_check_modules(zmq REQUIRED IMPORTED_TARGET libzmq)
pkg_check_modules(archive REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(turbojpeg REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(spng REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp libwebpdemux)
pkg_check_modules(sndfile REQUIRED IMPORTED_TARGET sndfile)
pkg_check_modules(ffmpeg REQUIRED IMPORTED_TARGET libavformat libavcodec libavutil libswscale libswresample)
find_package(ZLIB REQUIRED)
find_library(GLPK_LIBRARY glpk REQUIRED)

# Debian's OpenCVConfig.cmake comes only with libopencv-dev, which drags in some 280 libraries; the two that
# we link are named here instead.
find_library(OPENCV_CORE opencv_core REQUIRED)
find_library(OPENCV_IMGPROC opencv_imgproc REQUIRED)
find_path(OPENCV_INCLUDE opencv2/core.hpp PATH_SUFFIXES opencv4 REQUIRED)
add_library(isocost_opencv INTERFACE)
target_include_directories(isocost_opencv SYSTEM INTERFACE ${OPENCV_INCLUDE})
target_link_libraries(isocost_opencv INTERFACE ${OPENCV_IMGPROC} ${OPENCV_CORE})

pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
find_package(CLI11 REQUIRED)
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl)
# Its CMake package would want civetweb, too, which the text needs not.
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)
find_package(spdlog REQUIRED)
if(ISOCOST_EXECUTOR STREQUAL "tbb")
  find_package(TBB REQUIRED)
endif()
if(ISOCOST_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(ISOCOST_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
