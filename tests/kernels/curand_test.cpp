// Tests that our Philox is cuRAND's, so that draws can be made by either. Needs CUDA and its header.
#if defined(LPMM_HAS_CUDA) && __has_include(<curand_philox4x32_x.h>)
#include <gtest/gtest.h>

#include <random>

#include "kernels/noise.h"

// cuRAND's functions, for the host.
#include <cuda_runtime_api.h>
#define QUALIFIERS static inline __attribute__((unused))
#include <curand_philox4x32_x.h>

namespace lpmm {
namespace {

TEST(Philox, IsThatOfCurand) {
  std::mt19937_64 generator(1);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t a = generator(), b = generator(), key = generator();
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const uint4 theirs =
        curand_Philox4x32_10(uint4{low(a), high(a), low(b), high(b)}, uint2{low(key), high(key)});
    // noise_words(): the counter is (index, tensor, step, stream), the key the seed.
    const PhiloxWords ours = noise_words({key, high(a), low(b), high(b)}, low(a));
    ASSERT_EQ(ours.x[0], theirs.x);
    ASSERT_EQ(ours.x[1], theirs.y);
    ASSERT_EQ(ours.x[2], theirs.z);
    ASSERT_EQ(ours.x[3], theirs.w);
  }
}

}  // namespace
}  // namespace lpmm
#endif
