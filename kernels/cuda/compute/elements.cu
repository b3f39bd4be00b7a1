// Element loops, the gradient of a bias, activations, rotary positions, dropout, and the rows of
// embeddings.
#include <cmath>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// ReLU lets NaN through, so that a broken activation reaches the loss.
LPMM_HD float relu_of(float v) {
  return v <= 0.0F ? 0.0F : v;
}
LPMM_HD float where_positive(float gate, float v) {
  return gate > 0.0F ? v : 0.0F;
}

struct Sum {
  LPMM_HD float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float factor;
  LPMM_HD float operator()(float x) const { return product(factor, x); }
};
struct TimesColumn {
  const float* factors;
  LPMM_HD float operator()(const Place& at, float x) const { return product(factors[at.column], x); }
};
struct AddPosition {
  const float* positions;
  std::int64_t width, length, first;
  const std::int32_t* places;
  LPMM_HD float operator()(const Place& at, float token) const {
    const std::int64_t row = first + at.row, place = places == nullptr ? row % length : places[row];
    return token + positions[place * width + at.column];
  }
};

// ---- activations -----------------------------------------------------------------------------------------
// gradient(at, dy): dy times the slope, at the input or, with kFromValue, at the value.
struct Relu {
  static constexpr bool kFromValue = true;
  LPMM_HD static float value(float x) { return relu_of(x); }
  LPMM_HD static float gradient(float y, float dy) { return where_positive(y, dy); }
};

// The exponential may overflow, to a sigmoid of 0. A GPU takes its fast functions, whose errors are a few
// units in the last place of fp32: with the exact ones it computes for longer than memory takes.
LPMM_HD float sigmoid(float x) {
#if defined(__CUDA_ARCH__)
  return __fdividef(1.0F, 1.0F + __expf(-x));
#else
  return 1.0F / (1.0F + std::exp(-x));
#endif
}
// sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))
constexpr float kGeluScale = 2 * 0.7978845608028654F, kGeluCube = 0.044715F;
LPMM_HD float sigmoid_of_cubic(float x) {
  return sigmoid(kGeluScale * (x + kGeluCube * (x * x * x)));
}
struct TanhGelu {
  static constexpr bool kFromValue = false;
  LPMM_HD static float value(float x) { return x * sigmoid_of_cubic(x); }
  LPMM_HD static float gradient(float far, float dy) {
    const float x = far > 30.0F ? 30.0F : far < -30.0F ? -30.0F : far;  // the slope is 1 or 0 there
    const float s = sigmoid_of_cubic(x), inner = kGeluScale * (1.0F + 3 * kGeluCube * (x * x));
    return dy * (s + x * s * (1.0F - s) * inner);
  }
};

// The normal distribution's share below x, from a polynomial for erfc with a relative error of 1.2e-7 (Press
// et al. 1992, section 6.2).
LPMM_HD float normal_share(float x) {
  const float z = 0.70710678118654752F * std::fabs(x), t = 1.0F / (1.0F + 0.5F * z);
  float sum = 0.17087277F;
  sum = sum * t - 0.82215223F;
  sum = sum * t + 1.48851587F;
  sum = sum * t - 1.13520398F;
  sum = sum * t + 0.27886807F;
  sum = sum * t - 0.18628806F;
  sum = sum * t + 0.09678418F;
  sum = sum * t + 0.37409196F;
  sum = sum * t + 1.00002368F;
  sum = sum * t - 1.26551223F;
  const float tail = 0.5F * t * std::exp(sum - z * z);
  return x < 0.0F ? tail : 1.0F - tail;
}
struct ExactGelu {
  static constexpr bool kFromValue = false;
  LPMM_HD static float value(float x) { return x * normal_share(x); }
  LPMM_HD static float gradient(float far, float dy) {
    const float x = far > 30.0F ? 30.0F : far < -30.0F ? -30.0F : far;  // the slope is 1 or 0 there
    return dy * (normal_share(x) + x * (0.39894228040143268F * std::exp(-0.5F * x * x)));
  }
};

struct Silu {
  static constexpr bool kFromValue = false;
  LPMM_HD static float value(float x) { return x * sigmoid(x); }
  LPMM_HD static float gradient(float x, float dy) {
    const float s = sigmoid(x);
    return dy * (s * (1.0F + x * (1.0F - s)));
  }
};

struct Tanh {
  static constexpr bool kFromValue = true;
  LPMM_HD static float value(float x) { return std::tanh(x); }
  LPMM_HD static float gradient(float y, float dy) { return dy * (1.0F - y * y); }
};

template <class F>
struct ValueOf {
  LPMM_HD float operator()(float x) const { return F::value(x); }
};
template <class F>
struct GradientOf {
  LPMM_HD float operator()(float at, float dy) const { return F::gradient(at, dy); }
};
// f(a) * b on rows of a and b; and its gradient, that of a before that of b.
template <class F, class Cell>
struct GatedValueOf {
  const Cell* x;
  std::int64_t width;
  LPMM_HD float operator()(const Place& at) const {
    const Cell* const row = x + at.row * 2 * width;
    return F::value(load(row + at.column)) * load(row + width + at.column);
  }
};
template <class F, class Cell>
struct GatedGradientOf {
  const Cell *x, *dy;
  std::int64_t width;
  LPMM_HD float operator()(const Place& at) const {
    const bool is_gate = at.column < width;
    const std::int64_t c = is_gate ? at.column : at.column - width;
    const Cell* const row = x + at.row * 2 * width;
    const float a = load(row + c), d = load(dy + at.row * width + c);
    if (!is_gate) return d * F::value(a);
    return F::gradient(F::kFromValue ? F::value(a) : a, d * load(row + width + c));
  }
};

// Calls body(F, Cell*), the function and a null pointer to the type that holds an activation.
template <class Body>
void with_function(const ActivationArgs& args, const Body& body) {
  with_type(args.type, [&](auto* cell) {
    switch (args.function) {
      case Activation::kRelu:
        return body(Relu(), cell);
      case Activation::kGelu:
        return body(ExactGelu(), cell);
      case Activation::kGeluTanh:
        return body(TanhGelu(), cell);
      case Activation::kSilu:
        return body(Silu(), cell);
      case Activation::kTanh:
        return body(Tanh(), cell);
    }
  });
}

// A value of a head, rotated with its partner half of what is rotated away.
template <class Cell>
struct Turn {
  RotaryShape shape;
  const float* angles;
  float sign;
  const Cell* x;
  const std::int32_t* places;
  LPMM_HD float operator()(const Place& at, float v) const {
    const std::int64_t width = shape.head_width, part = shape.turned(), half = part / 2,
                       c = at.column % width;
    if (at.column >= shape.rotated * width || c >= part) return v;
    const bool is_first = c < half;
    const std::int64_t place = places == nullptr ? at.row % shape.length : places[at.row];
    const float* const angle = angles + place * part + (is_first ? c : c - half);
    const std::int64_t other = at.row * shape.width() + at.column + (is_first ? half : -half);
    const float other_part = sign * angle[half] * load(x + other);
    return v * angle[0] + (is_first ? -other_part : other_part);
  }
};

// The sum of dy, or of dy * x, down each column; with ReLU, g takes what passes.
template <class Cell>
struct BiasTerms {
  std::int64_t columns;
  const Cell *y, *dy, *x;
  Cell* g;
  LPMM_HD void operator()(std::int64_t row, std::int64_t column, float (&of)[1]) const {
    const std::int64_t i = row * columns + column;
    of[0] = load(dy + i);
    if (x != nullptr) of[0] *= load(x + i);
    if (g == nullptr) return;
    of[0] = where_positive(load(y + i), of[0]);
    store(g + i, of[0]);
  }
  LPMM_HD void wide(std::int64_t row, std::int64_t column, float (&of)[1][kVector]) const {
    const std::int64_t i = row * columns + column;
    load_vector(dy + i, of[0]);
    if (x != nullptr) {
      float factors[kVector];
      load_vector(x + i, factors);
      for (int k = 0; k < kVector; ++k) of[0][k] *= factors[k];
    }
    if (g == nullptr) return;
    float gate[kVector];
    load_vector(y + i, gate);
    for (int k = 0; k < kVector; ++k) of[0][k] = where_positive(gate[k], of[0][k]);
    store_vector(g + i, of[0]);
  }
};

struct StoreBias {
  float* gradient;
  LPMM_HD void operator()(std::int64_t column, const double (&of)[1]) const {
    gradient[column] = static_cast<float>(of[0]);
  }
};

// A thread takes the eight elements whose draws one call of the generator makes.
constexpr int kCallElements = 8, kCalls = static_cast<int>(kGroup) / kCallElements;
template <bool kAdds, class Cell>
__global__ void drop(std::int64_t count, Dropout drop, const Cell* x, Cell* y) {
  begin_kernel();
  const std::int64_t call = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
  const std::int64_t group = call / kCalls, lane = call % kCalls;
  if (group * kGroup + lane >= count) return;
  const std::uint32_t first = drop.noise.first_group + static_cast<std::uint32_t>(group);
  const PhiloxWords words = noise_words(drop.noise, kCalls * first + static_cast<std::uint32_t>(lane));
  for (int k = 0; k < kCallElements; ++k) {
    const std::int64_t i = group * kGroup + k * kCalls + lane;
    if (i >= count) return;
    const std::uint32_t draw = words.x[k / 2] >> (16 * (k % 2)) & 0xFFFFU;
    const float kept = draw >= drop.threshold ? product(drop.scale, load(x + i)) : 0.0F;
    store(y + i, kAdds ? kept + load(y + i) : kept);
  }
}

// Some blocks a group, each for as many columns as it has threads: the group's rows, in order.
template <class Cell>
__global__ void sum_groups(SumRowsArgs args, const Cell* x) {
  begin_kernel();
  const RowGroups& groups = args.groups;
  const std::int64_t width = args.width, blocks = (width + blockDim.x - 1) / blockDim.x;
  const std::int64_t group = blockIdx.x / blocks, column = blockIdx.x % blocks * blockDim.x + threadIdx.x;
  const std::int64_t element = groups.targets[group] * width + column;
  if (column >= width || element < args.begin || element >= args.end) return;
  float sum = 0;
  for (std::int64_t j = groups.first[group]; j < groups.first[group + 1]; ++j) {
    sum += load(x + groups.rows[j] * width + column);
  }
  args.out[element - args.begin] = sum;
}

}  // namespace

void CudaDevice::to_float(ValueType type, std::int64_t count, const void* in, float* out) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Same{}, out, false, static_cast<const Cell*>(in));
  });
}
void CudaDevice::from_float(ValueType type, std::int64_t count, const float* in, void* out) {
  with_type(type,
            [&]<class Cell>(Cell*) { map(stream(), count, Same{}, static_cast<Cell*>(out), false, in); });
}
void CudaDevice::add(const Array& of, const void* a, const void* b, void* y) {
  with_type(of.type, [&]<class Cell>(Cell*) {
    map(stream(), of.count, Sum{}, static_cast<Cell*>(y), false, static_cast<const Cell*>(a),
        static_cast<const Cell*>(b));
  });
}
void CudaDevice::copy_or_add(const Array& of, const void* src, void* dst, bool accumulate) {
  if (accumulate) return add(of, src, dst, dst);
  copy(dst, src, of.count * value_bytes(of.type));
}
void CudaDevice::scale(const ScaleArgs& args) {
  with_type(args.of.type, [&]<class Cell>(Cell*) {
    const auto* x = static_cast<const Cell*>(args.x);
    auto* y = static_cast<Cell*>(args.y);
    if (args.by_column == nullptr)
      return map(stream(), args.of.count, Times{args.factor}, y, args.accumulate, x);
    map_matrix(stream(), args.of.count / args.columns, args.columns, TimesColumn{args.by_column}, y,
               args.accumulate, x);
  });
}

void CudaDevice::activate(const ActivationArgs& args) {
  with_function(args, [&]<class F, class Cell>(F, Cell*) {
    const auto* x = static_cast<const Cell*>(args.x);
    auto* y = static_cast<Cell*>(args.y);
    if (args.is_gated) {
      map_matrix(stream(), args.rows, args.width, GatedValueOf<F, Cell>{x, args.width}, y, false);
    } else {
      map(stream(), args.rows * args.width, ValueOf<F>{}, y, false, x);
    }
  });
}
void CudaDevice::activate_backward(const ActivationArgs& args) {
  with_function(args, [&]<class F, class Cell>(F, Cell*) {
    const auto *x = static_cast<const Cell*>(args.x), *dy = static_cast<const Cell*>(args.dy);
    auto* dx = static_cast<Cell*>(args.dx);
    if (args.is_gated) {
      map_matrix(stream(), args.rows, 2 * args.width, GatedGradientOf<F, Cell>{x, dy, args.width}, dx,
                 args.accumulate);
    } else {
      map(stream(), args.rows * args.width, GradientOf<F>{}, dx, args.accumulate, x, dy);
    }
  });
}

const void* CudaDevice::bias_backward(const BiasBackward& args) {
  const std::int64_t columns = args.columns, rows = args.of.count / columns;
  with_type(args.of.type, [&]<class Cell>(Cell*) {
    const BiasTerms<Cell> terms{columns, static_cast<const Cell*>(args.y), static_cast<const Cell*>(args.dy),
                                static_cast<const Cell*>(args.x), static_cast<Cell*>(args.g)};
    const StreamMemory room(8 * whole_shards(rows, columns) * columns, stream());
    const bool is_wide = columns % kVector == 0 && is_aligned(args.y) && is_aligned(args.dy) &&
                         is_aligned(args.x) && is_aligned(args.g);
    sum_whole_columns<1>(stream(), rows, columns, static_cast<double*>(room.data()),
                         packed_.arrivals.take(whole_strips(columns), stream()).counters, terms,
                         StoreBias{args.bias_gradient}, is_wide);
  });
  return args.g != nullptr ? args.g : args.dy;
}

void CudaDevice::rotary(const RotaryArgs& args) {
  const RotaryShape& s = args.shape;
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto* in = static_cast<const Cell*>(args.x);
    map_matrix(stream(), s.rows, s.width(),
               Turn<Cell>{s, args.angles, args.inverse ? -1.0F : 1.0F, in, args.places},
               static_cast<Cell*>(args.y), args.accumulate, in);
  });
}

void CudaDevice::dropout(const DropoutArgs& args) {
  constexpr int kThreadsOfDrop = 128;
  const std::int64_t calls = groups_of(args.of.count) * kCalls;
  with_type(args.of.type, [&]<class Cell>(Cell*) {
    launch_apart(args.accumulate ? drop<true, Cell> : drop<false, Cell>,
                 (calls + kThreadsOfDrop - 1) / kThreadsOfDrop, kThreadsOfDrop, stream(), args.of.count,
                 args.drop, static_cast<const Cell*>(args.x), static_cast<Cell*>(args.y));
  });
}

void CudaDevice::embedding_forward(const EmbeddingArgs& args) {
  with_type(args.type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), args.rows, args.width,
               AddPosition{args.positions, args.width, args.length, args.first, args.places},
               static_cast<Cell*>(args.y), false, args.tokens);
  });
}
void CudaDevice::sum_rows(const SumRowsArgs& args) {
  constexpr int kThreadsOfSum = 128;
  fill_with_zeros(args.out, (args.end - args.begin) * static_cast<std::int64_t>(sizeof(float)));
  with_type(args.type, [&]<class Cell>(Cell*) {
    launch_apart(sum_groups<Cell>, args.groups.count * ((args.width + kThreadsOfSum - 1) / kThreadsOfSum),
                 kThreadsOfSum, stream(), args, static_cast<const Cell*>(args.x));
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
