// Kernels of neural networks: activations, convolution, batch norm, pooling, loss.
//
// Activations are NHWC, fp32 or bf16 (ValueType); parameters, statistics and parameter gradients are fp32.
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
#include "kernels/noise.h"
#include "kernels/packed.h"

namespace lpmm::kernels {

// ---- elements --------------------------------------------------------------------------------------------
struct Array {
  ValueType type = ValueType::kFp32;
  std::int64_t count = 0;
};
// Rows of a matrix that are copied, or added to what is there, and the values from one row to the next.
struct Rows {
  std::int64_t count = 1, columns = 0, in_stride = 0, out_stride = 0;
  bool accumulate = false;
};
// y = (accumulate ? y : 0) + factor * x, or, on rows of `columns`, by_column[column] * x.
struct ScaleArgs {
  Array of;
  float factor = 1;
  const void* x = nullptr;
  void* y = nullptr;
  bool accumulate = false;
  std::int64_t columns = 0;
  const float* by_column = nullptr;
};
// Keeps, times `scale`, the elements whose draw is at least `threshold`; the others become 0. A threshold of
// 0 drops nothing.
struct Dropout {
  Noise noise;
  std::uint32_t threshold = 0;
  float scale = 1;
};
// y = (accumulate ? y : 0) + what is kept of x.
struct DropoutArgs {
  Array of;
  Dropout drop;
  const void* x = nullptr;
  void* y = nullptr;
  bool accumulate = false;
};

// ---- activations -----------------------------------------------------------------------------------------
// GELU (Hendrycks & Gimpel 2016) is x times the normal distribution's share below x, or the approximation by
// a tanh, x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 x^3)). SiLU, or Swish (Ramachandran et al. 2017), is
// x * sigmoid(x).
enum class Activation : std::uint8_t { kRelu, kGelu, kGeluTanh, kSilu, kTanh };
// y = f(x) on rows of `width` values. Gated (Shazeer 2020), a row of x is a row a and a row b, and y = f(a) *
// b: SwiGLU with SiLU, GeGLU with GELU, ReGLU with ReLU.
struct ActivationArgs {
  Activation function = Activation::kRelu;
  bool is_gated = false;
  ValueType type = ValueType::kFp32;
  std::int64_t rows = 1, width = 0;
  const void* x = nullptr;  // of the backward pass y, where reads_output() says so
  void* y = nullptr;        // may be x where it is not gated
  const void* dy = nullptr;
  void* dx = nullptr;
  bool accumulate = false;  // dx += instead of dx =
};
// True if the backward pass of a function reads its output, not its input.
LPMM_HD constexpr bool reads_output(Activation function, bool is_gated) {
  return !is_gated && (function == Activation::kRelu || function == Activation::kTanh);
}

// The backward pass of y = act(x + bias) on rows of columns; act is ReLU or nothing.
struct BiasBackward {
  Array of;  // of y: a multiple of `columns`
  std::int64_t columns = 0;
  const void *y = nullptr, *dy = nullptr;
  void* g = nullptr;  // takes dy where y > 0 and 0 elsewhere; null: there is no ReLU, and y is not read
  float* bias_gradient = nullptr;  // the sum of the rows of g, or of dy
  const void* x = nullptr;         // without ReLU: the sum is that of dy * x, the gradient of by_column
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

// dx = (accumulate ? dx : 0) + gradient; dx may be null where the input needs none. Sums of the gradient of
// weights are fp32; with tensors of bf16 a device may round them to that.
struct ConvolutionBackward {
  const void* x = nullptr;
  const float* weights = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;
  bool accumulate = false;
  float* weight_gradient = nullptr;
};

// A convolution without bias of one shape, as its device does it. Weights and their gradient are fp32, OIHW.
class Convolution {
 public:
  virtual ~Convolution() = default;
  virtual std::int64_t scratch_bytes() const = 0;  // of either call
  virtual void forward(const void* x, const float* weights, void* y, void* scratch) const = 0;
  virtual void backward(const ConvolutionBackward& args, void* scratch) const = 0;
};

// ---- batch norm ------------------------------------------------------------------------------------------
// Over `rows` = batch * height * width of `channels`. Statistics are biased, as in Ioffe and Szegedy 2015.
struct BatchNormShape {
  std::int64_t rows = 0;
  int channels = 0;
  ValueType type = ValueType::kFp32;
};

inline constexpr double kBatchNormMomentum = 0.1;  // of running statistics
inline constexpr double kBatchNormEpsilon = 1e-5;  // added to a variance

// The affine map of a norm's channels: weight and bias, and the scale and shift that they become with a mean
// and a deviation. Scale and shift may be the same memory as weight and bias.
struct BatchNormScale {
  const float *weight = nullptr, *bias = nullptr;
  float *scale = nullptr, *shift = nullptr;
};
// The statistics of a norm's channels over a batch.
struct BatchNormStatistics {
  float *mean = nullptr, *inverse_deviation = nullptr;  // of the batch
  BatchNormScale scale;                                 // as of batch_norm_prepare
  // running <- (1 - kBatchNormMomentum) * running + kBatchNormMomentum * what the batch has, its variance
  // unbiased.
  float *running_mean = nullptr, *running_variance = nullptr;
  bool* finite = nullptr;  // becomes false where a running one is not
};

// y = act(x * scale + shift + residual); act is ReLU or nothing.
struct BatchNormApply {
  const void* x = nullptr;
  const float *scale = nullptr, *shift = nullptr;
  const void* residual = nullptr;  // null: none
  bool relu = false;
  void* y = nullptr;
};

struct BatchNormBackward {
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
enum class Pooling : std::uint8_t { kAverage, kMaximum };
struct PoolShape {
  int batch = 0, height = 0, width = 0, channels = 0, kernel = 2, stride = 2;
  int pad = 0;  // below `kernel`; of a maximum, as it holds nothing: an average has none
  Pooling kind = Pooling::kAverage;
  ValueType type = ValueType::kFp32;
  LPMM_HD int out_height() const { return (height + 2 * pad - kernel) / stride + 1; }
  LPMM_HD int out_width() const { return (width + 2 * pad - kernel) / stride + 1; }
};

struct PoolBackward {
  const void *x = nullptr, *dy = nullptr;  // x is read for a maximum
  void* dx = nullptr;
  bool accumulate = false;  // dx += instead of dx =
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
  ValueType type = ValueType::kFp32;
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
// The softmax cross-entropy of labels; or with `targets`, (rows, classes), of one class the squares of
// x - target, and of several the mean over them of the cross-entropy of sigmoid(x), where a row is correct if
// each class is.
struct LossArgs {
  LossShape shape;
  ValueType type = ValueType::kFp32;
  const void* x = nullptr;  // logits
  const std::int32_t* labels = nullptr;
  const float* targets = nullptr;
  LossResult* result = nullptr;  // of the forward pass: sums over rows
  void* dx = nullptr;            // of the backward pass: the gradient of the mean over rows
  double mean_of = 0;            // rows that the mean is taken over; 0: those that there are
  double divisor() const { return mean_of > 0 ? mean_of : static_cast<double>(shape.rows); }
};

// The operations of a device (kernels/device.h) for image networks, and for all networks. One that takes more
// than four values takes a struct.
class ComputeKernels {
 public:
  // ---- elements ------------------------------------------------------------------------------------------
  virtual void to_float(ValueType type, std::int64_t count, const void* in, float* out) = 0;
  virtual void from_float(ValueType type, std::int64_t count, const float* in, void* out) = 0;
  virtual void add(const Array& of, const void* a, const void* b, void* y) = 0;
  // dst = (accumulate ? dst : 0) + src
  virtual void copy_or_add(const Array& of, const void* src, void* dst, bool accumulate) = 0;
  virtual void copy_or_add_rows(ValueType type, const Rows& rows, const void* src, void* dst) = 0;
  virtual void scale(const ScaleArgs& args) = 0;
  virtual void dropout(const DropoutArgs& args) = 0;

  // ---- activations ---------------------------------------------------------------------------------------
  virtual void activate(const ActivationArgs& args) = 0;
  virtual void activate_backward(const ActivationArgs& args) = 0;
  // Beside a matrix product (kernels/matrix.h). Returns the gradient of x: dy, or g where there is ReLU.
  virtual const void* bias_backward(const BiasBackward& args) = 0;

  // ---- convolution ---------------------------------------------------------------------------------------
  virtual std::unique_ptr<Convolution> convolution(const ConvShape& shape, ValueType type) = 0;

  // ---- batch norm ----------------------------------------------------------------------------------------
  virtual std::int64_t batch_norm_scratch_bytes(const BatchNormShape& shape) const = 0;
  // Mean and variance of each channel; partial results of row shards are merged in double (Chan et al. 1979).
  virtual void batch_norm_statistics(const BatchNormShape& shape, const void* x,
                                     const BatchNormStatistics& of, void* scratch) = 0;
  // For each channel: inverse_deviation, which holds the variance, becomes 1 / sqrt(variance +
  // kBatchNormEpsilon); scale becomes the weight times that, shift the bias less mean * scale.
  virtual void batch_norm_prepare(int channels, const float* mean, float* inverse_deviation,
                                  const BatchNormScale& of) = 0;
  virtual void batch_norm_apply(const BatchNormShape& shape, const BatchNormApply& args) = 0;
  virtual void batch_norm_backward(const BatchNormShape& shape, const BatchNormBackward& args,
                                   void* scratch) = 0;

  // ---- pooling, patches, shortcut ------------------------------------------------------------------------
  virtual void pool_forward(const PoolShape& shape, const void* x, void* y) = 0;
  // The gradient of a maximum goes to the first element of the window that has it.
  virtual void pool_backward(const PoolShape& shape, const PoolBackward& args) = 0;
  virtual void patches(const PatchShape& shape, ValueType type, const void* x, void* y) = 0;
  virtual void shortcut_forward(const ShortcutShape& shape, const void* x, void* y) = 0;
  virtual void shortcut_backward(const ShortcutShape& shape, const void* dy, void* dx, bool accumulate) = 0;

  // ---- loss ----------------------------------------------------------------------------------------------
  virtual void loss_forward(const LossArgs& args) = 0;
  virtual void loss_backward(const LossArgs& args) = 0;

 protected:
  ComputeKernels() = default;
  ~ComputeKernels() = default;
};

}  // namespace lpmm::kernels
