# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The target `docs` builds the site, docs/index.html in the build directory. It is not part of `all`, and not installed.
set(kolo_site "${PROJECT_BINARY_DIR}/docs")
find_package(Doxygen 1.9.2 QUIET)
find_package(Python3 QUIET COMPONENTS Interpreter)
set(kolo_draw "")  # the program that draws algorithms, if examples are built
if(TARGET draw)
  set(kolo_draw "$<TARGET_FILE:draw>")
endif()
if(DOXYGEN_FOUND AND Python3_FOUND)
  add_custom_target(docs
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/chapters.py" "${PROJECT_SOURCE_DIR}" "${kolo_site}" "${PROJECT_VERSION}" ${kolo_draw}
    COMMAND "${DOXYGEN_EXECUTABLE}" "${kolo_site}/Doxyfile"
    COMMAND "${CMAKE_COMMAND}" -E echo "The site is ${kolo_site}/index.html"
    VERBATIM)
  if(TARGET draw)
    add_dependencies(docs draw)
  endif()
else()
  add_custom_target(docs
    COMMAND "${CMAKE_COMMAND}" -E echo "The target docs needs Python 3 and Doxygen 1.9.2 or newer: apt-get install doxygen, then run cmake again."
    COMMAND "${CMAKE_COMMAND}" -E false VERBATIM)
endif()
