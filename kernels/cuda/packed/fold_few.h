// The fold of a small tensor whose codec has no fast kernel: one launch instead of three.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packed/sums_body.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kFewPieces = 4, kPieceThreads = kThreads / 2;

// One block: each piece has some of its threads, and so many words of shared memory. `sum`: of the squares,
// or null. A template, as in sum_tree.h.
template <int kPieces>
__global__ void fold_pieces(cuda::FoldJob job, int words, bool* finite, double* sum) {
  auto* const sums = static_cast<double*>(dynamic_shared());
  const int piece = static_cast<int>(threadIdx.x) / kPieceThreads;
  const int thread = static_cast<int>(threadIdx.x) % kPieceThreads;
  auto* const shared = reinterpret_cast<std::uint32_t*>(sums + kPieces) + piece * words;
  const cuda::SumsJob<cuda::FoldedTerms> squares = {{job}, job.first, job.end, sums};
  const int pieces = static_cast<int>(pieces_of(job.end - job.first));
  for (int phase = 0; sum != nullptr && phase < cuda::kSumPhases; ++phase) {
    if (piece < pieces) run_phase(phase, squares, piece, thread, kPieceThreads, shared);
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    if (sum != nullptr) *sum = sum_as_tree(sums, pieces);
    if (finite != nullptr) *finite = true;
  }
  for (int phase = 0; phase < cuda::kPhases; ++phase) {
    if (piece * job.unit < job.end - job.first) {
      run_phase(phase, job, piece, thread, kPieceThreads, shared);
    }
    __syncthreads();
  }
}

// Returns false, and has done nothing, where there are more pieces than a few.
inline bool fold_few(const cuda::FoldJob& job, bool* finite, double* sum, Stream stream) {
  const std::int64_t pieces = pieces_of(job.end - job.first);
  if (pieces == 0 || pieces > kFewPieces) return false;
  std::int64_t words = std::max(cuda::shared_words(job), cuda::shared_words(cuda::make_folded_sum(job)));
  words += words % 2;  // the next piece has doubles
  launch(fold_pieces<kFewPieces>, 1, kFewPieces * kPieceThreads, kFewPieces * (8 + 4 * words), stream, job,
         static_cast<int>(words), finite, sum);
  return true;
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
