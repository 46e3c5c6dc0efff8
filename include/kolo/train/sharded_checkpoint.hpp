// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints of a sharded optimizer: every rank saves its slices, and any number of ranks may go on from them.
#pragma once

#include <kolo/collective/broadcast.hpp>
#include <kolo/train/replace_file.hpp>
#include <kolo/train/sharded.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace kolo::inline v0 {
namespace detail {

/// `work` on all ranks; where one fails, all throw.
template <class Comm, class F>
void together(Comm& comm, const char* what, F work) {
  std::exception_ptr thrown;
  try {
    work();
  } catch (...) {
    thrown = std::current_exception();
  }
  int failed = thrown ? comm.rank() + 1 : 0;
  kolo::allreduce(comm, std::span{&failed, 1}, max);
  if (thrown) std::rethrow_exception(thrown);
  if (failed > 0) throw error{errc::peer_failed, "rank " + std::to_string(failed - 1) + " could not " + what};
}

/// What stands first in each file: a mark, and numbers.
struct shard_head {
  std::uint64_t mark = 0x31647261'68736b0a;
  std::uint64_t steps = 0, ranks = 0;
  std::uint64_t states = 0, element_bytes = 0, elements = 0, slices = 0;  ///< 0 in the file that names the others
};

inline std::string shard_name(const std::string& path, const shard_head& h, std::uint64_t rank) {
  return path + ".step" + std::to_string(h.steps) + "." + std::to_string(rank) + "of" + std::to_string(h.ranks);
}

class shard_file {
 public:
  explicit shard_file(const std::string& path) : path_{path}, file_{std::fopen(path.c_str(), "rbe"), &std::fclose} {
    if (!file_) throw error{errc::system, std::string{std::strerror(errno)} + ": " + path};
    read(&head, sizeof head);
    if (head.mark != shard_head{}.mark) throw error{errc::invalid_argument, "not a sharded checkpoint: " + path};
  }
  void read(void* to, std::size_t bytes) {
    if (std::fread(to, 1, bytes, file_.get()) != bytes) throw error{errc::invalid_argument, "a damaged checkpoint: " + path_};
  }
  void go_to(std::size_t byte) {
    if (::fseeko(file_.get(), static_cast<::off_t>(byte), SEEK_SET) != 0) throw error{errc::system, "cannot be read: " + path_};
  }
  shard_head head{};

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

using slice_place = std::array<std::uint64_t, 3>;  ///< parameter, first element, elements

/// Reads from one rank's file what belongs to slices of `optimizer`; how many elements these were.
template <class Optimizer>
std::size_t read_shard(Optimizer& optimizer, shard_file& file) {
  std::vector<slice_place> saved(file.head.slices);
  file.read(saved.data(), saved.size() * sizeof(slice_place));
  const std::size_t bytes = file.head.element_bytes, columns = 1 + file.head.states;
  std::size_t found = 0, at = sizeof(shard_head) + saved.size() * sizeof(slice_place);
  for (const auto& [parameter, first, count] : saved) {
    for (const owned_slice& own : optimizer.slices()) {
      const std::size_t from = std::max<std::size_t>(first, own.first), to = std::min<std::size_t>(first + count, own.first + own.count);
      if (own.parameter != parameter || from >= to) continue;
      for (std::size_t k = 0; k < columns; ++k) {
        file.go_to(at + (k * count + from - first) * bytes);
        if (k == 0) for_runs(optimizer.values_of(own).part(from - own.first, to - from), [&](auto run) { file.read(run.data(), run.size_bytes()); });
        else file.read(optimizer.state_of(own, k - 1).data() + (from - own.first), (to - from) * bytes);
      }
      found += to - from;
    }
    at += columns * count * bytes;
  }
  return found;
}

}  // namespace detail

/// Collective. Each rank writes its slices (values and state, 1/p of all) to `path`.step<steps>.<rank>of<ranks>; when all have, the root makes `path` name
/// them, and the files that it named before are removed: whoever reads finds one whole checkpoint. Local parameters are not in it.
/// Errors, on every rank: those of `replace_file`; the previous checkpoint is then as it was.
template <class Optimizer>
void save_sharded_checkpoint(const std::string& path, Optimizer& optimizer) {
  auto& comm = optimizer.comm();
  const auto rank = static_cast<std::uint64_t>(comm.rank()), ranks = static_cast<std::uint64_t>(comm.size());
  using T = typename std::remove_reference_t<decltype(optimizer.state_of({}, 0))>::element_type;
  detail::shard_head head{.steps = static_cast<std::uint64_t>(optimizer.steps()), .ranks = ranks}, before{};
  const detail::shard_head index = head;
  detail::together(comm, "write its part of a checkpoint", [&] {
    head.states = decltype(optimizer.rule)::states, head.element_bytes = sizeof(T), head.elements = optimizer.elements();
    head.slices = optimizer.slices().size();
    std::vector<detail::slice_place> places;
    for (const owned_slice& s : optimizer.slices()) places.push_back({s.parameter, s.first, s.count});
    std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span{&head, 1}), std::as_bytes(std::span{places})};
    for (const owned_slice& s : optimizer.slices()) {
      detail::for_runs(optimizer.values_of(s), [&](auto run) { pieces.push_back(std::as_bytes(run)); });
      for (std::size_t k = 0; k < head.states; ++k) pieces.push_back(std::as_bytes(optimizer.state_of(s, k)));
    }
    replace_file(detail::shard_name(path, index, rank), pieces);
  });
  detail::together(comm, "write the checkpoint's index", [&] {
    if (rank != 0) return;
    try {
      before = detail::shard_file{path}.head;
    } catch (const error&) {  // there was none
    }
    const std::span<const std::byte> whole[] = {std::as_bytes(std::span{&index, 1})};
    replace_file(path, whole);
  });
  kolo::broadcast(comm, std::span{&before, 1}, 0);
  if (before.steps != index.steps || before.ranks != index.ranks)
    for (std::uint64_t r = rank; r < before.ranks; r += ranks) std::remove(detail::shard_name(path, before, r).c_str());
}

/// Collective, on any number of ranks that all see the files. Values of all parameters but the local ones, state and number of steps become
/// those that were saved. Errors, on every rank: `system` where a file cannot be read, `invalid_argument` where it is none, or of another model or
/// rule; values may then be partly set.
template <class Optimizer>
void load_sharded_checkpoint(const std::string& path, Optimizer& optimizer) {
  using T = typename std::remove_reference_t<decltype(optimizer.state_of({}, 0))>::element_type;
  detail::shard_head index;
  detail::together(optimizer.comm(), "read its part of a checkpoint", [&] {
    index = detail::shard_file{path}.head;
    std::size_t wanted = 0, found = 0;
    for (const owned_slice& s : optimizer.slices()) wanted += s.count;
    for (std::uint64_t r = 0; r < index.ranks; ++r) {
      detail::shard_file file{detail::shard_name(path, index, r)};
      const auto& h = file.head;
      if (h.states != decltype(optimizer.rule)::states || h.element_bytes != sizeof(T) || h.elements != optimizer.elements())
        throw error{errc::invalid_argument, "a checkpoint of another model, or of another update rule: " + path};
      found += detail::read_shard(optimizer, file);
    }
    if (found != wanted) throw error{errc::invalid_argument, "a checkpoint of another model: sizes of the parameters differ: " + path};
  });
  optimizer.steps() = static_cast<long>(index.steps);
  optimizer.share_values();
}

}  // namespace kolo::inline v0
