// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The communicator over MPI for device views: straight where the MPI takes addresses of devices, else through pinned
// memory.
#pragma once

#include <kolo/cuda/on_device.hpp>
#include <kolo/mpi/mpi.hpp>

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <cstdlib>
#include <string_view>

namespace kolo::inline KOLO_ABI::cuda {

/// What the MPI says of itself; or what the environment says, where it knows better: KOLO_CUDA_AWARE=1 or 0. Another
/// word is refused: `errc::invalid_argument`.
template <>
struct reaches_devices<mpi::transport> {
  static bool ask(const mpi::transport&) {
    if (const char* value = std::getenv("KOLO_CUDA_AWARE"); value && *value != '\0') {
      const std::string_view word{value};
      if (word != "0" && word != "1")
        detail::core::throw_error(errc::invalid_argument, {"KOLO_CUDA_AWARE is \"", word, "\", and should be 1 or 0"});
      return word == "1";
    }
    int is_supported = 0;
#if defined(OPEN_MPI) && defined(OMPI_HAVE_MPI_EXT_CUDA)
    is_supported = MPIX_Query_cuda_support();
#elif defined(MPIX_GPU_SUPPORT_CUDA)
    if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_supported) != MPI_SUCCESS) is_supported = 0;
#endif
    return is_supported != 0;
  }
};

/// `mpi_communicator comm{MPI_COMM_WORLD}; kolo::cuda::set_device(comm.local_rank());`, then all collectives of device
/// views, with `{.stream = stream}`. A route may come first: `comm{kolo::cuda::route::staged, MPI_COMM_WORLD,
/// options}`.
using mpi_communicator = kolo::communicator<on_device<mpi::transport>>;

}  // namespace kolo::inline KOLO_ABI::cuda
