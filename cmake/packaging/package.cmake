# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The contents of packages besides the headers, and the configuration of cpack: -G DEB, RPM (if rpmbuild is installed) or TGZ.
set(kolo_packaging "${CMAKE_CURRENT_LIST_DIR}")

set_target_properties(kolo_compiled PROPERTIES EXCLUDE_FROM_ALL FALSE POSITION_INDEPENDENT_CODE ON)
install(TARGETS kolo_compiled ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
configure_file("${kolo_packaging}/kolo-compiled.pc.in" "${PROJECT_BINARY_DIR}/kolo-compiled.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/kolo-compiled.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")

if(NOT TARGET kolo_run)
  add_subdirectory("${PROJECT_SOURCE_DIR}/examples/kolo_run" "${PROJECT_BINARY_DIR}/examples/kolo_run")
endif()
if(NOT TARGET kolo_run)
  message(FATAL_ERROR "kolo: KOLO_PACKAGE needs CLI11 for kolo-run: install libcli11-dev, or set CLI11_DIR to the directory of CLI11Config.cmake")
endif()
install(TARGETS kolo_run RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

# libkolo_mpi.mpich.so and libkolo_mpi.openmpi.so: built by each MPI's compiler wrapper, since one CMake project can find only one MPI.
if(KOLO_PACKAGE_PRELOAD)
  separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS}")
  foreach(end IN ITEMS mpich openmpi)
    find_program(KOLO_MPICXX_${end} "mpicxx.${end}")
    if(KOLO_MPICXX_${end})
      set(preload "${PROJECT_BINARY_DIR}/libkolo_mpi.${end}.so")
      add_custom_command(OUTPUT "${preload}"
        COMMAND "${KOLO_MPICXX_${end}}" -std=c++20 -O2 ${flags} -shared -fPIC -fvisibility-inlines-hidden -DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX
        -I "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/examples/under_mpi/kolo_mpi.cpp" -o "${preload}" -pthread
        DEPENDS ${kolo_headers} "${PROJECT_SOURCE_DIR}/examples/under_mpi/kolo_mpi.cpp" VERBATIM)
      add_custom_target(kolo_preload_${end} ALL DEPENDS "${preload}")
      install(FILES "${preload}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/kolo")
    else()
      message(STATUS "kolo: libkolo_mpi.${end}.so is not built: it needs mpicxx.${end}")
    endif()
  endforeach()
endif()

set(kolo_docs "${CMAKE_INSTALL_DATADIR}/doc/kolo")
install(FILES "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${kolo_docs}")
install(FILES "${kolo_packaging}/README.md" DESTINATION "${kolo_docs}" RENAME packages.md)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/kolo" DESTINATION "${kolo_docs}/include" FILES_MATCHING PATTERN "*.md")
install(FILES "${PROJECT_SOURCE_DIR}/examples/README.md" DESTINATION "${kolo_docs}/examples")

set(CPACK_PACKAGE_NAME kolo)
set(CPACK_PACKAGE_VENDOR kolo)
set(CPACK_PACKAGE_CONTACT "the authors of kolo <kolo@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libstdc++6, libc6")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake, pkg-config, mpich | openmpi-bin")
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0 WITH LLVM-exception")
set(CPACK_RPM_PACKAGE_AUTOREQ OFF)  # the preload libraries use the MPI of the program under which they are loaded
set(CPACK_RPM_PACKAGE_REQUIRES "libstdc++")
set(CPACK_GENERATOR DEB TGZ)
find_program(KOLO_RPMBUILD rpmbuild)
if(KOLO_RPMBUILD)
  list(APPEND CPACK_GENERATOR RPM)
endif()
include(CPack)
