// Products of small matrices by a warp, on tensor cores: bf16 factors, fp32 sums. For a 16 x 16 factor, each
// lane holds 8 values, of a 16 x 8 result 4: lane 4 g + t has rows g and g + 8, and of each 8 columns 2 t and
// 2 t + 1 (PTX: mma.m16n8k16). Without tensor cores, on the host, lanes read each other's values.
#pragma once

#include <cmath>

#include "kernels/cuda/async_copy.h"
#include "kernels/formats/codec.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

using Bf16 = std::uint16_t;

// Four matrices of 8 x 8, two values of each. As a left factor: rows 0-7 and 8-15 of columns 0-7, then of
// columns 8-15. As two right factors: columns 0-7 of the first, rows 0-7 and 8-15; then the second.
struct alignas(16) Quad {
  std::uint32_t pair[4];
};
// A thread's sums of a 16 x 8 result: two of row g, two of row g + 8.
struct Sums {
  float v[4];
};

LPMM_DEVICE int lane_of_mma() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

#if defined(__CUDACC__)
// The address of values in shared memory.
struct SharedCells {
  std::uint32_t address;
  LPMM_DEVICE static SharedCells at(const void* p) {
    return {static_cast<std::uint32_t>(__cvta_generic_to_shared(p))};
  }
  LPMM_DEVICE SharedCells operator+(int cells) const {
    return {address + static_cast<std::uint32_t>(cells * 2)};
  }
};

// Matrices of which lane i names row i % 8 of number i / 8, 8 values; each lane gets two neighbours of row
// lane / 4.
LPMM_DEVICE Quad load_matrices(SharedCells row) {
  Quad q;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(q.pair[0]), "=r"(q.pair[1]), "=r"(q.pair[2]), "=r"(q.pair[3])
               : "r"(row.address));
  return q;
}
// The same of their transposes.
LPMM_DEVICE Quad load_transposed(SharedCells row) {
  Quad q;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(q.pair[0]), "=r"(q.pair[1]), "=r"(q.pair[2]), "=r"(q.pair[3])
               : "r"(row.address));
  return q;
}

// sums[n] += left * right[n / 2]'s factor n % 2
template <int kQuads>
LPMM_DEVICE void multiply_add(Sums* sums, const Quad& left, const Quad (&right)[kQuads]) {
  LPMM_UNROLL
  for (int n = 0; n < 2 * kQuads; ++n) {
    float(&v)[4] = sums[n].v;
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3])
        : "r"(left.pair[0]), "r"(left.pair[1]), "r"(left.pair[2]), "r"(left.pair[3]),
          "r"(right[n / 2].pair[n % 2 * 2]), "r"(right[n / 2].pair[n % 2 * 2 + 1]));
  }
}

// 2^x, within 2 units of the last place; below 2^-126 it is 0.
LPMM_DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
LPMM_DEVICE std::uint32_t pair_of(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
#else
struct SharedCells {
  const Bf16* cells;
  static SharedCells at(const void* p) { return {static_cast<const Bf16*>(p)}; }
  SharedCells operator+(int count) const { return {cells + count}; }
};

// Lanes meet by whole numbers.
template <class T>
const T* of_lane(std::uint64_t address) {
  return reinterpret_cast<const T*>(address);  // NOLINT(performance-no-int-to-ptr)
}
template <class At>
Quad load_any_matrices(SharedCells row, const At& at) {
  const OfLanes& rows = Block::meet(reinterpret_cast<std::uintptr_t>(row.cells));
  const unsigned lane = threadIdx.x % kWarp;
  Quad q;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t low = at(&rows[8 * i], lane / 4, 2 * (lane % 4)),
                        high = at(&rows[8 * i], lane / 4, 2 * (lane % 4) + 1);
    q.pair[i] = low | high << 16;
  }
  return q;
}
inline Quad load_matrices(SharedCells row) {
  return load_any_matrices(
      row, [](const std::uint64_t* rows, unsigned r, unsigned c) { return of_lane<Bf16>(rows[r])[c]; });
}
inline Quad load_transposed(SharedCells row) {
  return load_any_matrices(
      row, [](const std::uint64_t* rows, unsigned r, unsigned c) { return of_lane<Bf16>(rows[c])[r]; });
}

inline float half_of(std::uint32_t pair, int high) {
  return bf16_to_float(static_cast<Bf16>(pair >> (16 * high)));
}
template <int kQuads>
void multiply_add(Sums* sums, const Quad& left, const Quad (&right)[kQuads]) {
  struct Factors {
    const Quad *left, *right;
  };
  const Factors mine{&left, right};
  const OfLanes& all = Block::meet(reinterpret_cast<std::uintptr_t>(&mine));
  const auto of = [&](unsigned lane) { return of_lane<Factors>(all[lane]); };
  const unsigned group = threadIdx.x % kWarp / 4, place = threadIdx.x % 4;
  float rows[2][16];
  for (unsigned k = 0; k < 16; ++k) {
    const std::uint32_t* pair = of(4 * group + k % 8 / 2)->left->pair + k / 8 * 2;
    for (int i = 0; i < 2; ++i) rows[i][k] = half_of(pair[i], k % 2);
  }
  for (int n = 0; n < 2 * kQuads; ++n) {
    for (unsigned e = 0; e < 2; ++e) {
      float first = 0, second = 0;
      for (unsigned k = 0; k < 16; ++k) {
        const Quad& q = of(4 * (2 * place + e) + k % 8 / 2)->right[n / 2];
        const float b = half_of(q.pair[n % 2 * 2 + static_cast<int>(k / 8)], k % 2);
        first += rows[0][k] * b;
        second += rows[1][k] * b;
      }
      sums[n].v[e] += first;
      sums[n].v[2 + e] += second;
    }
  }
  Block::warp_barrier();  // the others have read what this lane holds
}

inline float power_of_two(float x) {
  return std::exp2(x);
}
inline std::uint32_t pair_of(float low, float high) {
  return float_to_bf16(low) | std::uint32_t{float_to_bf16(high)} << 16;
}
#endif

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
