// Links between devices by NCCL's interface: as a library that stands in for it does them, as NCCL's header
// declares it, and on a GPU.
#include "kernels/cuda/nccl.h"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu_packed.h"
#include "kernels/cuda/gpu/gpu.h"
#include "kernels/cuda/nccl_interface.h"
#include "tests/fake_nccl.h"

#if defined(LPMM_HAS_CUDA) && __has_include(<nccl.h>)
#include <nccl.h>
#define LPMM_HAS_NCCL_HEADER
#endif

namespace lpmm::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_from(int first, std::size_t count) {
  Bytes bytes(count);
  std::iota(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(first));
  return bytes;
}
DeviceLink::Part part_of(int rank, Bytes& bytes) {
  return {rank, reinterpret_cast<std::byte*>(bytes.data()), std::ssize(bytes)};
}
void wait_for(DeviceLink& link) {
  while (!link.is_done()) std::this_thread::yield();
}

TEST(NcclLink, ThreadsSendPartsOfAnyLengthInOrder) {
  fake_nccl();
  constexpr int kRanks = 3;
  const std::string name = nccl_name();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&name, rank] {
      const auto link = open_nccl(name, rank, kRanks, std::make_unique<NoQueue>());
      ASSERT_NE(link, nullptr);
      wait_for(*link);
      for (int round = 0; round < 20; ++round) {
        // From each to each other one: two parts and an empty one, and more in the second round.
        std::vector<Bytes> out, in;
        for (int other = 0; other < kRanks; ++other) {
          const auto longer = static_cast<std::size_t>(1000 * round);
          for (const std::size_t size :
               {longer + 1 + static_cast<std::size_t>(rank), std::size_t{0}, std::size_t{70'000}})
            out.push_back(bytes_from(10 * rank + other + round, size));
          for (const std::size_t size :
               {longer + 1 + static_cast<std::size_t>(other), std::size_t{0}, std::size_t{70'000}})
            in.emplace_back(size);
        }
        std::vector<DeviceLink::Part> send, receive;
        for (int i = 0; i < 3 * kRanks; ++i) {
          if (i / 3 == rank) continue;
          send.push_back(part_of(i / 3, out[static_cast<std::size_t>(i)]));
          receive.push_back(part_of(i / 3, in[static_cast<std::size_t>(i)]));
        }
        link->begin(round % 2 == 0 ? nullptr : link->mark(), send, receive);
        wait_for(*link);
        for (int i = 0; i < 3 * kRanks; ++i) {
          const Bytes& came = in[static_cast<std::size_t>(i)];
          if (i / 3 == rank) continue;
          EXPECT_TRUE(came == bytes_from(10 * (i / 3) + rank + round, came.size()));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NcclLink, WaitsForOthersAndSaysThatTheyHaveEnded) {
  fake_nccl();
  const std::string name = nccl_name();
  const auto first = open_nccl(name, 0, 2, std::make_unique<NoQueue>());
  EXPECT_FALSE(first->is_done()) << "the second one is not there yet";
  auto second = open_nccl(name, 1, 2, std::make_unique<NoQueue>());
  EXPECT_TRUE(first->is_done());
  Bytes out = bytes_from(5, 100), in(100);
  const DeviceLink::Part sent = part_of(1, out), received = part_of(1, in);
  first->begin(nullptr, {&sent, 1}, {&received, 1});
  EXPECT_FALSE(first->is_done());
  second.reset();
  EXPECT_THROW(first->is_done(), std::runtime_error);
}

TEST(NcclLink, IsNotOpenedByAnotherNameTwiceOrWhereTheLibraryFails) {
  fake_nccl();
  EXPECT_EQ(nccl_version(), "NCCL 2.34.56");
  EXPECT_EQ(open_nccl("a name", 0, 1, std::make_unique<NoQueue>()), nullptr);
  const std::string name = nccl_name();
  EXPECT_NE(name, nccl_name());
  const auto link = open_nccl(name, 0, 1, std::make_unique<NoQueue>());
  EXPECT_NE(link, nullptr);
  EXPECT_EQ(open_nccl(name, 0, 1, std::make_unique<NoQueue>()), nullptr);
  fail_links(1);
  EXPECT_EQ(open_nccl(nccl_name(), 0, 1, std::make_unique<NoQueue>()), nullptr);
  CpuPackedDevice cpu(1);
  EXPECT_EQ(cpu.link_name(), "");
  EXPECT_EQ(cpu.open_link(name, 0, 1), nullptr);
}

// One rank, which sends to itself: NCCL takes no two of one GPU.
TEST(GpuNcclLink, SendsToItself) {
  if (!gpu_is_there()) GTEST_SKIP() << "no GPU";
  const auto device = make_packed_gpu(1);
  const std::string name = device->link_name();
  if (name.empty()) GTEST_SKIP() << "no NCCL";
  const auto link = device->open_link(name, 0, 1);
  ASSERT_NE(link, nullptr);
  wait_for(*link);
  const Bytes bytes = bytes_from(3, 100'000);
  const DeviceMemory from = device->allocate(200'000), to = device->allocate(200'000);
  for (int round = 0; round < 3; ++round) {
    device->fill_with_zeros(to.get(), 200'000);
    device->upload(from.get() + 1000 * round, bytes.data(), std::ssize(bytes));
    const DeviceLink::Part sent[] = {{0, from.get() + 1000 * round, 7},
                                     {0, from.get() + 1000 * round + 7, 99'993}};
    const DeviceLink::Part received[] = {{0, to.get(), 7}, {0, to.get() + 7, 99'993}};
    link->begin(link->mark(), sent, received);
    wait_for(*link);
    Bytes came(bytes.size());
    device->download(came.data(), to.get(), std::ssize(came));
    EXPECT_TRUE(came == bytes);
  }
}

#ifdef LPMM_HAS_NCCL_HEADER
TEST(NcclInterface, IsThatOfTheLibrarysHeader) {
  static_assert(sizeof(nccl::Id) == sizeof(ncclUniqueId));
  static_assert(nccl::kSuccess == ncclSuccess && nccl::kInProgress == ncclInProgress);
  static_assert(nccl::kBytes == ncclUint8 && sizeof(nccl::Result) == sizeof(ncclResult_t));
  static_assert(nccl::kLeastVersion == NCCL_VERSION(2, 14, 0));
  static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
  static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
  static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
  static_assert(offsetof(nccl::Config, cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
  const ncclConfig_t wanted = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(nccl::Config{}.magic, wanted.magic);
  EXPECT_EQ(nccl::Config{}.cluster_size, wanted.cgaClusterSize);
  EXPECT_LE(sizeof(nccl::Config), wanted.size);
  // Arguments of the functions, in their order.
  using Stream = cudaStream_t;
  static_assert(std::is_same_v<decltype(ncclCommInitRankConfig),
                               ncclResult_t(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*)>);
  static_assert(std::is_same_v<decltype(ncclSend), ncclResult_t(const void*, std::size_t, ncclDataType_t, int,
                                                                ncclComm_t, Stream)>);
  static_assert(std::is_same_v<decltype(ncclRecv),
                               ncclResult_t(void*, std::size_t, ncclDataType_t, int, ncclComm_t, Stream)>);
  static_assert(std::is_same_v<decltype(ncclCommGetAsyncError), ncclResult_t(ncclComm_t, ncclResult_t*)>);
  static_assert(std::is_same_v<decltype(ncclCommAbort), ncclResult_t(ncclComm_t)>);
  static_assert(std::is_same_v<decltype(ncclGetUniqueId), ncclResult_t(ncclUniqueId*)>);
  static_assert(std::is_same_v<decltype(ncclGetErrorString), const char*(ncclResult_t)>);
}
#endif

}  // namespace
}  // namespace lpmm::kernels
