// A CUDA device: its kernels. nvcc compiles them for a GPU, the host's compiler for the emulated device.
//
// Sums are trees whose shape depends on the sizes of the data alone: the same bits in every run, whatever
// order threads and blocks run in. What differs between the two worlds is left open here: memory, waiting and
// the matrix product.
#pragma once

#include "kernels/cpu.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/library_convolution.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

class CudaDevice : public Device {
 public:
  // Threads of the host as in CpuDevice. `tensor_cores`: what fits them is computed there, in bf16.
  CudaDevice(int threads, bool tensor_cores) : host_(threads), has_tensor_cores_(tensor_cores) {}
  CpuDevice& host() override { return host_; }
  Stream stream() const { return stream_; }
  PanelSizes panel_sizes() const override { return {std::int64_t{1} << 25, std::int64_t{1} << 27, 64}; }
  Pool& host_pool() override { return host_.host_pool(); }
  int host_threads() const override { return host_.host_threads(); }

  void encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
              const Noise& noise, bool* storable = nullptr) override;
  void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) override;
  void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst) override;
  void decode_rows(const RoleView& src, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                   float* dst) override;
  void fold(std::span<const Fold> folds) override;
  bool gathers_folds() const override { return true; }  // to launch a kernel takes longer than a small fold
  void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) override;
  void clear(const RoleView& accumulator) override;
  void update(std::span<const TensorUpdate> tensors) override;
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
  // Null: there is none, and our kernel does it. Asked for what fits tensor cores.
  virtual const LibraryConvolution* library_convolution(const ConvPass& /*pass*/) { return nullptr; }
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

 protected:
  CpuDevice host_;
  const bool has_tensor_cores_;
  Stream stream_ = nullptr;  // a device that is opened later makes its own
  Arrivals arrivals_;        // of the launches of that stream

 private:
  void fold_alone(const Fold& fold);
};

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
