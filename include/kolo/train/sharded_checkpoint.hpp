// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints of a sharded optimizer: every rank saves its slices, and any number of ranks can resume from them.
#pragma once

#include <kolo/collective/broadcast.hpp>
#include <kolo/train/replace_file.hpp>
#include <kolo/train/sharded.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {
namespace detail::train {

/// Runs `work` on all ranks; if it fails on one, all ranks call `undo` and throw.
void together(auto& comm, const char* what, auto work, auto undo) {
  std::exception_ptr thrown;
  try {
    work();
  } catch (...) {
    thrown = std::current_exception();
  }
  int failed = thrown ? comm.rank() + 1 : 0;
  kolo::allreduce(comm, std::span{&failed, 1}, max);
  if (failed > 0) undo();  // not if this allreduce fails: another rank may have continued
  if (thrown) std::rethrow_exception(thrown);
  if (failed > 0)
    throw error{failure{.code = errc::peer_failed,
                        .peer = failed - 1,
                        .text = "rank " + std::to_string(failed - 1) + " could not " + what}};
}
void together(auto& comm, const char* what, auto work) {
  train::together(comm, what, std::move(work), [] {});
}

/// The head of each file.
struct shard_head {
  std::uint64_t mark = 0x34647261'68736b0a;
  std::uint64_t steps = 0, ranks = 0;
  std::uint64_t save = 0;  ///< its number at this path: a save does not overwrite the one before
  std::uint64_t states = 0, elements = 0, slices = 0;  ///< 0 in the index file
  friend bool operator==(const shard_head&, const shard_head&) = default;
};

inline std::string shard_name(const std::string& path, const shard_head& h, std::uint64_t rank) {
  return path + ".save" + std::to_string(h.save) + "." + std::to_string(rank) + "of" + std::to_string(h.ranks);
}

/// Calls see(head, rank, rest, file) for each part of any save to `path`: `head` has the number of the save and of its
/// ranks, and `rest` follows these in the file's name. An index that has not got its name yet is the part of a further
/// rank: `rank` is the number of ranks.
void for_each_part(const std::string& path, auto see) {
  for_each_named_after(path, [&](std::string_view rest, const std::string& file) {
    shard_head h;
    std::uint64_t rank = 0;
    const auto take = [&](std::string_view word, std::uint64_t& number) {
      if (!rest.starts_with(word)) return false;
      const char* const last = rest.data() + rest.size();
      const auto read = std::from_chars(rest.data() + word.size(), last, number);
      rest = {read.ptr, last};
      return read.ec == std::errc{};
    };
    if (take(".save", h.save) && take(".", rank) && take("of", h.ranks)) see(h, rank, rest, file);
  });
}

/// Removes the files of saves to `path` before this one, also of those that were killed. A rank that was stopped after
/// its save does not remove those of a later one.
inline void remove_earlier_saves(const std::string& path, const shard_head& now) {
  for_each_part(path, [&](const shard_head& h, std::uint64_t, std::string_view rest, const std::string& file) {
    if (is_unfinished(rest)) remove_unfinished(file);
    else if (rest.empty() && h.save < now.save) ::unlink(file.c_str());
  });
}

/// Makes `path` name the save `now`, whose index is the file `ready`. No earlier save gets the name after that: their
/// indexes are removed first, so that a rank 0 that was stopped finds none when it continues.
inline void give_name(const std::string& path, const std::string& ready, const shard_head& now) {
  const file_to_replace old{path};
  for_each_part(old.target,
                [&](const shard_head& h, std::uint64_t rank, std::string_view rest, const std::string& file) {
                  if (h.save < now.save && rank == h.ranks && rest.empty()) ::unlink(file.c_str());
                });
  if ((old.exists && ::chmod(ready.c_str(), old.permissions) != 0) || ::rename(ready.c_str(), old.target.c_str()) != 0)
    throw error{errc::system, std::strerror(errno) + (": cannot write " + old.target)};
  write_names_of(folder_of(old.target));
  remove_leftovers(old.target);
}

class shard_file {
 public:
  explicit shard_file(const std::string& path) : path_{path}, file_{opened(path)} {
    read(std::as_writable_bytes(std::span{&head, 1}));
    if (head.mark != shard_head{}.mark) throw error{errc::invalid_argument, "not a sharded checkpoint: " + path};
  }
  void read(std::span<std::byte> to) {
    if (std::fread(to.data(), 1, to.size(), file_.get()) != to.size())
      throw error{errc::invalid_argument, "a damaged checkpoint: " + path_};
  }
  std::uint64_t bytes() const {
    struct stat now {};
    return ::fstat(::fileno(file_.get()), &now) == 0 ? std::uint64_t(now.st_size) : 0;
  }
  void go_to(std::size_t byte) {
    if (::fseeko(file_.get(), static_cast<::off_t>(byte), SEEK_SET) != 0)
      throw error{errc::system, "cannot be read: " + path_};
  }
  shard_head head{};

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// Parameter, first element, elements, bytes of each and (above 2^32; older files have none) its digits, steps.
using slice_position = std::array<std::uint64_t, 5>;
using step_counts = std::vector<std::pair<long*, long>>;  ///< counters of an optimizer, and what they are to become

/// Reads the elements of `optimizer`'s slices from one rank's file, local ones only if `with_local`; returns how many.
std::size_t read_shard(auto& optimizer, shard_file& file, bool with_local, step_counts& counts) {
  if (file.head.slices > file.bytes() / sizeof(slice_position))
    throw error{errc::invalid_argument, "a damaged checkpoint: it names more slices than it can hold"};
  std::vector<slice_position> saved(file.head.slices);
  file.read(std::as_writable_bytes(std::span{saved}));
  const std::size_t columns = 1 + file.head.states;
  std::size_t found = 0, at = sizeof(shard_head) + saved.size() * sizeof(slice_position);
  for (const auto& [parameter, first, count, element, steps] : saved) {
    const std::uint64_t bytes = std::uint32_t(element), digits = element >> 32;
    for (const owned_slice& own : optimizer.slices()) {
      const std::size_t from = std::max<std::size_t>(first, own.first),
                        to = std::min<std::size_t>(first + count, own.first + own.count);
      if (own.parameter != parameter || own.element_bytes != bytes || from >= to || (own.is_local && !with_local) ||
          (digits != 0 && digits != std::uint64_t(own.digits)))
        continue;
      for (std::size_t k = 0; k < columns; ++k) {
        file.go_to(at + (k * count + from - first) * bytes);
        if (k > 0) file.read(optimizer.state_of(own, k - 1, from - own.first, to - from));
        else
          for (const auto run : optimizer.values_of(own, from - own.first, to - from)) file.read(run);
      }
      if (&optimizer.steps_of(own) == &optimizer.steps() && steps != file.head.steps)
        throw error{errc::invalid_argument, "parameter " + std::to_string(parameter) + " was updated in " +
                                                std::to_string(steps) + " of " + std::to_string(file.head.steps) +
                                                " steps, and a sharded_optimizer counts one number for all"};
      counts.emplace_back(&optimizer.steps_of(own), long(steps));
      found += to - from;
    }
    at += columns * count * bytes;
  }
  return found;
}

/// Returns the greatest number of a save that `path` or any file names; 0 if there is none. Some file may be of a save
/// that still runs, of one that was killed, or of another format.
inline std::uint64_t saved_before(const std::string& path) {
  std::uint64_t last = 0;
  for_each_part(path, [&](const shard_head& h, auto&...) { last = std::max(last, h.save); });
  if (::access(path.c_str(), F_OK) != 0) return last;
  try {
    last = std::max(last, shard_file{path}.head.save);
  } catch (const error& e) {
    if (e.code() != errc::invalid_argument) throw;
  }
  return last;
}

/// Writes the slices of this rank to a file.
void write_shard(const std::string& path, auto& optimizer, shard_head head) {
  head.states = std::remove_reference_t<decltype(optimizer.inner())>::states, head.elements = optimizer.elements();
  head.slices = optimizer.slices().size();
  std::vector<slice_position> positions;
  for (const owned_slice& s : optimizer.slices())
    positions.push_back({s.parameter, s.first, s.count, s.element_bytes | std::uint64_t(s.digits) << 32,
                         std::uint64_t(optimizer.steps_of(s))});
  std::vector<std::span<const std::byte>> chunks{std::as_bytes(std::span{&head, 1}),
                                                 std::as_bytes(std::span{positions})};
  for (const owned_slice& s : optimizer.slices()) {
    for (const auto run : optimizer.values_of(s, 0, s.count)) chunks.push_back(run);
    for (std::size_t k = 0; k < head.states; ++k) chunks.push_back(optimizer.state_of(s, k, 0, s.count));
  }
  write_in_place_of(path, chunks);
}

/// Throws if this rank does not see another rank's file within `longest`, as with separate folders. On a shared file
/// system a new file may appear late.
inline void find_part(const std::string& part, std::chrono::nanoseconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  for (; ::access(part.c_str(), F_OK) != 0; ::usleep(10'000))
    if (std::chrono::steady_clock::now() > end)
      throw error{errc::system, "rank 0 saves to a folder that this rank does not see: there is no " + part};
}

/// Collective: returns the head in `path`. Only rank 0 reads it: during a save, or on a slow file system, ranks could
/// read different ones.
shard_head shared_index(const std::string& path, auto& comm) {
  shard_head index;
  train::together(comm, "read the checkpoint's index", [&] {
    if (comm.rank() == 0) index = shard_file{path}.head;
  });
  kolo::broadcast(comm, std::as_writable_bytes(std::span{&index, 1}), 0);
  return index;
}

/// Reads this rank's share from the files that `index` names; returns the steps, which it does not set.
step_counts read_parts(const std::string& path, const shard_head& index, auto& optimizer) {
  constexpr std::size_t states = std::remove_reference_t<decltype(optimizer.inner())>::states;
  const auto rank = std::uint64_t(optimizer.comm().rank());
  step_counts counts;
  const std::string target = without_links(path);
  std::size_t wanted = 0, found = 0;
  for (const owned_slice& s : optimizer.slices()) wanted += s.count;
  for (std::uint64_t r = 0; r < index.ranks; ++r) {
    shard_file file{shard_name(target, index, r)};
    const auto& h = file.head;
    if (h.save != index.save || h.steps != index.steps || h.ranks != index.ranks)
      throw error{errc::invalid_argument, "a checkpoint whose parts are of different saves: " + path};
    const bool has_local = r == rank % index.ranks;  // others' local parameters may be of other sizes
    if (h.states != states || (has_local && h.elements != optimizer.elements()))
      throw error{errc::invalid_argument, "a checkpoint of another model, or of another update rule: " + path};
    found += train::read_shard(optimizer, file, has_local, counts);
  }
  if (found != wanted)
    throw error{errc::invalid_argument,
                "a checkpoint of another model: sizes or elements of the parameters differ: " + path};
  return counts;
}

}  // namespace detail::train

/// Collective. Each rank writes its slices (values and state, 1/p of all) to `path.save<k>.<rank>of<ranks>`, with a k
/// greater than that of any such file; if `path` is a link to a checkpoint, that one's name is meant. When all have,
/// the root makes `path` name these files, and removes the files of all saves before, also of those that were killed.
/// So a reader always finds one whole checkpoint, even during a save. A rank's local parameters are in its own file.
/// Only one job at a time may save to a path; but a rank that was stopped, and continues after the others have shrunk
/// and saved again, leaves their checkpoint as it is. Permissions are those that the umask leaves. Errors, on every
/// rank: `mismatch` if ranks save under different names; `system`, on the others `peer_failed`, if a rank does not see
/// rank 0's part within half of the timeout, or 10 s if that is less; those of `replace_file`. The previous checkpoint
/// is then unchanged.
void save_sharded_checkpoint(std::string path, auto& optimizer) {
  path = detail::train::without_links(path);
  auto& comm = optimizer.comm();
  const auto rank = std::uint64_t(comm.rank()), ranks = std::uint64_t(comm.size());
  const std::string name = detail::train::file_name_of(path);
  detail::core::digest mine{name.size()};
  mine.add_bytes(name);
  if (!detail::train::are_alike(comm, mine.value))
    throw error{errc::mismatch, "ranks save checkpoints of different names; here: " + path};
  std::uint64_t before = 0;
  detail::train::together(comm, "read the checkpoint before this one", [&] {
    if (rank == 0) before = detail::train::saved_before(path);
  });
  kolo::broadcast(comm, std::span{&before, 1}, 0);
  const detail::train::shard_head index{.steps = std::uint64_t(optimizer.steps()), .ranks = ranks, .save = before + 1};
  const std::string own = detail::train::shard_name(path, index, rank);
  std::string ready;  // of rank 0: the index, before it gets its name
  const auto undo = [&] {
    for (const std::string& file : {own, ready}) ::unlink(file.c_str());
  };
  detail::train::together(
      comm, "write its part of a checkpoint",
      [&] {
        detail::train::write_shard(own, optimizer, index);
        if (rank != 0) return;
        ready = detail::train::shard_name(detail::train::file_to_replace{path}.target, index, ranks);
        const std::span<const std::byte> whole[] = {std::as_bytes(std::span{&index, 1})};
        detail::train::write_in_place_of(ready, whole);
      },
      undo);
  const auto longest =
      std::min<std::chrono::nanoseconds>(detail::execute::time_limit(*comm.engine()) / 2, std::chrono::seconds{10});
  detail::train::together(
      comm, "see rank 0's part of a checkpoint",
      [&] { detail::train::find_part(detail::train::shard_name(path, index, 0), longest); }, undo);
  detail::train::together(
      comm, "write the checkpoint's index",
      [&] {
        if (rank == 0) detail::train::give_name(path, ready, index);
      },
      undo);
  if (rank == 0) detail::train::remove_earlier_saves(path, index);
}

/// Collective, on any number of ranks that all see the files. Restores values, state and number of steps, and abandons
/// a step in progress; rank r gets the local parameters of rank r mod q, where q ranks saved. If a save replaces the
/// files meanwhile, the new ones are read. Errors, on every rank: `system` if a file cannot be read; `invalid_argument`
/// if it is not a checkpoint, is of another model or rule, has parts of several saves, or has tensors that were not
/// updated in every step and is read by a `sharded_optimizer`, which counts steps for all tensors together; values and
/// states may then be partly set, numbers of steps are not. Elements are compared by their bytes and binary digits.
/// `invalid_argument`, on the others `peer_failed`, between the first `ready` of a step and its exchange, or while a
/// group is in use.
void load_sharded_checkpoint(const std::string& path, auto& optimizer) {
  optimizer.expect_load();
  detail::train::shard_head index = detail::train::shared_index(path, optimizer.comm());
  detail::train::step_counts counts;
  for (;;) {
    try {
      detail::train::together(optimizer.comm(), "read its part of a checkpoint",
                              [&] { counts = detail::train::read_parts(path, index, optimizer); });
      break;
    } catch (...) {  // on all ranks
      const detail::train::shard_head now = detail::train::shared_index(path, optimizer.comm());
      if (now == index) throw;
      index = now;
    }
  }
  for (const auto& [counter, steps] : counts) *counter = steps;
  optimizer.steps() = long(index.steps);
  optimizer.share_values();
}

}  // namespace kolo::inline KOLO_ABI
