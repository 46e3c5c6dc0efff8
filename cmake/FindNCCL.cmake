# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds NCCL, which has no CMake config file: in NCCL_ROOT, next to the CUDA toolkit, in Python's wheel nvidia-nccl, or in system directories.
#
# Defines NCCL_FOUND, NCCL_INCLUDE_DIR, NCCL_LIBRARY, NCCL_VERSION and the target NCCL::nccl
set(nccl_places "")
if(CUDAToolkit_FOUND)
  list(APPEND nccl_places ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT})
endif()
foreach(nccl_python "$ENV{VIRTUAL_ENV}" /usr/local /usr)
  if(nccl_python)
    file(GLOB nccl_wheels "${nccl_python}/lib/python3*/*-packages/nvidia/nccl")
    list(APPEND nccl_places ${nccl_wheels})
  endif()
endforeach()

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_ROOT ENV NCCL_HOME ${nccl_places} PATHS /usr/local/cuda PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ENV NCCL_ROOT ENV NCCL_HOME ${nccl_places} PATHS /usr/local/cuda PATH_SUFFIXES lib lib64)
if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]+" "" nccl_numbers "${nccl_lines}")
  list(JOIN nccl_numbers "." NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
unset(nccl_places)
unset(nccl_wheels)
unset(nccl_lines)
unset(nccl_numbers)
