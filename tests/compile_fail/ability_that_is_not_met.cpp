// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A transport must have the members of each ability that it lists; a misspelt member would silently be missing.
// expect: kolo: this transport lists an ability that it does not have
#include <kolo/kolo.hpp>

struct my_transport : kolo::threads::transport {
#ifdef KOLO_WRONG
  using abilities = kolo::abilities<kolo::ability::pipeline>;
  std::size_t piece_at_once() const { return 1; }
#else
  using abilities = kolo::abilities<kolo::ability::pipeline>;
  std::size_t pieces_at_once() const { return 1; }
#endif
  explicit my_transport(kolo::threads::transport&& t) : kolo::threads::transport{std::move(t)} {}
  my_transport split(int color, int key) { return my_transport{kolo::threads::transport::split(color, key)}; }
};

int ranks(kolo::communicator<my_transport>& comm) { return comm.size(); }
