#include <gtest/gtest.h>
#include <random>
#include <vector>
#include "kernels/maps.h"
#include "kernels/memory.h"
using namespace lpmm;
using namespace lpmm::kernels;
TEST(Smoke, Identity) {
  // every entry, every step mantissa, extreme draws: decode -> encode
  std::vector<Format> fs;
  for (int b = 2; b <= 16; ++b) fs.push_back({Map::kLinear, (std::uint8_t)b});
  for (int m = 1; m <= 6; ++m) for (int b : {4, 8}) fs.push_back({(Map)m, (std::uint8_t)b});
  for (auto f : fs) {
    auto t = map_table(f);
    long bad = 0;
    for (int mant = 0; mant < 128; ++mant)
      for (int ex : {30, 127, 200}) {
        float step = bits_float((std::uint32_t)((ex << 7 | mant)) << 16);
        for (std::uint32_t c = 0; c < (1u << f.bits); ++c) {
          if (has_signed_codes(f.map) && sign_extend(c, f.bits) < -code_limit(f.bits)) continue;
          float x = decode_code(f, t, c, step);
          for (std::uint32_t d : {0u, 1u, 0x8000u, 0xFFFFu})
            for (auto r : {Rounding::kNearest, Rounding::kStochastic})
              if (encode_value(f, t, r, x, step, d) != c) ++bad;
        }
      }
    EXPECT_EQ(bad, 0) << (int)f.map << " " << (int)f.bits;
  }
}
TEST(Smoke, Roundtrip) {
  Pool pool(2);
  std::mt19937 g(1);
  std::normal_distribution<float> n;
  for (int bits : {4, 8, 12}) {
    std::vector<float> x(10000), y(10000);
    for (auto& v : x) v = n(g);
    RoleView r; r.codec = {{Map::kLinear, (std::uint8_t)bits}, 64, Rounding::kStochastic, StepMode::kSticky};
    std::vector<std::uint8_t> codes(20000); std::vector<std::uint16_t> steps(200);
    r.codes = codes.data(); r.steps = steps.data(); r.elements = 10000;
    EXPECT_TRUE(encode(pool, r, 0, 10000, x.data(), {1, 2, 3, 4}));
    decode(pool, r, 0, 10000, y.data());
    double e = 0, m = 0;
    for (int i = 0; i < 10000; ++i) e += (y[i] - x[i]) * (y[i] - x[i]), m += y[i] - x[i];
    printf("bits %d rms %g mean %g\n", bits, std::sqrt(e / 10000), m / 10000);
  }
}
