// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All of kolo that needs no MPI, CUDA or NCCL.
#pragma once

#include <kolo/collective/allgather.hpp>
#include <kolo/collective/allreduce.hpp>
#include <kolo/collective/alltoall.hpp>
#include <kolo/collective/barrier.hpp>
#include <kolo/collective/broadcast.hpp>
#include <kolo/collective/gather.hpp>
#include <kolo/collective/reduce.hpp>
#include <kolo/collective/reduce_scatter.hpp>
#include <kolo/collective/scan.hpp>
#include <kolo/collective/scatter.hpp>
#include <kolo/schedule/circulant.hpp>
#include <kolo/schedule/ring.hpp>
#include <kolo/schedule/van_de_geijn.hpp>
#include <kolo/simulate/run.hpp>
#include <kolo/train/checkpoint.hpp>
#include <kolo/train/data.hpp>
#include <kolo/train/learning_rate.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/train/replace_file.hpp>
#include <kolo/train/root.hpp>
#include <kolo/train/state.hpp>
#include <kolo/transport/heap.hpp>
#include <kolo/transport/self.hpp>
#include <kolo/transport/shm.hpp>
#include <kolo/transport/symmetric.hpp>
#include <kolo/transport/threads.hpp>
#include <kolo/version.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/bucket.hpp>
#include <kolo/view/float16.hpp>
#include <kolo/view/strided.hpp>
