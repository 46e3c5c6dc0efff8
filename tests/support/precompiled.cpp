// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Empty: Catch2 is precompiled with this file, once for all tests.
