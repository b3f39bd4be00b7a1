// The iteration of kernels/orthogonal.h in fp64 over plain matrices.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace lpmm {

struct DenseMatrix {
  int rows, columns;
  std::vector<double> values;
  DenseMatrix(int r, int c)
      : rows(r), columns(c), values(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {}
  double& at(int r, int c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  double at(int r, int c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};

inline DenseMatrix transposed(const DenseMatrix& m) {
  DenseMatrix t(m.columns, m.rows);
  for (int r = 0; r < m.rows; ++r) {
    for (int c = 0; c < m.columns; ++c) t.at(c, r) = m.at(r, c);
  }
  return t;
}
inline DenseMatrix operator*(const DenseMatrix& a, const DenseMatrix& b) {
  DenseMatrix p(a.rows, b.columns);
  for (int r = 0; r < a.rows; ++r) {
    for (int k = 0; k < a.columns; ++k) {
      for (int c = 0; c < b.columns; ++c) p.at(r, c) += a.at(r, k) * b.at(k, c);
    }
  }
  return p;
}
inline double norm(const DenseMatrix& m) {
  double squares = 0;
  for (const double x : m.values) squares += x * x;
  return std::sqrt(squares);
}
// The distance of a from b, relative to the norm of b.
inline double distance(const DenseMatrix& a, const DenseMatrix& b) {
  DenseMatrix d = a;
  for (std::size_t i = 0; i < d.values.size(); ++i) d.values[i] -= b.values[i];
  return norm(d) / norm(b);
}

inline DenseMatrix newton_schulz(DenseMatrix x, int iterations) {
  if (x.rows > x.columns) return transposed(newton_schulz(transposed(x), iterations));
  const double size = norm(x) + 1e-7;
  for (double& v : x.values) v /= size;
  for (int i = 0; i < iterations; ++i) {
    const DenseMatrix a = x * transposed(x);
    DenseMatrix b = a * a;
    for (std::size_t k = 0; k < b.values.size(); ++k)
      b.values[k] = -4.7750 * a.values[k] + 2.0315 * b.values[k];
    const DenseMatrix moved = b * x;
    for (std::size_t k = 0; k < x.values.size(); ++k) x.values[k] = 3.4445 * x.values[k] + moved.values[k];
  }
  return x;
}

}  // namespace lpmm
