// Attention on tensor cores, backward: the gradient of queries by tiles of queries, those of keys and values
// by tiles of keys, so that nothing is added from two blocks. The equations are backward.cu's.
#include <cmath>

#include "kernels/cuda/compute/attention/tile_mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// The sum of y * dy over row `row`, which four lanes have, by 8 values at a time.
LPMM_DEVICE float dot_of_row(const HeadRows& y, const void* dy, const void* of, std::int64_t row) {
  float sum = 0;
  if (row < y.rows) {
    const std::int64_t at = y.at + row * y.stride;
    for (int c = lane_of_mma() % 4 * 8; c < y.width; c += 32) {
      const auto a = *reinterpret_cast<const Quad*>(static_cast<const Bf16*>(of) + at + c),
                 b = *reinterpret_cast<const Quad*>(static_cast<const Bf16*>(dy) + at + c);
      LPMM_UNROLL
      for (int k = 0; k < 4; ++k) {
        sum += bf16_to_float(static_cast<Bf16>(a.pair[k])) * bf16_to_float(static_cast<Bf16>(b.pair[k]));
        sum += bf16_to_float(static_cast<Bf16>(a.pair[k] >> 16)) *
               bf16_to_float(static_cast<Bf16>(b.pair[k] >> 16));
      }
    }
  }
  return quad_sum(sum);
}

// Scores become what keys are multiplied with; `scale` and `log_sum`, of the thread's rows, are in bits.
template <class T>
LPMM_DEVICE void differentiate_rows(float scale, const float (&log_sum)[T::kRows],
                                    const float (&dot)[T::kRows], const typename T::Scores& gradients,
                                    typename T::Scores& scores) {
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    LPMM_UNROLL
    for (int n = 0; n < T::kOthers / 8; ++n) {
      LPMM_UNROLL
      for (int e = i % 2 * 2; e < i % 2 * 2 + 2; ++e) {
        float& score = scores[i / 2][n].v[e];
        score = power_of_two(scale * score - log_sum[i]) * (gradients[i / 2][n].v[e] - dot[i]);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) query_gradient_mma(AttentionGradient a) {
  begin_kernel();
  auto* const own = static_cast<Bf16*>(dynamic_shared());
  Bf16 *const own_partner = own + T::kOwnCells, *const stages = own_partner + T::kOwnCells;
  const AttentionShape& s = a.shape;
  const auto block = MmaBlock<T>::mine(s.batch * s.heads, s.length, s.is_causal);
  const HeadOf head = HeadOf::item(s, block.item);
  const HeadRows q = head.queries(s, a.q), y = head.results(s, a.y), keys = head.keys(s, a.kv),
                 values = head.values(s, a.kv);
  const int first = static_cast<int>(block.first);
  Seen seen = s.seen(head.sequence);
  seen.past = first;  // its rows are the tile's
  const int begin = seen.first(0) / T::kOthers * T::kOthers, end = seen.end(T::kOwn - 1);
  const DropRow drop{a.drop, s.key_rows()};
  const float scale = a.scale * kLog2E;
  begin_tile<T, T::kOwn>(q, first, own);
  begin_tile<T, T::kOwn>(head.results(s, a.dy), first, own_partner);
  begin_tile<T, T::kOthers>(keys, begin, stages, values.at - keys.at);

  const std::int64_t line = block.item * s.length + block.first;
  const int lane = lane_of_mma();
  float dot[T::kRows], log_sum[T::kRows];  // of the thread's rows; the latter in bits
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    const std::int64_t row = first + T::row(i);
    dot[i] = dot_of_row(y, a.dy, a.y, row);
    if (lane % 4 == 0 && row < s.length) a.dots[line + T::row(i)] = dot[i];
    log_sum[i] = block.first + T::row(i) < s.length ? kLog2E * a.log_sums[line + T::row(i)] : 0.0F;
  }
  wait_for_copies();
  __syncthreads();
  const OwnRows<T> queries(own), results(own_partner);
  typename T::Results dq = {};
  int stage = 0;
  for (int column = begin; column < end; column += T::kOthers) {
    Bf16* const now = stages + stage * 2 * T::kOtherCells;
    stage ^= 1;
    if (column + T::kOthers < end) {
      Bf16* const next = stages + stage * 2 * T::kOtherCells;
      begin_tile<T, T::kOthers>(keys, column + T::kOthers, next, values.at - keys.at);
    }
    if (first + T::warp_row() < s.length) {
      typename T::Scores scores, gradients;
      multiply_mma<T>(queries, now, scores);
      multiply_mma<T>(results, now + T::kOtherCells, gradients);
      if constexpr (T::kDrops) drop_scores<T>(drop, line + T::row(0), column, gradients);
      mask_scores<T>(seen, column, scores);
      differentiate_rows<T>(scale, log_sum, dot, gradients, scores);
      accumulate_mma<T>(scores, now, dq);
    }
    wait_for_copies();
    __syncthreads();
  }
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) scale_row<T>(i, a.scale, dq);
  store_mma<T>(dq, q, block.first, a.dq, a.accumulate);
}

// A tile of queries, with what they are told of the forward and what dropout keeps of them.
template <class T>
struct QueryTile {
  // Keys 16 apart share their draws: bit k of byte (query, c) is of key 16 k + c of the block's tile.
  static constexpr int kBits = T::kDrops ? 16 * T::kOthers : 0,
                       kBytes = 4 * T::kOtherCells + 8 * T::kOthers + kBits;
  Bf16 *queries, *gradients;
  float *log_sums, *dots;
  std::uint8_t* kept;

  LPMM_DEVICE explicit QueryTile(unsigned char* at)
      : queries(reinterpret_cast<Bf16*>(at)),
        gradients(queries + T::kOtherCells),
        log_sums(reinterpret_cast<float*>(gradients + T::kOtherCells)),
        dots(log_sums + T::kOthers),
        kept(reinterpret_cast<std::uint8_t*>(dots + T::kOthers)) {}

  // Begins to fetch those of head `item` from row `first` on; `key` is the block's first.
  LPMM_DEVICE void begin(const AttentionGradient& a, const HeadOf& head, std::int64_t item, int first,
                         int key) const {
    const AttentionShape& s = a.shape;
    begin_tile<T, T::kOthers>(head.queries(s, a.q), first, queries);
    begin_tile<T, T::kOthers>(head.results(s, a.dy), first, gradients);
    const int i = static_cast<int>(threadIdx.x) % T::kOthers;
    const bool is_there = first + i < s.length;
    const std::int64_t line = item * s.length + (is_there ? first + i : 0);
    if (threadIdx.x < T::kOthers) {
      begin_copy<4>(log_sums + i, a.log_sums + line, is_there);
    } else if (threadIdx.x < 2 * T::kOthers) {
      begin_copy<4>(dots + i, a.dots + line, is_there);
    }
    if constexpr (T::kDrops) draw({a.drop, s.key_rows()}, item * s.length + first, key);
  }
  LPMM_DEVICE void draw(const DropRow& drop, std::int64_t line, std::int64_t key) const {
    for (int bits = static_cast<int>(threadIdx.x); bits < kBits; bits += T::kThreads) {
      const std::int64_t column = key + bits % 16;
      const PhiloxWords words = drop.words(line + bits / 16, column);
      unsigned byte = 0;
      LPMM_UNROLL
      for (int k = 0; k < T::kOwn / 16; ++k) byte |= (drop.keeps(words, column + 16 * k) ? 1U : 0U) << k;
      kept[bits] = static_cast<std::uint8_t>(byte);
    }
  }
  LPMM_DEVICE bool keeps(int key, int query) const {
    return (kept[16 * query + key % 16] >> (key / 16) & 1) != 0;
  }
};

// Scores that are not seen become those of probability 0. Rows are keys from `key` on, columns queries from
// `first` on.
template <class T>
LPMM_DEVICE void mask_keys(const Seen& seen, int key, int first, typename T::Scores& scores) {
  const auto hide = [&](const auto& is_hidden) {  // of a query and a key
    LPMM_UNROLL
    for (int n = 0; n < T::kOthers / 8; ++n) {
      LPMM_UNROLL
      for (int e = 0; e < 2; ++e) {
        LPMM_UNROLL
        for (int i = 0; i < T::kRows; ++i) {
          if (is_hidden(first + T::column(n, e), key + T::row(i)))
            scores[i / 2][n].v[i % 2 * 2 + e] = -INFINITY;
        }
      }
    }
  };
  if (key + T::kOwn > seen.end(first)) hide([&](int query, int k) { return k >= seen.end(query); });
  if (key < seen.first(first + T::kOthers - 1)) hide([&](int query, int k) { return k < seen.first(query); });
}
// Scores and their gradients, in place, to what results and queries are multiplied with; `scale` is in bits.
template <class T>
LPMM_DEVICE void differentiate_scores(const QueryTile<T>& tile, float scale, float drop_scale,
                                      typename T::Scores& scores, typename T::Scores& gradients) {
  LPMM_UNROLL
  for (int n = 0; n < T::kOthers / 8; ++n) {
    LPMM_UNROLL
    for (int e = 0; e < 2; ++e) {
      const int column = T::column(n, e);
      const float log_sum = kLog2E * tile.log_sums[column], dot = tile.dots[column];
      LPMM_UNROLL
      for (int i = 0; i < T::kRows; ++i) {
        float &score = scores[i / 2][n].v[i % 2 * 2 + e], &gradient = gradients[i / 2][n].v[i % 2 * 2 + e];
        const float p = power_of_two(scale * score - log_sum);
        float factor = 1;
        if constexpr (T::kDrops) factor = tile.keeps(T::row(i), column) ? drop_scale : 0.0F;
        gradient = p * (factor * gradient - dot);
        score = p * factor;
      }
    }
  }
}

// Gradients of keys and values, summed over all heads that share the keys.
template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) key_gradient_mma(AttentionGradient a) {
  begin_kernel();
  auto* const own = static_cast<Bf16*>(dynamic_shared());
  Bf16* const own_partner = own + T::kOwnCells;
  auto* const stages = reinterpret_cast<unsigned char*>(own_partner + T::kOwnCells);
  const AttentionShape& s = a.shape;
  const std::int64_t shared_by = s.shared_by();
  const auto block = MmaBlock<T>::mine(s.batch * s.key_heads(), s.key_rows(), false);
  HeadOf head = HeadOf::item(s, block.item * shared_by);
  const HeadRows keys = head.keys(s, a.kv), values = head.values(s, a.kv);
  const Seen seen = s.seen(head.sequence);
  const int own_first = static_cast<int>(block.first), begin = seen.first_row(own_first),
            end = seen.end_row(own_first + T::kOwn - 1, s.length);  // queries
  const float scale = a.scale * kLog2E;
  begin_tile<T, T::kOwn>(keys, own_first, own, values.at - keys.at);
  std::int64_t item = block.item * shared_by;
  int first = begin, left = static_cast<int>(shared_by);  // heads
  QueryTile<T>(stages).begin(a, head, item, first, own_first);
  wait_for_copies();
  __syncthreads();
  const OwnRows<T> own_keys(own), own_values(own_partner);
  typename T::Results dk = {}, dv = {};
  int stage = 0;
  while (left > 0) {
    const QueryTile<T> now(stages + stage * QueryTile<T>::kBytes);
    const int query = first, own_row = own_first + T::warp_row();
    stage ^= 1;
    first += T::kOthers;
    if (first >= end) {
      first = begin;
      --left;
      ++item;
      ++head.query;
    }
    if (left > 0) {
      QueryTile<T>(stages + stage * QueryTile<T>::kBytes).begin(a, head, item, first, own_first);
    }
    if (own_row < seen.end(query + T::kOthers - 1) && own_row + T::kWarpRows > seen.first(query)) {
      typename T::Scores scores, gradients;
      multiply_mma<T>(own_keys, now.queries, scores);
      multiply_mma<T>(own_values, now.gradients, gradients);
      mask_keys<T>(seen, own_first, query, scores);
      differentiate_scores<T>(now, scale, a.drop.scale, scores, gradients);
      accumulate_mma<T>(scores, now.gradients, dv);
      accumulate_mma<T>(gradients, now.queries, dk);
    }
    wait_for_copies();
    __syncthreads();
  }
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) scale_row<T>(i, a.scale, dk);
  forget(head.key);  // where they are is found anew
  store_mma<T>(dk, head.keys(s, a.kv), own_first, a.dkv, a.accumulate_kv);
  store_mma<T>(dv, head.values(s, a.kv), own_first, a.dkv, a.accumulate_kv);
}

}  // namespace

void differentiate_on_tensor_cores(const AttentionGradient& a, Stream stream) {
  const AttentionShape& s = a.shape;
  with_mma_width(s.head_width, a.drop, [&](auto width, auto drops) {
    using Q = MmaTile<width(), width() <= 64 ? 64 : 32, 1, 3, drops()>;
    using K = MmaTile<width(), 32, 1, 3, drops()>;
    const std::int64_t items = std::int64_t{1} * s.batch * s.heads,
                       key_items = std::int64_t{1} * s.batch * s.key_heads();
    launch(query_gradient_mma<Q>, MmaBlock<Q>::count(items, s.length), Q::kThreads,
           4 * (Q::kOwnCells + 2 * Q::kOtherCells), stream, a);
    launch(key_gradient_mma<K>, MmaBlock<K>::count(key_items, s.key_rows()), K::kThreads,
           4 * K::kOwnCells + 2 * QueryTile<K>::kBytes, stream, a);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
