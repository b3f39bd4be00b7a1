// JSON of outside files: order, names that come twice, numbers that JSON does not have, time.
#include "lpmm/files/json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

TEST(ReadJson, KeepsWhatIsThereInItsOrder) {
  const std::string text =
      R"({"b":[1,-2,2.5,"x\"\u0041",true,null,{}],"a":{"c":[[],{"d":18446744073709551615}]}})";
  EXPECT_EQ(parse_json(text).dump(),
            R"({"b":[1,-2,2.5,"x\"A",true,null,{}],"a":{"c":[[],{"d":18446744073709551615}]}})");
  EXPECT_EQ(parse_json("7").dump(), "7");
  EXPECT_THROW(parse_json(R"({"a":1)"), Json::exception);
  EXPECT_THROW(parse_json("[1] 2"), Json::exception);
  EXPECT_THROW(parse_json("[1e999]"), Json::exception);
  EXPECT_NE(said([] { parse_json(std::string("[1]\0[2]", 7)); }).find("zero byte"), std::string::npos);
}

// Python's json.loads does the same: the last value counts, at the place of the first.
TEST(ReadJson, OfEqualNamesTheLastCounts) {
  EXPECT_EQ(parse_json(R"({"a":1,"b":{"x":1,"x":[2]},"a":3,"c":4})").dump(),
            R"({"a":3,"b":{"x":[2]},"c":4})");
  EXPECT_NE(
      said([] { parse_json(R"({"b":{"x":1,"x":2}})", 9, SameNames::kRefused); }).find("names \"x\" twice"),
      std::string::npos);
}

TEST(ReadJson, NestsOnlySoDeep) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(parse_json(nested(64)).dump(), nested(64));
  EXPECT_NE(said([&] { parse_json(nested(65)); }).find("nested too deeply"), std::string::npos);
  EXPECT_NE(said([&] { parse_json(R"({"a":{"a":{}}})", 2); }).find("nested too deeply"), std::string::npos);
}

TEST(ReadJson, NumbersThatJsonDoesNotHaveBecomeTheirNames) {
  EXPECT_EQ(with_named_numbers(R"({"a": [0.0, Infinity], "b": -Infinity, "c": NaN})"),
            R"({"a": [0.0, "Infinity"], "b": "-Infinity", "c": "NaN"})");
  for (const char* same : {R"({"NaN": "Infinity \" -Infinity", "b\\": "NaN"})", "{\"NaN\\", "\"\\", ""}) {
    EXPECT_EQ(with_named_numbers(same), same);
  }
  const Scratch scratch;
  write_text(scratch / "a.json", R"({"limit": [0.0, Infinity], "text": "NaN"})");
  EXPECT_EQ(read_json(scratch / "a.json", 100)["limit"][1], "Infinity");
  write_text(scratch / "a.json", R"({"limit": Infinite})");
  EXPECT_NE(said([&] { read_json(scratch / "a.json", 100); }).find("a.json: parse error"), std::string::npos);
}

// Quadratic time would be minutes.
TEST(ReadJson, ManyNamesTakeLittleTime) {
  constexpr int kNames = 100000;
  std::string text = "{";
  for (int i = 0; i < kNames; ++i) text += "\"layers." + std::to_string(i) + ".weight\":0,";
  text.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, 4, SameNames::kRefused).size(), std::size_t{kNames});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(ReadJson, TensorsAreFoundByTheirNames) {
  const Scratch scratch;
  std::vector<SafetensorsSource> sources;
  for (const char* name : {"b", "a", "c.weight", "c"})
    sources.push_back({name, "U8", {0}, [](const auto&) {}});
  write_safetensors(scratch / "some", {{"format", "pt"}}, sources);
  const SafetensorsFile file(scratch / "some");
  for (const SafetensorsSource& source : sources) {
    ASSERT_NE(file.find(source.name), nullptr);
    EXPECT_EQ(file.find(source.name)->name, source.name);
  }
  for (const char* name : {"", "a ", "c.", "d"}) EXPECT_EQ(file.find(name), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST(File, NamesHaveNoZeroByte) {
  const Scratch scratch;
  write_text(scratch / "a", "text");
  const std::string name = (scratch / "a") + '\0' + "b";
  EXPECT_NE(said([&] { read_text(name, 100); }).find("zero byte"), std::string::npos);
}

TEST(File, StandInsForAModelSayWhatToDo) {
  const Scratch scratch;
  write_text(scratch / "a", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
  EXPECT_NE(said([&] { read_text(scratch / "a", 100); }).find("git lfs pull"), std::string::npos);
  EXPECT_NE(said([&] { SafetensorsFile(scratch / "a"); }).find("git lfs pull"), std::string::npos);
  write_text(scratch / "a", "GGUF\3");
  EXPECT_NE(said([&] { SafetensorsFile(scratch / "a"); }).find("lpmm import"), std::string::npos);
}

}  // namespace
}  // namespace lpmm
