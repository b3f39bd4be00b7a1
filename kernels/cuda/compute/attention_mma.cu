// Attention on tensor cores, forward: a block has a tile of queries and goes over the keys that they see.
#include <cmath>

#include "kernels/cuda/compute/attention_mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// The softmax of a thread's two rows so far; each thread sums its own columns.
struct OnlineSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};  // of scores; of exp(scale * (score - maximum))

  // Scores become exp(scale * (score - maximum)); `scale` is in bits. Returns what is to be multiplied with
  // the results so far.
  template <int kCount>
  LPMM_DEVICE float take(int i, float scale, Sums (&scores)[kCount]) {
    float most = maximum[i];
    LPMM_UNROLL
    for (int n = 0; n < kCount; ++n) most = fmaxf(most, fmaxf(scores[n].v[2 * i], scores[n].v[2 * i + 1]));
    most = quad_maximum(most);
    const float shift = scale * most;
    float part = 0;
    LPMM_UNROLL
    for (int n = 0; n < kCount; ++n) {
      LPMM_UNROLL
      for (int e = 2 * i; e < 2 * i + 2; ++e) {
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
__global__ void __launch_bounds__(T::kThreads, T::kWidth > 64 ? 2
                                               : T::kDrops    ? 3
                                                              : 4) attend_mma(Attention a) {
  auto* const own = static_cast<Bf16*>(dynamic_shared());
  Bf16* const stages = own + T::kOwnCells;  // keys and values of each of two
  const AttentionShape& s = a.shape;
  const auto block = MmaBlock<T>::mine(s.batch * s.heads, s.length, s.is_causal);
  const HeadOf head = HeadOf::item(s, block.item);
  HeadRows keys, values;
  a.others(head, &keys, &values);
  const int first = static_cast<int>(block.first), past = static_cast<int>(a.past),
            all = static_cast<int>(s.is_causal ? keys.rows : head.seen(s));
  const int end = s.is_causal && past + first + T::kOwn < all ? past + first + T::kOwn : all;
  const SeenKeys<T> seen(s.is_causal, past + first, all);
  const DropRow drop{a.drop, s.key_rows()};
  const float scale = a.scale * kLog2E;
  begin_tile<T, T::kOwn>(head.queries(s, a.q), block.first, own);
  begin_tile<T, T::kOthers>(keys, 0, stages);
  begin_tile<T, T::kOthers>(values, 0, stages + T::kOtherCells);
  wait_for_copies();
  __syncthreads();
  const OwnRows<T> queries(own);
  OnlineSoftmax softmax;
  typename T::Results results = {};
  int stage = 0;
  for (int column = 0; column < end; column += T::kOthers) {
    Bf16* const now = stages + stage * 2 * T::kOtherCells;
    stage ^= 1;
    if (column + T::kOthers < end) {
      Bf16* const next = stages + stage * 2 * T::kOtherCells;
      begin_tile<T, T::kOthers>(keys, column + T::kOthers, next);
      begin_tile<T, T::kOthers>(values, column + T::kOthers, next + T::kOtherCells);
    }
    if (first + T::warp_row() < s.length) {
      typename T::Scores scores;
      multiply_mma<T>(queries, now, scores);
      seen.mask(column, scores);
      LPMM_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float correction = softmax.take(i, scale, scores);
        LPMM_UNROLL
        for (int n = 0; n < T::kWidth / 8; ++n) {
          results[n].v[2 * i] *= correction;
          results[n].v[2 * i + 1] *= correction;
        }
      }
      if constexpr (T::kDrops) {
        drop_scores<T>(drop, block.item * s.length + block.first + T::row(0), column, scores);
      }
      accumulate_mma<T>(scores, now + T::kOtherCells, results);
    }
    wait_for_copies();
    __syncthreads();
  }
  float factors[2];
  LPMM_UNROLL
  for (int i = 0; i < 2; ++i) {
    const float sum = quad_sum(softmax.sum[i]);
    factors[i] = 1.0F / sum;
    const std::int64_t row = block.first + T::row(i);
    if (a.log_sums == nullptr || lane_of_mma() % 4 != 0 || row >= s.length) continue;
    a.log_sums[block.item * s.length + row] = a.scale * softmax.maximum[i] + std::log(sum);
  }
  store_mma<T>(results, factors, head.results(s, a.y), block.first, a.y, false);
}

}  // namespace

void attend_on_tensor_cores(const Attention& a, Stream stream) {
  with_mma_tile<64, 64>(a.shape.head_width, a.drop, [&]<class T>(T) {
    const std::int64_t items = std::int64_t{1} * a.shape.batch * a.shape.heads;
    launch(attend_mma<T>, MmaBlock<T>::count(items, a.shape.length), T::kThreads,
           2 * (T::kOwnCells + 4 * T::kOtherCells), stream, a);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
