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

void CpuDevice::row_norm_forward(const RowNormShape& s, const RowNormForward& args) {
  for_shards(pool(), s.rows, rows_a_shard(s), [&](std::int64_t first, std::int64_t n) {
    RowNormShape shape = s;
    shape.rows = n;
    RowNormForward part = args;
    advance(s.at(first) * value_bytes(s.type), part.x, part.y);
    advance(4 * first, part.mean, part.inverse_deviation);
    loops::sequences().row_norm_forward(shape, part);
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
    RowNormBackward part = args;
    advance(s.at(first) * value_bytes(s.type), part.x, part.dy, part.dx);
    advance(4 * first, part.mean, part.inverse_deviation);
    part.weight_gradient = partials + first / rows * gradients;
    if (s.is_centred) part.bias_gradient = part.weight_gradient + s.width;
    std::fill_n(part.weight_gradient, gradients, 0.0F);
    loops::sequences().row_norm_backward(shape, part);
  });
  sum_tree(pool(), shards(s), gradients, partials);
  std::copy_n(partials, s.width, args.weight_gradient);
  if (s.is_centred) std::copy_n(partials + s.width, s.width, args.bias_gradient);
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
        const float weight = s.weight(t);
        for (std::int64_t c = 0; c < n; ++c) sums[c] += weight * get(s.type, x, at + c);
      }
      for (std::int64_t c = 0; c < n; ++c) put(s.type, y, i * s.width + first + c, sums[c] / s.weights(i));
    }
  });
}
void CpuDevice::mean_backward(const MeanShape& s, const void* dy, void* dx, bool accumulate) {
  pool().for_each(s.batch, [&](std::int64_t i, int) {
    const std::int64_t count = s.count(i);
    for (std::int64_t t = 0; t < s.length; ++t) {
      const float weight = s.weight(t);
      for (std::int64_t c = 0; c < s.width; ++c) {
        const std::int64_t at = (i * s.length + t) * s.width + c;
        const float v = t < count ? weight * get(s.type, dy, i * s.width + c) / s.weights(i) : 0.0F;
        put(s.type, dx, at, accumulate ? v + get(s.type, dx, at) : v);
      }
    }
  });
}

// ---- rotary positions ------------------------------------------------------------------------------------
void CpuDevice::rotary(const RotaryArgs& args) {
  const RotaryShape& s = args.shape;
  for_shards(pool(), s.rows, rows_a_shard(s.width()), [&](std::int64_t first, std::int64_t n) {
    RotaryArgs part = args;
    part.shape.rows = n;
    advance(first * s.width() * value_bytes(s.type), part.x, part.y);
    loops::activations().rotary(part, first);
  });
}

// ---- dropout ---------------------------------------------------------------------------------------------
void CpuDevice::dropout(const DropoutArgs& args) {
  constexpr std::int64_t kPiece = 4096;
  const ValueType type = args.of.type;
  for_shards(pool(), args.of.count, kPiece, [&](std::int64_t first, std::int64_t n) {
    const std::int64_t at = first * value_bytes(type);
    alignas(64) std::uint32_t words[kPiece / 2];
    alignas(64) float values[kPiece];
    tile_kernels().draw(args.drop.noise, first / kGroup, groups_of(n), words);
    loops::elements().to_float(type, {.columns = n}, bytes_at(args.x, at), values);
    loops::sequences().drop(n, args.drop, words, values);
    loops::elements().from_float(type, {.columns = n, .accumulate = args.accumulate}, values,
                                 bytes_at(args.y, at));
  });
}

// ---- embedding -------------------------------------------------------------------------------------------
void CpuDevice::embedding_forward(const EmbeddingArgs& args) {
  const std::int64_t width = args.width;
  pool().for_each(args.rows, [&](std::int64_t i, int) {
    const std::int64_t row = args.first + i,
                       place = args.places == nullptr ? row % args.length : args.places[row];
    // One row of positions is the bias of one row.
    loops::elements().add_bias(args.type, {.columns = width}, args.tokens + i * width,
                               args.positions + place * width,
                               bytes_at(args.y, i * width * value_bytes(args.type)));
  });
}

void CpuDevice::sum_rows(const SumRowsArgs& args) {
  const RowGroups& groups = args.groups;
  std::fill_n(args.out, args.end - args.begin, 0.0F);
  pool().for_each(groups.count, [&](std::int64_t i, int) {
    const std::int64_t row = groups.targets[i] * args.width;
    const std::int64_t from = std::max(row, args.begin), to = std::min(row + args.width, args.end);
    for (std::int64_t j = groups.first[i]; from < to && j < groups.first[i + 1]; ++j) {
      const std::int64_t at = groups.rows[j] * args.width + from - row;
      loops::elements().add_row(args.type, to - from, bytes_at(args.x, at * value_bytes(args.type)),
                                args.out + (from - args.begin));
    }
  });
}

// ---- loss ------------------------------------------------------------------------------------------------
void CpuDevice::softmax_scan(const SoftmaxArgs& args) {
  for_shards(pool(), args.shape.rows, rows_a_shard(args.columns), [&](std::int64_t row, std::int64_t n) {
    for (std::int64_t r = row; r < row + n; ++r) {
      SoftmaxRow& state = args.state[r];
      if (args.first == 0) state = {};
      const float* values = args.logits + r * args.columns;
      loops::sequences().softmax_scan(args.first, args.columns, values, args.labels[r], &state);
      if (args.shape.smoothing > 0) {
        state.total += static_cast<double>(loops::sequences().sum(args.columns, values));
      }
    }
  });
}

void CpuDevice::softmax_finish(const SoftmaxArgs& args) {
  const LossShape& s = args.shape;
  *args.result = {};
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const SoftmaxRow& state = args.state[r];
    const double log_sum = state.maximum + std::log(state.sum);
    args.log_sums[r] = static_cast<float>(log_sum);
    if (args.labels[r] < 0) continue;
    args.result->sum +=
        s.smoothing > 0 ? log_sum - (1 - s.smoothing) * state.target - s.smoothing * (state.total / s.classes)
                        : log_sum - state.target;
    args.result->correct += state.best == args.labels[r] ? 1 : 0;
  }
}

void CpuDevice::softmax_gradient(const SoftmaxArgs& args) {
  const LossShape& s = args.shape;
  const std::int64_t columns = args.columns;
  const float spread = args.scale * static_cast<float>(s.smoothing / s.classes),
              wanted = s.smoothing > 0 ? args.scale * static_cast<float>(1 - s.smoothing) : args.scale;
  for_shards(pool(), s.rows, rows_a_shard(columns), [&](std::int64_t row, std::int64_t n) {
    for (std::int64_t r = row; r < row + n; ++r) {
      float* values = args.logits + r * columns;
      const std::int64_t label = args.labels[r];
      if (label < 0) {
        std::fill_n(values, columns, 0.0F);
      } else {
        loops::sequences().softmax_gradient(columns, args.scale, args.log_sums[r], spread, values);
        if (label >= args.first && label < args.first + columns) values[label - args.first] -= wanted;
        for (std::int64_t c = 0; c < columns && args.factors != nullptr; ++c) values[c] *= args.factors[r];
      }
      if (args.gradient == args.logits) continue;
      loops::elements().from_float(args.type, {.columns = columns}, values,
                                   bytes_at(args.gradient, r * columns * value_bytes(args.type)));
    }
  });
}

void CpuDevice::preference_loss(const PreferenceArgs& args) {
  *args.result = {};
  const auto log_probability = [&](std::int64_t begin, std::int64_t end) {
    AnswerSum sum;
    for (std::int64_t r = begin; r < end; ++r) sum.add(args.labels[r], args.state[r]);
    return sum;
  };
  for (std::int64_t i = 0; i < args.count; ++i) {
    const PreferencePair& pair = args.pairs[i];
    const PreferenceTerms terms(args, pair.reference, log_probability(pair.chosen, pair.chosen_end),
                                log_probability(pair.rejected, pair.rejected_end));
    std::fill(args.factors + pair.chosen, args.factors + pair.chosen_end, terms.chosen);
    std::fill(args.factors + pair.rejected, args.factors + pair.rejected_end, terms.rejected);
    if (args.differences != nullptr) args.differences[i] = terms.difference;
    args.result->sum += terms.loss;
    args.result->correct += terms.margin > 0 ? 1 : 0;
    args.result->margin += terms.margin;
  }
}

}  // namespace lpmm::kernels
