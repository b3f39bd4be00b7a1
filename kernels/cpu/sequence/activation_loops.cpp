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

// ---- GELU ------------------------------------------------------------------------------------------------
HWY_INLINE V constant(float x) {
  return hn::Set(d32, x);
}

HWY_INLINE V sigmoid(V x) {
  const V one = constant(1.0F);
  return hn::Div(one, hn::Add(one, exp_of(hn::Neg(x))));
}

struct TanhGelu {
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
struct ExactGelu {
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

struct Swish {
  static HWY_INLINE V value(V x) { return hn::Mul(x, sigmoid(x)); }
  static HWY_INLINE V slope(V x) {
    const V one = constant(1.0F), s = sigmoid(x);
    return hn::Mul(s, multiply_add(x, hn::Sub(one, s), one));
  }
};

template <class T, class Form>
void GeluForward(std::int64_t count, const void* in, void* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  auto* y = static_cast<typename T::Cell*>(out);
  each(
      count, [&](std::int64_t i) HWY_ATTR { T::store(y + i, Form::value(T::load(x + i))); },
      [&](std::int64_t i)
          HWY_ATTR { T::store1(y + i, hn::GetLane(Form::value(constant(T::load1(x + i))))); });
}
template <class T, class Form, bool kAccumulate>
void GeluBackward(std::int64_t count, const void* in, const void* dy_in, void* dx_out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  const auto* dy = static_cast<const typename T::Cell*>(dy_in);
  auto* dx = static_cast<typename T::Cell*>(dx_out);
  each(
      count,
      [&](std::int64_t i) HWY_ATTR {
        V v = hn::Mul(T::load(dy + i), Form::slope(T::load(x + i)));
        if (kAccumulate) v = hn::Add(v, T::load(dx + i));
        T::store(dx + i, v);
      },
      [&](std::int64_t i) HWY_ATTR {
        const float v = T::load1(dy + i) * hn::GetLane(Form::slope(constant(T::load1(x + i))));
        T::store1(dx + i, kAccumulate ? v + T::load1(dx + i) : v);
      });
}

// ---- SwiGLU ----------------------------------------------------------------------------------------------
template <class T>
void SwigluForward(std::int64_t rows, std::int64_t width, const void* in, void* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  auto* y = static_cast<typename T::Cell*>(out);
  const auto value = [](V gate, V up) HWY_ATTR { return hn::Mul(hn::Mul(gate, sigmoid(gate)), up); };
  for (std::int64_t r = 0; r < rows; ++r, x += 2 * width, y += width) {
    each(
        width,
        [&](std::int64_t i) HWY_ATTR { T::store(y + i, value(T::load(x + i), T::load(x + width + i))); },
        [&](std::int64_t i) HWY_ATTR {
          const V v = value(constant(T::load1(x + i)), constant(T::load1(x + width + i)));
          T::store1(y + i, hn::GetLane(v));
        });
  }
}

// With s = sigmoid(a): da = dy b s (1 + a (1 - s)), db = dy a s.
template <class T, bool kAccumulate>
void SwigluBackward(std::int64_t rows, std::int64_t width, const void* in, const void* dy_in, void* dx_out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  const auto* dy = static_cast<const typename T::Cell*>(dy_in);
  auto* dx = static_cast<typename T::Cell*>(dx_out);
  const auto gate_gradient = [](V gate, V up, V d) HWY_ATTR {
    const V one = constant(1.0F), s = sigmoid(gate);
    return hn::Mul(hn::Mul(d, up), hn::Mul(s, multiply_add(gate, hn::Sub(one, s), one)));
  };
  const auto up_gradient = [](V gate, V d) HWY_ATTR { return hn::Mul(d, hn::Mul(gate, sigmoid(gate))); };
  for (std::int64_t r = 0; r < rows; ++r, x += 2 * width, dx += 2 * width, dy += width) {
    each(
        width,
        [&](std::int64_t i) HWY_ATTR {
          const V gate = T::load(x + i), d = T::load(dy + i);
          V a = gate_gradient(gate, T::load(x + width + i), d), b = up_gradient(gate, d);
          if (kAccumulate) {
            a = hn::Add(a, T::load(dx + i));
            b = hn::Add(b, T::load(dx + width + i));
          }
          T::store(dx + i, a);
          T::store(dx + width + i, b);
        },
        [&](std::int64_t i) HWY_ATTR {
          const V gate = constant(T::load1(x + i)), d = constant(T::load1(dy + i));
          const float a = hn::GetLane(gate_gradient(gate, constant(T::load1(x + width + i)), d));
          const float b = hn::GetLane(up_gradient(gate, d));
          T::store1(dx + i, kAccumulate ? a + T::load1(dx + i) : a);
          T::store1(dx + width + i, kAccumulate ? b + T::load1(dx + width + i) : b);
        });
  }
}

// ---- tanh ------------------------------------------------------------------------------------------------
// (1 - t) / (1 + t) with t = exp(-2 |x|), and the sign of x.
HWY_INLINE V tanh_of(V x) {
  const V one = constant(1.0F), t = exp_of(hn::Mul(constant(-2.0F), hn::Abs(x)));
  return hn::CopySign(hn::Div(hn::Sub(one, t), hn::Add(one, t)), x);
}

template <class T>
void TanhForward(std::int64_t count, const void* in, void* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  auto* y = static_cast<typename T::Cell*>(out);
  each(
      count, [&](std::int64_t i) HWY_ATTR { T::store(y + i, tanh_of(T::load(x + i))); },
      [&](std::int64_t i) HWY_ATTR { T::store1(y + i, hn::GetLane(tanh_of(constant(T::load1(x + i))))); });
}
template <class T, bool kAccumulate>
void TanhBackward(std::int64_t count, const void* y_in, const void* dy_in, void* dx_out) {
  const auto* y = static_cast<const typename T::Cell*>(y_in);
  const auto* dy = static_cast<const typename T::Cell*>(dy_in);
  auto* dx = static_cast<typename T::Cell*>(dx_out);
  each(
      count,
      [&](std::int64_t i) HWY_ATTR {
        const V value = T::load(y + i);
        V v = hn::Mul(T::load(dy + i), hn::Sub(constant(1.0F), hn::Mul(value, value)));
        if (kAccumulate) v = hn::Add(v, T::load(dx + i));
        T::store(dx + i, v);
      },
      [&](std::int64_t i) HWY_ATTR {
        const float value = T::load1(y + i), v = T::load1(dy + i) * (1.0F - value * value);
        T::store1(dx + i, kAccumulate ? v + T::load1(dx + i) : v);
      });
}

// ---- rotary positions ------------------------------------------------------------------------------------
// One head: (a, b) <- (a cos - b sin, b cos + a sin).
template <class T, bool kAccumulate>
HWY_INLINE void turn(std::int64_t half, const float* angles, float sign, const typename T::Cell* x,
                     typename T::Cell* y) {
  const V signs = hn::Set(d32, sign);
  each(
      half,
      [&](std::int64_t i) HWY_ATTR {
        const V cosine = Fp32::load(angles + i), sine = hn::Mul(signs, Fp32::load(angles + half + i));
        const V a = T::load(x + i), b = T::load(x + half + i);
        V first = hn::Sub(hn::Mul(a, cosine), hn::Mul(b, sine)),
          second = multiply_add(b, cosine, hn::Mul(a, sine));
        if (kAccumulate) {
          first = hn::Add(first, T::load(y + i));
          second = hn::Add(second, T::load(y + half + i));
        }
        T::store(y + i, first);
        T::store(y + half + i, second);
      },
      [&](std::int64_t i) HWY_ATTR {
        const float cosine = angles[i], sine = sign * angles[half + i];
        const float a = T::load1(x + i), b = T::load1(x + half + i);
        const float first = a * cosine - b * sine, second = b * cosine + a * sine;
        T::store1(y + i, kAccumulate ? first + T::load1(y + i) : first);
        T::store1(y + half + i, kAccumulate ? second + T::load1(y + half + i) : second);
      });
}

template <class T, bool kAccumulate>
void Rotary(const RotaryShape& s, std::int64_t first, const float* angles, bool inverse, const void* in,
            void* out) {
  const auto* x = static_cast<const typename T::Cell*>(in);
  auto* y = static_cast<typename T::Cell*>(out);
  const std::int64_t half = s.head_width / 2, turned = std::int64_t{1} * s.turned * s.head_width;
  const float sign = inverse ? -1.0F : 1.0F;
  for (std::int64_t r = 0; r < s.rows; ++r, x += s.width(), y += s.width()) {
    const float* row = angles + (first + r) % s.length * 2 * half;
    for (std::int64_t at = 0; at < turned; at += s.head_width) {
      turn<T, kAccumulate>(half, row, sign, x + at, y + at);
    }
    each(
        s.width() - turned,
        [&](std::int64_t i) HWY_ATTR {
          const V v = T::load(x + turned + i);
          T::store(y + turned + i, kAccumulate ? hn::Add(v, T::load(y + turned + i)) : v);
        },
        [&](std::int64_t i) HWY_ATTR {
          const float v = T::load1(x + turned + i);
          T::store1(y + turned + i, kAccumulate ? v + T::load1(y + turned + i) : v);
        });
  }
}

// ---- by type ---------------------------------------------------------------------------------------------
void GeluForwardAny(Compute type, GeluForm form, std::int64_t count, const void* x, void* y) {
  with_type(type, false, [&]<class T, bool>() HWY_ATTR {
    (form == GeluForm::kTanh    ? GeluForward<T, TanhGelu>
     : form == GeluForm::kExact ? GeluForward<T, ExactGelu>
                                : GeluForward<T, Swish>)(count, x, y);
  });
}
void GeluBackwardAny(Compute type, GeluForm form, std::int64_t count, const void* x, const void* dy, void* dx,
                     bool accumulate) {
  with_type(type, accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    (form == GeluForm::kTanh    ? GeluBackward<T, TanhGelu, kAccumulate>
     : form == GeluForm::kExact ? GeluBackward<T, ExactGelu, kAccumulate>
                                : GeluBackward<T, Swish, kAccumulate>)(count, x, dy, dx);
  });
}
void SwigluForwardAny(Compute type, std::int64_t rows, std::int64_t width, const void* x, void* y) {
  with_type(type, false, [&]<class T, bool>() HWY_ATTR { SwigluForward<T>(rows, width, x, y); });
}
void SwigluBackwardAny(Compute type, std::int64_t rows, std::int64_t width, const void* x, const void* dy,
                       void* dx, bool accumulate) {
  with_type(type, accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    SwigluBackward<T, kAccumulate>(rows, width, x, dy, dx);
  });
}
void TanhForwardAny(Compute type, std::int64_t count, const void* x, void* y) {
  with_type(type, false, [&]<class T, bool>() HWY_ATTR { TanhForward<T>(count, x, y); });
}
void TanhBackwardAny(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                     bool accumulate) {
  with_type(type, accumulate,
            [&]<class T, bool kAccumulate>() HWY_ATTR { TanhBackward<T, kAccumulate>(count, y, dy, dx); });
}
void RotaryAny(const RotaryShape& shape, std::int64_t first, const float* angles, bool inverse, const void* x,
               void* y, bool accumulate) {
  with_type(shape.type, accumulate, [&]<class T, bool kAccumulate>() HWY_ATTR {
    Rotary<T, kAccumulate>(shape, first, angles, inverse, x, y);
  });
}

}  // namespace
}  // namespace lpmm::kernels::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels::loops {

HWY_EXPORT(GeluForwardAny);
HWY_EXPORT(GeluBackwardAny);
HWY_EXPORT(SwigluForwardAny);
HWY_EXPORT(SwigluBackwardAny);
HWY_EXPORT(TanhForwardAny);
HWY_EXPORT(TanhBackwardAny);
HWY_EXPORT(RotaryAny);

void gelu_forward(Compute type, GeluForm form, std::int64_t count, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(GeluForwardAny)(type, form, count, x, y);
}
void gelu_backward(Compute type, GeluForm form, std::int64_t count, const void* x, const void* dy, void* dx,
                   bool accumulate) {
  HWY_DYNAMIC_DISPATCH(GeluBackwardAny)(type, form, count, x, dy, dx, accumulate);
}
void swiglu_forward(Compute type, std::int64_t rows, std::int64_t width, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(SwigluForwardAny)(type, rows, width, x, y);
}
void swiglu_backward(Compute type, std::int64_t rows, std::int64_t width, const void* x, const void* dy,
                     void* dx, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(SwigluBackwardAny)(type, rows, width, x, dy, dx, accumulate);
}
void tanh_forward(Compute type, std::int64_t count, const void* x, void* y) {
  HWY_DYNAMIC_DISPATCH(TanhForwardAny)(type, count, x, y);
}
void tanh_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                   bool accumulate) {
  HWY_DYNAMIC_DISPATCH(TanhBackwardAny)(type, count, y, dy, dx, accumulate);
}
void rotary(const RotaryShape& shape, std::int64_t first, const float* angles, bool inverse, const void* x,
            void* y, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(RotaryAny)(shape, first, angles, inverse, x, y, accumulate);
}

}  // namespace lpmm::kernels::loops
#endif  // HWY_ONCE
