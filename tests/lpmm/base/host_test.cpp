// The memory that the machine says it has.
#include "lpmm/base/host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "lpmm/files/files.h"
#include "tests/lpmm/scratch.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

// A machine made of files: 8 GB free, and what the test adds.
class Machine {
 public:
  Machine() { put("/proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable:    8000000 kB\n"); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(scratch_.path() + path).parent_path());
    write_text(scratch_.path() + path, text);
  }
  std::int64_t available() const { return available_memory(scratch_.path()); }

 private:
  Scratch scratch_;
};

TEST(Host, MemoryOfTheMachine) {
  const Machine m;
  EXPECT_EQ(m.available(), 8000000LL * 1024);
}

TEST(Host, CgroupTwoLimitsItAndItsParents) {
  const Machine m;
  m.put("/proc/self/cgroup", "0::/a/b\n");
  m.put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  m.put("/sys/fs/cgroup/a/b/memory.current", "100000000\n");
  EXPECT_EQ(m.available(), 8000000LL * 1024);
  m.put("/sys/fs/cgroup/a/memory.max", "1000000000\n");
  m.put("/sys/fs/cgroup/a/memory.current", "700000000\n");
  m.put("/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 200000000\n");
  EXPECT_EQ(m.available(), 500000000);  // page cache can be dropped
  m.put("/sys/fs/cgroup/a/b/memory.max", "300000000\n");
  EXPECT_EQ(m.available(), 200000000);
  m.put("/sys/fs/cgroup/a/b/memory.current", "900000000\n");
  EXPECT_EQ(m.available(), 0);
}

TEST(Host, CgroupTwoInAContainer) {
  const Machine m;  // the path is the host's and does not exist here
  m.put("/proc/self/cgroup", "0::/docker/abc\n");
  m.put("/sys/fs/cgroup/memory.max", "50000000\n");
  m.put("/sys/fs/cgroup/memory.current", "10000000\n");
  EXPECT_EQ(m.available(), 40000000);
}

TEST(Host, CgroupOne) {
  const Machine m;
  m.put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/7\nbroken line\n1:name=systemd:/\n");
  m.put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "9223372036854771712\n");
  m.put("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "5\n");
  m.put("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "600000000\n");
  m.put("/sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "100000000\n");
  m.put("/sys/fs/cgroup/memory/jobs/7/memory.stat", "total_inactive_file 50000000\n");
  EXPECT_EQ(m.available(), 550000000);
}

TEST(Host, ThisProcess) {
  EXPECT_GT(rss_bytes(), 1 << 20);
  EXPECT_GE(peak_rss_bytes(), rss_bytes() / 2);
  EXPECT_GT(available_memory(), 1 << 20);
}

TEST(Host, TheHeapIsWhatIsAllocated) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a heap of their own";
  const std::int64_t before = heap_bytes();
  std::vector<std::vector<char>> pieces(1000, std::vector<char>(10000, 'x'));
  const std::int64_t full = heap_bytes();
  EXPECT_GE(full - before, 10'000'000);
  EXPECT_LE(full - before, 10'200'000);
  const std::int64_t resident = rss_bytes();
  // The last keeps the heap's end in use.
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) std::vector<char>().swap(pieces[i]);
  EXPECT_LE(heap_bytes() - before, 200'000);
  return_freed_memory();
  EXPECT_LE(rss_bytes(), resident - 9'000'000);
}

}  // namespace
}  // namespace lpmm
