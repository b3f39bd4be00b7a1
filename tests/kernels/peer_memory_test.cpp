// Memory of other devices and processes, read where it lies.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <numeric>
#include <system_error>

#include "kernels/cpu_packed.h"
#include "kernels/roles.h"
#include "tests/kernels/device_array.h"

namespace lpmm::kernels {
namespace {

LPMM_DEVICE_SUITE(PeerMemoryTest);

// A sandbox may forbid processes to read each other, themselves too.
bool may_read_processes() {
  CpuPackedDevice device(1);
  const DeviceMemory memory = device.allocate(2);
  const auto peer = device.open_peer(device.peer_name(memory.get()));
  try {
    const PeerMemory::Part part{peer->address(), memory.get() + 1, 1};
    peer->read({&part, 1});
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

TEST_P(PeerMemoryTest, AnotherDeviceOfThisProcessReadsIt) {
  if (device().is_host() && !may_read_processes()) GTEST_SKIP() << "the system forbids it";
  const auto other = make_device(GetParam(), 1);
  std::vector<std::uint8_t> bytes(100'000);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{3});
  const DeviceMemory theirs = other->allocate(std::ssize(bytes));
  other->upload(theirs.get(), bytes.data(), std::ssize(bytes));
  other->synchronize();
  const auto peer = device().open_peer(other->peer_name(theirs.get()));
  ASSERT_NE(peer, nullptr);
  // Parts in an order of their own, more than are copied at once; one is empty.
  const auto here = array(std::vector<std::uint8_t>(bytes.size()));
  std::vector<PeerMemory::Part> parts = {{peer->address(), here.data(), 0}};
  for (std::int64_t at = 0; at < std::ssize(bytes); at += 100) {
    const std::int64_t from = std::ssize(bytes) - 100 - at;
    parts.push_back({peer->address() + from, here.data() + at, 100});
  }
  peer->read(parts);
  for (std::int64_t at = 0; at < std::ssize(bytes); at += 100) {
    const auto from = bytes.begin() + (std::ssize(bytes) - 100 - at);
    EXPECT_TRUE(std::equal(from, from + 100, here.values().begin() + at)) << at;
  }
  EXPECT_EQ(peer->is_mapped(), !device().is_host());
  if (!peer->is_mapped()) return;
  const std::vector<float> ones = {1, 1, 1, 1};
  other->upload(theirs.get(), ones.data(), 16);
  other->synchronize();
  RoleView view;
  view.codec.format = {Map::kFp32, 32};
  view.codes = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(peer->address()));
  view.elements = 4;
  const auto out = zeros(4);
  device().decode(view, 0, 4, out.data());
  EXPECT_EQ(out.values(), ones);
}

TEST_P(PeerMemoryTest, NamesOfSomethingElseAreNotOpened) {
  const DeviceMemory memory = device().allocate(64);
  const std::string name = device().peer_name(memory.get());
  ASSERT_FALSE(name.empty());
  EXPECT_EQ(device().open_peer(""), nullptr);
  EXPECT_EQ(device().open_peer(name + "x"), nullptr);
  EXPECT_EQ(device().open_peer(std::string_view(name).substr(1)), nullptr);
}

TEST(PeerMemory, OfAProcessIsReadUntilItEnds) {
  if (!may_read_processes()) GTEST_SKIP() << "the system forbids it";
  constexpr std::int64_t kBytes = 1 << 20;
  std::array<int, 2> pipes{};
  ASSERT_EQ(pipe(pipes.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CpuPackedDevice device(1);
    const DeviceMemory memory = device.allocate(kBytes);
    for (std::int64_t i = 0; i < kBytes; ++i) memory[i] = static_cast<std::byte>(i % 251);
    const std::string name = device.peer_name(memory.get());
    (void)!::write(pipes[1], name.data(), name.size());
    pause();
    _exit(0);
  }
  CpuPackedDevice device(1);
  std::string name(device.peer_name(nullptr).size(), '\0');
  ASSERT_EQ(::read(pipes[0], name.data(), name.size()), std::ssize(name));
  const auto peer = device.open_peer(name);
  ASSERT_NE(peer, nullptr);
  std::vector<std::byte> got(kBytes);
  const std::array<PeerMemory::Part, 2> halves = {
      {{peer->address() + kBytes / 2, got.data() + kBytes / 2, kBytes / 2},
       {peer->address(), got.data(), kBytes / 2}}};
  peer->read(halves);
  for (std::int64_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(got[static_cast<std::size_t>(i)], static_cast<std::byte>(i % 251)) << i;
  }
  const PeerMemory::Part nowhere{nullptr, got.data(), kBytes};
  EXPECT_THROW(peer->read({&nowhere, 1}), std::system_error);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_THROW(peer->read(halves), std::system_error);
  close(pipes[0]);
  close(pipes[1]);
}

}  // namespace
}  // namespace lpmm::kernels
