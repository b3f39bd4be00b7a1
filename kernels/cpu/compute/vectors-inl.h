// Shared by the loops of the compute layer: vectors of activations and how they are loaded and stored.
// Compiled once for each instruction set, with the file that includes it.
#if defined(LPMM_KERNELS_CPU_COMPUTE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_COMPUTE_VECTORS_INL_H_
#undef LPMM_KERNELS_CPU_COMPUTE_VECTORS_INL_H_
#else
#define LPMM_KERNELS_CPU_COMPUTE_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/compute.h"
#include "kernels/formats/codec.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, the width of a channel group, so that groups look the same for every instruction set.
constexpr int kGroupChannels = 16;
using D = hn::CappedTag<float, kGroupChannels>;
using V = hn::Vec<D>;
constexpr D d32;
constexpr hn::Rebind<std::uint32_t, D> du32;
constexpr hn::Rebind<std::int32_t, D> di32;
constexpr hn::Rebind<std::uint16_t, D> du16;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(d32));
constexpr int kVectors = kGroupChannels / kLanes;

struct Fp32 {
  using Cell = float;
  static HWY_INLINE V load(const float* p) { return hn::LoadU(d32, p); }
  static HWY_INLINE void store(float* p, V v) { hn::StoreU(v, d32, p); }
  static HWY_INLINE float load1(const float* p) { return *p; }
  static HWY_INLINE void store1(float* p, float v) { *p = v; }
};

struct Bf16 {
  using Cell = std::uint16_t;
  static HWY_INLINE V load(const std::uint16_t* p) {
    return hn::BitCast(d32, hn::ShiftLeft<16>(hn::PromoteTo(du32, hn::LoadU(du16, p))));
  }
  // float_to_bf16, lane by lane.
  static HWY_INLINE void store(std::uint16_t* p, V v) {
    const auto u = hn::BitCast(du32, v);
    const auto high = hn::ShiftRight<16>(u);
    const auto odd = hn::And(high, hn::Set(du32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(du32, 0x7FFFU))));
    const auto nan = hn::Or(high, hn::Set(du32, 0x40U));
    const auto bits = hn::IfThenElse(hn::RebindMask(du32, hn::IsNaN(v)), nan, rounded);
    hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, bits)), du16, p);
  }
  static HWY_INLINE float load1(const std::uint16_t* p) { return bf16_to_float(*p); }
  static HWY_INLINE void store1(std::uint16_t* p, float v) { *p = float_to_bf16(v); }
};

HWY_INLINE V positive(V gate, V v) {  // v where gate > 0, else 0
  return hn::IfThenElseZero(hn::Gt(gate, hn::Zero(d32)), v);
}
HWY_INLINE float positive(float gate, float v) {
  return gate > 0.0F ? v : 0.0F;
}
// ReLU that lets NaN through, so that a broken activation reaches the loss.
HWY_INLINE V relu_of(V v) {
  return hn::IfThenZeroElse(hn::Le(v, hn::Zero(d32)), v);
}
HWY_INLINE float relu_of(float v) {
  return v <= 0.0F ? 0.0F : v;
}

HWY_INLINE V multiply_add(V a, V b, V c) {  // a * b + c, two roundings
  return hn::Add(hn::Mul(a, b), c);
}
// Sums of a channel group, from zero.
struct Sums {
  V v[kVectors];
  HWY_INLINE Sums() {
    for (int i = 0; i < kVectors; ++i) v[i] = hn::Zero(d32);
  }
};

// Calls body.operator()<T, kAccumulate>() with the type that holds an activation, and whether it is added to.
template <class Body>
HWY_INLINE void with_type(ValueType type, bool accumulate, const Body& body) {
  if (type == ValueType::kFp32) {
    accumulate ? body.template operator()<Fp32, true>() : body.template operator()<Fp32, false>();
  } else {
    accumulate ? body.template operator()<Bf16, true>() : body.template operator()<Bf16, false>();
  }
}

// The loads and stores of `each`: of a vector, or of one value as a lane of a vector, so that whether an
// element is in the tail changes nothing.
struct Vectors {
  static HWY_INLINE V load(const float* p) { return Fp32::load(p); }
  static HWY_INLINE V load(const std::uint16_t* p) { return Bf16::load(p); }
  static HWY_INLINE void store(float* p, V v) { Fp32::store(p, v); }
  static HWY_INLINE void store(std::uint16_t* p, V v) { Bf16::store(p, v); }
};
struct Singles {
  static HWY_INLINE V load(const float* p) { return hn::Set(d32, *p); }
  static HWY_INLINE V load(const std::uint16_t* p) { return hn::Set(d32, Bf16::load1(p)); }
  static HWY_INLINE void store(float* p, V v) { *p = hn::GetLane(v); }
  static HWY_INLINE void store(std::uint16_t* p, V v) { Bf16::store1(p, hn::GetLane(v)); }
};
// Calls body(Vectors or Singles, i) for a vector at i, then for what is left one by one.
template <class Body>
HWY_INLINE void each(std::int64_t count, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(Vectors(), i);
  for (; i < count; ++i) body(Singles(), i);
}
// *p = (kAccumulate ? *p : 0) + v
template <bool kAccumulate, class At, class Cell>
HWY_INLINE void put(At at, Cell* p, V v) {
  at.store(p, kAccumulate ? hn::Add(v, at.load(p)) : v);
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
