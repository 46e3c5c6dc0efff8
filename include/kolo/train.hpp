// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training, data-parallel: parameters, buckets, optimizers, data, learning rates, metrics, checkpoints. With kolo.hpp.
#pragma once

#include <kolo/kolo.hpp>
#include <kolo/train/adasum.hpp>
#include <kolo/train/checkpoint.hpp>
#include <kolo/train/data.hpp>
#include <kolo/train/learning_rate.hpp>
#include <kolo/train/metrics.hpp>
#include <kolo/train/optimizer.hpp>
#include <kolo/train/outer_optimizer.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/train/replace_file.hpp>
#include <kolo/train/root.hpp>
#include <kolo/train/sharded.hpp>
#include <kolo/train/sharded_checkpoint.hpp>
#include <kolo/train/sharded_parameters.hpp>
#include <kolo/train/state.hpp>
