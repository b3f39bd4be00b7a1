// The host as a device: threads, and the best instruction set it has. Threads of the caller that share it
// take turns at its own.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/packed_device.h"

namespace lpmm {
namespace kernels {

// The instruction sets compiled in and usable here, best first ("avx512", "avx2", "neon", "scalar"), and a
// switch to one of them for tests; an empty name returns to the best.
std::span<const char* const> simd_levels();
void use_simd_level(const char* name);
const char* simd_level();

// PackedKernels and MatrixKernels on a pool of threads, and the host's memory.
namespace cpu {
std::byte* allocate(std::int64_t bytes);
void release(std::byte* memory, std::int64_t bytes) noexcept;
void copy(void* to, const void* from, std::int64_t bytes);
void fill_with_zeros(void* to, std::int64_t bytes);
std::string peer_name(const std::byte* memory);
std::unique_ptr<PeerMemory> open_peer(std::string_view name);
void encode(Pool& pool, const EncodeArgs& args);
void decode(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count, float* dst);
void decode_sum(Pool& pool, std::span<const RoleView> views, float* dst);
void decode_bf16(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst);
void decode_rows(Pool& pool, const DecodeRowsArgs& args);
void fold(Pool& pool, const Fold& fold);
void square_sum(Pool& pool, const RoleView& src, std::int64_t first, std::int64_t count, double* sum);
void clear(Pool& pool, const RoleView& accumulator);
void update(PackedDevice& device, std::span<const TensorUpdate> tensors);
// Each sum is made in the order of k, in fp32.
void multiply(Pool& pool, const MatrixArgs& args);
}  // namespace cpu

// A device of one kind or the other, less its name and its products.
template <class Base>
class CpuPacked : public Base {
 public:
  // threads >= 1, the calling thread included; 0 takes all processors this process may run on. They start
  // with the first work, or are those of a team.
  explicit CpuPacked(int threads, Team team = nullptr)
      : threads_(threads > 0 ? threads : Pool::usable_processors()), team_(team) {}

  bool is_host() const override { return true; }
  DeviceMemory allocate(std::int64_t bytes) override { return {cpu::allocate(bytes), {this, bytes}}; }
  DeviceMemory allocate_shared(std::int64_t bytes) override { return allocate(bytes); }
  void upload(void* to, const void* host, std::int64_t bytes) override { cpu::copy(to, host, bytes); }
  void download(void* host, const void* from, std::int64_t bytes) override { cpu::copy(host, from, bytes); }
  void copy(void* to, const void* from, std::int64_t bytes) override { cpu::copy(to, from, bytes); }
  void fill_with_zeros(void* to, std::int64_t bytes) override { cpu::fill_with_zeros(to, bytes); }
  void synchronize() override {}
  std::string peer_name(const std::byte* memory) override { return cpu::peer_name(memory); }
  std::unique_ptr<PeerMemory> open_peer(std::string_view name) override { return cpu::open_peer(name); }
  Pool& host_pool() override { return pool(); }
  int host_threads() const override { return threads_; }

  void encode(const EncodeArgs& args) override { cpu::encode(pool(), args); }
  void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) override {
    cpu::decode(pool(), src, first, count, dst);
  }
  void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst) override {
    cpu::decode_bf16(pool(), src, first, count, dst);
  }
  void decode_rows(const DecodeRowsArgs& args) override { cpu::decode_rows(pool(), args); }
  void decode_sum(std::span<const RoleView> views, float* dst, float* /*rooms*/) override {
    cpu::decode_sum(pool(), views, dst);
  }
  void fold(std::span<const Fold> folds) override {
    for (const Fold& f : folds) cpu::fold(pool(), f);
  }
  void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) override {
    cpu::square_sum(pool(), src, first, count, sum);
  }
  void clear(const RoleView& accumulator) override { cpu::clear(pool(), accumulator); }
  void update(std::span<const TensorUpdate> tensors) override { cpu::update(*this, tensors); }

 protected:
  Pool& pool() {
    std::call_once(pool_begun_, [this] { pool_.emplace(threads_, team_); });
    return *pool_;
  }
  const int threads_;
  const Team team_;

 private:
  void release(std::byte* memory, std::int64_t bytes) noexcept override { cpu::release(memory, bytes); }
  std::once_flag pool_begun_;
  std::optional<Pool> pool_;
};

// A CPU for packed memory alone, which needs no library. Products are our own, so that a rule with an
// orthogonal step differs from a CpuDevice's in its last digits.
class CpuPackedDevice : public CpuPacked<PackedDevice> {
 public:
  explicit CpuPackedDevice(int threads = 0, Team team = nullptr) : CpuPacked(threads, team) {}
  std::string_view name() const override { return "cpu"; }
  std::string compute_library() const override { return "lpmm"; }
  PackedDevice& host() override { return *this; }
  void matmul(const MatrixArgs& args, void* /*scratch*/) override { cpu::multiply(pool(), args); }
  std::int64_t matmul_scratch_bytes(const MatrixArgs& /*args*/) const override { return 0; }
};

}  // namespace kernels
using kernels::CpuPackedDevice;
}  // namespace lpmm
