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
LPMM_HD float gated(float gate, float v) {
  return gate > 0.0F ? v : 0.0F;
}

struct Sum {
  LPMM_HD float operator()(float a, float b) const { return a + b; }
};
struct Times {
  float factor;
  LPMM_HD float operator()(float x) const { return product(factor, x); }
};
struct Relu {
  LPMM_HD float operator()(float x) const { return relu_of(x); }
};
struct Gate {
  LPMM_HD float operator()(float y, float dy) const { return gated(y, dy); }
};
struct AddPosition {
  const float* positions;
  std::int64_t width, length, first;
  LPMM_HD float operator()(const Place& at, float token) const {
    return token + positions[(first + at.row) % length * width + at.column];
  }
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
  LPMM_HD float operator()(float x) const { return x * sigmoid_of_cubic(x); }
};
struct TanhGeluSlope {
  LPMM_HD float operator()(float far, float dy) const {
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
  LPMM_HD float operator()(float x) const { return x * normal_share(x); }
};
struct ExactGeluSlope {
  LPMM_HD float operator()(float far, float dy) const {
    const float x = far > 30.0F ? 30.0F : far < -30.0F ? -30.0F : far;  // the slope is 1 or 0 there
    return dy * (normal_share(x) + x * (0.39894228040143268F * std::exp(-0.5F * x * x)));
  }
};

struct Swish {
  LPMM_HD float operator()(float x) const { return x * sigmoid(x); }
};
struct SwishSlope {
  LPMM_HD float operator()(float x, float dy) const {
    const float s = sigmoid(x);
    return dy * (s * (1.0F + x * (1.0F - s)));
  }
};

// SwiGLU on rows of a and b: a * sigmoid(a) * b; and its gradient, that of a before that of b.
template <class Cell>
struct Swiglu {
  const Cell* x;
  std::int64_t width;
  LPMM_HD float operator()(const Place& at) const {
    const Cell* const row = x + at.row * 2 * width;
    const float a = load(row + at.column);
    return a * sigmoid(a) * load(row + width + at.column);
  }
};
template <class Cell>
struct SwigluSlope {
  const Cell *x, *dy;
  std::int64_t width;
  LPMM_HD float operator()(const Place& at) const {
    const bool is_gate = at.column < width;
    const std::int64_t c = is_gate ? at.column : at.column - width;
    const Cell* const row = x + at.row * 2 * width;
    const float a = load(row + c), s = sigmoid(a), d = load(dy + at.row * width + c);
    return is_gate ? d * load(row + width + c) * (s * (1.0F + a * (1.0F - s))) : d * (a * s);
  }
};

struct Tanh {
  LPMM_HD float operator()(float x) const { return std::tanh(x); }
};
struct TanhSlope {
  LPMM_HD float operator()(float y, float dy) const { return dy * (1.0F - y * y); }
};

// A value of a head, turned with its partner half a head away.
template <class Cell>
struct Turn {
  RotaryShape shape;
  const float* angles;
  float sign;
  const Cell* x;
  LPMM_HD float operator()(const Place& at, float v) const {
    const std::int64_t width = shape.head_width, half = width / 2, c = at.column % width;
    if (at.column >= shape.turned * width) return v;
    const bool is_first = c < half;
    const float* const angle = angles + at.row % shape.length * width + (is_first ? c : c - half);
    const std::int64_t other = at.row * shape.width() + at.column + (is_first ? half : -half);
    const float turned = sign * angle[half] * load(x + other);
    return v * angle[0] + (is_first ? -turned : turned);
  }
};

// The sum of dy down each column; with ReLU, g takes what passes.
template <class Cell>
struct BiasTerms {
  std::int64_t columns;
  const Cell *y, *dy;
  Cell* g;
  LPMM_HD void operator()(std::int64_t row, std::int64_t column, float (&of)[1]) const {
    const std::int64_t i = row * columns + column;
    of[0] = load(dy + i);
    if (g == nullptr) return;
    of[0] = gated(load(y + i), of[0]);
    store(g + i, of[0]);
  }
  LPMM_HD void wide(std::int64_t row, std::int64_t column, float (&of)[1][kVector]) const {
    const std::int64_t i = row * columns + column;
    load_vector(dy + i, of[0]);
    if (g == nullptr) return;
    float gate[kVector];
    load_vector(y + i, gate);
    for (int k = 0; k < kVector; ++k) of[0][k] = gated(gate[k], of[0][k]);
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
__global__ void sum_groups(std::int64_t width, const Cell* x, RowGroups groups, std::int64_t begin,
                           std::int64_t end, float* out) {
  begin_kernel();
  const std::int64_t blocks = (width + blockDim.x - 1) / blockDim.x, group = blockIdx.x / blocks;
  const std::int64_t column = blockIdx.x % blocks * blockDim.x + threadIdx.x;
  const std::int64_t element = groups.targets[group] * width + column;
  if (column >= width || element < begin || element >= end) return;
  float sum = 0;
  for (std::int64_t j = groups.first[group]; j < groups.first[group + 1]; ++j) {
    sum += load(x + groups.rows[j] * width + column);
  }
  out[element - begin] = sum;
}

}  // namespace

void CudaDevice::to_float(Compute type, std::int64_t count, const void* in, float* out) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Same{}, out, false, static_cast<const Cell*>(in));
  });
}
void CudaDevice::from_float(Compute type, std::int64_t count, const float* in, void* out) {
  with_type(type,
            [&]<class Cell>(Cell*) { map(stream(), count, Same{}, static_cast<Cell*>(out), false, in); });
}
void CudaDevice::relu_forward(Compute type, std::int64_t count, const void* x, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Relu{}, static_cast<Cell*>(y), false, static_cast<const Cell*>(x));
  });
}
void CudaDevice::relu_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                               bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Gate{}, static_cast<Cell*>(dx), accumulate, static_cast<const Cell*>(y),
        static_cast<const Cell*>(dy));
  });
}
void CudaDevice::add(Compute type, std::int64_t count, const void* a, const void* b, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Sum{}, static_cast<Cell*>(y), false, static_cast<const Cell*>(a),
        static_cast<const Cell*>(b));
  });
}
void CudaDevice::copy_or_add(Compute type, std::int64_t count, const void* src, void* dst, bool accumulate) {
  if (accumulate) return add(type, count, src, dst, dst);
  copy(dst, src, count * value_bytes(type));
}

void CudaDevice::scale(Compute type, std::int64_t count, float factor, const void* src, void* dst,
                       bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Times{factor}, static_cast<Cell*>(dst), accumulate, static_cast<const Cell*>(src));
  });
}

const void* CudaDevice::bias_backward(Compute type, std::int64_t rows, std::int64_t columns, const void* y,
                                      const void* dy, bool relu, void* g, float* bias_gradient) {
  with_type(type, [&]<class Cell>(Cell*) {
    const BiasTerms<Cell> terms{columns, static_cast<const Cell*>(y), static_cast<const Cell*>(dy),
                                static_cast<Cell*>(relu ? g : nullptr)};
    const StreamMemory room(8 * whole_shards(rows, columns) * columns, stream());
    const bool is_wide = columns % kVector == 0 && is_aligned(y) && is_aligned(dy) && is_aligned(g);
    sum_whole_columns<1>(stream(), rows, columns, static_cast<double*>(room.data()),
                         arrivals_.take(whole_strips(columns), stream()).counters, terms,
                         StoreBias{bias_gradient}, is_wide);
  });
  return relu ? g : dy;
}

void CudaDevice::gelu_forward(Compute type, GeluForm form, std::int64_t count, const void* x, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    const auto* in = static_cast<const Cell*>(x);
    auto* out = static_cast<Cell*>(y);
    const auto of = [&](const auto& body) { map(stream(), count, body, out, false, in); };
    form == GeluForm::kTanh ? of(TanhGelu{}) : form == GeluForm::kExact ? of(ExactGelu{}) : of(Swish{});
  });
}
void CudaDevice::gelu_backward(Compute type, GeluForm form, std::int64_t count, const void* x, const void* dy,
                               void* dx, bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    const auto *in = static_cast<const Cell*>(x), *d = static_cast<const Cell*>(dy);
    auto* out = static_cast<Cell*>(dx);
    const auto of = [&](const auto& body) { map(stream(), count, body, out, accumulate, in, d); };
    form == GeluForm::kTanh    ? of(TanhGeluSlope{})
    : form == GeluForm::kExact ? of(ExactGeluSlope{})
                               : of(SwishSlope{});
  });
}

void CudaDevice::swiglu_forward(Compute type, std::int64_t rows, std::int64_t width, const void* x, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), rows, width, Swiglu<Cell>{static_cast<const Cell*>(x), width}, static_cast<Cell*>(y),
               false);
  });
}
void CudaDevice::swiglu_backward(Compute type, std::int64_t rows, std::int64_t width, const void* x,
                                 const void* dy, void* dx, bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), rows, 2 * width,
               SwigluSlope<Cell>{static_cast<const Cell*>(x), static_cast<const Cell*>(dy), width},
               static_cast<Cell*>(dx), accumulate);
  });
}

void CudaDevice::tanh_forward(Compute type, std::int64_t count, const void* x, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Tanh{}, static_cast<Cell*>(y), false, static_cast<const Cell*>(x));
  });
}
void CudaDevice::tanh_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                               bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, TanhSlope{}, static_cast<Cell*>(dx), accumulate, static_cast<const Cell*>(y),
        static_cast<const Cell*>(dy));
  });
}

void CudaDevice::rotary(const RotaryShape& shape, const float* angles, bool inverse, const void* x, void* y,
                        bool accumulate) {
  with_type(shape.type, [&]<class Cell>(Cell*) {
    const auto* in = static_cast<const Cell*>(x);
    map_matrix(stream(), shape.rows, shape.width(), Turn<Cell>{shape, angles, inverse ? -1.0F : 1.0F, in},
               static_cast<Cell*>(y), accumulate, in);
  });
}

void CudaDevice::dropout(Compute type, std::int64_t count, const Dropout& dropout, const void* x, void* y,
                         bool accumulate) {
  constexpr int kThreadsOfDrop = 128;
  const std::int64_t calls = groups_of(count) * kCalls;
  with_type(type, [&]<class Cell>(Cell*) {
    launch_apart(accumulate ? drop<true, Cell> : drop<false, Cell>,
                 (calls + kThreadsOfDrop - 1) / kThreadsOfDrop, kThreadsOfDrop, stream(), count, dropout,
                 static_cast<const Cell*>(x), static_cast<Cell*>(y));
  });
}

void CudaDevice::embedding_forward(Compute type, std::int64_t width, std::int64_t length, std::int64_t first,
                                   std::int64_t rows, const float* tokens, const float* positions, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), rows, width, AddPosition{positions, width, length, first}, static_cast<Cell*>(y),
               false, tokens);
  });
}
void CudaDevice::sum_rows(Compute type, std::int64_t width, const void* x, const RowGroups& groups,
                          std::int64_t begin, std::int64_t end, float* out) {
  constexpr int kThreadsOfSum = 128;
  fill_with_zeros(out, (end - begin) * static_cast<std::int64_t>(sizeof(float)));
  with_type(type, [&]<class Cell>(Cell*) {
    launch_apart(sum_groups<Cell>, groups.count * ((width + kThreadsOfSum - 1) / kThreadsOfSum),
                 kThreadsOfSum, stream(), width, static_cast<const Cell*>(x), groups, begin, end, out);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
