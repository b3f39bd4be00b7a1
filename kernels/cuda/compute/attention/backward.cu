// Attention, backward: the gradient of queries by tiles of queries, those of keys and values by tiles of
// keys, so that nothing is added from two blocks.
//
// With p = softmax(scores), D = sum of dy * y: dv = drop(p)^T dy, ds = p * (drop(dy v^T) - D), dq = ds k,
// dk = ds^T q; a bias has ds as its gradient.
#include <cmath>

#include "kernels/cuda/compute/attention/tile.h"
#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

__global__ void dot_rows(AttentionShape s, const void* y, const void* dy, float* dots) {
  begin_kernel();
  const std::int64_t line = row_of_warp();
  if (line >= s.rows() * s.heads) return;
  const std::int64_t item = line / s.length, row = line % s.length;
  const HeadOf head = HeadOf::item(s, item);
  const HeadRows a = head.results(s, y), b = head.results(s, dy);
  float sum = 0;
  for (int c = lane_of_warp(); c < s.head_width; c += kWarp) sum += a.load(row, c) * b.load(row, c);
  sum = warp_sum(sum);
  if (lane_of_warp() == 0) dots[line] = sum;
}

// The shared memory of a tile and of the others it is multiplied with.
template <class T>
struct Shared {
  float *own, *own_partner, *others, *others_partner, *scores;
  __device__ static Shared mine() {
    auto* const base = static_cast<float*>(dynamic_shared());
    return {base, base + T::kFloats, base + 2 * T::kFloats, base + 3 * T::kFloats, base + 4 * T::kFloats};
  }
  static std::int64_t bytes() { return 4 * (4 * T::kFloats + T::kScores); }
};

// Adds a tile of gradients, which lie in shared memory, to the sums at each distance of its block of queries.
template <class T>
__device__ void add_by_distance(const AttentionShape& s, std::int64_t row, std::int64_t key,
                                const float* scores, float* sums) {
  for (int d = static_cast<int>(threadIdx.x); d < 2 * T::kSide - 1; d += T::kThreads) {
    const int shift = d - (T::kSide - 1);  // of a column against its row
    const std::int64_t at = s.distance(row, key + shift);
    if (at < 0 || at >= s.distances()) continue;
    float sum = 0;
    for (int r = shift < 0 ? -shift : 0; r < T::kSide && r + shift < T::kSide; ++r)
      sum += scores[r * T::kScoreStride + r + shift];
    sums[at] += sum;
  }
}
// The gradient of the bias of one distance and head: its sums over sequences and blocks of queries, in order.
__global__ void bias_gradient(AttentionGradient a, std::int64_t tiles) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= s.distances() * s.heads) return;
  const std::int64_t distance = at / s.heads, head = at % s.heads;
  float sum = a.accumulate_bias ? a.bias_gradient[at] : 0.0F;
  for (std::int64_t i = 0; i < s.batch; ++i) {
    const float* const of = a.sums + (i * s.heads + head) * tiles * s.distances() + distance;
    for (std::int64_t tile = 0; tile < tiles; ++tile) sum += of[tile * s.distances()];
  }
  a.bias_gradient[at] = sum;
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) query_gradient(AttentionGradient a) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const TileOfBlock tile = TileOfBlock::mine<T>(s.length);
  const Shared<T> shared = Shared<T>::mine();
  const HeadOf head = HeadOf::item(s, tile.item);
  const HeadRows q = head.queries(s, a.q), keys = head.keys(s, a.kv), values = head.values(s, a.kv);
  const DropRow drop{a.drop, s.key_rows()};
  load_tile<T>(q, tile.first, a.scale, shared.own);
  load_tile<T>(head.results(s, a.dy), tile.first, 1.0F, shared.own_partner);
  typename T::Results dq = {};
  float* const sums =
      a.sums + (tile.item * ((s.length + T::kSide - 1) / T::kSide) + tile.first / T::kSide) * s.distances();
  for (std::int64_t i = threadIdx.x; s.has_bias && i < s.distances(); i += T::kThreads) sums[i] = 0;
  const Seen seen = s.seen(head.sequence);
  const std::int64_t end = seen.end(tile.first + T::kSide - 1);
  for (std::int64_t column = seen.first(tile.first) / T::kSide * T::kSide; column < end; column += T::kSide) {
    __syncthreads();
    load_tile<T>(keys, column, 1.0F, shared.others);
    load_tile<T>(values, column, 1.0F, shared.others_partner);
    __syncthreads();
    typename T::Scores scores, gradients;
    multiply<T>(shared.own, shared.others, scores);
    multiply<T>(shared.own_partner, shared.others_partner, gradients);
    add_bias<T>(s, a.bias, head.query, tile.first, column, scores);
    LPMM_UNROLL
    for (int i = 0; i < T::kRows; ++i) {
      const std::int64_t row = tile.first + T::row(i), line = tile.item * s.length + row;
      const bool is_there = row < s.length;
      const float log_sum = is_there ? a.log_sums[line] : 0.0F, dot = is_there ? a.dots[line] : 0.0F;
      PhiloxWords words = {};
      if (a.drop.threshold != 0) words = drop.words(line, column + T::across());
      LPMM_UNROLL
      for (int j = 0; j < T::kColumns; ++j) {
        const std::int64_t key = column + T::other(j);
        if (a.drop.threshold != 0) gradients[i][j] *= drop.factor(words, key);
        const bool is_seen = is_there && key >= seen.first(row) && key < seen.end(row);
        const float p = is_seen ? std::exp(scores[i][j] - log_sum) : 0.0F;
        scores[i][j] = p * (gradients[i][j] - dot);
      }
    }
    store_scores<T>(scores, shared.scores);
    __syncwarp();  // a row of scores is of one warp
    accumulate<T>(shared.scores, shared.others, dq);
    if (!s.has_bias) continue;
    __syncthreads();
    add_by_distance<T>(s, tile.first, column, shared.scores, sums);
  }
  LPMM_UNROLL
  for (int i = 0; i < T::kRows; ++i) {
    LPMM_UNROLL
    for (int k = 0; k < T::kValues; ++k) dq[i][k] *= a.scale;
  }
  store_results<T>(dq, q, tile.first, a.dq, a.accumulate);
}

// Rows of scores are keys here, columns queries, of all heads that share the keys.
template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) key_gradient(AttentionGradient a) {
  begin_kernel();
  const AttentionShape& s = a.shape;
  const TileOfBlock tile = TileOfBlock::mine<T>(s.key_rows());
  const Shared<T> shared = Shared<T>::mine();
  const std::int64_t shared_by = s.shared_by();
  HeadOf head = HeadOf::item(s, tile.item * shared_by);
  const DropRow drop{a.drop, s.key_rows()};
  load_tile<T>(head.keys(s, a.kv), tile.first, 1.0F, shared.own);
  load_tile<T>(head.values(s, a.kv), tile.first, 1.0F, shared.own_partner);
  typename T::Results dk = {}, dv = {};
  const Seen seen = s.seen(head.sequence);
  const std::int64_t end = seen.end_row(tile.first + T::kSide - 1, std::int64_t{s.length});
  for (std::int64_t of = 0; of < shared_by; ++of, ++head.query) {
    const std::int64_t item = tile.item * shared_by + of;
    for (std::int64_t first = seen.first_row(tile.first); first < end; first += T::kSide) {
      __syncthreads();
      load_tile<T>(head.queries(s, a.q), first, a.scale, shared.others);
      load_tile<T>(head.results(s, a.dy), first, 1.0F, shared.others_partner);
      __syncthreads();
      typename T::Scores scores, gradients;
      multiply<T>(shared.own, shared.others, scores);
      multiply<T>(shared.own_partner, shared.others_partner, gradients);
      add_bias<T, true>(s, a.bias, head.query, first, tile.first, scores);
      LPMM_UNROLL
      for (int j = 0; j < T::kColumns; ++j) {
        const std::int64_t row = first + T::other(j), line = item * s.length + row;
        const bool is_there = row < s.length;
        const float log_sum = is_there ? a.log_sums[line] : 0.0F, dot = is_there ? a.dots[line] : 0.0F;
        LPMM_UNROLL
        for (int i = 0; i < T::kRows; ++i) {
          const std::int64_t key = tile.first + T::row(i);
          const bool is_seen = is_there && key >= seen.first(row) && key < seen.end(row);
          const float p = is_seen ? std::exp(scores[i][j] - log_sum) : 0.0F;
          const float factor =
              is_seen && a.drop.threshold != 0 ? drop.factor(drop.words(line, key), key) : 1.0F;
          gradients[i][j] = p * (factor * gradients[i][j] - dot);
          scores[i][j] = p * factor;
        }
      }
      store_scores<T>(scores, shared.scores);
      __syncwarp();  // a row of scores is of one warp
      accumulate<T>(shared.scores, shared.others_partner, dv);
      __syncwarp();
      store_scores<T>(gradients, shared.scores);
      __syncwarp();
      accumulate<T>(shared.scores, shared.others, dk);
    }
  }
  store_results<T>(dk, head.keys(s, a.kv), tile.first, a.dkv, a.accumulate_kv);
  store_results<T>(dv, head.values(s, a.kv), tile.first, a.dkv, a.accumulate_kv);
}

}  // namespace

// Dots of y and its gradient and, with a bias, sums by distance.
std::int64_t CudaDevice::attention_scratch_bytes(const AttentionShape& s) const {
  std::int64_t blocks = 0;
  with_tile(s.head_width, [&]<class T>(T) { blocks = tile_blocks<T>(s, s.heads, s.length); });
  return aligned(4 * s.rows() * s.heads) + (s.has_bias ? aligned(4 * blocks * s.distances()) : 0);
}

void CudaDevice::attention_backward(const AttentionBackward& args) {
  const AttentionShape& s = args.shape;
  auto* const dots = static_cast<float*>(args.scratch);
  AttentionGradient a{args, score_scale(s), dots, dots + aligned(4 * s.rows() * s.heads) / 4};
  if (s.is_self()) {
    a.kv = args.q;
    a.dkv = args.dq;
    a.accumulate_kv = args.accumulate;
  }
  if (has_tensor_cores_ && is_for_tensor_cores(s, {a.q, a.kv, a.y, a.dy, a.dq, a.dkv})) {
    return differentiate_on_tensor_cores(a, stream());
  }
  launch(dot_rows, row_blocks(s.rows() * s.heads), kRowThreads, 0, stream(), s, args.y, args.dy, a.dots);
  with_tile(s.head_width, [&]<class T>(T) {
    launch(query_gradient<T>, tile_blocks<T>(s, s.heads, s.length), T::kThreads, Shared<T>::bytes(), stream(),
           a);
    launch(key_gradient<T>, tile_blocks<T>(s, s.key_heads(), s.key_rows()), T::kThreads, Shared<T>::bytes(),
           stream(), a);
    if (!s.has_bias) return;
    const std::int64_t all = s.distances() * s.heads;
    launch(bias_gradient, (all + T::kThreads - 1) / T::kThreads, T::kThreads, 0, stream(), a,
           (s.length + T::kSide - 1) / T::kSide);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
