# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The component mpi: the MPI that FindMPI finds; MPI_CXX_COMPILER selects one of several.
find_package(MPI QUIET COMPONENTS CXX)
kolo_provide(mpi "an MPI for C++, which was not found: install one, or set its compiler, for example -DMPI_CXX_COMPILER=mpicxx.mpich." MPI::MPI_CXX)
