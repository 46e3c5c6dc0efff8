# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component mpi: kolo::mpi is kolo::kolo and the MPI that FindMPI finds; MPI_CXX_COMPILER says which, where there are several.
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  set(kolo_mpi_FOUND FALSE)
  if(kolo_FIND_REQUIRED_mpi)
    set(kolo_FOUND FALSE)
    set(kolo_NOT_FOUND_MESSAGE
      "kolo's component mpi needs an MPI for C++, and none was found: install one, or name its compiler, as in -DMPI_CXX_COMPILER=mpicxx.mpich.")
  endif()
elseif(NOT TARGET kolo::mpi)
  add_library(kolo::mpi INTERFACE IMPORTED)
  target_link_libraries(kolo::mpi INTERFACE kolo::kolo MPI::MPI_CXX)
endif()
