# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo for vcpkg, from the source tree that it lies in: vcpkg install kolo --overlay-ports=cmake/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release)      # headers
set(VCPKG_FIXUP_ELF_RPATH OFF)      # no file has one
set(VCPKG_POLICY_SKIP_PKGCONFIG_CHECK enabled)  # kolo.pc is of every architecture, though it says -pthread
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS
  -DKOLO_BUILD_TESTS=OFF -DKOLO_BUILD_EXAMPLES=OFF -DKOLO_BUILD_BENCH=OFF -DKOLO_INSTALL=ON
  -DKOLO_PACKAGE=OFF -DKOLO_MPI=OFF -DKOLO_CUDA=OFF -DKOLO_NCCL=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/kolo)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
