// A GPU that is opened: a stream, memory and matrix products, whatever device is made of them.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cuda/cuda_packed.h"
#include "kernels/cuda/facts.h"
#include "kernels/cuda/gpu/gpu.h"
#include "kernels/cuda/gpu/peer.h"
#include "kernels/cuda/gpu/products.h"
#include "kernels/cuda/gpu/side_queue.h"

namespace lpmm::kernels::cuda {

// The facts of the device of that number, whose properties go to `device`.
GpuFacts facts_of(int number, cudaDeviceProp* device);

class OpenedGpu {
 public:
  explicit OpenedGpu(GpuOptions options);  // nothing is opened yet
  ~OpenedGpu();
  OpenedGpu(const OpenedGpu&) = delete;
  OpenedGpu& operator=(const OpenedGpu&) = delete;

  void open();
  Stream stream() const { return stream_; }
  const GpuOptions& options() const { return options_; }
  const std::string& device() const { return device_; }
  // Null where there is no memory.
  std::byte* allocate(std::int64_t bytes) const;
  std::byte* allocate_shared(std::int64_t bytes);
  void release(std::byte* memory, std::int64_t bytes) noexcept;
  void upload(void* to, const void* host, std::int64_t bytes);
  void synchronize() const;
  // cuBLASLt, which is loaded with the first product.
  Products& products();
  // The libraries that are loaded, with their versions; empty before.
  const std::string& library() const { return library_; }
  void add_library(const std::string& name) { library_ += ", " + name; }

 private:
  class Staging;
  const GpuOptions options_;
  Stream stream_;
  std::atomic<bool> is_open_ = false;
  std::string device_, library_;
  std::mutex mutex_;  // of shared_
  std::set<void*> shared_;
  std::unique_ptr<Staging> staging_;
  std::once_flag staging_begun_, products_begun_;
  std::optional<Products> products_;
};

// Base is a CudaPacked, whose parts of a machine these are.
template <class Base>
class OnGpu : public Base {
 public:
  template <class... Arguments>
  explicit OnGpu(GpuOptions options, Arguments... arguments) : Base(arguments...), gpu_(std::move(options)) {
    this->packed_.stream = gpu_.stream();
  }
  ~OnGpu() override { this->packed_.arrivals.release(); }

  std::string_view name() const override { return kGpu; }
  std::string compute_library() const override {
    return gpu_.library().empty() ? std::string(kGpu) : gpu_.library() + ", " + gpu_.device();
  }
  DeviceMemory allocate(std::int64_t bytes) override {
    open();
    std::byte* memory = gpu_.allocate(bytes);
    if (memory == nullptr) return {};
    fill_with_zeros(memory, bytes);
    return {memory, {this, bytes}};
  }
  DeviceMemory allocate_shared(std::int64_t bytes) override {
    open();
    std::byte* memory = gpu_.allocate_shared(bytes);
    if (memory == nullptr) return {};
    return {memory, {this, bytes}};
  }
  std::optional<std::int64_t> available_memory() override {
    open();
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all), "free memory");
    // The context is there by now, and what a run takes counts it.
    return std::min(static_cast<std::int64_t>(all),
                    static_cast<std::int64_t>(free) + this->own_bytes().value_or(0));
  }
  void upload(void* to, const void* host, std::int64_t bytes) override {
    if (bytes > 0) gpu_.upload(to, host, bytes);
  }
  void download(void* host, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(host, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, gpu_.stream()),
          "copy to the host");
    synchronize();
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, gpu_.stream()),
          "copy");
  }
  void fill_with_zeros(void* to, std::int64_t bytes) override {
    if (bytes > 0) cuda::fill_with_zeros(to, bytes, gpu_.stream());
  }
  void synchronize() override { gpu_.synchronize(); }
  // Memory of a caller's allocator may lie anywhere in what that has of CUDA, which a handle does not say.
  std::string peer_name(const std::byte* memory) override {
    return gpu_.options().allocate ? std::string{} : cuda::peer_name(memory);
  }
  std::unique_ptr<PeerMemory> open_peer(std::string_view name) override {
    open();
    return cuda::open_peer(name, gpu_.stream());
  }
  std::string link_name() override { return nccl_name(); }
  std::unique_ptr<DeviceLink> open_link(std::string_view name, int rank, int ranks) override {
    open();
    return open_nccl(name, rank, ranks, open_side_queue(gpu_.options().number, gpu_.stream()));
  }
  void matmul(const MatrixArgs& args, void* scratch) override {
    open();
    gpu_.products().multiply(args, nullptr, scratch, gpu_.stream());
  }
  std::int64_t matmul_scratch_bytes(const MatrixArgs& /*args*/) const override {
    return Products::kScratchBytes;
  }

 protected:
  void open() {
    std::call_once(opened_, [&] {
      gpu_.open();
      this->packed_.stream = gpu_.stream();
      opened();
    });
  }
  virtual void opened() {}
  OpenedGpu gpu_;

 private:
  void release(std::byte* memory, std::int64_t bytes) noexcept override { gpu_.release(memory, bytes); }
  std::once_flag opened_;
};

}  // namespace lpmm::kernels::cuda
