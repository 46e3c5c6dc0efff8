# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component mpi: the MPI that FindMPI finds; MPI_CXX_COMPILER says which, where there are several.
find_package(MPI QUIET COMPONENTS CXX)
kolo_provide(mpi "an MPI for C++, and none was found: install one, or name its compiler, as in -DMPI_CXX_COMPILER=mpicxx.mpich." MPI::MPI_CXX)
