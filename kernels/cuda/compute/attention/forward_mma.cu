// Attention on tensor cores, forward: a block has a tile of queries and goes over the keys that they see.
#include <cmath>

#include "kernels/cuda/compute/attention/tile_mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// The softmax of a thread's rows so far; each thread sums its own columns.
template <class T>
struct OnlineSoftmax {
  float maximum[T::kRows], sum[T::kRows];  // of scores; of exp(scale * (score - maximum))

  LPMM_DEVICE OnlineSoftmax() {
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) {
      maximum[i] = -INFINITY;
      sum[i] = 0;
    }
  }

  // Scores become exp(scale * (score - maximum)); `scale` is in bits. Returns what is to be multiplied with
  // the results so far.
  LPMM_DEVICE float take(int i, float scale, Sums (&scores)[T::kOthers / 8]) {
    const int at = i % 2 * 2;
    float most = maximum[i];
    LPMM_UNROLL
    for (int n = 0; n < T::kOthers / 8; ++n) most = fmaxf(most, fmaxf(scores[n].v[at], scores[n].v[at + 1]));
    most = quad_maximum(most);
    const float shift = most == -INFINITY ? 0.0F : scale * most;  // of a row that sees none of these keys
    float part = 0;
    LPMM_UNROLL
    for (int n = 0; n < T::kOthers / 8; ++n) {
      LPMM_UNROLL
      for (int e = at; e < at + 2; ++e) {
        scores[n].v[e] = power_of_two(scale * scores[n].v[e] - shift);
        part += scores[n].v[e];
      }
    }
    const float correction = maximum[i] == most ? 1.0F : power_of_two(scale * (maximum[i] - most));
    maximum[i] = most;
    sum[i] = sum[i] * correction + part;
    return correction;
  }
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) attend_mma(Attention a) {
  begin_kernel();
  auto* const own = static_cast<Bf16*>(dynamic_shared());
  Bf16* const stages = own + T::kOwnCells;  // keys and values of each of two
  const AttentionShape& s = a.shape;
  const auto block = MmaBlock<T>::mine(s.batch * s.heads, s.length, s.is_causal);
  const HeadOf head = HeadOf::item(s, block.item);
  HeadRows keys, values;
  a.others(head, &keys, &values);
  const int first = static_cast<int>(block.first);
  Seen seen = s.seen(head.sequence, a.past);
  seen.past += first;  // its rows are the tile's
  const int begin = seen.first(0) / T::kOthers * T::kOthers, end = seen.end(T::kOwn - 1);
  const DropRow drop{a.drop, s.key_rows()};
  const float scale = a.scale * kLog2E;
  begin_tile<T, T::kOwn>(head.queries(s, a.q), first, own);
  begin_tile<T, T::kOthers>(keys, begin, stages, values.at - keys.at);
  wait_for_copies();
  __syncthreads();
  const OwnRows<T> queries(own);
  OnlineSoftmax<T> softmax;
  typename T::Results results = {};
  int stage = 0;
  for (int column = begin; column < end; column += T::kOthers) {
    Bf16* const now = stages + stage * 2 * T::kOtherCells;
    stage ^= 1;
    if (column + T::kOthers < end) {
      Bf16* const next = stages + stage * 2 * T::kOtherCells;
      begin_tile<T, T::kOthers>(keys, column + T::kOthers, next, values.at - keys.at);
    }
    if (first + T::warp_row() < s.length) {
      typename T::Scores scores;
      multiply_mma<T>(queries, now, scores);
      mask_scores<T>(seen, column, scores);
      LPMM_UNROLL
      for (int i = 0; i < T::kRows; ++i) {
        scale_row<T>(i, softmax.take(i, scale, scores[i / 2]), results);
      }
      if constexpr (T::kDrops) {
        drop_scores<T>(drop, block.item * s.length + block.first + T::row(0), column, scores);
      }
      accumulate_mma<T>(scores, now + T::kOtherCells, results);
    }
    wait_for_copies();
    __syncthreads();
  }
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    const float sum = quad_sum(softmax.sum[i]);
    scale_row<T>(i, 1.0F / sum, results);
    const std::int64_t row = block.first + T::row(i);
    if (a.log_sums == nullptr || lane_of_mma() % 4 != 0 || row >= s.length) continue;
    a.log_sums[block.item * s.length + row] = a.scale * softmax.maximum[i] + std::log(sum);
  }
  store_mma<T>(results, head.results(s, a.y), block.first, a.y, false);
}

}  // namespace

void attend_on_tensor_cores(const Attention& a, Stream stream) {
  with_mma_width(a.shape.head_width, a.drop, [&](auto width, auto drops) {
    using T = MmaTile<width(), 64, 1, 3, drops()>;
    const std::int64_t items = std::int64_t{1} * a.shape.batch * a.shape.heads;
    launch(attend_mma<T>, MmaBlock<T>::count(items, a.shape.length), T::kThreads,
           2 * (T::kOwnCells + 4 * T::kOtherCells), stream, a);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
