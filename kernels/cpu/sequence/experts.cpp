// Which experts a row chooses, and rows on their way to experts and back.
#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/cpu/sequence/sequence_loops.h"

namespace lpmm::kernels {
namespace {

// Rows that a shard of `width` values each has.
std::int64_t rows_together(std::int64_t width) {
  return std::max<std::int64_t>(1, kShard / width);
}

// The most probable experts of one row. A probability that is not a number is less than any other.
void choose_row(const ChoiceShape& s, const float* probabilities, std::int32_t* experts) {
  const auto value = [&](int e) { return probabilities[e] >= 0 ? probabilities[e] : -1.0F; };
  float last = 2;
  std::int32_t before = -1;
  for (int j = 0; j < s.chosen; ++j) {
    float most = -2;
    std::int32_t best = -1;
    for (int e = 0; e < s.experts; ++e) {
      const float v = value(e);
      const bool is_left = v < last || (v == last && e > before);
      if (!is_left || v <= most) continue;
      most = v;
      best = e;
    }
    experts[j] = before = best;
    last = most;
  }
}

}  // namespace

void CpuDevice::choose(const ChoiceArgs& args) {
  const ChoiceShape& s = args.shape;
  for_shards(pool(), s.rows, rows_together(s.experts), [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t r = first; r < first + n; ++r) {
      float* const p = args.choices.probabilities + r * s.experts;
      loops::elements().to_float(args.type, {.columns = s.experts},
                                 bytes_at(args.logits, r * s.experts * value_bytes(args.type)), p);
      const float most = *std::max_element(p, p + s.experts);
      float sum = 0;
      for (int e = 0; e < s.experts; ++e) sum += p[e] = std::exp(p[e] - most);
      for (int e = 0; e < s.experts; ++e) p[e] /= sum;
      choose_row(s, p, args.choices.experts + r * s.chosen);
    }
  });
}

void CpuDevice::choose_backward(const ChoiceArgs& args) {
  const ChoiceShape& s = args.shape;
  for_shards(pool(), s.rows, rows_together(s.experts), [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t r = first; r < first + n; ++r) {
      const float* const p = args.choices.probabilities + r * s.experts;
      const float* const g = args.probability_gradient + r * s.experts;
      const float mean = loops::sequences().dot(s.experts, p, g);
      for (int e = 0; e < s.experts; ++e) {
        const std::int64_t at = r * s.experts + e;
        const float v = p[e] * (g[e] - mean);
        put(args.type, args.logit_gradient, at,
            args.accumulate ? v + get(args.type, args.logit_gradient, at) : v);
      }
    }
  });
}

void CpuDevice::order_choices(const ChoiceArgs& args) {
  const ChoiceShape& s = args.shape;
  const ChoiceOrder& order = args.order;
  std::fill_n(order.first, s.experts + 1, 0);
  for (std::int64_t i = 0; i < s.choices(); ++i) ++order.first[args.choices.experts[i] + 1];
  for (int e = 0; e < s.experts; ++e) order.first[e + 1] += order.first[e];
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const float* const p = args.choices.probabilities + r * s.experts;
    const std::int32_t* const chosen = args.choices.experts + r * s.chosen;
    const float sum = args.weight_sum(r);
    for (int j = 0; j < s.chosen; ++j) {
      const std::int64_t place = order.first[chosen[j]]++;
      order.weights[place] = p[chosen[j]] / sum;
      order.rows[place] = static_cast<std::int32_t>(r);
      order.places[r * s.chosen + j] = static_cast<std::int32_t>(place);
    }
  }
  std::copy_backward(order.first, order.first + s.experts, order.first + s.experts + 1);
  order.first[0] = 0;
}

void CpuDevice::order_choices_backward(const ChoiceArgs& args) {
  const ChoiceShape& s = args.shape;
  for_shards(pool(), s.rows, rows_together(s.experts), [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t r = first; r < first + n; ++r) {
      if (!args.accumulate) std::fill_n(args.probability_gradient + r * s.experts, s.experts, 0.0F);
      args.add_row_gradient(r);
    }
  });
}

void CpuDevice::take_rows(const TakeRowsArgs& args) {
  const std::int64_t bytes = args.width * value_bytes(args.type);
  for_shards(pool(), args.padded, rows_together(args.width), [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t i = first; i < first + n; ++i) {
      std::byte* const to = bytes_at(args.y, i * bytes);
      if (i < args.count) {
        std::memcpy(to, bytes_at(args.x, args.rows[i] * bytes), static_cast<std::size_t>(bytes));
      } else {
        std::memset(to, 0, static_cast<std::size_t>(bytes));
      }
    }
  });
}

void CpuDevice::add_rows(const AddRowsArgs& args) {
  for_shards(pool(), args.count, rows_together(args.width), [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t i = first; i < first + n; ++i) {
      loops::elements().add_row(ValueType::kFp32, args.width, args.x + i * args.width,
                                args.y + args.rows[i] * args.width);
    }
  });
}

void CpuDevice::weigh_rows(const WeighRowsArgs& args) {
  constexpr std::int64_t kPiece = 2048;
  const std::int64_t bytes = value_bytes(args.type);
  for_shards(pool(), args.count, rows_together(args.width), [&](std::int64_t first, std::int64_t n) {
    alignas(64) float values[kPiece], others[kPiece];
    for (std::int64_t i = first; i < first + n; ++i) {
      float dot = 0;
      for (std::int64_t c = 0; c < args.width; c += kPiece) {
        const std::int64_t count = std::min(kPiece, args.width - c), at = (i * args.width + c) * bytes;
        loops::elements().to_float(args.type, {.columns = count}, bytes_at(args.x, at), values);
        if (args.dots != nullptr) {
          loops::elements().to_float(args.type, {.columns = count}, bytes_at(args.other, at), others);
          dot += loops::sequences().dot(count, values, others);
        }
        loops::sequences().scale(count, args.weights[i], values);
        loops::elements().from_float(args.type, {.columns = count}, values, bytes_at(args.x, at));
      }
      if (args.dots != nullptr) args.dots[i] = dot;
    }
  });
}

void CpuDevice::balance_sums(const BalanceArgs& args) {
  const ChoiceShape& s = args.shape;
  for (std::int64_t i = 0; i < s.choices(); ++i) args.sums[args.choices.experts[i]] += 1;
  pool().for_each(s.experts, [&](std::int64_t e, int) {
    double sum = 0;
    for (std::int64_t r = 0; r < s.rows; ++r) sum += args.choices.probabilities[r * s.experts + e];
    args.sums[s.experts + e] += sum;
  });
}

void CpuDevice::balance_loss(const BalanceArgs& args) {
  double sum = 0;
  for (int e = 0; e < args.shape.experts; ++e)
    sum += args.slope(args.sums[e]) * args.sums[args.shape.experts + e];
  args.result->sum += sum;
}

void CpuDevice::balance_backward(const BalanceArgs& args) {
  const ChoiceShape& s = args.shape;
  for_shards(pool(), s.rows, rows_together(s.experts), [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t r = first; r < first + n; ++r) {
      float* const g = args.probability_gradient + r * s.experts;
      for (int e = 0; e < s.experts; ++e) {
        const auto slope = static_cast<float>(args.slope(args.sums[e]));
        g[e] = args.accumulate ? g[e] + slope : slope;
      }
    }
  });
}

}  // namespace lpmm::kernels
