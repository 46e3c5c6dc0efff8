// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds nothing: the file for whose sake Catch2 is precompiled, once for all tests.
