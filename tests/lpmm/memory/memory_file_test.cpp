// Memory that saves and loads itself, for loops of one's own; runs have checkpoints (lpmm/run/checkpoint.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/model_memory.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

const std::vector<TensorInfo> kTensors = {{"a", {20, 40}}, {"b.weight", {3, 700}}, {"b.bias", {30}}};

OptimizerConfig adamw() {
  return {.rule = "adamw",
          .learning_rate = 0.05,
          .weight_decay = 0.1,
          .clip_norm = 1,
          .percentile_clip = 50,
          .groups = {{.pattern = "*.bias", .weight_decay = 0}}};
}

struct Loop {
  explicit Loop(PackedDevice& on, const char* preset = "lpmm-min", OptimizerConfig optimizer = adamw(),
                std::vector<TensorInfo> tensors = kTensors, std::uint64_t seed = 7)
      : device(on), memory(std::move(tensors), make_policy(preset, optimizer), optimizer, seed, 2, on) {
    for (int t = 0; t < memory.tensors(); ++t) {
      memory.initialize(t, 0, normal_values(static_cast<std::size_t>(memory.info(t).elements()), 3U, 1));
    }
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      const std::uint32_t step = memory.last_step() + 1;
      memory.begin_step(step);
      for (int k = 0; k < 2; ++k) {
        for (int t = 0; t < memory.tensors(); ++t) {
          const auto seed =
              static_cast<unsigned>(100 * step + 10 * static_cast<unsigned>(k)) + static_cast<unsigned>(t);
          const auto gradient = normal_values(static_cast<std::size_t>(memory.info(t).elements()), seed, 1);
          const DeviceMemory room = device.allocate(4 * std::ssize(gradient));
          device.upload(room.get(), gradient.data(), 4 * std::ssize(gradient));
          memory.fold(t, 0, {reinterpret_cast<const float*>(room.get()), gradient.size()}, k);
          device.synchronize();
        }
      }
      memory.commit(0.05);
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
  auto optimizer = adamw();
  optimizer.groups.clear();
  expect(Loop(device, "lpmm-min", optimizer),
         "has the b.bias:optimizer.weight_decay 0, the memory that loads it 0.1");
  expect(Loop(device, "lpmm"),
         "has the a:accumulator soft4:block128:sr, the memory that loads it int8:block128:sr");
  expect(Loop(device, "lpmm-min", adamw(), kTensors, 8), "has the seed 7, the memory that loads it 8");
  expect(Loop(device, "lpmm-min", adamw(), {{"a", {40, 20}}, kTensors[1], kTensors[2]}),
         "has the a:shape 20 x 40, the memory that loads it 40 x 20");
  expect(Loop(device, "lpmm-min", adamw(), {kTensors[0], kTensors[1], {"c.bias", {30}}}),
         "says nothing of its c.bias:accumulator");
  expect(Loop(device, "lpmm-min", adamw(), {kTensors[0], kTensors[2]}),
         "has other tensors than the memory that loads it");
  const std::string bytes = read_text(file, 1 << 20);
  for (std::size_t length = 0; length < bytes.size(); length += 37) {
    write_text(file, bytes.substr(0, length));
    Loop loop(device);
    const std::string before = saved(loop, folder);
    EXPECT_NE(said([&] { loop.memory.load(file); }), "no error") << length;
    EXPECT_EQ(saved(loop, folder), before);
  }
}

TEST(MemoryFile, IsSavedBetweenSteps) {
  const Scratch folder;
  CpuPackedDevice device(1);
  Loop loop(device);
  loop.memory.begin_step(1);
  EXPECT_THROW(loop.memory.save(folder / "memory.safetensors"), UsageError);
  loop.memory.abandon_step();
  loop.memory.save(folder / "memory.safetensors");
}

}  // namespace
}  // namespace lpmm
