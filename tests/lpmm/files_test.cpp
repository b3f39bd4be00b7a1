#include "lpmm/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "lpmm/error.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(NewFile, GetsItsNameWhenItIsWhole) {
  const Scratch scratch;
  const std::string path = scratch / "a";
  {
    NewFile out(path);
    out.file().write(bytes("half of "));
    EXPECT_FALSE(fs::exists(path));
    out.file().write(bytes("it"));
    out.file().overwrite(0, bytes("all "));
    out.keep();
  }
  EXPECT_EQ(read_text(path, 100), "all  of it");
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST(NewFile, LeavesTheOlderOneWhereTheWorkEndsEarly) {
  const Scratch scratch;
  const std::string path = scratch / "a";
  write_text(path, "older");
  EXPECT_THROW(
      {
        NewFile out(path);
        out.file().write(bytes("newer"));
        throw std::runtime_error("stopped");
      },
      std::runtime_error);
  EXPECT_EQ(read_text(path, 100), "older");
  EXPECT_FALSE(fs::exists(path + ".tmp"));
  // A folder stands where the file should go.
  fs::create_directories(scratch / "folder/inside");
  EXPECT_THROW(write_text(scratch / "folder", "newer"), RunError);
  EXPECT_FALSE(fs::exists(scratch / "folder.tmp"));
}

TEST(NewFile, FollowsLinksAndWritesDevicesAsTheyAre) {
  const Scratch scratch;
  write_text(scratch / "target", "older");
  ASSERT_EQ(::symlink("target", (scratch / "link").c_str()), 0);
  write_text(scratch / "link", "newer");
  EXPECT_TRUE(fs::is_symlink(scratch / "link"));
  EXPECT_EQ(read_text(scratch / "target", 100), "newer");
  write_text("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THROW(write_text("/dev/full", "no room"), RunError);
}

}  // namespace
}  // namespace lpmm
