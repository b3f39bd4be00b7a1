// Attention, forward: a block has a tile of queries and goes over the keys that they see.
#include <cmath>

#include "kernels/cuda/compute/attention/tile.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// Takes the scores of one row into its maximum and sum; they become exp(score - maximum), 0 where not seen.
// Returns what is to be multiplied with the results so far.
template <class T>
__device__ float take_scores(std::int64_t visible, float (&scores)[T::kColumns], float& maximum, float& sum) {
  float most = maximum, part = 0;
  LPMM_UNROLL
  for (int j = 0; j < T::kColumns; ++j) {
    if (T::other(j) < visible && scores[j] > most) most = scores[j];
  }
  most = row_maximum(most);
  const float correction = maximum == most ? 1.0F : std::exp(maximum - most);
  LPMM_UNROLL
  for (int j = 0; j < T::kColumns; ++j) {
    scores[j] = T::other(j) < visible ? std::exp(scores[j] - most) : 0.0F;
    part += scores[j];
  }
  maximum = most;
  sum = sum * correction + row_sum(part);
  return correction;
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) attend(Attention a) {
  begin_kernel();
  auto* const q = static_cast<float*>(dynamic_shared());
  float *const others = q + T::kFloats, *const probabilities = others + T::kFloats;
  const AttentionShape& s = a.shape;
  const TileOfBlock tile = TileOfBlock::mine<T>(s.length);
  const HeadOf head = HeadOf::item(s, tile.item);
  HeadRows keys, values;
  a.others(head, &keys, &values);
  const DropRow drop{a.drop, s.key_rows()};
  load_tile<T>(head.queries(s, a.q), tile.first, a.scale, q);
  float maximum[T::kRows], sum[T::kRows];
  typename T::Results results = {};
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    maximum[i] = -INFINITY;
    sum[i] = 0;
  }
  const std::int64_t seen = head.seen(s), end = s.is_causal ? tile.first + T::kSide + a.past : seen;
  for (std::int64_t column = 0; column < end && column < keys.rows; column += T::kSide) {
    __syncthreads();
    load_tile<T>(keys, column, 1.0F, others);
    __syncthreads();
    typename T::Scores scores;
    multiply<T>(q, others, scores);
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) {
      const std::int64_t row = tile.first + T::row(i);
      const std::int64_t visible = (s.is_causal ? a.past + row + 1 : seen) - column;
      const float correction = take_scores<T>(visible, scores[i], maximum[i], sum[i]);
      LPMM_UNROLL
      for (int k = 0; k < T::kValues; ++k) results[i][k] *= correction;
      if (a.drop.threshold == 0) continue;
      const PhiloxWords words = drop.words(tile.item * s.length + row, column + T::across());
      LPMM_UNROLL
      for (int j = 0; j < T::kColumns; ++j) scores[i][j] *= drop.factor(words, column + T::other(j));
    }
    store_scores<T>(scores, probabilities);
    __syncthreads();
    load_tile<T>(values, column, 1.0F, others);
    __syncthreads();
    accumulate<T>(probabilities, others, results);
  }
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    const std::int64_t row = tile.first + T::row(i);
    LPMM_UNROLL
    for (int k = 0; k < T::kValues; ++k) results[i][k] *= 1.0F / sum[i];
    if (a.log_sums == nullptr || T::across() != 0 || row >= s.length) continue;
    a.log_sums[tile.item * s.length + row] = maximum[i] + std::log(sum[i]);
  }
  store_results<T>(results, head.results(s, a.y), tile.first, a.y, false);
}

void run(const Attention& a, bool tensor_cores, Stream stream) {
  if (tensor_cores && is_for_tensor_cores(a.shape, {a.q, a.kv, a.cache, a.y}))
    return attend_on_tensor_cores(a, stream);
  with_tile(a.shape.head_width, [&]<class T>(T) {
    launch(attend<T>, tile_blocks<T>(a.shape, a.shape.heads, a.shape.length), T::kThreads,
           4 * (2 * T::kFloats + T::kScores), stream, a);
  });
}

// Keys and values of new positions, which lie together behind the queries.
template <class Cell>
struct NewKeys {
  const Cell* qkv;
  std::int64_t row_width, width;
  LPMM_HD float operator()(const Place& at) const {
    return load(qkv + at.row * row_width + width + at.column);
  }
};

}  // namespace

void CudaDevice::attention_forward(const AttentionShape& s, const void* q, const void* kv,
                                   const Dropout& drop, void* y, float* log_sums, void*) {
  run({s, 0, q, s.is_self() ? q : kv, nullptr, 0, drop, score_scale(s), y, log_sums}, has_tensor_cores_,
      stream());
}

void CudaDevice::attention_cached(const AttentionShape& s, std::int64_t past, const void* qkv, void* cache,
                                  std::int64_t room, void* y, void*) {
  const std::int64_t both = 2 * s.key_width();
  with_type(s.type, [&]<class Cell>(Cell*) {
    for (std::int64_t i = 0; i < s.batch; ++i) {
      map_matrix(stream(), s.length, both,
                 NewKeys<Cell>{static_cast<const Cell*>(qkv) + i * s.length * s.row_width(), s.row_width(),
                               s.width()},
                 static_cast<Cell*>(cache) + (i * room + past) * both, false);
    }
  });
  run({s, past, qkv, qkv, cache, room, {}, score_scale(s), y, nullptr}, has_tensor_cores_, stream());
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
