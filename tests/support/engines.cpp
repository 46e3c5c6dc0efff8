// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engines of the tests' transports, compiled once.
#define KOLO_TEST_ENGINE template
#include "support/message_threads.hpp"
