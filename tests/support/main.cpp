// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The main() that every Catch2 program here links.
#define CATCH_CONFIG_RUNNER  // what Catch2 2 wants; 3 ignores it
#include "support/catch.hpp"

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
