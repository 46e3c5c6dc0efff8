# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The install rules: the headers, the exported target and the package files that find_package(kolo) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(kolo_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/kolo")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh" PATTERN guide EXCLUDE)
install(TARGETS kolo EXPORT kolo-targets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT kolo-targets NAMESPACE kolo:: DESTINATION "${kolo_package_dir}")

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/kolo-config.cmake.in" "${PROJECT_BINARY_DIR}/kolo-config.cmake"
  INSTALL_DESTINATION "${kolo_package_dir}"
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
configure_file("${CMAKE_CURRENT_LIST_DIR}/kolo-config-version.cmake.in" "${PROJECT_BINARY_DIR}/kolo-config-version.cmake" @ONLY)
configure_file("${CMAKE_CURRENT_LIST_DIR}/packaging/kolo.pc.in" "${PROJECT_BINARY_DIR}/kolo.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/kolo.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES
  "${PROJECT_BINARY_DIR}/kolo-config.cmake" "${PROJECT_BINARY_DIR}/kolo-config-version.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/kolo-compiled.cmake" "${CMAKE_CURRENT_LIST_DIR}/compiled.cpp"
  "${CMAKE_CURRENT_LIST_DIR}/kolo-mpi.cmake" "${CMAKE_CURRENT_LIST_DIR}/kolo-cuda.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/kolo-nccl.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindNCCL.cmake"
  DESTINATION "${kolo_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/licenses/kolo")
