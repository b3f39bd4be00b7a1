// The kernels of packed memory. Compiled by nvcc, and by the host's compiler for the emulated device.
#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <vector>

#include "kernels/cuda/counted.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/fused.h"
#include "kernels/cuda/sum_tree.h"
#include "kernels/cuda/sums_body.h"
#include "kernels/cuda/update_body.h"
#include "kernels/maps.h"
#include "kernels/orthogonal.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

using cuda::FoldedTerms;
using cuda::FoldJob;
using cuda::NormTerms;
using cuda::Slot;
using cuda::SumsJob;

#if defined(__CUDACC__)
// The tables of one map at one width, as map_table() has them.
constexpr int kMostTableBits = 8;
static_assert(
    [] {
      for (const MapRow& row : kMaps) {
        if (has_table(row.map) && row.widths >> (kMostTableBits + 1) != 0) return false;
      }
      return true;
    }(),
    "a table of more entries than DeviceTable holds");
struct DeviceTable {
  float values[1 << kMostTableBits];
  Zone zones[2 * kZones];
};
__device__ DeviceTable device_tables[kTables];

// The tables' address on the current device; they are copied there at its first use.
const DeviceTable* tables_here() {
  constexpr std::size_t kMaxDevices = 64;
  static std::array<const DeviceTable*, kMaxDevices> addresses{};
  static std::mutex mutex;
  int device = 0;
  check(cudaGetDevice(&device), "no current device");
  const std::lock_guard lock(mutex);
  const DeviceTable*& address = addresses.at(static_cast<std::size_t>(device));
  if (address == nullptr) {
    static DeviceTable host[kTables];
    for (const Format format : all_formats()) {
      const MapTable table = map_table(format);
      if (table.values == nullptr) continue;
      DeviceTable& to = host[table_number(format)];
      std::copy_n(table.values, std::size_t{1} << format.bits, to.values);
      if (table.zones != nullptr) std::copy_n(table.zones, 2 * kZones, to.zones);
    }
    check(cudaMemcpyToSymbol(device_tables, host, sizeof host), "copy of the tables");
    check(cudaDeviceSynchronize(), "copy of the tables");  // other streams do not wait for it
    void* found = nullptr;
    check(cudaGetSymbolAddress(&found, device_tables), "address of the tables");
    address = static_cast<const DeviceTable*>(found);
  }
  return address;
}
#endif

template <int kPhasesOfJob, class JobType>
__global__ void run_job(JobType job) {
  auto* const shared = static_cast<std::uint32_t*>(dynamic_shared());
  for (int phase = 0; phase < kPhasesOfJob; ++phase) {
    run_phase(phase, job, blockIdx.x, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), shared);
    __syncthreads();
  }
}

// Loops over elements, some of them per thread.
struct DecodeTo {
  Slot src;
  std::int64_t first;
  float* dst;
  LPMM_HD void operator()(std::int64_t i) const { dst[i] = load_value(src, first + i); }
};
struct DecodeToBf16 {
  Slot src;
  std::int64_t first;
  std::uint16_t* dst;
  LPMM_HD void operator()(std::int64_t i) const { dst[i] = float_to_bf16(load_value(src, first + i)); }
};
struct DecodeRows {
  Slot src;
  std::int64_t width;
  const std::int32_t* rows;
  float* dst;
  LPMM_HD void operator()(std::int64_t i) const {
    dst[i] = load_value(src, rows[i / width] * width + i % width);
  }
};
constexpr int kPerThread = 8;
template <class Body>
__global__ void run_each(std::int64_t count, Body body) {
  for (int k = 0; k < kPerThread; ++k) {
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kPerThread + k;
    const std::int64_t i = row * blockDim.x + threadIdx.x;
    if (i < count) body(i);
  }
}
template <class Body>
void for_each_element(std::int64_t count, const Body& body, Stream stream) {
  constexpr std::int64_t kPerBlock = std::int64_t{kPerThread} * kThreads;
  launch(run_each<Body>, (count + kPerBlock - 1) / kPerBlock, kThreads, 0, stream, count, body);
}

template <class RuleType>
__global__ void take_norms(RuleType rule, const double* squares, RuleType* with_norms) {
  double sums[RuleType::kNorms];
  for (int k = 0; k < RuleType::kNorms; ++k) sums[k] = squares[k];
  rule.take_norms(sums);
  *with_norms = rule;
}
__global__ void set_flag(bool* flag) {
  *flag = true;
}

void begin(bool* storable, Stream stream) {
  if (storable != nullptr) launch(set_flag, 1, 1, 0, stream, storable);
}
template <int kPhasesOfJob = cuda::kPhases, class JobType>
void run(const JobType& job, Stream stream) {
  launch(run_job<kPhasesOfJob, JobType>, units(job), kThreads, 4 * shared_words(job), stream, job);
}
// sums[k] <- the sum of the squares of term k.
template <class Terms>
void run_sums(SumsJob<Terms> job, double* sums, Stream stream) {
  const std::int64_t pieces = units(job), of_pieces = Terms::kCount * pieces;
  StreamMemory room(8 * (of_pieces + sum_room(pieces)), stream);
  job.sums = static_cast<double*>(room.data());
  run<cuda::kSumPhases>(job, stream);
  for (int k = 0; k < Terms::kCount; ++k) {
    sum_pieces(job.sums + k * pieces, pieces, job.sums + of_pieces, sums + k, stream);
  }
}

template <class RuleType>
void update_rule(const RuleType& rule, const UpdateArgs& args, bool* storable, Stream stream) {
  auto job = cuda::make_update(rule, args.roles, args.noise, storable, device_table);
  if constexpr (HasNorms<RuleType>) {
    if (rule.needs_norms()) {
      constexpr std::int64_t kSquares = std::int64_t{8} * RuleType::kNorms;
      StreamMemory room(kSquares + static_cast<std::int64_t>(sizeof(RuleType)), stream);
      auto* squares = static_cast<double*>(room.data());
      auto* with_norms = reinterpret_cast<RuleType*>(squares + RuleType::kNorms);
      run_sums(cuda::make_norms(rule, args.roles, device_table), squares, stream);
      launch(take_norms<RuleType>, 1, 1, 0, stream, rule, squares, with_norms);
      job.with_norms = with_norms;
      run(job, stream);
      return;
    }
  }
  run(job, stream);
}

void update_once(const Rule& rule, const UpdateArgs& args, bool* storable, Stream stream) {
  std::visit([&](const auto& r) { update_rule(r, args, storable, stream); }, rule);
}

}  // namespace

#if defined(__CUDACC__)
MapTable device_table(Format format) {
  const MapTable host = map_table(format);
  if (host.values == nullptr) return {};
  const DeviceTable* table = tables_here() + table_number(format);
  return {table->values, host.entries, host.zones == nullptr ? nullptr : table->zones, host.zero};
}
#endif

void CudaDevice::encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
                        const Noise& noise, bool* storable) {
  begin(storable, stream());
  run(cuda::make_encode(dst, first, count, src, noise, storable, device_table), stream());
}

void CudaDevice::decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) {
  if (fast::decode(src, first, count, dst, stream())) return;
  for_each_element(count, DecodeTo{cuda::make_slot(src, device_table, {}), first, dst}, stream());
}
void CudaDevice::decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count,
                             std::uint16_t* dst) {
  if (fast::decode_bf16(src, first, count, dst, stream())) return;
  for_each_element(count, DecodeToBf16{cuda::make_slot(src, device_table, {}), first, dst}, stream());
}
void CudaDevice::decode_rows(const RoleView& src, std::int64_t width, const std::int32_t* rows,
                             std::int64_t count, float* dst) {
  for_each_element(count * width, DecodeRows{cuda::make_slot(src, device_table, {}), width, rows, dst},
                   stream());
}

void CudaDevice::fold(const RoleView& accumulator, std::int64_t first, std::int64_t count,
                      const float* contribution, const FoldArgs& args, FoldResult* result) {
  if (args.stats != nullptr) {
    return fold_counted(*this, host_, accumulator, first, count, contribution, args, result);
  }
  if (fast::fold(accumulator, first, count, contribution, args, result, stream())) return;
  bool* finite = result == nullptr ? nullptr : &result->finite;
  begin(finite, stream());
  const FoldJob job =
      cuda::make_fold(accumulator, first, count, contribution, args.scale, args.noise, finite, device_table);
  if (args.want_square_sum && result != nullptr) {
    run_sums(cuda::make_folded_sum(job), &result->square_sum, stream());
  }
  run(job, stream());
}

void CudaDevice::square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) {
  run_sums(cuda::make_stored_sum(src, first, count, device_table), sum, stream());
}

void CudaDevice::clear(const RoleView& accumulator) {
  const Codec& codec = accumulator.codec;
  if (is_packed(codec.format)) {
    fill_with_zeros(accumulator.steps, step_bytes(codec, accumulator.elements));
  } else {
    fill_with_zeros(accumulator.codes, code_bytes(codec.format, accumulator.elements));
  }
}

void CudaDevice::update(std::span<const TensorUpdate> tensors) {
  std::vector<TensorUpdate> uncounted;
  for (const TensorUpdate& tensor : tensors) {
    if (is_orthogonal(tensor.rule)) {
      begin(tensor.storable, stream());
      update_orthogonal(*this, tensor, [&](const Rule& rule, const UpdateArgs& args) {
        if (args.stats == nullptr) return update_once(rule, args, tensor.storable, stream());
        bool storable = true;
        update_counted(*this, host_, {rule, args, &storable});
        if (!storable && tensor.storable != nullptr) *tensor.storable = false;
      });
    } else if (tensor.args.stats != nullptr) {
      update_counted(*this, host_, tensor);
    } else {
      uncounted.push_back(tensor);
    }
  }
  if (uncounted.empty() || fast::update(uncounted, stream())) return;
  for (const TensorUpdate& tensor : uncounted) {
    begin(tensor.storable, stream());
    update_once(tensor.rule, tensor.args, tensor.storable, stream());
  }
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
