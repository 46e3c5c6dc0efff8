// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The main() that every Catch2 program here links.
#define CATCH_CONFIG_RUNNER  // required by Catch2 2, ignored by 3
#include "support/catch.hpp"

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
