# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# kolo::compiled: the headers, with the engine and the transports of shm and threads in a static library, which is compiled with the flags of the project
# that links it, and only if a target links it.
if(NOT TARGET kolo_compiled)
  add_library(kolo_compiled STATIC EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/compiled.cpp")
  add_library(kolo::compiled ALIAS kolo_compiled)
  target_compile_definitions(kolo_compiled PUBLIC KOLO_COMPILED)
  target_link_libraries(kolo_compiled PUBLIC kolo::kolo)
endif()
