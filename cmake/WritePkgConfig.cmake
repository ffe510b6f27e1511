# Writes isocost.pc: `SOURCE` is this repository, `INTO` the file, `PREFIX` where it is installed, `VERSION` its
# version, `LIBDIR` and `INCLUDEDIR` the folders of libraries and headers, below the prefix or absolute as
# CMAKE_INSTALL_LIBDIR may be. Those below the prefix are written so that they move with it.
foreach(folder LIBDIR INCLUDEDIR)
  if(NOT IS_ABSOLUTE "${${folder}}")
    set(${folder} "\${prefix}/${${folder}}")
  endif()
endforeach()
configure_file("${SOURCE}/cmake/isocost.pc.in" "${INTO}" @ONLY)
