// Kernels of neural networks: convolution, matrix product, batch norm, pooling, loss.
//
// Activations are NHWC, fp32 or bf16 (Compute); parameters, statistics and parameter gradients are fp32.
// Sums are accumulated in fp32 or double. Work is cut into shards that depend on shapes only, and partial
// sums are added in a fixed order: the same bits for any number of threads. No tensor is allocated here
// except by constructors; scratch memory comes from the caller, 64-byte aligned, of the size each function
// names.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/macros.h"
#include "kernels/matrix.h"
#include "kernels/packed.h"

namespace lpmm::kernels {

// Rows of a matrix that are copied, and the values from one row to the next.
struct Rows {
  std::int64_t count = 1, columns = 0, in_stride = 0, out_stride = 0;
};

// ---- convolution -----------------------------------------------------------------------------------------
struct ConvShape {
  int batch = 0, height = 0, width = 0, in = 0, out = 0, kernel = 3, stride = 1, pad = 1;
  int channels = 0;  // of a pixel of y and dy, where `out` of them are made; 0: all are
  LPMM_HD int out_stride() const { return channels == 0 ? out : channels; }
  LPMM_HD int out_height() const { return (height + 2 * pad - kernel) / stride + 1; }
  LPMM_HD int out_width() const { return (width + 2 * pad - kernel) / stride + 1; }
  std::int64_t in_values() const { return std::int64_t{1} * height * width * in; }  // of one image
  std::int64_t out_values() const { return std::int64_t{1} * out_height() * out_width() * out_stride(); }
  std::int64_t weights() const { return std::int64_t{1} * out * in * kernel * kernel; }
  auto operator<=>(const ConvShape&) const = default;  // NOLINT(modernize-use-nullptr): there is none
};

// A convolution without bias of one shape, as its device does it. Weights and their gradient are fp32, OIHW.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::int64_t scratch_bytes() const = 0;  // of either call
  virtual void forward(const void* x, const float* weights, void* y, void* scratch) const = 0;
  // dx = (accumulate ? dx : 0) + gradient; dx may be null where the input needs none. Sums of the gradient of
  // weights are fp32; with tensors of bf16 a device may round them to that.
  virtual void backward(const void* x, const float* weights, const void* dy, void* dx, bool accumulate,
                        float* weight_gradient, void* scratch) const = 0;
};

// ---- batch norm ------------------------------------------------------------------------------------------
// Over `rows` = batch * height * width of `channels`. Statistics are biased, as in Ioffe and Szegedy 2015.
struct NormShape {
  std::int64_t rows = 0;
  int channels = 0;
  Compute type = Compute::kFp32;
};

inline constexpr double kNormMomentum = 0.1;  // of running statistics
inline constexpr double kNormEpsilon = 1e-5;  // added to a variance

// The affine map of a norm's channels: weight and bias, and the scale and shift that they become with a mean
// and a deviation. Scale and shift may be the same memory as weight and bias.
struct NormScale {
  const float *weight = nullptr, *bias = nullptr;
  float *scale = nullptr, *shift = nullptr;
};
// The statistics of a norm's channels over a batch.
struct NormStatistics {
  float *mean = nullptr, *inverse_deviation = nullptr;  // of the batch
  NormScale scale;                                      // as of norm_prepare
  // running <- (1 - kNormMomentum) * running + kNormMomentum * what the batch has, its variance unbiased.
  float *running_mean = nullptr, *running_variance = nullptr;
  bool* finite = nullptr;  // becomes false where a running one is not
};

struct NormBackward {
  const void* x = nullptr;  // the input of the norm
  const void* y = nullptr;  // its output, after ReLU; used where relu
  const void* dy = nullptr;
  bool relu = false;
  bool frozen = false;  // the statistics are constants, not those of x
  const float *mean = nullptr, *inverse_deviation = nullptr, *weight = nullptr;
  float *weight_gradient = nullptr, *bias_gradient = nullptr;
  void* dx = nullptr;         // may be dy; null where the input needs none (and nothing is residual)
  bool accumulate = false;    // dx += instead of dx =
  void* dresidual = nullptr;  // null where there is no residual
  bool accumulate_residual = false;
};

// ---- pooling, patches, shortcut --------------------------------------------------------------------------
struct PoolShape {
  int batch = 0, height = 0, width = 0, channels = 0, kernel = 2, stride = 2;
  int pad = 0;  // below `kernel`; of a maximum, as it holds nothing: an average has none
  LPMM_HD int out_height() const { return (height + 2 * pad - kernel) / stride + 1; }
  LPMM_HD int out_width() const { return (width + 2 * pad - kernel) / stride + 1; }
};

// Squares of side * side pixels, which divide the image, as rows of values: channel after channel, each line
// after line, as the weights of a convolution lie.
struct PatchShape {
  int batch = 0, height = 0, width = 0, channels = 0, side = 1;
  LPMM_HD std::int64_t values() const { return std::int64_t{1} * channels * side * side; }  // of one patch
};

// He et al. 2016, option A: every `stride`-th pixel, zero channels around: (out - in) / 2 in front.
struct ShortcutShape {
  int batch = 0, height = 0, width = 0, in = 0, out = 0, stride = 2;
  LPMM_HD int out_height() const { return (height + stride - 1) / stride; }
  LPMM_HD int out_width() const { return (width + stride - 1) / stride; }
};

// ---- loss ------------------------------------------------------------------------------------------------
// Softmax cross-entropy against (1 - smoothing) * one-hot + smoothing / classes.
struct LossShape {
  std::int64_t rows = 0;
  int classes = 0;
  double smoothing = 0;
};

// The operations of a device (kernels/device.h) for image networks, and for all networks.
class ComputeKernels {
 public:
  // ---- element loops -------------------------------------------------------------------------------------
  virtual void to_float(Compute type, std::int64_t count, const void* in, float* out) = 0;
  virtual void from_float(Compute type, std::int64_t count, const float* in, void* out) = 0;
  virtual void relu_forward(Compute type, std::int64_t count, const void* x, void* y) = 0;
  // dx = (accumulate ? dx : 0) + (y > 0 ? dy : 0)
  virtual void relu_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                             bool accumulate) = 0;
  virtual void add(Compute type, std::int64_t count, const void* a, const void* b, void* y) = 0;
  // dst = (accumulate ? dst : 0) + src
  virtual void copy_or_add(Compute type, std::int64_t count, const void* src, void* dst, bool accumulate) = 0;
  // dst = (accumulate ? dst : 0) + factor * src
  virtual void scale(Compute type, std::int64_t count, float factor, const void* src, void* dst,
                     bool accumulate) = 0;
  // The same as copy_or_add, of rows that lie apart.
  virtual void copy_or_add_rows(Compute type, const Rows& rows, const void* src, void* dst,
                                bool accumulate) = 0;

  // ---- convolution ---------------------------------------------------------------------------------------
  virtual std::unique_ptr<Convolution> convolution(const ConvShape& shape, Compute type) = 0;

  // ---- beside a matrix product (kernels/matrix.h) ---------------------------------------------------------
  // The backward pass of y = act(x + bias), rows of columns; act is ReLU or nothing. Returns the gradient of
  // x: dy, or with ReLU `g`, which takes dy where y > 0 and 0 elsewhere. bias_gradient[c] = sum over its
  // rows.
  virtual const void* bias_backward(Compute type, std::int64_t rows, std::int64_t columns, const void* y,
                                    const void* dy, bool relu, void* g, float* bias_gradient) = 0;

  // ---- batch norm ----------------------------------------------------------------------------------------
  virtual std::int64_t norm_scratch_bytes(const NormShape& shape) const = 0;
  // Mean and variance of each channel; partial results of row shards are merged in double (Chan et al. 1979).
  virtual void norm_statistics(const NormShape& shape, const void* x, const NormStatistics& of,
                               void* scratch) = 0;
  // For each channel: inverse_deviation, which holds the variance, becomes 1 / sqrt(variance + kNormEpsilon);
  // scale becomes the weight times that, shift the bias less mean * scale.
  virtual void norm_prepare(int channels, const float* mean, float* inverse_deviation,
                            const NormScale& of) = 0;
  // y = act(x * scale + shift + residual); residual may be null; act is ReLU or nothing.
  virtual void norm_apply(const NormShape& shape, const void* x, const float* scale, const float* shift,
                          const void* residual, bool relu, void* y) = 0;
  virtual void norm_backward(const NormShape& shape, const NormBackward& args, void* scratch) = 0;

  // ---- pooling, patches, shortcut ------------------------------------------------------------------------
  virtual void average_pool_forward(const PoolShape& shape, Compute type, const void* x, void* y) = 0;
  virtual void average_pool_backward(const PoolShape& shape, Compute type, const void* dy, void* dx,
                                     bool accumulate) = 0;
  // The gradient of a maximum goes to the first element of the window that has it.
  virtual void max_pool_forward(const PoolShape& shape, Compute type, const void* x, void* y) = 0;
  virtual void max_pool_backward(const PoolShape& shape, Compute type, const void* x, const void* dy,
                                 void* dx, bool accumulate) = 0;
  virtual void patches(const PatchShape& shape, Compute type, const void* x, void* y) = 0;
  virtual void shortcut_forward(const ShortcutShape& shape, Compute type, const void* x, void* y) = 0;
  virtual void shortcut_backward(const ShortcutShape& shape, Compute type, const void* dy, void* dx,
                                 bool accumulate) = 0;

  // ---- loss ----------------------------------------------------------------------------------------------
  virtual void softmax_loss(const LossShape& shape, Compute type, const void* logits,
                            const std::int32_t* labels, LossResult* result) = 0;
  // dlogits of the mean loss over `rows`.
  virtual void softmax_loss_backward(const LossShape& shape, Compute type, const void* logits,
                                     const std::int32_t* labels, void* dlogits) = 0;
  // The squares of x - target, one value per row, and d of their mean over `rows`.
  virtual void square_loss(std::int64_t rows, Compute type, const void* x, const float* targets,
                           LossResult* result) = 0;
  virtual void square_loss_backward(std::int64_t rows, Compute type, const void* x, const float* targets,
                                    void* dx) = 0;

 protected:
  ComputeKernels() = default;
  ~ComputeKernels() = default;
};

}  // namespace lpmm::kernels
