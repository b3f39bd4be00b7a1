// Checkpoints: bytes that come back, damage that is found, other models that are refused, disks that fail.
#include "lpmm/run/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/run/stored_weights.h"
#include "tests/lpmm/memory/given.h"
#include "tests/lpmm/memory/two_terms.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::vector<TensorInfo> kSaved = {
    {"conv.weight", {7, 3, 3, 11}}, {"bias", {13}}, {"fc.weight", {5, 200}}};
const std::vector<BufferInfo> kBuffers = {{"bn.mean", {4}, 0.0F}, {"bn.variance", {4}, 1.0F}};

// Model memory after a few steps on made-up gradients.
struct Trained {
  CpuDevice device{2};
  ModelMemory memory;
  Buffers buffers{kBuffers, device};

  explicit Trained(const std::string& preset, int steps = 3, std::vector<TensorInfo> tensors = kSaved,
                   RuleName rule = "adamw")
      : Trained(make_policy(preset), steps, std::move(tensors), rule) {}
  Trained(const Policy& policy, int steps, std::vector<TensorInfo> tensors, RuleName rule = "adamw")
      : memory(std::move(tensors), policy, optimizer(rule), 5, 1, device) {
    for (int i = 0; i < memory.tensors(); ++i) memory.initialize(i, 0, values(i, 0));
    for (int step = 1; step <= steps; ++step) {
      Step this_step = memory.begin_step({static_cast<std::uint32_t>(step), 0.01});
      for (int i = 0; i < memory.tensors(); ++i) this_step.fold(i, 0, values(i, step), 0);
      std::move(this_step).commit();
    }
    for (float& v : buffers.value(0)) v = 0.25F * static_cast<float>(steps);
  }
  static OptimizerConfig optimizer(RuleName rule) {
    OptimizerConfig o;
    o.rule = rule;
    give(o, "momentum", 0.9);
    return o;
  }
  std::vector<float> values(int tensor, int step) const {
    std::vector<float> v(static_cast<std::size_t>(memory.info(tensor).elements()));
    const Noise noise{1, static_cast<std::uint32_t>(tensor), static_cast<std::uint32_t>(step),
                      static_cast<std::uint32_t>(Stream::kTest)};
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = (static_cast<float>(noise_draw(noise, static_cast<std::int64_t>(i))) - 32767.5F) * 1e-5F;
    }
    return v;
  }
  // Everything that is persistent, in one string.
  std::string bytes() const {
    std::string all = std::to_string(memory.updates());
    for (int i = 0; i < memory.tensors(); ++i) {
      for (const Role role : kEveryRole) {
        const kernels::RoleView v = memory.view(i, role);
        if (!is_saved(role) || v.codes == nullptr) continue;
        all.append(reinterpret_cast<const char*>(v.codes),
                   static_cast<std::size_t>(code_bytes(v.codec.format, v.elements)));
        if (v.steps == nullptr) continue;
        all.append(reinterpret_cast<const char*>(v.steps),
                   static_cast<std::size_t>(step_bytes(v.codec, v.elements)));
      }
    }
    for (int b = 0; b < 2; ++b) {
      const auto value = std::as_bytes(buffers.value(b));
      all.append(reinterpret_cast<const char*>(value.data()), value.size());
    }
    return all;
  }
};

std::string save(const Scratch& scratch, const Trained& t, std::int64_t step = 3, int keep = 2) {
  return save_checkpoint(scratch / "checkpoints", step, "net", t.memory, t.buffers, {{"note", "hello"}},
                         keep);
}

std::string load_error(const std::string& path, Trained& into, const std::string& model = "net") {
  try {
    load_checkpoint(path, model, into.memory, into.buffers);
  } catch (const RunError& e) {
    return e.what();
  }
  return "loaded";
}

// Another state.json with a checksum that is right.
void rewrite_state(const std::string& path, Json j) {
  j["crc32"] = "00000000";
  std::string text = j.dump(1) + "\n";
  const std::size_t digits = text.rfind("\"crc32\": \"") + 10;
  text.replace(digits, 8, fmt::format("{:08x}", crc32(std::as_bytes(std::span(text)))));
  std::ofstream(path + "/state.json", std::ios::binary) << text;
}

TEST(Checkpoint, BringsEveryByteBack) {
  for (const char* preset : {"fp32", "lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano", "states8", "flash"}) {
    const Scratch scratch;
    const Trained saved(preset);
    const std::string path = save(scratch, saved);
    EXPECT_EQ(fs::path(path).filename(), "step_00000003");
    Trained fresh(preset, 0);
    ASSERT_NE(fresh.bytes(), saved.bytes());
    const Json run = load_checkpoint(path, "net", fresh.memory, fresh.buffers);
    EXPECT_EQ(run["note"], "hello");
    EXPECT_TRUE(fresh.bytes() == saved.bytes()) << preset;
    EXPECT_EQ(fresh.memory.updates(), 3);
    EXPECT_EQ(fresh.memory.last_learning_rate(), saved.memory.last_learning_rate());
  }
}

// Returns a memory after a few steps of percentile clipping, or a fresh one.
ModelMemory clipping_memory(Device& device, int percentile, int steps, bool frozen = false) {
  OptimizerConfig o = Trained::optimizer("adamw");
  o.percentile_clip = percentile;
  o.frozen = frozen;
  ModelMemory memory(kSaved, make_policy("lpmm"), o, 5, 1, device);
  for (int i = 0; i < memory.tensors(); ++i) {
    const std::int64_t n = memory.info(i).elements();
    memory.initialize(i, 0, std::vector<float>(static_cast<std::size_t>(n), 0.1F));
  }
  for (int step = 1; step <= steps; ++step) {
    Step this_step = memory.begin_step({static_cast<std::uint32_t>(step), 0.01});
    for (int i = 0; i < memory.tensors(); ++i) {
      const auto n = static_cast<std::size_t>(memory.info(i).elements());
      this_step.fold(i, 0, std::vector<float>(n, 0.1F / static_cast<float>(step + i)), 0);
    }
    std::move(this_step).commit();
  }
  return memory;
}

TEST(Checkpoint, KeepsTheHistoriesOfClipping) {
  const Scratch scratch;
  CpuDevice device(1);
  Buffers buffers(kBuffers, device);
  const ModelMemory saved = clipping_memory(device, 5, 3);
  const std::string path = save_checkpoint(scratch / "c", 3, "net", saved, buffers, {{"note", "hello"}}, 0);
  ModelMemory fresh = clipping_memory(device, 5, 0);
  load_checkpoint(path, "net", fresh, buffers);
  for (int i = 0; i < saved.tensors(); ++i) {
    const auto a = saved.gradient_history(i)->squares(), b = fresh.gradient_history(i)->squares();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << i;
    EXPECT_GT(a[2], 0);
    EXPECT_NE(a[2], a[1]);
  }
  // Whoever does not clip, or only looks, does without: so do programs that know nothing of it.
  ModelMemory plain = clipping_memory(device, 0, 0), looking = clipping_memory(device, 5, 0, true);
  EXPECT_NO_THROW(load_checkpoint(path, "net", plain, buffers));
  EXPECT_NO_THROW(load_checkpoint(path, "net", looking, buffers));
  EXPECT_EQ(inspect_checkpoint(path).tensors.size(), 5U);
}

// The peaks of elements are a part of it, if a run keeps any.
TEST(Checkpoint, KeepsPeaks) {
  const Scratch scratch;
  Policy with = make_policy("lpmm");
  with.keeps_peaks = true;
  Trained saved(with, 3, kSaved), fresh(with, 0, kSaved), without("lpmm", 0);
  for (int t = 0; t < 3; ++t) {
    std::span<std::uint8_t> peaks = saved.memory.peaks(t);
    ASSERT_FALSE(peaks.empty());
    for (std::size_t i = 0; i < peaks.size(); ++i) peaks[i] = static_cast<std::uint8_t>(31 * i + 5);
  }
  const std::string path = save(scratch, saved);
  EXPECT_EQ(load_error(path, fresh), "loaded");
  EXPECT_EQ(load_error(path, without), "loaded");
  EXPECT_TRUE(without.bytes() == saved.bytes());
  for (int t = 0; t < 3; ++t) {
    EXPECT_TRUE(std::ranges::equal(fresh.memory.peaks(t), saved.memory.peaks(t))) << t;
  }
  const CheckpointInfo info = inspect_checkpoint(path);
  EXPECT_EQ(info.tensors[0].specs.back(), std::pair(std::string("peaks"), std::string("2 x 4 bits")));
  // A run that did not keep them before begins with none.
  const std::string other = save(scratch, Trained("lpmm"), 4);
  Trained later(with, 0, kSaved);
  EXPECT_EQ(load_error(other, later), "loaded");
  EXPECT_TRUE(std::ranges::all_of(later.memory.peaks(0), [](std::uint8_t code) { return code == 0; }));
}

TEST(Checkpoint, RefusesHistoriesOfClippingThatCannotBe) {
  const Scratch scratch;
  CpuDevice device(1);
  Buffers buffers(kBuffers, device);
  const std::string path =
      save_checkpoint(scratch / "c", 3, "net", clipping_memory(device, 5, 3), buffers, {{"x", 1}}, 0);
  const std::string without =
      save_checkpoint(scratch / "d", 3, "net", clipping_memory(device, 0, 3), buffers, {{"x", 1}}, 0);
  ModelMemory into = clipping_memory(device, 5, 0);
  const auto said = [&](const std::string& from) -> std::string {
    const auto before = into.view(0, Role::kParameter);
    const std::vector<std::uint8_t> codes(before.codes, before.codes + 64);
    try {
      load_checkpoint(from, "net", into, buffers);
    } catch (const RunError& e) {
      EXPECT_TRUE(std::equal(codes.begin(), codes.end(), into.view(0, Role::kParameter).codes));
      EXPECT_EQ(into.updates(), 0);
      return e.what();
    }
    return "loaded";
  };
  EXPECT_NE(said(without).find("gradient_history of tensor conv.weight"), std::string::npos);
  const std::string state = read_text(path + "/state.json", 1 << 20);
  Json numbers = Json::parse(state)["gradient_history"]["fc.weight"];
  Json negative = numbers, few = numbers, many = numbers, word = numbers, huge = numbers, null = numbers;
  negative[7] = -1e-30;
  few.erase(0);
  many.push_back(1);
  word[7] = "1";
  huge[7] = 1e300;
  null[7] = nullptr;
  for (const Json& bad : {negative, few, many, word, huge, null, Json(5), Json(), Json::object()}) {
    Json j = Json::parse(state);
    j["gradient_history"]["fc.weight"] = bad;
    rewrite_state(path, j);
    EXPECT_NE(said(path).find("gradient_history of tensor fc.weight"), std::string::npos) << bad;
  }
  for (const Json& bad : {Json(5), Json(), Json::array()}) {
    Json j = Json::parse(state);
    j["gradient_history"] = bad;
    rewrite_state(path, j);
    EXPECT_NE(said(path).find("gradient_history of tensor conv.weight"), std::string::npos) << bad;
  }
  rewrite_state(path, Json::parse(state));
  EXPECT_EQ(said(path), "loaded");
}

TEST(Checkpoint, AnyFlippedByteIsFound) {
  const Scratch scratch;
  const Trained saved("lpmm-min");
  const std::string path = save(scratch, saved);
  Trained into("lpmm-min", 0);
  const std::string before = into.bytes();
  for (const char* name : {"model.safetensors", "state.json"}) {
    const std::string file = path + "/" + name;
    const std::string good = read_text(file, 1 << 24);
    const std::size_t stride = good.size() / 150 + 1;
    for (std::size_t at = 0; at < good.size(); at += stride) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      std::ofstream(file, std::ios::binary) << bad;
      ASSERT_NE(load_error(path, into), "loaded") << name << " byte " << at;
    }
    for (const std::size_t length : {std::size_t{0}, std::size_t{7}, good.size() / 2, good.size() - 1}) {
      std::ofstream(file, std::ios::binary) << good.substr(0, length);
      ASSERT_NE(load_error(path, into), "loaded") << name << " cut to " << length;
    }
    std::ofstream(file, std::ios::binary) << good << 'x';
    ASSERT_NE(load_error(path, into), "loaded");
    std::ofstream(file, std::ios::binary) << good;
  }
  EXPECT_TRUE(into.bytes() == before);  // nothing was changed on the way
  EXPECT_EQ(load_error(path, into), "loaded");
}

TEST(Checkpoint, NamesFileAndExpectation) {
  const Scratch scratch;
  const std::string path = save(scratch, Trained("lpmm"));
  const auto expect = [&](Trained&& into, const std::string& model, const std::vector<std::string>& parts) {
    const std::string said = load_error(path, into, model);
    for (const std::string& part : parts)
      EXPECT_NE(said.find(part), std::string::npos) << said << "\n lacks " << part;
  };
  expect(Trained("lpmm", 0), "resnet20", {path, "model net", "resnet20"});
  expect(Trained("lpmm-min", 0), "net", {"model.safetensors", ".momentum", "soft4", "int8"});
  expect(Trained("lpmm", 0, kSaved, RuleName("sgd")), "net", {"variance", "extra"});
  expect(Trained("lpmm", 0, {{"conv.weight", {7, 3, 3, 11}}, {"bias", {13}}}), "net", {"fc.weight", "extra"});
  auto more = kSaved;
  more.push_back({"head.weight", {3, 4}});
  expect(Trained("lpmm", 0, more), "net", {"head.weight", "missing"});
  auto other = kSaved;
  other[2].shape = {200, 5};
  expect(Trained("lpmm", 0, other), "net", {"fc.weight.shape", "5,200", "200,5"});
}

TEST(Checkpoint, RefusesAnotherVersion) {
  const Scratch scratch;
  const std::string path = save(scratch, Trained("lpmm"));
  std::string text = read_text(path + "/state.json", 1 << 20);
  const std::size_t at = text.find("\"version\": 1");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 12, "\"version\": 9");
  // With a checksum that fits, so that the version is what is refused.
  const std::size_t digits = text.rfind("\"crc32\": \"") + 10;
  text.replace(digits, 8, "00000000");
  text.replace(digits, 8, fmt::format("{:08x}", crc32(std::as_bytes(std::span(text)))));
  write_text(path + "/state.json", text);
  Trained into("lpmm", 0);
  const std::string said = load_error(path, into);
  EXPECT_NE(said.find("version 9"), std::string::npos) << said;
}

// Formats of version 1: parameter, momentum, variance of one tensor each.
constexpr const char* kVersion1Specs[][3] = {
    {"int12:block256:sr:sticky", "int8:block256:sr", "sqrt08:block128:sr:sticky"},
    {"int8:block128:sr:sticky", "soft4:block128:sr", "sqrt04:block128:sr:sticky"},
    {"int6:block64:sr:sticky", "int3:block128:sr", "de04:block64:sr:sticky"},
    {"int5:block128:rn", "de8:block256:rn", "ude8:block256:rn"},
    {"int16:block512:sr:moving", "de4:block128:sr", "lin04:block128:sr"},
    {"bf16:sr", "bf16:rn", "lin08:block128:sr"},
    {"fp32", "soft8:block128:sr", "de08:block128:rn"},
    {"soft8:block128:sr", "int2:block128:sr", "ude4:block128:sr"},
};

// Words for specs that version 1 has had since.
constexpr const char* kLaterSpecs[][3] = {
    {"int6:block128:qr:sticky", "soft4:block128:qr", "sqrt03:block128:sr:sticky"},
    {"soft3:block128:sr", "soft3:block64:qr", "lin03:block128:sr"},
};

constexpr const char* kTwoBitSpecs[][3] = {
    {"int7:block128:qr:sticky", "soft4:block128:qr", "sqrt02:block128:sr"},
    {"int7:block128:sr:sticky", "int5:block64:sr", "lin02:block64:qr:sticky"},
};

// Checkpoints of version 1 are read for ever and written as they always were: what tests/golden holds was
// saved by this test when the format, or a word for a spec in it, was new and is never made anew.
void expect_frozen(std::span<const char* const[3]> all_specs, const std::string& golden,
                   const char* checksum) {
  Policy policy = make_policy("lpmm");
  std::vector<TensorInfo> tensors = {{"bias", {13}}};
  for (const auto& specs : all_specs) {
    tensors.push_back({fmt::format("layer{}.weight", tensors.size()), {3, 111}});
    PolicyOverride o{.pattern = tensors.back().name, .specs = {}};
    o.specs[Role::kParameter] = parse_spec(specs[0]);
    o.specs[Role::kMomentum] = parse_spec(specs[1]);
    o.specs[Role::kVariance] = parse_spec(specs[2]);
    policy.overrides.push_back(o);
  }
  Trained into(policy, 0, tensors);
  const Json run = load_checkpoint(golden, "net", into.memory, into.buffers);
  EXPECT_EQ(into.memory.updates(), 3);
  const Scratch scratch;
  const std::string again =
      save_checkpoint(scratch / "checkpoints", 3, "net", into.memory, into.buffers, run, 1);
  for (const char* file : {"/model.safetensors", "/state.json"}) {
    EXPECT_TRUE(read_text(golden + file, 1 << 20) == read_text(again + file, 1 << 20)) << file;
  }
  // The values that the codes stand for are the same, too.
  const StoredWeights weights(golden);
  std::string values;
  for (const CheckpointTensor& t : weights.tensors()) {
    weights.read(t, into.device, [&](std::int64_t, std::span<const float> some) {
      values.append(reinterpret_cast<const char*>(some.data()), some.size_bytes());
    });
  }
  EXPECT_EQ(fmt::format("{:08x}", crc32(std::as_bytes(std::span(values)))), checksum);
}

TEST(Checkpoint, Version1IsFrozen) {
  expect_frozen(kVersion1Specs, LPMM_SOURCE_DIR "/tests/golden/checkpoint_v1", "0414d534");
}

TEST(Checkpoint, LaterWordsOfVersion1AreFrozen) {
  expect_frozen(kLaterSpecs, LPMM_SOURCE_DIR "/tests/golden/checkpoint_v1_later", "1a8be2f8");
}

TEST(Checkpoint, TwoBitVariancesOfVersion1AreFrozen) {
  expect_frozen(kTwoBitSpecs, LPMM_SOURCE_DIR "/tests/golden/checkpoint_v1_two_bits", "fe4333f6");
}

TEST(Checkpoint, KeepsTheNewest) {
  const Scratch scratch;
  const Trained t("lpmm", 1);
  for (const std::int64_t step : {1, 2, 10, 11}) save(scratch, t, step);
  EXPECT_FALSE(fs::exists(scratch / "checkpoints/step_00000001"));
  EXPECT_FALSE(fs::exists(scratch / "checkpoints/step_00000002"));
  EXPECT_TRUE(fs::exists(scratch / "checkpoints/step_00000010"));
  EXPECT_EQ(newest_checkpoint(scratch / "checkpoints"), scratch / "checkpoints/step_00000011");
  EXPECT_EQ(find_checkpoint(scratch.path()), scratch / "checkpoints/step_00000011");
  EXPECT_EQ(find_checkpoint(scratch / "checkpoints"), scratch / "checkpoints/step_00000011");
  EXPECT_EQ(find_checkpoint(scratch / "checkpoints/step_00000010"), scratch / "checkpoints/step_00000010");
  // However it is written.
  EXPECT_EQ(find_checkpoint(scratch / "checkpoints/step_00000010/"), scratch / "checkpoints/step_00000010");
  const fs::path here = fs::current_path();
  fs::current_path(scratch / "checkpoints/step_00000010");
  const std::string from_inside = find_checkpoint("."), from_beside = find_checkpoint("../step_00000011/.");
  fs::current_path(here);
  EXPECT_EQ(fs::path(from_inside).filename(), "step_00000010");
  EXPECT_EQ(fs::path(from_beside).filename(), "step_00000011");
  EXPECT_THROW(find_checkpoint(scratch / "nowhere"), UsageError);
  save(scratch, t, 12, 0);
  EXPECT_TRUE(fs::exists(scratch / "checkpoints/step_00000010"));  // 0 keeps all
}

TEST(Checkpoint, WhatNoReaderWouldTakeIsNotWritten) {
  const Scratch scratch;
  Trained t("lpmm");
  const std::string good = save(scratch, t, 3, 1);
  t.buffers.value(1)[2] = std::numeric_limits<float>::infinity();
  try {
    save(scratch, t, 4, 1);
    FAIL() << "it was saved";
  } catch (const RunError& e) {
    const std::string said = e.what();
    EXPECT_NE(said.find("bn.variance"), std::string::npos) << said;
    EXPECT_NE(said.find("step_00000003"), std::string::npos) << said;
  }
  EXPECT_EQ(newest_checkpoint(scratch / "checkpoints"), good);
  EXPECT_FALSE(fs::exists(scratch / "checkpoints/.step_00000004.tmp"));
  Trained into("lpmm", 0);
  EXPECT_EQ(load_error(good, into), "loaded");
}

// Runs `body` in a child process; its exit status, so that limits and mounts stay there.
template <class Body>
int in_child(const Body& body) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// After a save that failed: the message names the last good one, it loads, and nothing else is left.
bool survived(const Scratch& scratch, const Trained& t) {
  try {
    save(scratch, t, 4);
    return false;
  } catch (const RunError& e) {
    const std::string said = e.what();
    if (said.find("step 4") == std::string::npos || said.find("step_00000003") == std::string::npos)
      return false;
  }
  if (fs::exists(scratch / "checkpoints/.step_00000004.tmp")) return false;
  if (fs::exists(scratch / "checkpoints/step_00000004")) return false;
  const Json run = Json::parse(read_text(scratch / "checkpoints/step_00000003/state.json", 1 << 20));
  return run["run"]["note"] == "hello";
}

TEST(Checkpoint, AFileSizeLimitKeepsTheLastGoodOne) {
  const Scratch scratch;
  Trained t("lpmm");
  const std::string path = save(scratch, t);
  // Threads do not survive a fork, so the child only saves.
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const struct rlimit limit = {2000, 2000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              return survived(scratch, t) ? 0 : 1;
            }),
            0);
  EXPECT_EQ(load_error(path, t), "loaded");
}

TEST(Checkpoint, AReadOnlyFolderKeepsTheLastGoodOne) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const Scratch scratch;
  Trained t("lpmm");
  const std::string path = save(scratch, t);
  fs::permissions(scratch / "checkpoints", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(survived(scratch, t));
  fs::permissions(scratch / "checkpoints", fs::perms::owner_all);
  EXPECT_EQ(load_error(path, t), "loaded");
}

TEST(Checkpoint, AFullOrReadOnlyDiskKeepsTheLastGoodOne) {
  const Scratch scratch;
  const std::string folder = scratch / "checkpoints";
  fs::create_directory(folder);
  if (::mount("lpmm_test", folder.c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "mounting is not permitted";
  Trained t("lpmm");
  const std::string path = save(scratch, t);
  const std::int64_t used = (2 << 20) - free_space(folder);
  const auto fill = [&](std::int64_t left) {
    std::ofstream filler(folder + "/filler", std::ios::binary);
    filler << std::string(static_cast<std::size_t>(free_space(folder) - left), 'x');
  };
  fill(used + (16 << 10));
  EXPECT_THROW(check_disk(folder, t.memory, t.buffers), RunError);  // a run that begins wants more
  fs::remove_all(save(scratch, t, 5));
  fill(4 << 10);
  EXPECT_TRUE(survived(scratch, t));
  EXPECT_EQ(load_error(path, t), "loaded");
  fs::remove(folder + "/filler");
  ASSERT_EQ(::mount("lpmm_test", folder.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=2m"), 0);
  EXPECT_TRUE(survived(scratch, t));
  EXPECT_EQ(load_error(path, t), "loaded");
  ::umount(folder.c_str());
}

TEST(Checkpoint, TellsWhatIsInside) {
  const Scratch scratch;
  const Trained t("lpmm");
  const CheckpointInfo info = inspect_checkpoint(save(scratch, t));
  EXPECT_EQ(info.model, "net");
  EXPECT_EQ(info.step, 3);
  EXPECT_EQ(info.updates, 3);
  ASSERT_EQ(info.tensors.size(), 5U);
  EXPECT_EQ(info.tensors[0].name, "conv.weight");
  EXPECT_EQ(info.tensors[0].shape, kSaved[0].shape);
  ASSERT_EQ(info.tensors[0].specs.size(), 3U);
  EXPECT_EQ(info.tensors[0].specs[0].first, "parameter");
  EXPECT_EQ(info.tensors[0].specs[0].second, to_string(t.memory.view(0, Role::kParameter).codec));
  std::int64_t bytes = 0;
  for (const Role role : {Role::kParameter, Role::kMomentum, Role::kVariance}) {
    const auto v = t.memory.view(0, role);
    bytes += code_bytes(v.codec.format, v.elements) + step_bytes(v.codec, v.elements);
  }
  EXPECT_EQ(info.tensors[0].bytes, bytes);
}

TEST(Checkpoint, ExportsDecodedValues) {
  for (const char* preset : {"lpmm", "fp32"}) {
    const Scratch scratch;
    // Longer than a panel of the export.
    const Trained t(preset, 2, {{"conv.weight", {7, 3, 3, 11}}, {"bias", {13}}, {"big.weight", {3, 50001}}});
    CpuDevice device(1);
    const std::string path = save(scratch, t);
    for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
      export_checkpoint(path, scratch / "out.safetensors", type, device);
      const SafetensorsFile file(scratch / "out.safetensors");
      EXPECT_EQ(file.entries().size(), 5U);
      for (int i = 0; i < 3; ++i) {
        const SafetensorsEntry& e = *file.find(t.memory.info(i).name);
        EXPECT_EQ(e.shape, t.memory.info(i).shape);
        std::vector<float> wide(static_cast<std::size_t>(t.memory.info(i).elements()));
        std::vector<std::uint16_t> narrow(wide.size());
        std::vector<std::byte> expected, found(e.bytes);
        file.read(e, 0, found);
        if (type == ValueType::kFp32) {
          EXPECT_EQ(e.dtype, "F32");
          t.memory.decode(i, 0, wide);
          ASSERT_EQ(found.size(), 4 * wide.size());
          EXPECT_EQ(std::memcmp(found.data(), wide.data(), found.size()), 0);
        } else {
          EXPECT_EQ(e.dtype, "BF16");
          t.memory.decode_bf16(i, 0, narrow);
          ASSERT_EQ(found.size(), 2 * narrow.size());
          EXPECT_EQ(std::memcmp(found.data(), narrow.data(), found.size()), 0);
        }
      }
      EXPECT_EQ(file.find("bn.mean")->dtype, "F32");
    }
    EXPECT_THROW(export_checkpoint(path, scratch / "no/such/folder.safetensors", ValueType::kFp32, device),
                 RunError);
  }
}

Policy saved_in_two_terms(const char* parameter, const char* compensation) {
  Policy policy = make_policy("lpmm");
  policy.specs[Role::kParameter] = parse_spec(parameter);
  policy.specs[Role::kCompensation] = parse_spec(compensation);
  return policy;
}

TEST(Checkpoint, ParametersOfTwoTermsGoOnFromEveryStep) {
  constexpr int kSteps = 5;
  for (const Policy& policy :
       {saved_in_two_terms("bf16:rn", "ulp8:rn"), saved_in_two_terms("int8:sticky", "int4:block256:sr")}) {
    const Trained whole(policy, kSteps, kSaved);
    for (int k = 0; k < kSteps; ++k) {
      const Scratch scratch;
      const std::string path = save(scratch, Trained(policy, k, kSaved), k);
      Trained rest(policy, 0, kSaved);
      load_checkpoint(path, "net", rest.memory, rest.buffers);
      for (int step = k + 1; step <= kSteps; ++step) {
        Step this_step = rest.memory.begin_step({static_cast<std::uint32_t>(step), 0.01});
        for (int i = 0; i < rest.memory.tensors(); ++i) this_step.fold(i, 0, rest.values(i, step), 0);
        std::move(this_step).commit();
      }
      for (float& v : rest.buffers.value(0)) v = 0.25F * kSteps;
      EXPECT_TRUE(rest.bytes() == whole.bytes()) << "from step " << k;
    }
  }
}

// An export and a new run take the sum of the terms; a run that only looks has the first term.
TEST(Checkpoint, TheSumOfTwoTermsIsExported) {
  for (const Policy& policy :
       {saved_in_two_terms("bf16:rn", "ulp8:rn"), saved_in_two_terms("int8:sticky", "int4:block256:sr")}) {
    const Scratch scratch;
    const std::vector<TensorInfo> tensors = {
        {"conv.weight", {7, 3, 3, 11}}, {"bias", {13}}, {"w", {3, 50001}}};
    const Trained t(policy, 2, tensors);
    const std::string path = save(scratch, t);
    CpuDevice device(1);
    export_checkpoint(path, scratch / "out.safetensors", ValueType::kFp32, device);
    const SafetensorsFile file(scratch / "out.safetensors");
    EXPECT_EQ(file.entries().size(), 5U);
    for (int i = 0; i < 3; ++i) {
      const std::vector<float> sum = sum_of_terms(t.memory, i);
      std::vector<float> found(sum.size()), first(sum.size());
      t.memory.decode(i, 0, first);
      EXPECT_EQ(first == sum, i == 1) << "the bias is exempt";
      file.read(*file.find(t.memory.info(i).name), 0, std::as_writable_bytes(std::span(found)));
      EXPECT_EQ(found, sum);
    }
    Trained other(policy, 0, tensors);
    load_parameters(StoredWeights(path), other.memory);
    const std::vector<float> before = sum_of_terms(t.memory, 2), after = sum_of_terms(other.memory, 2);
    const float gap = policy.specs[Role::kCompensation].format.map == Map::kUlp ? 1e-5F : 2e-3F;
    for (std::size_t e = 0; e < before.size(); ++e) ASSERT_NEAR(after[e], before[e], gap);
    OptimizerConfig frozen = Trained::optimizer("adamw");
    frozen.frozen = true;
    ModelMemory looked_at(tensors, policy, frozen, 5, 1, device);
    Buffers buffers(other.buffers.infos(), device);
    load_checkpoint(path, "net", looked_at, buffers);
    EXPECT_EQ(looked_at.view(0, Role::kCompensation).codes, nullptr);
  }
}

// A checkpoint whose checksums fit but whose content lies is refused too.
TEST(Checkpoint, RefusesContentThatLies) {
  const Scratch scratch;
  Policy policy = make_policy("lpmm");
  policy.specs[Role::kVariance] = parse_spec("log04:block128:sr:sticky");
  const Trained saved(policy, 3, kSaved);
  const std::string path = save(scratch, saved);
  const std::string file = path + "/model.safetensors";
  const std::string good = read_text(file, 1 << 24);
  const std::string state = read_text(path + "/state.json", 1 << 20);
  Trained into(policy, 0, kSaved);
  const auto write_state = [&](const Json& j) { rewrite_state(path, j); };
  for (const Json& what :
       {Json{{"learning_rate", -1.0}}, Json{{"learning_rate", "fast"}}, Json{{"learning_rate", nullptr}},
        Json{{"step", -1}}, Json{{"step", 1LL << 32}}, Json{{"step", 3.0}}, Json{{"updates", -1}},
        Json{{"step", 4}}, Json{{"updates", 4}}, Json{{"updates", 1e30}}}) {
    Json j = Json::parse(state);
    j.update(what);
    write_state(j);
    EXPECT_NE(load_error(path, into).find("state.json: is not what was saved"), std::string::npos) << what;
    EXPECT_THROW(inspect_checkpoint(path), RunError) << what;
    EXPECT_THROW(StoredWeights{path}, RunError) << what;
  }
  for (const Json& what : {Json(5), Json()}) {
    Json j = Json::parse(state);
    j["model"] = what;
    write_state(j);
    EXPECT_THROW(StoredWeights{path}, RunError) << what;
  }
  const auto lie = [&](const std::string& bad, const std::string& why) {
    std::ofstream(file, std::ios::binary) << bad;
    Json j = Json::parse(state);
    j["files"]["model.safetensors"] = {{"bytes", bad.size()},
                                       {"crc32", fmt::format("{:08x}", file_crc32(file))}};
    write_state(j);
    const std::string said = load_error(path, into);
    EXPECT_NE(said.find(why), std::string::npos) << said << "\n lacks " << why;
    EXPECT_NE(said.find("model.safetensors"), std::string::npos) << said;
    EXPECT_THROW(inspect_checkpoint(path), RunError);
  };
  const auto swapped = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    const std::size_t at = bad.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return bad.replace(at, from.size(), to);
  };
  lie(swapped("\"bias.variance\":{", "\"bias.varianze\":{"), "bias.varian");
  const SafetensorsFile layout(file);
  for (const char high : {'\xff', '\x7f', '\x80', '\x0c'}) {  // NaN, infinity, negative, below 2^-100
    std::string steps = good;
    steps.replace(layout.find("conv.weight.parameter.steps")->offset, 2, std::string{'\x80', high});
    lie(steps, "conv.weight.parameter.steps holds what is no step");
  }
  // Words of a block with a range: without a step, infinite, below 2^-80.
  for (const std::string& word :
       {std::string("\x00\x80", 2), std::string("\x85\xff"), std::string("\x0f\x17")}) {
    std::string steps = good;
    steps.replace(layout.find("conv.weight.variance.steps")->offset, 2, word);
    lie(steps, "conv.weight.variance.steps holds what is no step");
  }
  std::string values = good;
  values.replace(layout.find("bias.parameter")->offset, 4, std::string("\x00\x00\xc0\x7f", 4));
  lie(values, "not finite");
}

}  // namespace
}  // namespace lpmm
