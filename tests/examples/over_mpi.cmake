# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The examples that need MPI, built by each MPI's compiler wrapper, as in tests/mpi: libkolo_mpi.so under a program, digits, and synthetic.
kolo_wanted(wanted mpi)
if(NOT wanted)
  return()
endif()
set(under_mpi "${PROJECT_SOURCE_DIR}/examples/under_mpi")
file(GLOB library_parts CONFIGURE_DEPENDS "${under_mpi}/*.hpp")
set(flags -std=c++20 -O0 -g0 ${kolo_warnings} -DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX -I "${kolo_include}")
if(CMAKE_COMPILE_WARNING_AS_ERROR)
  list(APPEND flags -Werror)
endif()
set(environment ${kolo_mpi_environment} UCX_LOG_LEVEL=error KOLO_MPI_REPORT=1
  OMPI_MCA_btl_vader_single_copy_mechanism=none)  # so that long messages need progress by the sender
set(the_rest "Reduce 1108, Reduce_scatter 554, Reduce_scatter_block 554, Scan 554, Bcast 70, Allgather 70, Allgatherv 140, Alltoall 70, Barrier 5 and 1 by MPI; shared memory in [0-9]+ communicators")
set(left_mpich "3 by MPI")
set(left_openmpi "4 by MPI")  # the program makes one more call: with a wrong argument, which Open MPI always checks
set(manners_mpich "Allreduce [0-9]+, Reduce 1, Reduce_scatter 1, Reduce_scatter_block 1, Scan 1, Bcast 17, Allgather 17, Allgatherv 33, Alltoall 17, Barrier 800 and 1 by MPI; shared memory in 3 communicators")
set(manners_openmpi "Allreduce [0-9]+, Alltoall 1, Barrier 100; shared memory in 2 communicators")  # without the calls with large counts, which Open MPI lacks

# With PASS_REGULAR_EXPRESSION, CTest ignores the exit status, so the command prints whether it was 0.
set(ended_well sh -c [["$@" && echo ended well]] sh)

set(only_mpich ${kolo_heap_of_compiler})  # the other MPI's compiler may not be g++

# built_by(<mpi> <output> <word>...): builds a file with this MPI's compiler wrapper.
function(built_by mpi output)
  string(TOUPPER ${mpi} upper)
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "\\.[ch]pp$")
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" -E env "MPICH_CXX=${CMAKE_CXX_COMPILER}" "OMPI_CXX=${kolo_other_compiler}"
            "${KOLO_MPICXX_${upper}}" ${flags} ${only_${mpi}} -o "${output}" ${ARGN} -pthread
    DEPENDS ${sources} ${library_parts} ${kolo_headers} VERBATIM COMMAND_EXPAND_LISTS)
endfunction()

set(mode "")
if(KOLO_TEST_COMPILED)  # like digits_parts and the others
  set(mode -DKOLO_COMPILED $<TARGET_FILE:kolo_compiled>)
endif()
if(TARGET digits)
  find_package(CLI11 QUIET)
  get_target_property(eigen Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
  file(GLOB digits_parts CONFIGURE_DEPENDS "${digits}/*.hpp")
endif()

if(TARGET synthetic)
  set(synthetic "${PROJECT_SOURCE_DIR}/examples/synthetic")
  file(GLOB synthetic_parts CONFIGURE_DEPENDS "${synthetic}/*.hpp")
endif()

foreach(mpi mpich openmpi)
  string(TOUPPER ${mpi} upper)
  if(NOT KOLO_MPICXX_${upper} OR NOT KOLO_MPIEXEC_${upper})
    continue()  # tests/mpi prints a message
  endif()
  set(library "${CMAKE_CURRENT_BINARY_DIR}/libkolo_mpi.${mpi}.so")
  set(program "${CMAKE_CURRENT_BINARY_DIR}/under_mpi.${mpi}")
  built_by(${mpi} "${library}" -shared -fPIC -fvisibility-inlines-hidden "${under_mpi}/kolo_mpi.cpp")
  built_by(${mpi} "${program}" "${CMAKE_CURRENT_SOURCE_DIR}/under_mpi/program.cpp" ${kolo_yields_${mpi}})
  list(APPEND all "${library}" "${program}")
  foreach(ranks 2 3 4)
    kolo_check(examples.under_mpi.${mpi}.${ranks} LABELS mpi
      COMMAND ${ended_well} "${KOLO_MPIEXEC_${upper}}" -n ${ranks} env "LD_PRELOAD=${library}" "${program}" kolo TARGETS kolo_test_over_mpi
      PROPERTIES ENVIRONMENT "${environment}" PROCESSORS 2
        PASS_REGULAR_EXPRESSION "Allreduce 596 and ${left_${mpi}}, ${the_rest}.*ended well")
  endforeach()
  set(program "${CMAKE_CURRENT_BINARY_DIR}/under_mpi_manners.${mpi}")
  built_by(${mpi} "${program}" "${CMAKE_CURRENT_SOURCE_DIR}/under_mpi/manners.cpp" ${kolo_yields_${mpi}})
  list(APPEND all "${program}")
  kolo_check(examples.under_mpi.manners.${mpi} LABELS mpi
    COMMAND ${ended_well} "${KOLO_MPIEXEC_${upper}}" -n 3 env "LD_PRELOAD=${library}" "${program}" TARGETS kolo_test_over_mpi
    PROPERTIES ENVIRONMENT "${environment};KOLO_MPI_TIMEOUT=60" PROCESSORS 2 PASS_REGULAR_EXPRESSION "${manners_${mpi}}.*ended well")
  if(mpi STREQUAL mpich)  # Open MPI 4.1 has no sessions
    kolo_check(examples.under_mpi.sessions LABELS mpi
      COMMAND ${ended_well} "${KOLO_MPIEXEC_${upper}}" -n 2 env "LD_PRELOAD=${library}" "${program}" sessions TARGETS kolo_test_over_mpi
      PROPERTIES ENVIRONMENT "${environment}" PROCESSORS 2 PASS_REGULAR_EXPRESSION "Allreduce 1 by MPI.*ended well")
  else()  # Debian's MPICH cannot spawn processes
    kolo_check(examples.under_mpi.spawn LABELS mpi
      COMMAND ${ended_well} "${KOLO_MPIEXEC_${upper}}" -x "LD_PRELOAD=${library}" -n 1 "${program}" spawn TARGETS kolo_test_over_mpi
      PROPERTIES ENVIRONMENT "${environment};OMPI_MCA_btl_tcp_if_include=lo" PROCESSORS 2
        PASS_REGULAR_EXPRESSION "Allreduce 1 and 1 by MPI.*Allreduce 1 and 1 by MPI.*ended well")
  endif()
  if(TARGET digits)
    set(program "${CMAKE_CURRENT_BINARY_DIR}/digits.${mpi}")
    set(library_parts ${digits_parts})
    built_by(${mpi} "${program}" -isystem "${eigen}" "${digits}/mpi.cpp" ${kolo_yields_${mpi}} $<TARGET_OBJECTS:digits_parts> $<TARGET_OBJECTS:digits_network>
      ${mode})
    list(APPEND all "${program}")
    kolo_check(examples.digits_over_mpi.${mpi} LABELS mpi
      COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/digits_over_mpi.sh" $<TARGET_FILE:digits> "${program}" "${KOLO_MPIEXEC_${upper}}" TARGETS kolo_test_over_mpi
      PROPERTIES ENVIRONMENT "${environment}" PROCESSORS 2)
  endif()
  if(TARGET synthetic)
    set(program "${CMAKE_CURRENT_BINARY_DIR}/synthetic.${mpi}")
    set(library_parts ${synthetic_parts})
    built_by(${mpi} "${program}" "${synthetic}/mpi.cpp" ${kolo_yields_${mpi}} $<TARGET_OBJECTS:synthetic_parts> ${mode})
    list(APPEND all "${program}")
    kolo_check(examples.synthetic_over_mpi.${mpi} LABELS mpi
      COMMAND Python3::Interpreter "${CMAKE_CURRENT_SOURCE_DIR}/synthetic_over_mpi.py" "${program}" "${KOLO_MPIEXEC_${upper}}" TARGETS kolo_test_over_mpi
      PROPERTIES ENVIRONMENT "${environment}" PROCESSORS 2 COST 100)  # it takes long, so it does not begin last
  endif()
endforeach()
add_custom_target(kolo_test_over_mpi ALL DEPENDS ${all})
add_dependencies(kolo_test_over_mpi kolo_tested)
if(TARGET synthetic)
  add_dependencies(kolo_test_over_mpi synthetic_parts)
endif()
if(TARGET digits)
  add_dependencies(kolo_test_over_mpi digits_parts digits_network)
endif()
