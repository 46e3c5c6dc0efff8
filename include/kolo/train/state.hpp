// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every rank begins with the same parameters and the same state: those of the root.
#pragma once

#include <kolo/collective/broadcast.hpp>
#include <kolo/train/checkpoint.hpp>
#include <kolo/train/object.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/view/bucket.hpp>

#include <string>

namespace kolo::inline KOLO_ABI {

/// Every `.value` becomes the root's, in one broadcast of them all (of each element type); nothing else is touched.
///
/// Before: the same number of parameters, of the same sizes, on every rank. Errors: those of `kolo::broadcast`.
template <class Comm, AnyParameters Range>
void broadcast_parameters(Comm& comm, Range&& parameters, int root = 0) {
  detail::train::each_range(parameters, [&](auto& range) {
    const auto values = values_of(range);
    kolo::broadcast(comm, bucket{values}, root);
  });
}

/// The state of an optimizer (`kolo::replicated`, or whatever `broadcast_object` takes) becomes the root's; no
/// parameter is touched.
template <class Comm, class Optimizer>
void broadcast_state(Comm& comm, Optimizer& optimizer, int root = 0) {
  kolo::broadcast_object(comm, optimizer, root);
}

/// The root reads the file, every rank gets the values: a file system that only the root sees is enough.
/// `load_checkpoint` is for ranks that read themselves. Errors: the root's error on every rank, and then the values are
/// as they were.
template <class Comm, AnyParameters Range>
void restore_checkpoint(Comm& comm, const std::string& path, Range&& parameters, int root = 0) {
  struct {
    int code = 0;
    fixed_text<256> text{};
  } verdict;
  if (comm.rank() == root) try {
      load_checkpoint(path, parameters);
    } catch (const error& e) {
      verdict = {static_cast<int>(e.code()), std::string_view{e.cause().text}};
    }
  kolo::broadcast(comm, std::span{&verdict, 1}, root);
  if (verdict.code != 0) throw error{static_cast<errc>(verdict.code), std::string{std::string_view{verdict.text}}};
  broadcast_parameters(comm, parameters, root);
}

}  // namespace kolo::inline KOLO_ABI
