#include "lpmm/files/files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/files/json.h"
#include "lpmm/files/locked_file.h"
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
  EXPECT_EQ(names_in(scratch.path()), std::set<std::string>{"a"});
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
  // A folder stands where the file should go.
  fs::create_directories(scratch / "folder/inside");
  EXPECT_THROW(write_text(scratch / "folder", "newer"), RunError);
  EXPECT_EQ(names_in(scratch.path()), (std::set<std::string>{"a", "folder"}));
  try {
    write_text(scratch / "no/file", "text");
    FAIL();
  } catch (const RunError& e) {
    EXPECT_EQ(std::string(e.what()).find(scratch / "no/file: cannot be written"), 0U) << e.what();
  }
}

TEST(NewFile, TouchesNoOtherFileAndKeepsTheMode) {
  const Scratch scratch;
  write_text(scratch / "a", "secret");
  fs::permissions(scratch / "a", fs::perms::owner_read | fs::perms::owner_write);
  for (const std::string& other : {scratch / "a.tmp", scratch / fmt::format(".lpmm-{}-0.tmp", ::getpid())}) {
    write_text(other, "mine");
    write_text(scratch / "a", "newer");
    EXPECT_EQ(read_text(other, 100), "mine");
  }
  EXPECT_EQ(read_text(scratch / "a", 100), "newer");
  EXPECT_EQ(fs::status(scratch / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(NewFile, FollowsLinksAndWritesDevicesAsTheyAre) {
  const Scratch scratch;
  write_text(scratch / "target", "older");
  ASSERT_EQ(::symlink("target", (scratch / "link").c_str()), 0);
  write_text(scratch / "link", "newer");
  EXPECT_TRUE(fs::is_symlink(scratch / "link"));
  EXPECT_EQ(read_text(scratch / "target", 100), "newer");
  ASSERT_EQ(::symlink("absent", (scratch / "dangling").c_str()), 0);
  write_text(scratch / "dangling", "made");
  EXPECT_TRUE(fs::is_symlink(scratch / "dangling"));
  EXPECT_EQ(read_text(scratch / "absent", 100), "made");
  write_text("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THROW(write_text("/dev/full", "no room"), RunError);
}

TEST(Leftovers, AreRemovedAndWhatIsBeingWrittenStays) {
  const Scratch scratch;
  write_text(scratch / ".lpmm-1-0.tmp", "left by a process that was killed");
  write_text(scratch / ".lpmm.tmp.txt", "another's");
  NewFile writing(scratch / "a");
  writing.file().write(bytes("whole"));
  remove_leftovers(scratch.path());
  EXPECT_FALSE(fs::exists(scratch / ".lpmm-1-0.tmp"));
  EXPECT_TRUE(fs::exists(scratch / ".lpmm.tmp.txt"));
  writing.keep();
  EXPECT_EQ(read_text(scratch / "a", 100), "whole");
  remove_leftovers(scratch / "nowhere");
}

TEST(File, KnowsWhetherItHasLostItsName) {
  const Scratch scratch;
  File file(scratch / "a", File::Mode::kAppend);
  fs::remove(scratch / "a");
  File other(scratch / "a", File::Mode::kAppend);
  EXPECT_FALSE(file.has_name());
  EXPECT_TRUE(other.has_name());
  EXPECT_TRUE(file.lock() && other.lock());  // two files
}

// A file that has its name but not yet its lock looks like a leftover: its writer takes another.
TEST(NewFile, IsWrittenWhileOthersClearLeftoversAway) {
  const Scratch scratch;
  std::atomic<bool> done = false;
  std::thread clearing([&] {
    while (!done) remove_leftovers(scratch.path());
  });
  for (int i = 0; i < 200; ++i) {
    NewFile file(scratch / "a");
    const std::string text = std::to_string(i);
    file.file().write(bytes(text));
    EXPECT_NO_THROW(file.keep());
    EXPECT_EQ(read_text(scratch / "a", 100), text);
  }
  done = true;
  clearing.join();
  EXPECT_EQ(names_in(scratch.path()), std::set<std::string>{"a"});
}

// Whoever leaves takes the file's name away; one who has opened it just before opens the next one.
TEST(FolderLock, IsHeldByOneHoweverOftenItIsLeft) {
  const Scratch scratch;
  std::atomic<int> holders = 0, taken = 0, twice = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        try {
          const FolderLock lock(scratch / "out", "another test");
          if (++holders > 1) ++twice;
          ++taken;
          std::this_thread::sleep_for(std::chrono::microseconds(20));
          --holders;
        } catch (const RunError&) {
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(taken, 0);
  EXPECT_EQ(twice, 0);
  EXPECT_EQ(names_in(scratch / "out"), std::set<std::string>{});
}

TEST(ErrorText, LeavesOutTheWordsOfLibraries) {
  try {
    fs::create_directory("/nowhere/at/all");
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_EQ(error_text(e), "/nowhere/at/all: No such file or directory");
  }
  try {
    parse_json("{}").at("a");
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_EQ(error_text(e), "key 'a' not found");
  }
  EXPECT_EQ(error_text(RunError("[json] as said")), "[json] as said");
}

}  // namespace
}  // namespace lpmm
