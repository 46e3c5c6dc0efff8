// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzzes the files of a sharded checkpoint: the one that names the others, and a part.
#include <kolo/execute/self.hpp>
#include <kolo/train/sharded_checkpoint.hpp>

#include <array>
#include <fstream>

#include "fuzz/fuzz.hpp"

namespace {

struct tensors {
  std::array<float, 5> value{}, gradient{};
};

/// A folder with the two files, removed at the end.
class folder {
 public:
  folder(const std::uint8_t* data, std::size_t size) {
    fuzz::expect(::mkdtemp(name_) != nullptr);
    kolo::detail::train::shard_head index{.ranks = 1};
    const auto said = std::min(size, std::size_t{1}) *
                      (size > 0 ? data[0] % 2 : 0);  // half of the inputs are the index, half are the part
    if (said == 1) write(path(), data + 1, size - 1);
    else write(path(), reinterpret_cast<const std::uint8_t*>(&index), sizeof index);
    write(part(), data + (size > 0 ? 1 : 0), size - (size > 0 ? 1 : 0));
  }
  ~folder() {
    std::remove(path().c_str());
    std::remove(part().c_str());
    ::rmdir(name_);
  }
  std::string path() const { return std::string{name_} + "/it"; }

 private:
  std::string part() const { return kolo::detail::train::shard_name(path(), {.ranks = 1}, 0); }
  static void write(const std::string& path, const std::uint8_t* data, std::size_t size) {
    std::ofstream{path, std::ios::binary}.write(reinterpret_cast<const char*>(data),
                                                static_cast<std::streamsize>(size));
  }
  char name_[32] = "/tmp/kolo_fuzz_XXXXXX";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const folder files{data, size};
  kolo::self::communicator comm;
  std::vector<tensors> parameters(1);
  kolo::sharded_optimizer optimizer{comm, kolo::update::momentum{}, parameters};
  try {
    kolo::load_sharded_checkpoint(files.path(), optimizer);
  } catch (const kolo::error& e) {
    fuzz::expect(e.code() == kolo::errc::invalid_argument || e.code() == kolo::errc::system);
  }
  return 0;
}
