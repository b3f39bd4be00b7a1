// The emulated device's memory is closed to the host except while kernels run.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "kernels/cuda/guarded.h"
#include "kernels/device.h"

namespace lpmm::kernels {
namespace {

// Returns true if the host can read a byte: a system call fails where reading it would stop the program.
bool is_open(const std::byte* memory) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool written = write(ends[1], memory, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return written;
}

TEST(Guarded, TheHostMayNotTouchWhatTheDeviceHas) {
  const auto device = make_device("cuda-emulated", 1);
  const DeviceMemory a = device->allocate(100), shared = device->allocate_shared(100);
  EXPECT_FALSE(is_open(a.get()));
  EXPECT_TRUE(is_open(shared.get()));
  {
    const cuda_emulated::Unguarded outer;
    const DeviceMemory b = device->allocate(100);  // one that is made meanwhile is open too
    {
      const cuda_emulated::Unguarded inner;
      EXPECT_TRUE(is_open(a.get()) && is_open(b.get()));
    }
    EXPECT_TRUE(is_open(a.get()) && is_open(b.get()));
  }
  EXPECT_FALSE(is_open(a.get()));

  const std::vector<float> values = {1, 2, 3};
  std::vector<float> back(3);
  device->upload(a.get(), values.data(), 12);
  device->add({ValueType::kFp32, 3}, a.get(), a.get(), a.get());
  EXPECT_FALSE(is_open(a.get()));
  device->download(back.data(), a.get(), 12);
  EXPECT_EQ(back, (std::vector<float>{2, 4, 6}));
}

TEST(Guarded, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      const auto device = make_device("cuda-emulated", 1);
      for (int i = 0; i < 50; ++i) {
        const DeviceMemory memory = device->allocate(64);
        const std::uint64_t sent = static_cast<std::uint64_t>(100 * t + i);
        std::uint64_t found = 0;
        device->upload(memory.get(), &sent, 8);
        device->download(&found, memory.get(), 8);
        EXPECT_EQ(found, sent);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lpmm::kernels
