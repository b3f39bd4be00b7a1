// Products of ever new shapes, as experts and texts that grow make them: each may have machine code of its
// own, which must not pile up.
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <vector>

#include "kernels/cpu.h"
#include "tests/sanitized.h"

namespace lpmm::kernels {
namespace {

// Without pages of files, since those of the library's own code come one by one as it runs for the first
// time, and without what is free: how much of that the heap keeps depends on what lay in it before.
std::int64_t own_bytes() {
  malloc_trim(0);
  std::int64_t pages = 0, resident = 0, of_files = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident >> of_files;
  return 4096 * (resident - of_files);
}

TEST(ProductShapes, ManyTakeNoMoreMemoryThanAFew) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer keeps what is freed";
  constexpr std::int64_t kFew = 100, kMany = 600, kRows = 192, kColumns = 256;
  const std::vector<std::uint16_t> a(kMany * kRows, 0x3f80), b(kMany * kColumns, 0x3f80);  // ones
  std::vector<float> c(kRows * kColumns);
  CpuDevice device(1);
  std::int64_t after_few = 0;
  for (std::int64_t inner = 1; inner <= kMany; ++inner) {
    const MatrixArgs product{.transpose_a = true,
                             .m = kRows,
                             .n = kColumns,
                             .k = inner,
                             .type = ValueType::kBf16,
                             .a = a.data(),
                             .a_stride = kRows,
                             .b = b.data(),
                             .b_stride = kColumns,
                             .c = c.data(),
                             .c_stride = kColumns};
    std::vector<std::byte> scratch(static_cast<std::size_t>(device.matmul_scratch_bytes(product)));
    device.matmul(product, scratch.data());
    ASSERT_EQ(c.back(), static_cast<float>(inner));
    if (inner == kFew) after_few = own_bytes();
  }
  EXPECT_LT(own_bytes() - after_few, 1 << 20);
}

}  // namespace
}  // namespace lpmm::kernels
