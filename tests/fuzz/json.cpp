// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes tables and networks as JSON.
#include <kolo/adapt/json.hpp>

#include "fuzz/fuzz.hpp"

namespace {
/// What was read can be written, and read again.
template <class T>
void read_as(const nlohmann::json& j) {
  try {
    const nlohmann::json written = j.get<T>();
    (void)nlohmann::json::parse(written.dump()).get<T>();
  } catch (const std::invalid_argument&) {
  } catch (const nlohmann::json::exception&) {
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto j = nlohmann::json::parse(data, data + size, nullptr, false);
  if (j.is_discarded()) return 0;
  read_as<kolo::tuning>(j);
  read_as<kolo::simulate::described_network>(j);
  return 0;
}
