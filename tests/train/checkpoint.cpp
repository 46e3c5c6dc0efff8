// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints: a load returns the saved values, and a failed save leaves the previous checkpoint and no other file.
#include <kolo/train/checkpoint.hpp>
#include <kolo/view/bfloat16.hpp>
#include <kolo/view/float16.hpp>

#include "support/catch.hpp"
#include "support/ends.hpp"
#include "support/sanitized.hpp"
#include "support/scratch.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using testing::contains, testing::scratch_directory, testing::words_of;

namespace {

namespace fs = std::filesystem;

struct parameter {
  std::span<float> value, gradient;
};

struct model {
  std::vector<float> w, b;
  model(std::size_t n, float x) : w(n, x), b(3, -x) {}
  std::vector<parameter> parameters() { return {{w, w}, {b, b}}; }
};

std::string content(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

std::string refusal(const std::string& path, model& m, kolo::errc expected) {
  try {
    kolo::save_checkpoint(path, m.parameters());
  } catch (const kolo::error& e) {
    return e.code() == expected ? e.what() : "another code: " + std::string{kolo::name(e.code())};
  }
  return "saved";
}

/// The refusal; empty if it is loaded.
std::string load_refusal(const std::string& path, auto&& parameters) {
  return words_of([&] { kolo::load_checkpoint(path, parameters); });
}

/// Runs f in a child process with its own limits and mounts. Returns f's result, or -1 if the child is killed.
template <class F>
int in_child(F f) {
  const ::pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Mounts a disk of 64 KiB at `path`, in this process only.
bool mount_small_disk(const std::string& path) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=64k") == 0;
}

/// What `fsync` was called for while the path is set, and whether the path existed then.
std::string synced, path_of_synced;
bool fsync_fails = false;

}  // namespace

extern "C" int fsync(int file) {  // takes the place of the C library's
  struct stat s {};
  if (!path_of_synced.empty() && ::fstat(file, &s) == 0)
    synced += std::string{S_ISDIR(s.st_mode) ? "folder" : "file"} + (fs::exists(path_of_synced) ? ", named; " : "; ");
  if (fsync_fails) return errno = EIO, -1;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

TEST_CASE("a save is on the disk before it has its name, and its name before it returns; else it fails") {
  const scratch_directory here;
  model m{10, 1};
  path_of_synced = here / "state";
  fsync_fails = true;
  CHECK(contains(refusal(here / "state", m, kolo::errc::system), "Input/output error: cannot write"));
  CHECK(here.entries() == 0);
  fsync_fails = false;
  kolo::save_checkpoint(here / "state", m.parameters());
  path_of_synced.clear();
  CHECK(synced == "file; file; folder, named; ");
}

TEST_CASE("a load returns the saved values bit for bit, and the directory holds only the checkpoint") {
  const scratch_directory here;
  model saved{1000, 0.1f}, loaded{1000, 0};
  kolo::save_checkpoint(here / "state", saved.parameters());
  kolo::load_checkpoint(here / "state", loaded.parameters());
  CHECK(loaded.w == saved.w);
  CHECK(loaded.b == saved.b);
  CHECK(here.entries() == 1);
  CHECK(fs::file_size(here / "state") == 16 + 8 + 4 * 8 + 1003 * 4);
}

TEST_CASE("a save replaces a checkpoint, and keeps its permissions and symbolic links") {
  const scratch_directory here;
  model first{10, 1}, second{20, 2};
  kolo::save_checkpoint(here / "state", first.parameters());
  fs::permissions(here / "state", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("state", here / "link");
  kolo::save_checkpoint(here / "link", second.parameters());
  CHECK(fs::is_symlink(here / "link"));
  CHECK(fs::status(here / "state").permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(here.entries() == 2);
  model loaded{20, 0};
  kolo::load_checkpoint(here / "state", loaded.parameters());
  CHECK(loaded.w == second.w);
}

TEST_CASE("a save to a link whose target does not exist makes the target") {
  const scratch_directory here;
  model m{10, 1}, loaded{10, 0};
  fs::create_directory(here / "run");
  fs::create_symlink("run/best", here / "link");
  fs::create_symlink(here / "state", here / "run/best");
  for (int save = 0; save < 2; ++save) kolo::save_checkpoint(here / "link", m.parameters());
  CHECK((fs::is_symlink(here / "link") && fs::is_symlink(here / "run/best")));
  CHECK(here.entries() == 3);
  kolo::load_checkpoint(here / "state", loaded.parameters());
  CHECK(loaded.w == m.w);
  fs::create_symlink("circle", here / "circle");
  kolo::save_checkpoint(here / "circle", m.parameters());
  CHECK(!fs::is_symlink(here / "circle"));
}

TEST_CASE("a new checkpoint has the permissions that the umask leaves") {
  for (const ::mode_t mask : {0077u, 0022u, 0u}) {
    const scratch_directory here;
    model m{10, 1};
    const auto before = ::umask(mask);
    kolo::save_checkpoint(here / "state", m.parameters());
    ::umask(before);
    CHECK(fs::status(here / "state").permissions() == static_cast<fs::perms>(0666 & ~mask));
  }
}

TEST_CASE("a save removes the temporary file of a killed save, but not one that another process still writes") {
  const scratch_directory here;
  model m{10, 1}, other{20, 2};
  in_child([&] {
    const auto* const killed = new kolo::detail::train::temporary_file{here / "state", 0600};
    return killed->is_open() ? 0 : 1;
  });
  CHECK(here.entries() == 1);
  kolo::detail::train::temporary_file writes{here / "state", 0600};
  kolo::save_checkpoint(here / "state", m.parameters());
  CHECK(here.entries() == 2);
  CHECK(writes.write(std::as_bytes(std::span{"whole", 5})));
  CHECK(writes.become(here / "state", here.path()));
  CHECK(content(here / "state") == "whole");
  CHECK(here.entries() == 1);
}

TEST_CASE("output to a closed standard output does not go into the checkpoint") {
  const scratch_directory here;
  CHECK(in_child([&] {
          ::close(STDOUT_FILENO);
          const kolo::detail::train::temporary_file writes{here / "state", 0600};
          return ::write(STDOUT_FILENO, "text", 4) < 0 && writes.is_open() ? 0 : 1;
        }) == 0);
}

TEST_CASE("a save whose only free descriptor is that of a closed standard input fails, and leaves no file") {
  if (testing::is_sanitized) return;  // exceptions need descriptors under a sanitizer
  const scratch_directory here;
  CHECK(in_child([&] {
          model m{10, 1};
          const struct rlimit none { 4, 4 };
          ::dup2(STDERR_FILENO, 3);
          ::setrlimit(RLIMIT_NOFILE, &none);
          ::close(STDIN_FILENO);
          return contains(refusal(here / "state", m, kolo::errc::system), "Too many open files") ? 0 : 1;
        }) == 0);
  CHECK(here.entries() == 0);
}

TEST_CASE("a missing directory and a target that is not a regular file are refused, and nothing is changed") {
  const scratch_directory here;
  model m{10, 1};
  CHECK(contains(refusal(here / "none/state", m, kolo::errc::system), "No such file or directory: cannot write"));
  CHECK(contains(refusal(here.path(), m, kolo::errc::invalid_argument), "not a file, and so not replaced"));
  CHECK(contains(refusal("/dev/full", m, kolo::errc::invalid_argument), "not a file, and so not replaced: /dev/full"));
  CHECK(fs::is_character_file("/dev/full"));
  CHECK(here.entries() == 0);
}

TEST_CASE("a checkpoint larger than the process's file size limit is refused before a write, with both sizes") {
  const scratch_directory here;
  model old{10, 1}, large{100'000, 2};
  kolo::save_checkpoint(here / "state", old.parameters());
  const std::string before = content(here / "state");
  const int verdict = in_child([&] {
    const struct rlimit limit { 4096, 4096 };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string why = refusal(here / "state", large, kolo::errc::out_of_resources);
    return contains(why, "400068 bytes needed, 4096 free, to write " + here / "state") ? 0 : 1;
  });
  CHECK(verdict == 0);
  CHECK(content(here / "state") == before);
  CHECK(here.entries() == 1);
}

TEST_CASE("a full disk leaves the previous checkpoint, and the error has both sizes") {
  const scratch_directory here;
  constexpr int no_mount = 77;
  const int verdict = in_child([&] {
    if (!mount_small_disk(here.path())) return no_mount;
    model old{10, 1}, large{100'000, 2}, fits{5'000, 3};
    kolo::save_checkpoint(here / "state", old.parameters());
    const std::string why = refusal(here / "state", large, kolo::errc::out_of_resources);
    if (!contains(why, "No space left on device: 400068 bytes needed, 61440 free")) return 1;
    if (here.entries() != 1 || !load_refusal(here / "state", old.parameters()).empty()) return 2;
    kolo::save_checkpoint(here / "state", fits.parameters());
    return load_refusal(here / "state", fits.parameters()).empty() ? 0 : 3;
  });
  if (verdict == no_mount) WARN("skipped: this process may not mount a small disk");
  else CHECK(verdict == 0);
}

TEST_CASE("a write that fails halfway leaves the previous checkpoint and no temporary file") {
  const scratch_directory here;
  const std::string old = "old";
  std::ofstream{here / "state"} << old;
  const std::size_t page = std::size_t(::sysconf(_SC_PAGESIZE));
  void* unreadable = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::vector<std::byte> good(100'000);
  const std::span<const std::byte> pieces[] = {good, {static_cast<const std::byte*>(unreadable), page}};
  std::string why = "written";
  try {
    kolo::detail::train::replace_file(here / "state", pieces);
  } catch (const kolo::error& e) {
    why = e.what();
  }
  CHECK(contains(why, "Bad address: cannot write " + here / "state"));
  ::munmap(unreadable, page);
  CHECK(content(here / "state") == old);
  CHECK(here.entries() == 1);
}

TEST_CASE("a file that is not a checkpoint of this model is refused, and the values do not change") {
  const scratch_directory here;
  model saved{100, 1}, other{99, 5};
  kolo::save_checkpoint(here / "state", saved.parameters());
  CHECK(contains(load_refusal(here / "none", saved.parameters()), "No such file"));
  CHECK(contains(load_refusal(here.path(), saved.parameters()), "not a checkpoint"));
  CHECK(contains(load_refusal(here / "state", other.parameters()), "another model"));
  CHECK(other.w == std::vector<float>(99, 5));

  const std::string whole = content(here / "state");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{15}, std::size_t{20}, whole.size() - 1}) {
    std::ofstream{here / "state", std::ios::binary} << whole.substr(0, bytes);
    model loaded{100, 7};
    CHECK(!load_refusal(here / "state", loaded.parameters()).empty());
    CHECK(loaded.w == std::vector<float>(100, 7));
  }
  std::ofstream{here / "state", std::ios::binary} << whole << "more";
  CHECK(contains(load_refusal(here / "state", saved.parameters()), "a damaged checkpoint, 472 bytes instead of 468"));
}

TEST_CASE("a checkpoint of another element type is refused; one of format 0.1, which has no element type, is read") {
  const scratch_directory here;
  const auto with = [](auto& values) {
    struct one {
      std::span<std::remove_reference_t<decltype(values[0])>> value, gradient;
    };
    return std::vector<one>{{values, values}};
  };
  const auto why = [&](auto& values) { return load_refusal(here / "state", with(values)); };
  std::vector<kolo::float16> halves(6, kolo::float16{1.5f});
  std::vector<kolo::bfloat16> others(6);
  std::vector<float> floats(3);
  std::vector<std::int32_t> whole(3);
  kolo::save_checkpoint(here / "state", with(halves));
  CHECK(contains(why(others), "elements of the parameters differ"));
  CHECK(contains(why(floats), "elements of the parameters differ"));
  CHECK(why(halves).empty());
  floats.assign(3, 2.5f);
  kolo::save_checkpoint(here / "state", with(floats));
  CHECK(contains(why(whole), "elements of the parameters differ"));

  std::string old = content(here / "state");
  old[15] = '\n';
  old.erase(32, 8);
  std::ofstream{here / "state", std::ios::binary} << old;
  floats.assign(3, 0);
  CHECK(why(floats).empty());
  CHECK(floats == std::vector<float>(3, 2.5f));
}
