// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI's handles and error codes as values and exceptions.
#pragma once

#include <kolo/core/error.hpp>

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI::detail::mpi {

inline std::string words_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  return MPI_Error_string(code, text, &length) == MPI_SUCCESS ? std::string{text, std::size_t(length)}
                                                              : "error " + std::to_string(code);
}

/// Throws for an MPI error code, naming the function and the rank; a message that is too long is a mismatch.
inline void check(int code, const char* function, int rank = -1, int peer = -1) {
  if (code == MPI_SUCCESS) return;
  int kind = MPI_ERR_OTHER;
  MPI_Error_class(code, &kind);
  throw error{failure{.code = kind == MPI_ERR_TRUNCATE ? errc::mismatch : errc::system,
                      .rank = rank,
                      .peer = peer,
                      .text = std::string{function} + ": " + words_of(code)}};
}

/// The process whose MPI is watched for its end; 0: none is yet.
inline std::atomic<::pid_t> watched_process{0};
/// Whether this is between MPI_Init and MPI_Finalize. False in a forked child of the rank, which must not call MPI.
inline bool is_running() {
  if (const auto process = watched_process.load(std::memory_order_relaxed); process != 0 && process != ::getpid())
    return false;
  int begun = 0, over = 0;
  return MPI_Initialized(&begun) == MPI_SUCCESS && begun != 0 && MPI_Finalized(&over) == MPI_SUCCESS && over == 0;
}

/// MPI_THREAD_SINGLE, ... MPI_THREAD_MULTIPLE: as provided.
inline int thread_level() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  return level;
}

/// Rejects communicators from which kolo's cannot be made.
inline void expect_one_group(MPI_Comm comm) {
  if (!is_running())
    throw error{errc::invalid_argument,
                "MPI is not running: a communicator is made after MPI_Init, or after a kolo::mpi::environment"};
  if (comm == MPI_COMM_NULL)
    throw error{errc::invalid_argument,
                "MPI_COMM_NULL is no communicator: MPI_Comm_split gives it to ranks that are in no part"};
  int is_inter = 0;
  check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0)
    throw error{errc::invalid_argument,
                "this is an inter-communicator, of two groups: MPI_Intercomm_merge makes one group of them"};
}

/// MPI_Finalize has begun; set by what MPI_COMM_SELF has as an attribute, which goes before anything else does.
inline std::atomic<bool> is_ending{false};
/// Is MPI over, so that nothing may be asked of it but that? Costs nothing while it is not.
inline bool is_over() { return is_ending.load(std::memory_order_relaxed) && !is_running(); }
/// From now on `is_over` knows, and `is_running` knows a copy by fork.
inline void watch_for_the_end() {
  [[maybe_unused]] static const bool watches = [] {
    watched_process = ::getpid();
    int key = MPI_KEYVAL_INVALID;
    const auto ends = [](MPI_Comm, int, void*, void*) -> int { return is_ending = true, MPI_SUCCESS; };
    return MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, ends, &key, nullptr) == MPI_SUCCESS &&
           MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr) == MPI_SUCCESS;
  }();
}

/// An MPI communicator of our own: its errors are returned, and the last copy of the handle frees it, which is local in
/// both MPICH and Open MPI. It is left alone after `abandon` (messages may be under way in it), after MPI_Finalize, and
/// with a message that has arrived and that nobody has received: there MPICH 4.2 ends the program.
class handle {
 public:
  handle() = default;
  explicit handle(MPI_Comm comm) : comm_{comm} {
    if (comm_ == MPI_COMM_NULL) return;
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    owner_ = std::make_shared<owner>(comm_);
  }
  handle(const handle&) = default;
  handle(handle&& other) noexcept : comm_{std::exchange(other.comm_, MPI_COMM_NULL)}, owner_{std::move(other.owner_)} {}
  handle& operator=(handle other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~handle() = default;

  MPI_Comm get() const { return comm_; }
  void abandon() {
    if (owner_) owner_->is_abandoned = true;
  }

 private:
  struct owner {
    explicit owner(MPI_Comm c) : comm{c} {}
    owner(const owner&) = delete;
    owner& operator=(const owner&) = delete;
    ~owner() {
      if (is_abandoned || !is_running()) return;
      int has_message = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &has_message, MPI_STATUS_IGNORE);
      if (has_message) return;
      MPI_Errhandler before = MPI_ERRHANDLER_NULL;  // a message may come now: an error without a communicator
      MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
      MPI_Comm_free(&comm);
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
      MPI_Errhandler_free(&before);
    }
    MPI_Comm comm;
    std::atomic<bool> is_abandoned{false};
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::shared_ptr<owner> owner_{};
};

/// Which rank of MPI_COMM_WORLD is rank `r` of that communicator? MPI_UNDEFINED where it is none.
inline int rank_in_world(MPI_Comm comm, int r) {
  MPI_Group some = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  int found = MPI_UNDEFINED;
  if (MPI_Comm_group(comm, &some) != MPI_SUCCESS) return found;
  if (MPI_Comm_group(MPI_COMM_WORLD, &world) == MPI_SUCCESS) {
    if (MPI_Group_translate_ranks(some, 1, &r, world, &found) != MPI_SUCCESS) found = MPI_UNDEFINED;
    MPI_Group_free(&world);
  }
  MPI_Group_free(&some);
  return found;
}

/// Collective over `existing`. Errors go to its own handler.
inline handle duplicate(MPI_Comm existing) {
  expect_one_group(existing);
  watch_for_the_end();
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(existing, &comm), "MPI_Comm_dup");
  return handle{comm};
}

/// Collective over those `ranks` of `all`, which must know that they meet.
inline handle subset(const handle& all, const std::vector<int>& ranks, int tag) {
  MPI_Group everybody = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_group(all.get(), &everybody), "MPI_Comm_group");
  const int included = MPI_Group_incl(everybody, int(ranks.size()), ranks.data(), &some);
  MPI_Group_free(&everybody);
  check(included, "MPI_Group_incl");
  const int created = MPI_Comm_create_group(all.get(), some, tag, &comm);
  MPI_Group_free(&some);
  check(created, "MPI_Comm_create_group");
  return handle{comm};
}

/// Runs of memory that one message consists of. Allocates only when there are more than ever before.
struct runs {
  std::vector<int> lengths{};
  std::vector<MPI_Aint> addresses{};

  bool empty() const { return addresses.empty(); }
  void add(const std::byte* data, std::size_t bytes, std::size_t most = INT_MAX) {
    for (MPI_Aint address = 0; bytes > 0;) {
      const auto n = std::min(bytes, most);
      MPI_Get_address(data, &address);
      lengths.push_back(int(n));
      addresses.push_back(address);
      data += n, bytes -= n;
    }
  }
};

/// The memory of one message: `count` elements of `type` at `at`. It is what `r` describes, which this clears;
/// or without runs `bytes` bytes at `data`, as runs if there are more than `most`: MPI 3 counts by ints.
class message_memory {
 public:
  message_memory(const std::byte* data, std::size_t bytes, runs& r, std::size_t most = INT_MAX) {
    if (r.empty() && bytes <= most) {
      at = data, count = int(bytes);
      return;
    }
    if (r.empty()) r.add(data, bytes, most);
    const int made =
        MPI_Type_create_hindexed(int(r.lengths.size()), r.lengths.data(), r.addresses.data(), MPI_BYTE, &type);
    r.lengths.clear(), r.addresses.clear();
    check(made, "MPI_Type_create_hindexed");
    check(MPI_Type_commit(&type), "MPI_Type_commit");
  }
  message_memory(const message_memory&) = delete;
  message_memory& operator=(const message_memory&) = delete;
  ~message_memory() {
    if (type != MPI_BYTE) MPI_Type_free(&type);  // MPI keeps it as long as a message needs it
  }

  const void* at = MPI_BOTTOM;
  int count = 1;
  MPI_Datatype type = MPI_BYTE;
};

}  // namespace kolo::inline KOLO_ABI::detail::mpi
