// The log: records in order, cut to a length, one writer, and a last line that may be broken.
#include "lpmm/run/log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/run/records.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

TEST(Log, WritesReadsAndCuts) {
  const Scratch scratch;
  const std::string path = scratch / "log.jsonl";
  std::uint64_t length = 0;
  {
    RunLog log(path);
    log.write({{"type", "step"}, {"loss", 1.5}, {"text", "line\nbreak \xff"}});
    length = log.bytes();
    log.write({{"type", "step"}, {"loss", std::nan("")}});
    EXPECT_THROW(RunLog second(path), RunError);  // one writer at a time
  }
  auto records = read_log(path);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0]["loss"], 1.5);
  EXPECT_TRUE(records[1]["loss"].is_null());
  RunLog log(path);
  log.cut(length);
  log.write({{"type", "end"}});
  records = read_log(path);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1]["type"], "end");
  EXPECT_THROW(log.cut(10000), RunError);       // shorter than a checkpoint knows it
  EXPECT_THROW(log.cut(length - 1), RunError);  // in the middle of a record
}

TEST(Log, RefusesJsonThatWouldEndTheStack) {
  const std::string deep = "{\"type\": \"summary\", \"x\": " + std::string(1'000'000, '[');
  EXPECT_THROW(parse_json(deep), RunError);
  EXPECT_EQ(parse_json("{\"x\": [[1]]}")["x"][0][0], 1);
  const Scratch scratch;
  write_text(scratch / "log.jsonl", deep + std::string(1'000'000, ']') + "}\n");
  EXPECT_THROW(read_log(scratch / "log.jsonl"), RunError);
  EXPECT_THROW(read_log(scratch.path()), RunError);  // a folder
}

TEST(Log, LeavesOutABrokenLastLineOnly) {
  const Scratch scratch;
  write_text(scratch / "a", "{\"type\":\"step\"}\n{\"type\":\"st");
  EXPECT_EQ(read_log(scratch / "a").size(), 1U);
  write_text(scratch / "b", "{\"type\":\"step\"}\n{\"type\":\"st\n{\"type\":\"step\"}\n");
  EXPECT_THROW(read_log(scratch / "b"), RunError);
  EXPECT_THROW(read_log(scratch / "absent"), RunError);
}

TEST(Log, KnowsTheChecksumOfWhatIsKept) {
  const Scratch scratch;
  const std::string path = scratch / "log.jsonl";
  std::uint64_t length = 0;
  std::uint32_t sum = 0;
  {
    RunLog log(path);
    log.write({{"type", "step"}, {"step", 1}});
    length = log.bytes(), sum = log.checksum();
    EXPECT_EQ(sum, file_crc32(path));
    log.write({{"type", "step"}, {"step", 2}});
    EXPECT_EQ(log.checksum(), file_crc32(path));
  }
  RunLog log(path);
  EXPECT_THROW(log.cut(length, sum ^ 1U), RunError);
  EXPECT_EQ(read_log(path).size(), 2U);  // untouched
  log.cut(length, sum);
  EXPECT_EQ(log.checksum(), sum);
}

TEST(Log, NoticesThatItsPlaceWasTaken) {
  const Scratch scratch;
  const std::string path = scratch / "log.jsonl";
  RunLog log(path);
  log.write({{"type", "step"}});
  log.check_place();
  // Another inode number alone is no other file: on some file systems it changes.
  std::filesystem::copy_file(path, scratch / "copy");
  std::filesystem::rename(scratch / "copy", path);
  log.check_place();
  log.write({{"type", "step"}});
  EXPECT_NE(said([&] { log.check_place(); }).find(path + ": is another file"), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_NE(said([&] { log.check_place(); }).find(path + ": is gone"), std::string::npos);
}

TEST(Log, LeavesNoEmptyFile) {
  const Scratch scratch;
  const std::string path = scratch / "log.jsonl";
  { const RunLog log(path); }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RanksText, SaysHowTheyExchange) {
  EXPECT_EQ(ranks_text(alone()), "");
  const auto ranks = linked_ranks(2, 1);
  Ranks& one = *ranks[0];
  EXPECT_EQ(ranks_text(one), " in each of 2 processes, which read each other's memory");
  one.let_read(false);
  EXPECT_EQ(ranks_text(one), " in each of 2 processes, which send by NCCL");
  one.let_link(false);
  EXPECT_EQ(ranks_text(one), " in each of 2 processes, which send by the host's memory");
}

}  // namespace
}  // namespace lpmm
