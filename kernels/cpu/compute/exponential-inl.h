// The exponential function of activations and scores. Compiled once for each instruction set, with the file
// that includes it.
#if defined(LPMM_KERNELS_CPU_COMPUTE_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_COMPUTE_EXPONENTIAL_INL_H_
#undef LPMM_KERNELS_CPU_COMPUTE_EXPONENTIAL_INL_H_
#else
#define LPMM_KERNELS_CPU_COMPUTE_EXPONENTIAL_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "kernels/cpu/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

// Finite for every number; NaN stays, so that a broken activation reaches the loss.
HWY_INLINE V exp_of(V x) {
  const V most = hn::Set(d32, 88.0F);
  const V e = hn::Exp(d32, hn::IfThenElse(hn::Gt(x, most), most, x));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}
// One value, as a lane of the vectors does it: whether an element is in the tail changes nothing.
HWY_INLINE float exp_of(float x) {
  return hn::GetLane(exp_of(hn::Set(d32, x)));
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
