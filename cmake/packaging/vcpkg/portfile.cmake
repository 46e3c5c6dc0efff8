# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo for vcpkg, from the source tree that contains this file: vcpkg install kolo --overlay-ports=cmake/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release)      # headers only
set(VCPKG_FIXUP_ELF_RPATH OFF)      # there are no ELF files
set(VCPKG_POLICY_SKIP_PKGCONFIG_CHECK enabled)  # kolo.pc is architecture-independent, although it contains -pthread
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS
  -DKOLO_BUILD_TESTS=OFF -DKOLO_BUILD_EXAMPLES=OFF -DKOLO_BUILD_BENCH=OFF -DKOLO_INSTALL=ON
  -DKOLO_PACKAGE=OFF -DKOLO_MPI=OFF -DKOLO_CUDA=OFF -DKOLO_NCCL=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/kolo)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
