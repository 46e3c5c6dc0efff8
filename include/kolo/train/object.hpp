// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Serialises objects that list their members, and copies the root's object to every rank.
#pragma once

#include <kolo/collective/broadcast.hpp>
#include <kolo/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo::inline KOLO_ABI {
namespace detail::train {

template <class X>
concept AsBytes = Element<X> && !std::is_pointer_v<X> && !view::RefersElsewhere<X>;
template <class X>
concept KeyedContainer = requires(X& x) {
  typename X::mapped_type;
  x.clear();
  x.begin()->first;
};
template <class X>
concept GrowingContainer = requires(X& x, std::size_t n) {
  x.resize(n);
  x.begin();
  typename X::value_type;
};

template <class Archive, class X>
void visit(Archive& archive, X& x);

struct byte_writer {
  std::vector<std::byte> bytes{};

  template <class... X>
  void operator()(X&... x) {
    (train::visit(*this, x), ...);
  }

  void raw(const void* from, std::size_t n) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), first, first + n);
  }
  static constexpr bool reads = false;
};

struct byte_reader {
  std::span<const std::byte> bytes;

  template <class... X>
  void operator()(X&... x) {
    (train::visit(*this, x), ...);
  }

  void raw(void* to, std::size_t n) {
    expect(n, 1);
    if (n > 0) std::memcpy(to, bytes.data(), n);
    bytes = bytes.subspan(n);
  }
  /// Checks, before memory is allocated, that n elements of at least `each` bytes can follow.
  void expect(std::uint64_t n, std::size_t each) const {
    if (n > bytes.size() / each)
      throw error{errc::mismatch,
                  "an object's bytes end too early: ranks serialise different things, or they are of something else"};
  }
  static constexpr bool reads = true;
};

/// Writes or reads one object.
template <class Archive, class X>
void visit(Archive& archive, X& x) {
  if constexpr (requires { x.serialise(archive); }) {
    x.serialise(archive);
  } else if constexpr (KeyedContainer<X>) {
    std::uint64_t n = x.size();
    archive(n);
    if constexpr (Archive::reads) {
      x.clear();
      for (std::uint64_t i = 0; i < n; ++i) {
        std::remove_const_t<typename X::key_type> key{};
        typename X::mapped_type value{};
        archive(key, value);
        x.emplace(std::move(key), std::move(value));
      }
    } else {
      for (auto& [key, value] : x) archive(const_cast<typename X::key_type&>(key), value);
    }
  } else if constexpr (GrowingContainer<X>) {
    static_assert(
        std::is_lvalue_reference_v<decltype(*x.begin())>,
        "kolo: a std::vector<bool> packs its elements into bits, so they have no addresses: send a std::vector<char>");
    std::uint64_t n = x.size();
    archive(n);
    if constexpr (Archive::reads)
      archive.expect(n, AsBytes<typename X::value_type> ? sizeof(*x.begin()) : 1), x.resize(n);
    if constexpr (AsBytes<typename X::value_type> && requires { x.data(); })
      archive.raw(x.data(), x.size() * sizeof(*x.data()));
    else
      for (auto& each : x) archive(each);
  } else {
    static_assert(AsBytes<X>,
                  "kolo: an object to send must be trivially copyable without pointers or views, a string, a vector or "
                  "a map of such, or have template <class A> void serialise(A& archive) { archive(its, members); }");
    archive.raw(const_cast<std::remove_const_t<X>*>(&x), sizeof(X));
  }
}

/// As every call, throws within another one and after a failure, before this rank does anything else.
void begin(auto& comm, const char* call) {
  if constexpr (collective::Composite<decltype(comm)>)
    train::begin(comm.first(), call), train::begin(comm.second(), call);
  else execute::begin_call(*comm.engine(), call);
}
/// Ends the calls of the other ranks: this one does not come.
void pass_on(auto& comm, std::string_view text) {
  if constexpr (collective::Composite<decltype(comm)>) train::pass_on(comm.second(), text);  // it fails both
  else execute::pass_on(*comm.engine(), text);
}

}  // namespace detail::train

/// Copies the root's object to every rank: numbers and plain structs, strings, vectors and maps of these, and types
/// with `template <class A> void serialise(A& archive) { archive(its, members); }`. The root's own is only read;
/// nothing but the object is written.
///
/// Cost: a broadcast of 8 bytes and one of the object's bytes. Errors: those of `kolo::broadcast`; `mismatch` if ranks
/// serialise different things. If the root's `serialise` throws, the others get `peer_failed` with its words, and the
/// communicator has failed.
void broadcast_object(auto& comm, auto& object, int root = 0, call_site site = call_site::here()) {
  detail::train::begin(comm, "broadcast_object");
  const auto or_pass_on = [&](auto work) {
    detail::core::with_rollback(
        work, [&] { detail::train::pass_on(comm, detail::core::ended_by_exception("broadcast_object")); });
  };
  detail::train::byte_writer written;
  or_pass_on([&] {
    if (comm.rank() == root) written(object);
  });
  std::uint64_t bytes = written.bytes.size();
  kolo::broadcast(comm, std::span{&bytes, 1}, root, {}, site);
  or_pass_on([&] { written.bytes.resize(bytes); });
  kolo::broadcast(comm, written.bytes, root, {}, site);
  if (comm.rank() == root) return;
  detail::train::byte_reader reader{written.bytes};
  reader(object);
  if (!reader.bytes.empty())
    throw error{errc::mismatch, "an object has more bytes than it was read from: ranks serialise different things"};
}

}  // namespace kolo::inline KOLO_ABI
