// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Explores all of it: the explorer itself, by programs whose outcomes are known, then the protocols, then whole calls; with --long, a split.
#include "explore/collectives.hpp"
#include "explore/litmus.hpp"
#include "explore/protocols.hpp"
#include "explore/shrinking.hpp"

#include <string_view>

int main(int count, char** words) {
  kolo::error::remember_none();
  const bool good =
      litmus::ask_all() && explore::all_protocols() && explore::all_agreements() && explore::all_collectives();
  return good && (count < 2 || words[1] != std::string_view{"--long"} || explore::all_long()) ? 0 : 1;
}
