// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loader of MNIST files: good files are read, and every mistake in one is an error with a sentence.
#include "idx.hpp"

#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/scratch.hpp"

namespace {

namespace fs = std::filesystem;

/// A directory with the four files, small and right, until the end of the test.
struct mnist : testing::scratch_directory {
  mnist() {
    write("train-images-idx3-ubyte", {0x803, 3, 28, 28}, 3 * digits::pixels);
    write("train-labels-idx1-ubyte", {0x801, 3}, 3);
    write("t10k-images-idx3-ubyte", {0x803, 2, 28, 28}, 2 * digits::pixels);
    write("t10k-labels-idx1-ubyte", {0x801, 2}, 2);
  }

  /// A header of big-endian numbers, then bytes 0 1 2 ... 9 0 1 ...
  void write(const std::string& name, const std::vector<std::uint32_t>& header, int bytes) const {
    std::ofstream out{*this / name, std::ios::binary};
    for (const std::uint32_t h : header)
      for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(h >> shift & 255));
    for (int i = 0; i < bytes; ++i) out.put(static_cast<char>(i % 10));
  }

  /// The error; empty if there is none.
  std::string complaint() const {
    return testing::words_of<std::runtime_error>([&] { digits::read_mnist(path()); });
  }

  /// True if the error names the file and what is wrong.
  bool says(const std::string& file, const std::string& what) const {
    const std::string text = complaint();
    INFO(text);
    return testing::contains(text, *this / file) && testing::contains(text, what);
  }
};

}  // namespace

TEST_CASE("MNIST: four good files are read") {
  const mnist files;
  const digits::split data = digits::read_mnist(files.path());
  REQUIRE(data.train.size() == 3);
  REQUIRE(data.test.size() == 2);
  CHECK(data.train.images.size() == 3 * digits::pixels);
  CHECK(data.train.images[digits::pixels] == digits::pixels % 10);
  CHECK(data.train.labels == std::vector<std::uint8_t>{0, 1, 2});
}

TEST_CASE("MNIST: file names with a dot are found too") {
  const mnist files;
  fs::rename(files / "t10k-labels-idx1-ubyte", files / "t10k-labels.idx1-ubyte");
  CHECK(files.complaint() == "");
}

TEST_CASE("MNIST: a missing file is named") {
  const mnist files;
  CHECK_THROWS_WITH(digits::read_mnist(files / "none"), files / "none" + " is not a directory");
  fs::rename(files / "train-labels-idx1-ubyte", files / "train-labels-idx1-ubyte.gz");
  CHECK(files.says("train-labels-idx1-ubyte.gz", "is still compressed: unpack it with gunzip"));
  fs::remove(files / "train-labels-idx1-ubyte.gz");
  CHECK(files.says("train-labels-idx1-ubyte", "does not exist. The MNIST directory must contain"));
}

TEST_CASE("MNIST: a file that is too short or too long is refused with the sizes") {
  const mnist files;
  const std::string name = "train-images-idx3-ubyte";
  const auto whole = fs::file_size(files / name);
  fs::resize_file(files / name, whole + 1);
  CHECK(files.says(name, "is too long: its header announces 2352 bytes, but 2353 follow"));
  fs::resize_file(files / name, whole - 1);
  CHECK(files.says(name, "is truncated: its header announces 2352 bytes, but 2351 follow"));
  for (const std::uintmax_t bytes : {16u, 15u, 4u, 3u, 0u}) {
    fs::resize_file(files / name, bytes);
    CHECK(files.says(name, "is truncated"));
  }
}

TEST_CASE("MNIST: a file with another magic number is refused") {
  const mnist files;
  files.write("train-images-idx3-ubyte", {0x801, 3}, 3);
  CHECK(files.says("train-images-idx3-ubyte",
                   "begins with 0x00000801 instead of 0x00000803: it is not an IDX file of images"));
  files.write("train-images-idx3-ubyte", {0x1f8b0800, 3, 28, 28}, 3 * digits::pixels);
  CHECK(files.says("train-images-idx3-ubyte", "begins with 0x1f8b0800"));
}

TEST_CASE("MNIST: wrong counts, sizes and labels are refused with the numbers") {
  const mnist files;
  files.write("t10k-labels-idx1-ubyte", {0x801, 1}, 1);
  CHECK(files.says("t10k-labels-idx1-ubyte", "contains 2 images, but"));
  files.write("t10k-labels-idx1-ubyte", {0x801, 2}, 2);
  files.write("t10k-images-idx3-ubyte", {0x803, 2, 27, 28}, 2 * 27 * 28);
  CHECK(files.says("t10k-images-idx3-ubyte", "27 x 28 pixels instead of 28 x 28"));
  files.write("t10k-images-idx3-ubyte", {0x803, 0, 28, 28}, 0);
  CHECK(files.says("t10k-images-idx3-ubyte", "contains no images"));
  files.write("train-labels-idx1-ubyte", {0x801, 0x00000003}, 2);
  std::ofstream{files / "train-labels-idx1-ubyte", std::ios::app}.put(11);
  CHECK(files.says("train-labels-idx1-ubyte", "says that image 2 shows a 11, which is not a digit"));
}

TEST_CASE("MNIST: a header with a huge size allocates nothing") {
  const mnist files;
  files.write("train-images-idx3-ubyte", {0x803, 0xffffffff, 0xffffffff, 0xffffffff}, 10);
  CHECK(files.says("train-images-idx3-ubyte", "is truncated"));
}
