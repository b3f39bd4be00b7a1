// Element loops, the bias of a projection, dropout, and the rows of embeddings.
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
struct Relu {
  LPMM_HD float operator()(float x) const { return relu_of(x); }
};
struct Gate {
  LPMM_HD float operator()(float y, float dy) const { return gated(y, dy); }
};
struct AddBias {
  const float* bias;
  bool relu;
  LPMM_HD float operator()(const Place& at, float x) const {
    const float v = x + bias[at.column];
    return relu ? relu_of(v) : v;
  }
};
struct AddPosition {
  const float* positions;
  std::int64_t width, length, first;
  LPMM_HD float operator()(const Place& at, float token) const {
    return token + positions[(first + at.row) % length * width + at.column];
  }
};

// sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)); exp() may overflow, to a sigmoid of 0.
constexpr float kGeluScale = 2 * 0.7978845608028654F, kGeluCube = 0.044715F;
LPMM_HD float sigmoid_of_cubic(float x) {
  const float cubic = x + kGeluCube * (x * x * x);
  return 1.0F / (1.0F + std::exp(-kGeluScale * cubic));
}
struct Gelu {
  LPMM_HD float operator()(float x) const { return x * sigmoid_of_cubic(x); }
};
struct GeluSlope {
  LPMM_HD float operator()(float far, float dy) const {
    const float x = far > 30.0F ? 30.0F : far < -30.0F ? -30.0F : far;  // the slope is 1 or 0 there
    const float s = sigmoid_of_cubic(x), inner = kGeluScale * (1.0F + 3 * kGeluCube * (x * x));
    return dy * (s + x * s * (1.0F - s) * inner);
  }
};

constexpr std::int64_t kBiasRows = 512;  // of a shard

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
};

// A thread takes the eight elements whose draws one call of the generator makes.
constexpr int kCallElements = 8, kCalls = static_cast<int>(kGroup) / kCallElements;
template <bool kAdds, class Cell>
__global__ void drop(std::int64_t count, Dropout drop, const Cell* x, Cell* y) {
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

void CudaDevice::bias_forward(Compute type, std::int64_t rows, std::int64_t columns, const float* x,
                              const float* bias, bool relu, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), rows, columns, AddBias{bias, relu}, static_cast<Cell*>(y), false, x);
  });
}
const void* CudaDevice::bias_backward(Compute type, std::int64_t rows, std::int64_t columns, const void* y,
                                      const void* dy, bool relu, void* g, float* bias_gradient) {
  with_type(type, [&]<class Cell>(Cell*) {
    const BiasTerms<Cell> terms{columns, static_cast<const Cell*>(y), static_cast<const Cell*>(dy),
                                static_cast<Cell*>(relu ? g : nullptr)};
    const std::int64_t shards = (rows + kBiasRows - 1) / kBiasRows;
    const StreamMemory room(4 * shards * columns, stream());
    auto* const sums = static_cast<float*>(room.data());
    sum_columns<1, float>(stream(), rows, columns, kBiasRows, terms, StoreSums<1, float>{columns, sums});
    sum_columns<1, float>(stream(), shards, columns, shards, ShardTerms<1, float>{columns, sums},
                          StoreSums<1, float>{columns, bias_gradient});
  });
  return relu ? g : dy;
}

void CudaDevice::gelu_forward(Compute type, std::int64_t count, const void* x, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Gelu{}, static_cast<Cell*>(y), false, static_cast<const Cell*>(x));
  });
}
void CudaDevice::gelu_backward(Compute type, std::int64_t count, const void* x, const void* dy, void* dx,
                               bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, GeluSlope{}, static_cast<Cell*>(dx), accumulate, static_cast<const Cell*>(x),
        static_cast<const Cell*>(dy));
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
