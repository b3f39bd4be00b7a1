// The element loops of the compute layer over one shard, serial. The files beside it cut the work.
#pragma once

#include <cstdint>

#include "kernels/compute.h"

namespace lpmm::kernels::loops {

struct ElementLoops {
  void (*to_float)(ValueType type, const Rows& rows, const void* in, float* out);
  void (*from_float)(ValueType type, const Rows& rows, const float* in, void* out);
  void (*add)(ValueType type, std::int64_t count, const void* a, const void* b, void* y);
  void (*add_row)(ValueType type, std::int64_t count, const void* in, float* sum);  // sum += in
  void (*round_bf16)(std::int64_t count, float* values);
  // out[c][r] = in[r][c]
  void (*transpose)(const Rows& rows, const float* in, float* out);
  // out = in + bias, rounded once.
  void (*add_bias)(ValueType type, const Rows& rows, const float* in, const float* bias, void* out);

  // Batch norm over the rows of `shape`, all channels. Statistics: mean[c] and squares[c] = sum of (x -
  // mean)^2.
  void (*batch_norm_statistics)(const BatchNormShape& shape, const void* x, float* mean, float* squares);
  void (*batch_norm_apply)(const BatchNormShape& shape, const BatchNormApply& args);
  // sum_g[c] = sum of g, sum_gx[c] = sum of g * (x - mean), g = dy where y > 0 or there is no ReLU.
  void (*batch_norm_reduce)(const BatchNormShape& shape, const BatchNormBackward& args, float* sum_g,
                            float* sum_gx);
  // dx = g * a[c] + x * b[c] + d[c], a, b and d one behind the other in `factors`; dresidual takes g.
  void (*batch_norm_backward)(const BatchNormShape& shape, const BatchNormBackward& args,
                              const float* factors);
};
const ElementLoops& elements();  // of the best instruction set

}  // namespace lpmm::kernels::loops
