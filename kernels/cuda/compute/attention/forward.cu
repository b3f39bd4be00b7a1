// Attention, forward: a block has a tile of queries and goes over the keys that they see.
#include <cmath>

#include "kernels/cuda/compute/attention/tile.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// Takes the scores of one row from column `first` to `end` - 1 into its maximum and sum; they become
// exp(score - maximum), and the others 0.
// Returns what is to be multiplied with the results so far.
template <class T>
__device__ float take_scores(std::int64_t first, std::int64_t end, float (&scores)[T::kColumns],
                             float& maximum, float& sum) {
  const auto is_seen = [&](int j) { return T::other(j) >= first && T::other(j) < end; };
  float most = maximum, part = 0;
  LPMM_UNROLL
  for (int j = 0; j < T::kColumns; ++j) {
    if (is_seen(j) && scores[j] > most) most = scores[j];
  }
  most = row_maximum(most);
  const float correction = maximum == most ? 1.0F : std::exp(maximum - most);
  LPMM_UNROLL
  for (int j = 0; j < T::kColumns; ++j) {
    scores[j] = is_seen(j) ? std::exp(scores[j] - most) : 0.0F;
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
  const Seen seen = s.seen(head.sequence, a.past);
  const std::int64_t end = seen.end(tile.first + T::kSide - 1);
  for (std::int64_t column = seen.first(tile.first) / T::kSide * T::kSide; column < end; column += T::kSide) {
    __syncthreads();
    load_tile<T>(keys, column, 1.0F, others);
    __syncthreads();
    typename T::Scores scores;
    multiply<T>(q, others, scores);
    add_bias<T>(s, a.bias, head.query, tile.first, column, scores);
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) {
      const std::int64_t row = tile.first + T::row(i);
      const float correction =
          take_scores<T>(seen.first(row) - column, seen.end(row) - column, scores[i], maximum[i], sum[i]);
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

void CudaDevice::attention_forward(const AttentionForward& args) {
  const AttentionShape& s = args.shape;
  Attention a{args, score_scale(s)};
  if (s.is_self()) a.kv = args.q;
  for (std::int64_t i = 0; args.cache != nullptr && i < s.batch; ++i) {
    const std::int64_t both = 2 * s.key_width();
    with_type(s.type, [&]<class Cell>(Cell*) {
      map_matrix(stream(), s.length, both,
                 NewKeys<Cell>{static_cast<const Cell*>(args.q) + i * s.length * s.row_width(), s.row_width(),
                               s.width()},
                 static_cast<Cell*>(args.cache) + (i * args.room + args.past) * both, false);
    });
  }
  if (has_tensor_cores_ && is_for_tensor_cores(s, {a.q, a.kv, a.cache, a.y})) {
    return attend_on_tensor_cores(a, stream());
  }
  with_tile(s.head_width, [&]<class T>(T) {
    launch(attend<T>, tile_blocks<T>(s, s.heads, s.length), T::kThreads, 4 * (2 * T::kFloats + T::kScores),
           stream(), a);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
