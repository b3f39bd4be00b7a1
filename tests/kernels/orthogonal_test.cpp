// Newton and Schulz's iteration against singular values that are known, and in fp64.
#include "kernels/orthogonal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "tests/kernels/device_array.h"
#include "tests/newton_schulz.h"
#include "tests/normal_values.h"

namespace lpmm::kernels {
namespace {

// `count` orthonormal rows of `width` values.
DenseMatrix drawn_orthonormal(int count, int width, std::uint64_t seed) {
  const std::vector<float> drawn = normal_values(std::int64_t{count} * width, seed, 1);
  DenseMatrix q(count, width);
  for (std::size_t i = 0; i < drawn.size(); ++i) q.values[i] = static_cast<double>(drawn[i]);
  for (int r = 0; r < count; ++r) {
    for (int twice = 0; twice < 2; ++twice) {  // once leaves rounding errors along the rows before
      for (int k = 0; k < r; ++k) {
        double along = 0;
        for (int i = 0; i < width; ++i) along += q.at(r, i) * q.at(k, i);
        for (int i = 0; i < width; ++i) q.at(r, i) -= along * q.at(k, i);
      }
    }
    double squares = 0;
    for (int i = 0; i < width; ++i) squares += q.at(r, i) * q.at(r, i);
    for (int i = 0; i < width; ++i) q.at(r, i) /= std::sqrt(squares);
  }
  return q;
}

// Singular vectors in rows, and values.
struct Svd {
  DenseMatrix left, right;
  std::vector<double> values;
  DenseMatrix product() const {
    DenseMatrix m(left.columns, right.columns);
    for (int k = 0; k < left.rows; ++k) {
      for (int r = 0; r < m.rows; ++r) {
        for (int c = 0; c < m.columns; ++c)
          m.at(r, c) += left.at(k, r) * values[static_cast<std::size_t>(k)] * right.at(k, c);
      }
    }
    return m;
  }
  // u_i^T m v_k.
  double between(const DenseMatrix& m, int i, int k) const {
    double sum = 0;
    for (int r = 0; r < m.rows; ++r) {
      for (int c = 0; c < m.columns; ++c) sum += left.at(i, r) * m.at(r, c) * right.at(k, c);
    }
    return sum;
  }
};
// Singular values from 1 down to `least`, evenly on a log scale, in shares of the Frobenius norm `size`.
Svd drawn_svd(int rows, int columns, double least, double size) {
  const int side = std::min(rows, columns);
  Svd svd{drawn_orthonormal(side, rows, 1), drawn_orthonormal(side, columns, 2), {}};
  double squares = 0;
  for (int k = 0; k < side; ++k) {
    svd.values.push_back(side == 1 ? 1 : std::pow(least, 1.0 * k / (side - 1)));
    squares += svd.values.back() * svd.values.back();
  }
  for (double& v : svd.values) v *= size / std::sqrt(squares);
  return svd;
}

std::vector<float> narrow(const DenseMatrix& m) {
  return {m.values.begin(), m.values.end()};
}
DenseMatrix widen(const std::vector<float>& values, int rows, int columns) {
  DenseMatrix m(rows, columns);
  m.values.assign(values.begin(), values.end());
  return m;
}

std::vector<float> made_orthogonal(Device& device, std::vector<float> x, int rows, int columns,
                                   int iterations = 5) {
  const DeviceArray<float> there(device, x);
  const auto workspace = scratch_on(device, orthogonal_workspace_bytes(device, rows, columns));
  make_orthogonal(device, rows, columns, iterations, there.data(), workspace.data(),
                  [&](const TensorUpdate& pass) {
                    device.update({&pass, 1});
                  });
  device.synchronize();
  return there.values();
}

const std::vector<std::pair<int, int>> kShapes = {{24, 70}, {70, 24}, {33, 33}, {1, 300},
                                                  {300, 1}, {1, 1},   {2, 2},   {16, 432}};

LPMM_DEVICE_SUITE(OrthogonalTest);

// Jordan's coefficients do not converge to 1: they bring what is small up fast, and then stay around it.
TEST_P(OrthogonalTest, SingularValuesComeNearOneAndTheirVectorsStay) {
  for (const auto& [rows, columns] : kShapes) {
    for (const double size : {1e-3, 1.0, 1e15}) {
      // In shares of the norm the smallest one is still 0.002.
      const Svd svd = drawn_svd(rows, columns, 0.005, size);
      const DenseMatrix x =
          widen(made_orthogonal(device(), narrow(svd.product()), rows, columns), rows, columns);
      const auto side = static_cast<int>(svd.values.size());
      for (int i = 0; i < side; ++i) {
        ASSERT_GE(svd.values[static_cast<std::size_t>(i)] / size, 0.00199) << "outside of what is promised";
        for (int k = 0; k < side; ++k) {
          const std::string what = fmt::format("{} x {}, size {}: {}, {}", rows, columns, size, i, k);
          const double value = svd.between(x, i, k);
          if (i == k) {
            ASSERT_GT(value, 0.682) << what;
            ASSERT_LT(value, 1.203) << what;
          } else {
            ASSERT_NEAR(value, 0, 1e-3) << what;  // rounding of the smallest, 1e-7 of the norm, grows with it
          }
        }
      }
    }
  }
}

// PyTorch's gate for bf16 is 2e-2; factors here are fp32, whose rounding grows as the smallest values do.
TEST_P(OrthogonalTest, IsTheIterationInFp64) {
  for (const auto& [rows, columns] : kShapes) {
    for (const int iterations : {1, 5, 8}) {
      const std::vector<float> x = normal_values(std::int64_t{rows} * columns, 3, 0.01F);
      const DenseMatrix expected = newton_schulz(widen(x, rows, columns), iterations);
      const DenseMatrix got = widen(made_orthogonal(device(), x, rows, columns, iterations), rows, columns);
      EXPECT_LT(distance(got, expected), 1e-4) << rows << " x " << columns << ", " << iterations;
    }
  }
}

TEST_P(OrthogonalTest, ZerosStayAndWhatIsTinyDoesNotDivideByZero) {
  EXPECT_EQ(made_orthogonal(device(), std::vector<float>(60, 0.0F), 6, 10), std::vector<float>(60, 0.0F));
  const std::vector<float> tiny = normal_values(60, 4, 1e-30F);
  const std::vector<float> x = made_orthogonal(device(), tiny, 6, 10);
  EXPECT_LT(distance(widen(x, 6, 10), newton_schulz(widen(tiny, 6, 10), 5)), 1e-4);
  // With a norm of 3e-7 the epsilon leaves a scaled norm of 3/4, and the rest is as if it were 1.
  const std::vector<float> small = normal_values(60, 4, 4e-8F);
  EXPECT_LT(
      distance(widen(made_orthogonal(device(), small, 6, 10), 6, 10), newton_schulz(widen(small, 6, 10), 5)),
      1e-4);
  // Squares that no fp32 number holds.
  const std::vector<float> large = normal_values(60, 4, 1e25F);
  EXPECT_LT(
      distance(widen(made_orthogonal(device(), large, 6, 10), 6, 10), newton_schulz(widen(large, 6, 10), 5)),
      1e-4);
}

TEST(Orthogonal, SameBitsForAnyThreadsAndDevice) {
  for (const auto& [rows, columns] : {std::pair{96, 700}, {700, 96}, {130, 130}}) {
    const std::vector<float> x = normal_values(std::int64_t{rows} * columns, 5, 1);
    CpuDevice one(1);
    const std::vector<float> expected = made_orthogonal(one, x, rows, columns);
    for (const int threads : {2, 3, 5}) {
      CpuDevice several(threads);
      EXPECT_EQ(made_orthogonal(several, x, rows, columns), expected) << threads;
    }
    EmulatedCuda emulated(2);
    EXPECT_EQ(made_orthogonal(emulated, x, rows, columns), expected);
  }
}

}  // namespace
}  // namespace lpmm::kernels
