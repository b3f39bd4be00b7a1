// The host as a device that trains networks.
#pragma once

#include "kernels/cpu_packed.h"
#include "kernels/device.h"

namespace lpmm {
namespace kernels {

const char* cpu_library();  // that multiplies matrices: "oneDNN 2.6.3, avx2", "Eigen 3.4.0"

class CpuDevice : public CpuPacked<Device> {
 public:
  explicit CpuDevice(int threads = 0) : CpuPacked(threads) {}

  static constexpr std::string_view kName = "cpu";
  std::string_view name() const override { return kName; }
  std::string compute_library() const override { return cpu_library(); }
  Device& host() override { return *this; }

  void matmul(const MatrixArgs& args, void* scratch) override;
  std::int64_t matmul_scratch_bytes(const MatrixArgs& args) const override;
  void to_float(Compute type, std::int64_t count, const void* in, float* out) override;
  void from_float(Compute type, std::int64_t count, const float* in, void* out) override;
  void relu_forward(Compute type, std::int64_t count, const void* x, void* y) override;
  void relu_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                     bool accumulate) override;
  void add(Compute type, std::int64_t count, const void* a, const void* b, void* y) override;
  void copy_or_add(Compute type, std::int64_t count, const void* src, void* dst, bool accumulate) override;
  void scale(Compute type, std::int64_t count, float factor, const void* src, void* dst,
             bool accumulate) override;
  void copy_or_add_rows(Compute type, const Rows& rows, const void* src, void* dst, bool accumulate) override;
  std::unique_ptr<Convolution> convolution(const ConvShape& shape, Compute type) override;
  const void* bias_backward(Compute type, std::int64_t rows, std::int64_t columns, const void* y,
                            const void* dy, bool relu, void* g, float* bias_gradient) override;
  std::int64_t norm_scratch_bytes(const NormShape& shape) const override;
  void norm_statistics(const NormShape& shape, const void* x, const NormStatistics& of,
                       void* scratch) override;
  void norm_prepare(int channels, const float* mean, float* inverse_deviation, const NormScale& of) override;
  void norm_apply(const NormShape& shape, const void* x, const float* scale, const float* shift,
                  const void* residual, bool relu, void* y) override;
  void norm_backward(const NormShape& shape, const NormBackward& args, void* scratch) override;
  void average_pool_forward(const PoolShape& shape, Compute type, const void* x, void* y) override;
  void average_pool_backward(const PoolShape& shape, Compute type, const void* dy, void* dx,
                             bool accumulate) override;
  void max_pool_forward(const PoolShape& shape, Compute type, const void* x, void* y) override;
  void max_pool_backward(const PoolShape& shape, Compute type, const void* x, const void* dy, void* dx,
                         bool accumulate) override;
  void patches(const PatchShape& shape, Compute type, const void* x, void* y) override;
  void shortcut_forward(const ShortcutShape& shape, Compute type, const void* x, void* y) override;
  void shortcut_backward(const ShortcutShape& shape, Compute type, const void* dy, void* dx,
                         bool accumulate) override;
  void softmax_loss(const LossShape& shape, Compute type, const void* logits, const std::int32_t* labels,
                    LossResult* result) override;
  void softmax_loss_backward(const LossShape& shape, Compute type, const void* logits,
                             const std::int32_t* labels, void* dlogits) override;
  void square_loss(std::int64_t rows, Compute type, const void* x, const float* targets,
                   LossResult* result) override;
  void square_loss_backward(std::int64_t rows, Compute type, const void* x, const float* targets,
                            void* dx) override;
  void row_norm_forward(const RowNormShape& shape, const void* x, const float* weight, const float* bias,
                        void* y, float* mean, float* inverse_deviation) override;
  std::int64_t row_norm_scratch_bytes(const RowNormShape& shape) const override;
  void row_norm_backward(const RowNormShape& shape, const RowNormBackward& args, void* scratch) override;
  void gelu_forward(Compute type, GeluForm form, std::int64_t count, const void* x, void* y) override;
  void gelu_backward(Compute type, GeluForm form, std::int64_t count, const void* x, const void* dy, void* dx,
                     bool accumulate) override;
  void swiglu_forward(Compute type, std::int64_t rows, std::int64_t width, const void* x, void* y) override;
  void swiglu_backward(Compute type, std::int64_t rows, std::int64_t width, const void* x, const void* dy,
                       void* dx, bool accumulate) override;
  void tanh_forward(Compute type, std::int64_t count, const void* x, void* y) override;
  void tanh_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                     bool accumulate) override;
  void mean_forward(const MeanShape& shape, const void* x, void* y) override;
  void mean_backward(const MeanShape& shape, const void* dy, void* dx, bool accumulate) override;
  void rotary(const RotaryShape& shape, const float* angles, bool inverse, const void* x, void* y,
              bool accumulate) override;
  void dropout(Compute type, std::int64_t count, const Dropout& drop, const void* x, void* y,
               bool accumulate) override;
  std::int64_t attention_scratch_bytes(const AttentionShape& shape) const override;
  void attention_forward(const AttentionShape& shape, const void* q, const void* kv, const Dropout& drop,
                         void* y, float* log_sums, void* scratch) override;
  void attention_cached(const AttentionShape& shape, std::int64_t past, const void* qkv, void* cache,
                        std::int64_t room, void* y, void* scratch) override;
  void attention_backward(const AttentionShape& shape, const Dropout& drop, const AttentionBackward& args,
                          void* scratch) override;
  void embedding_forward(Compute type, std::int64_t width, std::int64_t length, std::int64_t first,
                         std::int64_t rows, const float* tokens, const float* positions, void* y) override;
  void sum_rows(Compute type, std::int64_t width, const void* x, const RowGroups& groups, std::int64_t begin,
                std::int64_t end, float* out) override;
  void softmax_scan(const LossShape& shape, std::int64_t first, std::int64_t columns, const float* logits,
                    const std::int32_t* labels, SoftmaxRow* state) override;
  void softmax_finish(const LossShape& shape, const SoftmaxRow* state, const std::int32_t* labels,
                      float* log_sums, LossResult* result) override;
  void softmax_gradient(Compute type, const LossShape& shape, std::int64_t first, std::int64_t columns,
                        float scale, const float* log_sums, const std::int32_t* labels, float* logits,
                        void* gradient) override;
  void count_keys(std::int64_t count, const float* x, const KeyTree& tree, std::uint64_t* counts) override;
  void sum_tile_quantiles(std::int64_t count, const float* x, int shares, const double* share,
                          double* sums) override;
};

}  // namespace kernels
using kernels::CpuDevice;
}  // namespace lpmm
