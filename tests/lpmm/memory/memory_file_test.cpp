// Memory that saves and loads itself, for loops of one's own; runs have checkpoints (lpmm/run/checkpoint.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

const std::vector<TensorInfo> kFiled = {{"a", {20, 40}}, {"b.weight", {3, 700}}, {"b.bias", {30}}};

OptimizerConfig clipped_adamw() {
  return {.rule = "adamw",
          .learning_rate = 0.05,
          .weight_decay = 0.1,
          .clip_norm = 1,
          .percentile_clip = 50,
          .groups = {{.pattern = "*.bias", .weight_decay = 0}}};
}

struct Loop {
  explicit Loop(PackedDevice& on, const char* preset = "lpmm-min",
                OptimizerConfig optimizer = clipped_adamw(), std::vector<TensorInfo> tensors = kFiled,
                std::uint64_t seed = 7)
      : device(on), memory(std::move(tensors), make_policy(preset, optimizer), optimizer, seed, 2, on) {
    for (int t = 0; t < memory.tensors(); ++t) {
      memory.initialize(t, 0, normal_values(static_cast<std::size_t>(memory.info(t).elements()), 3U, 1));
    }
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      const std::uint32_t step = memory.last_step() + 1;
      Step this_step = memory.begin_step({step, 0.05});
      for (int k = 0; k < 2; ++k) {
        for (int t = 0; t < memory.tensors(); ++t) {
          const auto seed =
              static_cast<unsigned>(100 * step + 10 * static_cast<unsigned>(k)) + static_cast<unsigned>(t);
          const auto gradient = normal_values(static_cast<std::size_t>(memory.info(t).elements()), seed, 1);
          const DeviceMemory room = device.allocate(4 * std::ssize(gradient));
          device.upload(room.get(), gradient.data(), 4 * std::ssize(gradient));
          this_step.fold(t, 0, {reinterpret_cast<const float*>(room.get()), gradient.size()}, k);
          device.synchronize();
        }
      }
      std::move(this_step).commit();
    }
  }
  PackedDevice& device;
  ModelMemory memory;
};

std::string saved(const Loop& loop, const Scratch& folder) {
  loop.memory.save(folder / "saved.safetensors");
  return read_text(folder / "saved.safetensors", 1 << 20);
}

// A device for packed memory alone, one that trains networks, and a GPU's kernels: one file.
TEST(MemoryFile, GoesOnToTheBitOnEveryDevice) {
  const Scratch folder;
  CpuPackedDevice packed(2);
  CpuDevice cpu(1);
  const auto emulated = make_device("cuda-emulated", 1);
  for (const char* preset : {"fp32", "lpmm", "lpmm-min", "lpmm-nano", "flash", "ao-fp8"}) {
    Loop whole(packed, preset);
    whole.steps(2);
    whole.memory.save(folder / "half.safetensors");
    whole.steps(3);
    const std::string wanted = saved(whole, folder);
    for (PackedDevice* device : std::initializer_list<PackedDevice*>{&packed, &cpu, emulated.get()}) {
      Loop other(*device, preset);
      other.steps(1);
      other.memory.load(folder / "half.safetensors");
      EXPECT_EQ(other.memory.last_step(), 2U);
      EXPECT_EQ(other.memory.updates(), 2);
      other.steps(3);
      EXPECT_EQ(saved(other, folder), wanted) << preset << " " << device->name();
    }
  }
}

TEST(MemoryFile, RefusesWhatIsNotItsOwnAndStaysAsItWas) {
  const Scratch folder;
  const std::string file = folder / "memory.safetensors";
  CpuPackedDevice device(1);
  Loop first(device);
  first.steps(1);
  first.memory.save(file);
  const auto expect = [&](Loop loop, const std::string& what) {
    loop.steps(2);
    const std::string before = saved(loop, folder);
    EXPECT_EQ(said([&] { loop.memory.load(file); }), fmt::format("{}: {}", file, what));
    EXPECT_EQ(saved(loop, folder), before);
    loop.steps(1);
  };
  auto optimizer = clipped_adamw();
  optimizer.groups.clear();
  expect(Loop(device, "lpmm-min", optimizer),
         "has the b.bias:optimizer.weight_decay 0, the memory that loads it 0.1");
  expect(Loop(device, "lpmm"),
         "has the a:accumulator soft4:block128:sr, the memory that loads it int8:block128:sr");
  expect(Loop(device, "lpmm-min", clipped_adamw(), kFiled, 8), "has the seed 7, the memory that loads it 8");
  expect(Loop(device, "lpmm-min", clipped_adamw(), {{"a", {40, 20}}, kFiled[1], kFiled[2]}),
         "has the a:shape 20 x 40, the memory that loads it 40 x 20");
  expect(Loop(device, "lpmm-min", clipped_adamw(), {kFiled[0], kFiled[1], {"c.bias", {30}}}),
         "says nothing of its c.bias:accumulator");
  expect(Loop(device, "lpmm-min", clipped_adamw(), {kFiled[0], kFiled[2]}),
         "has the b.weight:accumulator soft4:block128:sr, which the memory that loads it lacks");
  const std::string bytes = read_text(file, 1 << 20);
  for (std::size_t length = 0; length < bytes.size(); length += 37) {
    write_text(file, bytes.substr(0, length));
    Loop loop(device);
    const std::string before = saved(loop, folder);
    EXPECT_NE(said([&] { loop.memory.load(file); }), "no error") << length;
    EXPECT_EQ(saved(loop, folder), before);
  }
}

// Whatever decides how steps go on must be as it was.
TEST(MemoryFile, RefusesOtherSettings) {
  const Scratch folder;
  const std::string file = folder / "memory.safetensors";
  CpuPackedDevice device(1);
  const OptimizerConfig sgd = {.rule = "sgd", .learning_rate = 0.1, .settings = {{"momentum", 0.9}}};
  const Policy policy = make_policy("lpmm-compact");
  const auto make = [&](const std::function<void(Policy&, std::vector<TensorInfo>&, int&)>& change) {
    Policy p = policy;
    std::vector<TensorInfo> tensors = {{"a:parameter", {20, 40}}, {"a", {20, 40}}, {"a.codes", {20, 40}}};
    int microbatches = 1;
    change(p, tensors, microbatches);
    return ModelMemory(std::move(tensors), p, sgd, 1, microbatches, device);
  };
  const auto nothing = [](Policy&, std::vector<TensorInfo>&, int&) {};
  ModelMemory saved = make(nothing);
  saved.initialize(1, 0, normal_values(800, 3U, 1));
  saved.save(file);
  ModelMemory same = make(nothing);
  same.load(file);
  std::vector<float> a(800), b(800);
  saved.decode(1, 0, a), same.decode(1, 0, b);
  EXPECT_EQ(a, b);
  const auto expect = [&](const std::function<void(Policy&, std::vector<TensorInfo>&, int&)>& change,
                          const std::string& what) {
    ModelMemory other = make(change);
    EXPECT_EQ(said([&] { other.load(file); }), fmt::format("{}: has the {}", file, what));
  };
  expect([](Policy& p, auto&, int&) { p.accumulate_in_momentum = true; },
         "memory.accumulate_in_momentum false, the memory that loads it true");
  expect([](Policy& p, auto&, int&) { p.apply_at_once = true; },
         "memory.apply_at_once false, the memory that loads it true");
  expect([](Policy&, auto&, int& microbatches) { microbatches = 3; },
         "train.microbatches 1, the memory that loads it 3");
  expect([](Policy&, auto& tensors, int&) { tensors[1].kind = TensorKind::kHead; },
         "a:tensor.kind 0, the memory that loads it 2");
  expect([](Policy&, auto& tensors, int&) { tensors[2].parts = 2; },
         "a.codes:tensor.parts 1, the memory that loads it 2");
  EXPECT_THROW(saved.save(file, {.names_tensors = false}), UsageError);
}

// Another file of the same tensors: their metadata changed, or the last value of one not a number.
TEST(MemoryFile, RefusesWhatCannotHaveBeenSaved) {
  const Scratch folder;
  const std::string good = folder / "good.safetensors", bad = folder / "bad.safetensors";
  CpuPackedDevice device(1);
  Loop first(device);
  first.steps(3);
  first.memory.save(good);
  const SafetensorsFile file(good);
  const auto write = [&](const std::function<void(Metadata&)>& change, const std::string& not_finite = "") {
    Metadata metadata = file.metadata();
    change(metadata);
    std::vector<SafetensorsSource> sources;
    for (const SafetensorsEntry& entry : file.entries()) {
      sources.push_back({entry.name, entry.dtype, entry.shape, [&file, &entry, not_finite](const auto& sink) {
                           std::vector<std::byte> bytes(entry.bytes);
                           file.read(entry, 0, bytes);
                           if (entry.name == not_finite)
                             bytes[bytes.size() - 2] = bytes.back() = std::byte{0xFF};
                           sink(bytes);
                         }});
    }
    write_safetensors(bad, metadata, sources);
  };
  const auto expect = [&](const std::string& what) {
    Loop loop(device);
    const std::string before = saved(loop, folder);
    EXPECT_EQ(said([&] { loop.memory.load(bad); }),
              what.empty() ? "no error" : fmt::format("{}: {}", bad, what));
    EXPECT_EQ(saved(loop, folder) == before, !what.empty());
  };
  write([](Metadata&) {});
  expect("");
  write([](Metadata& m) { m["updates"] = "4"; });
  expect("says step 3, 4 updates");
  write([](Metadata& m) { m["step"] = "-3"; });
  expect("its step is -3, which is no such number");
  write([](Metadata& m) { m["optimizer.trust"] = "1"; });
  expect("has the optimizer.trust 1, which the memory that loads it lacks");
  write([](Metadata&) {}, "b.bias:parameter.codes");
  expect("tensor b.bias:parameter.codes holds a value that is not finite at byte 118");
  write([](Metadata&) {}, "a:parameter.steps");
  expect("tensor a:parameter.steps holds what is no step at byte 12");
}

TEST(MemoryFile, IsSavedAndLoadedBetweenSteps) {
  const Scratch folder;
  CpuPackedDevice device(1);
  Loop loop(device);
  {
    const Step step = loop.memory.begin_step({1});
    EXPECT_THROW(loop.memory.save(folder / "memory.safetensors"), UsageError);
  }
  loop.memory.save(folder / "memory.safetensors");
  const Step step = loop.memory.begin_step({2});
  EXPECT_THROW(loop.memory.load(folder / "memory.safetensors"), UsageError);
}

}  // namespace
}  // namespace lpmm
