// Compiled once for each instruction set by Highway's foreach_target.
#include "kernels/cpu/sequence/activation_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sequence/activation_loops.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "kernels/cpu/compute/exponential-inl.h"
#include "kernels/cpu/compute/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels::loops::HWY_NAMESPACE {
namespace {

// ---- activations -----------------------------------------------------------------------------------------
// gradient(at, d): d times the slope, at the input or, with kFromValue, at the value.
HWY_INLINE V constant(float x) {
  return hn::Set(d32, x);
}

HWY_INLINE V sigmoid(V x) {
  const V one = constant(1.0F);
  return hn::Div(one, hn::Add(one, exp_of(hn::Neg(x))));
}

struct Relu {
  static constexpr bool kFromValue = true;
  static HWY_INLINE V value(V x) { return relu_of(x); }
  static HWY_INLINE V gradient(V y, V d) { return positive(y, d); }
};

// The gradient of a function that has a slope.
template <class F>
struct Smooth {
  static constexpr bool kFromValue = false;
  static HWY_INLINE V gradient(V x, V d) { return hn::Mul(d, F::slope(x)); }
};

struct TanhGelu : Smooth<TanhGelu> {
  static constexpr float kScale = 2 * 0.7978845608028654F;  // 2 sqrt(2 / pi)
  static constexpr float kCube = 0.044715F;
  static HWY_INLINE V share(V x) {
    const V one = constant(1.0F);
    const V cubic = multiply_add(hn::Mul(hn::Mul(x, x), x), constant(kCube), x);
    return hn::Div(one, hn::Add(one, exp_of(hn::Mul(cubic, constant(-kScale)))));
  }
  static HWY_INLINE V value(V x) { return hn::Mul(x, share(x)); }
  static HWY_INLINE V slope(V x) {
    const V one = constant(1.0F), s = share(x);
    const V inner = hn::Mul(constant(kScale), multiply_add(hn::Mul(x, x), constant(3 * kCube), one));
    return multiply_add(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), inner, s);
  }
};

// The normal distribution's share below x, from a polynomial for erfc with a relative error of 1.2e-7 (Press
// et al. 1992, section 6.2): a fixed sequence of operations, so that no library decides the bits.
struct ExactGelu : Smooth<ExactGelu> {
  static HWY_INLINE V share(V x) {
    static constexpr float kTerms[] = {0.17087277F,  -0.82215223F, 1.48851587F, -1.13520398F, 0.27886807F,
                                       -0.18628806F, 0.09678418F,  0.37409196F, 1.00002368F,  -1.26551223F};
    const V one = constant(1.0F), half = constant(0.5F);
    const V z = hn::Mul(hn::Abs(x), constant(0.70710678118654752F));
    const V t = hn::Div(one, multiply_add(half, z, one));
    V sum = constant(kTerms[0]);
    for (int i = 1; i < 10; ++i) sum = multiply_add(sum, t, constant(kTerms[i]));
    const V tail = hn::Mul(hn::Mul(half, t), exp_of(hn::Sub(sum, hn::Mul(z, z))));
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d32)), tail, hn::Sub(one, tail));
  }
  static HWY_INLINE V value(V x) { return hn::Mul(x, share(x)); }
  static HWY_INLINE V slope(V x) {
    const V density =
        hn::Mul(constant(0.39894228040143268F), exp_of(hn::Mul(constant(-0.5F), hn::Mul(x, x))));
    return multiply_add(x, density, share(x));
  }
};

struct Silu : Smooth<Silu> {
  static HWY_INLINE V value(V x) { return hn::Mul(x, sigmoid(x)); }
  static HWY_INLINE V slope(V x) {
    const V one = constant(1.0F), s = sigmoid(x);
    return hn::Mul(s, multiply_add(x, hn::Sub(one, s), one));
  }
};

// (1 - t) / (1 + t) with t = exp(-2 |x|), and the sign of x.
struct Tanh {
  static constexpr bool kFromValue = true;
  static HWY_INLINE V value(V x) {
    const V one = constant(1.0F), t = exp_of(hn::Mul(constant(-2.0F), hn::Abs(x)));
    return hn::CopySign(hn::Div(hn::Sub(one, t), hn::Add(one, t)), x);
  }
  static HWY_INLINE V gradient(V y, V d) { return hn::Mul(d, hn::Sub(constant(1.0F), hn::Mul(y, y))); }
};

template <class T, class F, bool kGated>
void activate(const ActivationArgs& args) {
  const std::int64_t width = args.width;
  const auto* x = static_cast<const typename T::Cell*>(args.x);
  auto* y = static_cast<typename T::Cell*>(args.y);
  for (std::int64_t r = 0; r < args.rows; ++r, x += kGated ? 2 * width : width, y += width) {
    each(width, [&](auto at, std::int64_t i) HWY_ATTR {
      const V v = F::value(at.load(x + i));
      at.store(y + i, kGated ? hn::Mul(v, at.load(x + width + i)) : v);
    });
  }
}

// Gated, with y = f(a) b: da = dy b f'(a), db = dy f(a).
template <class T, class F, bool kGated, bool kAccumulate>
void differentiate(const ActivationArgs& args) {
  const std::int64_t width = args.width, step = kGated ? 2 * width : width;
  const auto* in = static_cast<const typename T::Cell*>(args.x);
  const auto* dy = static_cast<const typename T::Cell*>(args.dy);
  auto* dx = static_cast<typename T::Cell*>(args.dx);
  for (std::int64_t r = 0; r < args.rows; ++r, in += step, dx += step, dy += width) {
    each(width, [&](auto at, std::int64_t i) HWY_ATTR {
      const V a = at.load(in + i), d = at.load(dy + i);
      if constexpr (kGated) {
        const V value = F::value(a), b = at.load(in + width + i);
        put<kAccumulate>(at, dx + i, F::gradient(F::kFromValue ? value : a, hn::Mul(d, b)));
        put<kAccumulate>(at, dx + width + i, hn::Mul(d, value));
      } else {
        put<kAccumulate>(at, dx + i, F::gradient(a, d));
      }
    });
  }
}

// ---- rotary positions ------------------------------------------------------------------------------------
// One head: (a, b) <- (a cos - b sin, b cos + a sin).
template <class T, bool kAccumulate>
HWY_INLINE void turn(std::int64_t half, const float* angles, float sign, const typename T::Cell* x,
                     typename T::Cell* y) {
  const V signs = hn::Set(d32, sign);
  each(half, [&](auto at, std::int64_t i) HWY_ATTR {
    const V cosine = at.load(angles + i), sine = hn::Mul(signs, at.load(angles + half + i));
    const V a = at.load(x + i), b = at.load(x + half + i);
    put<kAccumulate>(at, y + i, hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)));
    put<kAccumulate>(at, y + half + i, multiply_add(b, cosine, hn::Mul(a, sine)));
  });
}

template <class T, bool kAccumulate>
void turn_rows(const RotaryArgs& args, std::int64_t first) {
  const RotaryShape& s = args.shape;
  const auto* x = static_cast<const typename T::Cell*>(args.x);
  auto* y = static_cast<typename T::Cell*>(args.y);
  const std::int64_t half = s.turned() / 2, rest = s.head_width - 2 * half,
                     rotated = std::int64_t{1} * s.rotated * s.head_width;
  const float sign = args.inverse ? -1.0F : 1.0F;
  for (std::int64_t r = 0; r < s.rows; ++r, x += s.width(), y += s.width()) {
    const std::int64_t place = args.places == nullptr ? (first + r) % s.length : args.places[first + r];
    const float* row = args.angles + place * 2 * half;
    const auto keep = [&](std::int64_t from, std::int64_t count) HWY_ATTR {
      each(count, [&](auto at, std::int64_t i)
                      HWY_ATTR { put<kAccumulate>(at, y + from + i, at.load(x + from + i)); });
    };
    for (std::int64_t at = 0; at < rotated; at += s.head_width) {
      turn<T, kAccumulate>(half, row, sign, x + at, y + at);
      keep(at + 2 * half, rest);
    }
    keep(rotated, s.width() - rotated);
  }
}

// ---- the choice of type and function ---------------------------------------------------------------------
template <class Body>
void with_function(const ActivationArgs& args, const Body& body) {
  with_type(args.type, args.accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    const auto with = [&]<class F>(F) HWY_ATTR {
      args.is_gated ? body.template operator()<T, F, true, kAccumulate>()
                    : body.template operator()<T, F, false, kAccumulate>();
    };
    switch (args.function) {
      case Activation::kRelu:
        return with(Relu());
      case Activation::kGelu:
        return with(ExactGelu());
      case Activation::kGeluTanh:
        return with(TanhGelu());
      case Activation::kSilu:
        return with(Silu());
      case Activation::kTanh:
        return with(Tanh());
    }
  });
}

void forward(const ActivationArgs& args) {
  with_function(args, [&]<class T, class F, bool kGated, bool>() HWY_ATTR { activate<T, F, kGated>(args); });
}
void backward(const ActivationArgs& args) {
  with_function(args, [&]<class T, class F, bool kGated, bool kAccumulate>()
                          HWY_ATTR { differentiate<T, F, kGated, kAccumulate>(args); });
}
void rotary(const RotaryArgs& args, std::int64_t first) {
  with_type(args.shape.type, args.accumulate,
            [&]<class T, bool kAccumulate>() HWY_ATTR { turn_rows<T, kAccumulate>(args, first); });
}

const ActivationLoops& activation_loops() {
  static constexpr ActivationLoops kLoops{forward, backward, rotary};
  return kLoops;
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels::loops {
HWY_EXPORT(activation_loops);
const ActivationLoops& activations() {
  return HWY_DYNAMIC_DISPATCH(activation_loops)();
}
}  // namespace lpmm::kernels::loops
#endif  // HWY_ONCE
