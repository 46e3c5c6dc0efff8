# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# g++ collects garbage whenever its heap has doubled, from 128 MiB on, which takes a tenth of the tests' compile time. Here it begins later, if there is memory
# for one compiler on each core.
function(kolo_set_heap_of_compiler)
  cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)  # in MiB
  cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR heap "${memory} / ${processors} / 4")
  if(heap GREATER 1024)
    set(heap 1024)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND heap GREATER 128)
    math(EXPR heap "${heap} * 1024")  # in KiB
    set(kolo_heap_of_compiler --param=ggc-min-heapsize=${heap} PARENT_SCOPE)
    add_compile_options(--param=ggc-min-heapsize=${heap})
  endif()
endfunction()
kolo_set_heap_of_compiler()
