// The element loops of the compute layer over one shard, serial; each picks the best instruction set at run
// time. The files beside it cut the work.
#pragma once

#include <cstdint>

#include "kernels/compute.h"

namespace lpmm::kernels::loops {

void to_float(Compute type, const Rows& rows, const void* in, float* out);
void from_float(Compute type, const Rows& rows, const float* in, void* out, bool accumulate);
inline void to_float(Compute type, std::int64_t count, const void* in, float* out) {
  to_float(type, Rows{.columns = count}, in, out);
}
inline void from_float(Compute type, std::int64_t count, const float* in, void* out, bool accumulate) {
  from_float(type, Rows{.columns = count}, in, out, accumulate);
}
void relu_forward(Compute type, std::int64_t count, const void* x, void* y);
void relu_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                   bool accumulate);
void add(Compute type, std::int64_t count, const void* a, const void* b, void* y);
void add_row(Compute type, std::int64_t count, const void* in, float* sum);  // sum += in
void round_bf16(std::int64_t count, float* values);
// out[c][r] = in[r][c]
void transpose(std::int64_t rows, std::int64_t columns, const float* in, std::int64_t in_stride, float* out,
               std::int64_t out_stride);
// out = in + bias, rounded once.
void add_bias(Compute type, const Rows& rows, const float* in, const float* bias, void* out);

// Batch norm over rows of all channels. Statistics: mean[c] and squares[c] = sum of (x - mean)^2.
void norm_statistics(Compute type, std::int64_t rows, int channels, const void* x, float* mean,
                     float* squares);
void norm_apply(Compute type, std::int64_t rows, int channels, const void* x, const float* scale,
                const float* shift, const void* residual, bool relu, void* y);
// sum_g[c] = sum of g, sum_gx[c] = sum of g * (x - mean), g = dy where y > 0 or there is no ReLU.
void norm_reduce(std::int64_t rows, const NormShape& shape, const NormBackward& args, std::int64_t first,
                 float* sum_g, float* sum_gx);
// dx = g * a[c] + x * b[c] + d[c]; dresidual takes g.
void norm_backward(std::int64_t rows, const NormShape& shape, const NormBackward& args, std::int64_t first,
                   const float* a, const float* b, const float* d);

}  // namespace lpmm::kernels::loops
