// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies the root's parameters and optimizer state to every rank, and saves and restores them.
#pragma once

#include <kolo/collective/broadcast.hpp>
#include <kolo/train/checkpoint.hpp>
#include <kolo/train/object.hpp>
#include <kolo/train/parameter.hpp>
#include <kolo/view/bucket.hpp>

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace kolo::inline KOLO_ABI {

/// Copies the root's `.value` of each parameter to every rank, in one broadcast for each element type. Local parameters
/// keep each rank's own value; nothing else changes.
///
/// Before: every rank has the same number of parameters, of the same sizes except for local ones. Errors: those of
/// `kolo::broadcast`.
void broadcast_parameters(auto& comm, AnyParameters auto&& parameters, int root = 0,
                          call_site site = call_site::here()) {
  detail::train::each_range(parameters, [&](auto& range) {
    decltype(kolo::values_of(range)) values;
    for (auto&& p : range)
      if (!detail::train::is_local(p)) values.push_back(kolo::as_view(p.value));
    kolo::broadcast(comm, bucket{values}, root, {}, site);
  });
}

/// Copies the root's state of an optimizer (`kolo::replicated`, or any type that `broadcast_object` takes) to every
/// rank; parameters do not change.
void broadcast_state(auto& comm, auto& optimizer, int root = 0, call_site site = call_site::here()) {
  kolo::broadcast_object(comm, optimizer, root, site);
}

/// Writes the states of optimizers (or of any types that `broadcast_object` takes), in order, to `path`, in this
/// machine's byte order: what a rank needs to resume besides its `save_checkpoint`. Errors: those of `replace_file`.
void save_state(const std::string& path, auto&... optimizers) {
  detail::train::byte_writer written;
  written(optimizers...);
  const std::span<const std::byte> all{written.bytes};
  detail::train::replace_file(path, std::span{&all, 1});
}

/// Sets the states to what `save_state` wrote for optimizers of the same types in the same order. Errors: `system` if
/// the file cannot be read; `mismatch` if it is of others: some states may already have been set.
void load_state(const std::string& path, auto&... optimizers) {
  const auto file = detail::train::opened(path);
  std::vector<std::byte> bytes;
  for (std::size_t got = 1 << 16, size = 0; got > 0; bytes.resize(size += got)) {
    bytes.resize(size + got);
    got = std::fread(bytes.data() + size, 1, got, file.get());
  }
  if (std::ferror(file.get())) throw error{errc::system, "cannot be read to its end: " + path};
  detail::train::byte_reader reader{bytes};
  reader(optimizers...);
  if (!reader.bytes.empty()) throw error{errc::mismatch, "a state of other optimizers: " + path};
}

/// The root reads the file and broadcasts the values, so only the root needs access to it. Local parameters are
/// restored on the root only, and do not change on the others. `load_checkpoint` is for ranks that read the file
/// themselves. Errors: the root's error on every rank; the values are then unchanged, unless the root's disk failed
/// during the read.
void restore_checkpoint(auto& comm, const std::string& path, AnyParameters auto&& parameters, int root = 0,
                        call_site site = call_site::here()) {
  struct {
    int code = 0;
    fixed_text<256> text{};
  } verdict;
  detail::train::begin(comm, "restore_checkpoint");
  if (comm.rank() == root) try {
      kolo::load_checkpoint(path, parameters);
    } catch (const error& e) {
      verdict = {int(e.code()), std::string_view{e.cause().text}};
    }
  kolo::broadcast(comm, std::as_writable_bytes(std::span{&verdict, 1}), root, {}, site);
  if (verdict.code != 0) throw error{static_cast<errc>(verdict.code), std::string{std::string_view{verdict.text}}};
  kolo::broadcast_parameters(comm, parameters, root, site);
}

}  // namespace kolo::inline KOLO_ABI
