// Cuts the work of kernels/sequence.h into shards that depend on shapes only.
#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/cpu/sequence/activation_loops.h"
#include "kernels/cpu/sequence/sequence_loops.h"
#include "kernels/cpu/tile.h"

namespace lpmm::kernels {

// ---- norms of rows ---------------------------------------------------------------------------------------
namespace {

std::int64_t rows_a_shard(std::int64_t width) {
  return std::max<std::int64_t>(1, kShard / width);
}
// Whole positions, whose first row is where its offset says.
std::int64_t rows_a_shard(const RowNormShape& s) {
  return (rows_a_shard(s.width) + s.beside - 1) / s.beside * s.beside;
}
std::int64_t shards(const RowNormShape& s) {
  return (s.rows + rows_a_shard(s) - 1) / rows_a_shard(s);
}
// Tensors that have a gradient: the weight, and a bias.
std::int64_t parts_of(const RowNormShape& s) {
  return s.is_centred ? 2 : 1;
}

}  // namespace

void CpuDevice::row_norm_forward(const RowNormShape& s, const void* x, const float* weight, const float* bias,
                                 void* y, float* mean, float* inverse_deviation) {
  for_shards(pool(), s.rows, rows_a_shard(s), [&](std::int64_t first, std::int64_t n) {
    RowNormShape part = s;
    part.rows = n;
    const std::int64_t offset = s.at(first) * value_bytes(s.type);
    loops::row_norm_forward(part, bytes_at(x, offset), weight, bias, bytes_at(y, offset),
                            s.is_centred ? mean + first : nullptr, inverse_deviation + first);
  });
}

// Partial gradients of weight and bias of each shard.
std::int64_t CpuDevice::row_norm_scratch_bytes(const RowNormShape& s) const {
  return aligned(4 * parts_of(s) * shards(s) * s.width);
}

void CpuDevice::row_norm_backward(const RowNormShape& s, const RowNormBackward& args, void* scratch) {
  auto* partials = static_cast<float*>(scratch);  // [shard][weight, bias][width]
  const std::int64_t rows = rows_a_shard(s);
  const std::int64_t gradients = parts_of(s) * s.width;
  for_shards(pool(), s.rows, rows, [&](std::int64_t first, std::int64_t n) {
    RowNormShape shape = s;
    shape.rows = n;
    const std::int64_t offset = s.at(first) * value_bytes(s.type);
    RowNormBackward part = args;
    part.x = bytes_at(args.x, offset);
    part.dy = bytes_at(args.dy, offset);
    part.dx = bytes_at(args.dx, offset);
    if (s.is_centred) part.mean += first;
    part.inverse_deviation += first;
    part.weight_gradient = partials + first / rows * gradients;
    if (s.is_centred) part.bias_gradient = part.weight_gradient + s.width;
    std::fill_n(part.weight_gradient, gradients, 0.0F);
    loops::row_norm_backward(shape, part);
  });
  sum_tree(pool(), shards(s), gradients, partials);
  std::copy_n(partials, s.width, args.weight_gradient);
  if (s.is_centred) std::copy_n(partials + s.width, s.width, args.bias_gradient);
}

// ---- activations -----------------------------------------------------------------------------------------
void CpuDevice::gelu_forward(Compute type, GeluForm form, std::int64_t count, const void* x, void* y) {
  for_values(pool(), type, count,
             [&](std::int64_t n, const auto& at) { loops::gelu_forward(type, form, n, at(x), at(y)); });
}
void CpuDevice::gelu_backward(Compute type, GeluForm form, std::int64_t count, const void* x, const void* dy,
                              void* dx, bool accumulate) {
  for_values(pool(), type, count, [&](std::int64_t n, const auto& at) {
    loops::gelu_backward(type, form, n, at(x), at(dy), at(dx), accumulate);
  });
}
void CpuDevice::swiglu_forward(Compute type, std::int64_t rows, std::int64_t width, const void* x, void* y) {
  const std::int64_t b = width * value_bytes(type);
  for_shards(pool(), rows, rows_a_shard(width), [&](std::int64_t first, std::int64_t n) {
    loops::swiglu_forward(type, n, width, bytes_at(x, first * 2 * b), bytes_at(y, first * b));
  });
}
void CpuDevice::swiglu_backward(Compute type, std::int64_t rows, std::int64_t width, const void* x,
                                const void* dy, void* dx, bool accumulate) {
  const std::int64_t b = width * value_bytes(type);
  for_shards(pool(), rows, rows_a_shard(width), [&](std::int64_t first, std::int64_t n) {
    loops::swiglu_backward(type, n, width, bytes_at(x, first * 2 * b), bytes_at(dy, first * b),
                           bytes_at(dx, first * 2 * b), accumulate);
  });
}

void CpuDevice::tanh_forward(Compute type, std::int64_t count, const void* x, void* y) {
  for_values(pool(), type, count,
             [&](std::int64_t n, const auto& at) { loops::tanh_forward(type, n, at(x), at(y)); });
}
void CpuDevice::tanh_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                              bool accumulate) {
  for_values(pool(), type, count, [&](std::int64_t n, const auto& at) {
    loops::tanh_backward(type, n, at(y), at(dy), at(dx), accumulate);
  });
}

// ---- means of sequences ----------------------------------------------------------------------------------
void CpuDevice::mean_forward(const MeanShape& s, const void* x, void* y) {
  pool().for_each(s.batch, [&](std::int64_t i, int) {
    const std::int64_t count = s.count(i);
    constexpr std::int64_t kTogether = 64;  // channels: positions lie a row apart
    for (std::int64_t first = 0; first < s.width; first += kTogether) {
      const std::int64_t n = std::min(kTogether, s.width - first);
      float sums[kTogether] = {};
      for (std::int64_t t = 0; t < count; ++t) {
        const std::int64_t at = (i * s.length + t) * s.width + first;
        for (std::int64_t c = 0; c < n; ++c) sums[c] += get(s.type, x, at + c);
      }
      for (std::int64_t c = 0; c < n; ++c) {
        put(s.type, y, i * s.width + first + c, sums[c] / static_cast<float>(count));
      }
    }
  });
}
void CpuDevice::mean_backward(const MeanShape& s, const void* dy, void* dx, bool accumulate) {
  pool().for_each(s.batch, [&](std::int64_t i, int) {
    const std::int64_t count = s.count(i);
    for (std::int64_t t = 0; t < s.length; ++t) {
      for (std::int64_t c = 0; c < s.width; ++c) {
        const std::int64_t at = (i * s.length + t) * s.width + c;
        const float v = t < count ? get(s.type, dy, i * s.width + c) / static_cast<float>(count) : 0.0F;
        put(s.type, dx, at, accumulate ? v + get(s.type, dx, at) : v);
      }
    }
  });
}

// ---- rotary positions ------------------------------------------------------------------------------------
void CpuDevice::rotary(const RotaryShape& s, const float* angles, bool inverse, const void* x, void* y,
                       bool accumulate) {
  const std::int64_t b = s.width() * value_bytes(s.type);
  for_shards(pool(), s.rows, rows_a_shard(s.width()), [&](std::int64_t first, std::int64_t n) {
    RotaryShape part = s;
    part.rows = n;
    loops::rotary(part, first, angles, inverse, bytes_at(x, first * b), bytes_at(y, first * b), accumulate);
  });
}

// ---- dropout ---------------------------------------------------------------------------------------------
void CpuDevice::dropout(Compute type, std::int64_t count, const Dropout& drop, const void* x, void* y,
                        bool accumulate) {
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t b = value_bytes(type);
  for_shards(pool(), count, kPiece, [&](std::int64_t first, std::int64_t n) {
    alignas(64) std::uint32_t words[kPiece / 2];
    alignas(64) float values[kPiece];
    tile_kernels().draw(drop.noise, first / kGroup, groups_of(n), words);
    loops::to_float(type, n, bytes_at(x, first * b), values);
    loops::drop(n, drop, words, values);
    loops::from_float(type, n, values, bytes_at(y, first * b), accumulate);
  });
}

// ---- embedding -------------------------------------------------------------------------------------------
void CpuDevice::embedding_forward(Compute type, std::int64_t width, std::int64_t length, std::int64_t first,
                                  std::int64_t rows, const float* tokens, const float* positions, void* y) {
  pool().for_each(rows, [&](std::int64_t i, int) {
    void* out = bytes_at(y, i * width * value_bytes(type));
    // One row of positions is the bias of one row.
    loops::add_bias(type, {.columns = width}, tokens + i * width, positions + (first + i) % length * width,
                    out);
  });
}

void CpuDevice::sum_rows(Compute type, std::int64_t width, const void* x, const RowGroups& groups,
                         std::int64_t begin, std::int64_t end, float* out) {
  std::fill_n(out, end - begin, 0.0F);
  pool().for_each(groups.count, [&](std::int64_t i, int) {
    const std::int64_t row = groups.targets[i] * width;
    const std::int64_t from = std::max(row, begin), to = std::min(row + width, end);
    for (std::int64_t j = groups.first[i]; from < to && j < groups.first[i + 1]; ++j) {
      const std::int64_t at = groups.rows[j] * width + from - row;
      loops::add_row(type, to - from, bytes_at(x, at * value_bytes(type)), out + (from - begin));
    }
  });
}

// ---- loss ------------------------------------------------------------------------------------------------
void CpuDevice::softmax_scan(const LossShape& s, std::int64_t first, std::int64_t columns,
                             const float* logits, const std::int32_t* labels, SoftmaxRow* state) {
  for_shards(pool(), s.rows, rows_a_shard(columns), [&](std::int64_t row, std::int64_t n) {
    for (std::int64_t r = row; r < row + n; ++r) {
      if (first == 0) state[r] = {};
      const float* values = logits + r * columns;
      loops::softmax_scan(first, columns, values, labels[r], state + r);
      if (s.smoothing > 0) state[r].total += static_cast<double>(loops::sum(columns, values));
    }
  });
}

void CpuDevice::softmax_finish(const LossShape& s, const SoftmaxRow* state, const std::int32_t* labels,
                               float* log_sums, LossResult* result) {
  *result = {};
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const double log_sum = state[r].maximum + std::log(state[r].sum);
    log_sums[r] = static_cast<float>(log_sum);
    if (labels[r] < 0) continue;
    result->sum += s.smoothing > 0 ? log_sum - (1 - s.smoothing) * state[r].target -
                                         s.smoothing * (state[r].total / s.classes)
                                   : log_sum - state[r].target;
    result->correct += state[r].best == labels[r] ? 1 : 0;
  }
}

void CpuDevice::softmax_gradient(Compute type, const LossShape& s, std::int64_t first, std::int64_t columns,
                                 float scale, const float* log_sums, const std::int32_t* labels,
                                 float* logits, void* gradient) {
  const float spread = scale * static_cast<float>(s.smoothing / s.classes),
              wanted = s.smoothing > 0 ? scale * static_cast<float>(1 - s.smoothing) : scale;
  for_shards(pool(), s.rows, rows_a_shard(columns), [&](std::int64_t row, std::int64_t n) {
    for (std::int64_t r = row; r < row + n; ++r) {
      float* values = logits + r * columns;
      if (labels[r] < 0) {
        std::fill_n(values, columns, 0.0F);
      } else {
        loops::softmax_gradient(columns, scale, log_sums[r], spread, values);
        if (labels[r] >= first && labels[r] < first + columns) values[labels[r] - first] -= wanted;
      }
      if (gradient == logits) continue;
      loops::from_float(type, columns, values, bytes_at(gradient, r * columns * value_bytes(type)), false);
    }
  });
}

}  // namespace lpmm::kernels
