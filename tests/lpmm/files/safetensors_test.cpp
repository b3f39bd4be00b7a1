// safetensors: files that read back, and a reader that survives any header.
#include "lpmm/files/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

template <class T>
SafetensorsSource source(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
                         const std::vector<T>& values) {
  return {name, dtype, std::move(shape), [&values](const auto& sink) {
            // The bytes come in two pieces, as from a stream.
            const auto bytes = std::as_bytes(std::span(values));
            sink(bytes.first(bytes.size() / 3));
            sink(bytes.subspan(bytes.size() / 3));
          }};
}

const std::vector<std::uint8_t> kBytes = {1, 2, 3, 4, 5};
const std::vector<float> kFloats = {1.5F, -2, 3, 4, 5, 6};
const std::vector<std::uint16_t> kHalves = {7, 8, 9};
const std::vector<float> kNothing;

std::string written(const Scratch& scratch) {
  const std::vector<SafetensorsSource> tensors = {
      source("codes", "U8", {5}, kBytes), source("weight", "F32", {2, 3}, kFloats),
      source("steps", "BF16", {3}, kHalves), source("empty", "F32", {0, 4}, kNothing)};
  const Metadata metadata = {{"format", "pt"}, {"quote", "\"\\\n"}};
  const std::string path = scratch / "a.safetensors";
  const WrittenFile file = write_safetensors(path, metadata, tensors);
  EXPECT_EQ(file.bytes, safetensors_bytes(metadata, tensors));
  EXPECT_EQ(file.bytes, File(path, File::Mode::kRead).size());
  EXPECT_EQ(file.crc32, file_crc32(path));
  return path;
}

// A file of this header and `data` zero bytes.
std::string made(const Scratch& scratch, const std::string& header, std::size_t data,
                 std::uint64_t length = ~std::uint64_t{0}) {
  if (length == ~std::uint64_t{0}) length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  text += header + std::string(data, '\0');
  const std::string path = scratch / "made.safetensors";
  write_text(path, text);
  return path;
}

std::string refusal_of_file(const std::string& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const RunError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Safetensors, ReadsWhatItWrote) {
  const Scratch scratch;
  const SafetensorsFile file(written(scratch));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("quote"), "\"\\\n");
  ASSERT_EQ(file.entries().size(), 4U);
  EXPECT_EQ(file.find("nothing"), nullptr);
  const SafetensorsEntry& weight = *file.find("weight");
  EXPECT_EQ(weight.dtype, "F32");
  EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(weight.offset % 8, 0U);
  std::vector<float> values(6);
  file.read(weight, 0, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, kFloats);
  std::vector<std::uint8_t> bytes(3);
  file.read(*file.find("codes"), 2, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, (std::vector<std::uint8_t>{3, 4, 5}));
  EXPECT_THROW(file.read(*file.find("codes"), 3, std::as_writable_bytes(std::span(bytes))), RunError);
  EXPECT_THROW(file.read(*file.find("codes"), ~std::uint64_t{0}, std::as_writable_bytes(std::span(bytes))),
               RunError);
}

TEST(Safetensors, ANameThatIsNotUtf8IsRefusedInWords) {
  const Scratch scratch;
  const std::string path = scratch / "file";
  const std::vector<SafetensorsSource> tensors = {{"\xFF", "U8", {0}, [](const auto&) {}}};
  EXPECT_THROW(write_safetensors(path, {}, tensors), RunError);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Safetensors, TheSmallestFileIsAccepted) {
  const Scratch scratch;
  EXPECT_EQ(refusal_of_file(made(scratch, "{}", 0)), "accepted");
  EXPECT_EQ(refusal_of_file(made(scratch, R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4)),
            "accepted");
}

TEST(Safetensors, RefusesHostileHeaders) {
  const Scratch scratch;
  const auto refuses = [&](const std::string& header, std::size_t data, const std::string& why) {
    const std::string said = refusal_of_file(made(scratch, header, data));
    EXPECT_NE(said.find(why), std::string::npos) << header << "\n  said: " << said;
  };
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  refuses("", 0, "no JSON");
  refuses("[]", 0, "no JSON object");
  refuses("{\"a\":", 0, "no JSON");
  refuses(R"({"a":3})", 0, "dtype, shape and data_offsets");
  refuses(tensor("F33", "[1]", "[0,4]"), 4, "unknown type");
  refuses(tensor("F32", "[2]", "[0,4]"), 4, "need 8");
  refuses(tensor("F32", "[1]", "[0,4]"), 3, "of data");
  refuses(tensor("F32", "[1]", "[0,4]"), 5, "tensors end");
  refuses(tensor("F32", "[1]", "[4,8]"), 8, "overlap or leave a gap");
  refuses(tensor("F32", "[1]", "[4,0]"), 8, "lies at");
  refuses(tensor("F32", "[-1]", "[0,4]"), 4, "integer from 0");
  refuses(tensor("F32", "[1.0]", "[0,4]"), 4, "integer from 0");
  refuses(tensor("F32", "[1]", "[0,1e1]"), 4, "integer from 0");
  refuses(tensor("F32", "[4294967296,4294967296]", "[0,0]"), 0, "too large");
  refuses(tensor("F32", "[4611686018427387904]", "[0,0]"), 0, "integer from 0");
  refuses(tensor("F32", "[1]", "[0,18446744073709551615]"), 4, "integer from 0");
  refuses(tensor("F32", "[[[[[1]]]]]", "[0,4]"), 4, "nested");
  refuses(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
      6, "overlap");
  refuses(
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
      8, "twice");
  refuses(R"({"__metadata__":{"x":1}})", 0, "strings");
  refuses(R"({"__metadata__":[]})", 0, "strings");
  refuses("{" + std::string(100000, '['), 0, "no JSON");
  refuses("{\"a\":" + std::string(100000, '['), 0, "nested");
  EXPECT_NE(refusal_of_file(made(scratch, "{}", 0, 3)).find("truncated"), std::string::npos);
  EXPECT_NE(refusal_of_file(made(scratch, "{}", 0, ~std::uint64_t{0} - 1)).find("truncated"),
            std::string::npos);
  EXPECT_NE(refusal_of_file(made(scratch, "{}", 0, std::uint64_t{1} << 63)).find("truncated"),
            std::string::npos);
  write_text(scratch / "short", "1234567");
  EXPECT_NE(refusal_of_file(scratch / "short").find("at least 8"), std::string::npos);
  EXPECT_NE(refusal_of_file(scratch.path()).find("not a file"), std::string::npos);
  EXPECT_NE(refusal_of_file(scratch / "absent").find("cannot be opened"), std::string::npos);
}

// Random damage: the reader accepts or refuses, and what it accepts lies inside the file.
TEST(Safetensors, SurvivesRandomDamage) {
  const Scratch scratch;
  const std::string good = read_text(written(scratch), 1 << 20);
  const std::size_t header = good.size() - 5 - 24 - 6;
  int refused = 0;
  constexpr int kTrials = 600;
  for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
    std::string bad = good;
    const PhiloxWords w = philox4x32_10({{trial, 0, 0, 0}}, 1, 2);
    const std::size_t at = w.x[0] % header;
    switch (w.x[1] % 5) {
      case 0:
        bad[at] = static_cast<char>(w.x[2]);
        break;
      case 1:
        bad[at] = static_cast<char>(bad[at] ^ (1U << w.x[2] % 8));
        break;
      case 2:
        bad.erase(at, w.x[2] % 9);
        break;
      case 3:
        bad.insert(at, good, w.x[2] % header, w.x[3] % 16);
        break;
      default:
        bad.resize(w.x[2] % good.size());
        break;
    }
    std::ofstream(scratch / "bad", std::ios::binary) << bad;
    try {
      const SafetensorsFile file(scratch / "bad");
      for (const SafetensorsEntry& e : file.entries()) {
        ASSERT_LE(e.offset + e.bytes, bad.size());
        std::vector<std::byte> bytes(e.bytes);
        file.read(e, 0, bytes);
      }
    } catch (const RunError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kTrials / 2);
}

TEST(Safetensors, NoGapOrOverlapForManyTensors) {
  const Scratch scratch;
  std::vector<std::vector<std::uint8_t>> data;
  for (std::size_t i = 0; i < 40; ++i)
    data.emplace_back(i % 7 * (i % 2 == 0 ? 4 : 1), static_cast<std::uint8_t>(i));
  std::vector<SafetensorsSource> tensors;
  for (std::size_t i = 0; i < 40; ++i) {
    const bool wide = i % 2 == 0;
    tensors.push_back(
        source("t" + std::to_string(i), wide ? "F32" : "U8", {static_cast<std::int64_t>(i % 7)}, data[i]));
  }
  write_safetensors(scratch / "many", {}, tensors);
  const SafetensorsFile file(scratch / "many");
  for (std::size_t i = 0; i < 40; ++i) {
    const SafetensorsEntry& e = *file.find("t" + std::to_string(i));
    std::vector<std::uint8_t> bytes(e.bytes);
    file.read(e, 0, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, data[i]);
  }
}

TEST(Files, CrcOfKnownText) {
  const std::string text = "123456789";
  EXPECT_EQ(crc32(std::as_bytes(std::span(text))), 0xCBF43926U);   // the check value of CRC-32
  EXPECT_EQ(crc32c(std::as_bytes(std::span(text))), 0xE3069283U);  // the check value of CRC-32C
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(crc32(bytes.subspan(4), crc32(bytes.first(4))), 0xCBF43926U);
}

}  // namespace
}  // namespace lpmm
