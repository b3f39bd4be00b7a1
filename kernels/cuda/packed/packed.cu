// The kernels of packed memory. Compiled by nvcc, and by the host's compiler for the emulated device.
#include <algorithm>
#include <deque>
#include <span>
#include <vector>

#include "kernels/cuda/counted.h"
#include "kernels/cuda/cuda_packed.h"
#include "kernels/cuda/packed/fused.h"
#include "kernels/cuda/packed/rows_body.h"
#include "kernels/cuda/packed/steps_body.h"
#include "kernels/cuda/packed/sums_body.h"
#include "kernels/cuda/packed/update_body.h"
#include "kernels/cuda/sum_tree.h"
#include "kernels/orthogonal.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

using cuda::FoldedTerms;
using cuda::FoldJob;
using cuda::NormTerms;
using cuda::Slot;
using cuda::SumsJob;

template <int kPhasesOfJob, class JobType>
__global__ void run_job(JobType job) {
  begin_kernel();
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
struct AddTo {
  const float* addend;
  float* sum;
  LPMM_HD void operator()(std::int64_t i) const { sum[i] += addend[i]; }
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
  std::int64_t src_first, src_elements;
  LPMM_HD void operator()(std::int64_t i) const {
    const std::int64_t element = rows[i / width] * width + i % width - src_first;
    if (element >= 0 && element < src_elements) dst[i] = load_value(src, element);
  }
};
constexpr int kPerThread = 512 / kThreads;  // small tensors have few elements for a GPU
template <class Body>
__global__ void run_each(std::int64_t count, Body body) {
  begin_kernel();
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
__global__ void take_norms(RuleType* rule, const double* squares) {
  begin_kernel();
  double sums[RuleType::kNorms];
  for (int k = 0; k < RuleType::kNorms; ++k) sums[k] = squares[k];
  rule->take_norms(sums);
}
template <class RuleType>
__global__ void keep(RuleType rule, RuleType* there) {
  begin_kernel();
  *there = rule;
}

// A block for some of the rows' variances, a thread for a lane.
template <class RuleType>
__global__ void update_rows(cuda::RowsJob<RuleType> job) {
  begin_kernel();
  auto* const lanes = static_cast<double*>(dynamic_shared());
  const int lane = static_cast<int>(threadIdx.x);
  for (std::int64_t place = blockIdx.x; place < job.shares.places(job.rows); place += gridDim.x) {
    const std::int64_t first = job.shares.first_row(place), rows = job.shares.rows_of(place);
    double sum = 0;  // the first lane's
    for (std::int64_t row = first; row < first + rows; ++row) {
      lanes[lane] = job.lane_of_row(row, lane);
      __syncthreads();
      if (lane == 0) sum += sum_of_lanes<kRowLanes>(lanes);
      __syncthreads();
    }
    if (lane == 0) job.move_on(job.of_rows[place], sum, rows * job.columns);
  }
}
// sums[chunk][column]: a thread for a column of a chunk.
template <class RuleType>
__global__ void sum_columns(cuda::RowsJob<RuleType> job, double* sums) {
  begin_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < row_chunks(job.rows) * job.columns) sums[i] = job.chunk_of_column(i % job.columns, i / job.columns);
}
template <class RuleType>
__global__ void update_columns(cuda::RowsJob<RuleType> job, const double* sums) {
  begin_kernel();
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= job.columns) return;
  double sum = 0;
  for (std::int64_t chunk = 0; chunk < row_chunks(job.rows); ++chunk) {
    sum += sums[chunk * job.columns + column];
  }
  job.move_on(job.of_columns[column], sum, job.rows);
}
template <class RuleType>
__global__ void take_row_mean(cuda::RowsJob<RuleType> job, RuleType* completed) {
  begin_kernel();
  auto* const lanes = static_cast<double*>(dynamic_shared());
  const int lane = static_cast<int>(threadIdx.x);
  lanes[lane] = job.lane_of_variances(lane);
  __syncthreads();
  if (lane == 0) completed->take_row_mean(sum_of_lanes<kRowLanes>(lanes) / static_cast<double>(job.rows));
}
__global__ void set_flag(bool* flag) {
  begin_kernel();
  *flag = true;
}

void begin(bool* storable, Stream stream) {
  if (storable != nullptr) launch(set_flag, 1, 1, 0, stream, storable);
}
template <int kPhasesOfJob = cuda::kPhases, class JobType>
void run(const JobType& job, Stream stream) {
  launch(run_job<kPhasesOfJob, JobType>, units(job), kThreads, 4 * shared_words(job), stream, job);
}
// A job of a whole tensor, after the pass that its steps of rows and columns need.
template <class JobType>
void run_with_next_steps(JobType job, Stream stream) {
  std::int64_t steps[cuda::kMaxStores] = {}, all = 0;
  for (int s = 0; s < job.stores; ++s) {
    if (cuda::has_next_steps(job.slots[s])) steps[s] = steps_of(job.slots[s].codec, job.end);
    all += steps[s];
  }
  if (all == 0) return run(job, stream);
  const std::int64_t bytes = all * static_cast<std::int64_t>(sizeof(float));
  const StreamMemory room(bytes, stream);
  fill_with_zeros(room.data(), bytes, stream);
  auto* next = static_cast<float*>(room.data());
  for (int s = 0; s < job.stores; ++s) {
    if (steps[s] == 0) continue;
    job.slots[s].next_steps = next;
    next += steps[s];
  }
  for_each_element(job.end, cuda::RaiseSteps<JobType>{job}, stream);
  for (int s = 0; s < job.stores; ++s) {
    const Slot& slot = job.slots[s];
    for_each_element(steps[s], cuda::ChooseStep{slot.codec, slot.next_steps}, stream);
  }
  run(job, stream);
  for (int s = 0; s < job.stores; ++s) for_each_element(steps[s], cuda::StoreStep{job.slots[s]}, stream);
}

// sums[k] <- the sum of the squares of term k.
template <class Terms>
void run_sums(SumsJob<Terms> job, double* sums, Stream stream) {
  const std::int64_t unit_count = units(job), of_units = Terms::kCount * unit_count;
  StreamMemory room(8 * (of_units + sum_room(unit_count)), stream);
  job.sums = static_cast<double*>(room.data());
  run<cuda::kSumPhases>(job, stream);
  for (int k = 0; k < Terms::kCount; ++k) {
    sum_pieces(job.sums + k * unit_count, unit_count, job.sums + of_units, sums + k, stream);
  }
}

// The variances of rows and columns, and what the rule needs of them.
template <class RuleType>
void run_rows(const cuda::RowsJob<RuleType>& job, RuleType* completed, Stream stream) {
  constexpr std::int64_t kMostBlocks = 1 << 16, kLaneBytes = kRowLanes * sizeof(double);
  if (job.rows == 0 || job.columns == 0) return;
  launch(update_rows<RuleType>, std::min(job.rows, kMostBlocks), kRowLanes, kLaneBytes, stream, job);
  if (job.of_columns != nullptr) {
    const auto blocks = [](std::int64_t threads) { return (threads + kThreads - 1) / kThreads; };
    StreamMemory room(column_sum_bytes(job.rows, job.columns), stream);
    auto* sums = static_cast<double*>(room.data());
    launch(sum_columns<RuleType>, blocks(row_chunks(job.rows) * job.columns), kThreads, 0, stream, job, sums);
    launch(update_columns<RuleType>, blocks(job.columns), kThreads, 0, stream, job, sums);
  }
  if constexpr (NeedsRowMean<RuleType>) {
    launch(take_row_mean<RuleType>, 1, kRowLanes, kLaneBytes, stream, job, completed);
  }
}

template <class RuleType>
bool has_first_pass(const RuleType& rule, const RoleArray<RoleView>& roles) {
  if constexpr (HasRows<RuleType>) {
    if (roles[Role::kRowVariance].codes != nullptr) return true;
  }
  if constexpr (HasNorms<RuleType>) return rule.needs_norms();
  return false;
}

constexpr int kMostNorms = 2;

// The passes before the update leave the rule, with what they have found, in `completed`.
template <class RuleType>
void run_first_passes(const RuleType& rule, const UpdateArgs& args, bool* storable, RuleType* completed,
                      double* squares, Stream stream) {
  launch(keep<RuleType>, 1, 1, 0, stream, rule, completed);
  if constexpr (HasRows<RuleType>) {
    if (args.roles[Role::kRowVariance].codes != nullptr) {
      run_rows(cuda::make_rows(rule, args.roles, storable, device_table), completed, stream);
    }
  }
  if constexpr (HasNorms<RuleType>) {
    static_assert(RuleType::kNorms <= kMostNorms);
    if (rule.needs_norms()) {
      run_sums(cuda::make_norms(rule, completed, args.roles, device_table), squares, stream);
      launch(take_norms<RuleType>, 1, 1, 0, stream, completed, squares);
    }
  }
}

// A tensor's rule after its first passes, in the device's memory.
class Completed {
 public:
  Completed(const TensorUpdate& tensor, Stream stream)
      : has_pass_(std::visit([&](const auto& rule) { return has_first_pass(rule, tensor.args.roles); },
                             tensor.rule)),
        room_(has_pass_ ? kBytes : 0, stream) {
    if (!has_pass_) return;
    std::visit(
        [&]<class R>(const R& rule) {
          static_assert(sizeof(R) <= kRuleBytes && alignof(R) <= alignof(double));
          run_first_passes(rule, tensor.args, tensor.storable, static_cast<R*>(place()),
                           static_cast<double*>(room_.data()), stream);
        },
        tensor.rule);
  }
  const void* get() const { return has_pass_ ? place() : nullptr; }  // null: it takes none

 private:
  static constexpr std::int64_t kRuleBytes = sizeof(Rule), kBytes = 8 * kMostNorms + kRuleBytes;
  void* place() const { return static_cast<double*>(room_.data()) + kMostNorms; }
  bool has_pass_;
  StreamMemory room_;
};

// One block for each sum and each largest.
__global__ void finish_watch(double* sums, const LargestElement* largest, std::int64_t unit_count,
                             WatchStats* stats) {
  begin_kernel();
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int which = static_cast<int>(blockIdx.x);
  if (which < kWatched) {
    double* const of = sums + which * unit_count;
    for (std::int64_t width = 1; width < unit_count; width *= 2) {
      for (std::int64_t i = 2 * width * thread; i + width < unit_count; i += 2 * width * threads) {
        of[i] += of[i + width];
      }
      __syncthreads();
    }
    if (thread == 0) stats->squares[which] = unit_count > 0 ? of[0] : 0.0;
    return;
  }
  auto* const shared = static_cast<LargestElement*>(dynamic_shared());
  const LargestElement* const of = largest + (which - kWatched) * unit_count;
  shared[thread] = {};
  for (std::int64_t i = thread; i < unit_count; i += threads) shared[thread].raise(of[i].bits, of[i].element);
  __syncthreads();
  if (thread != 0) return;
  for (int i = 1; i < threads; ++i) shared[0].raise(shared[i].bits, shared[i].element);
  (which == kWatched ? stats->update : stats->ratio) = shared[0];
}

// Measures what a watched update is about to do.
void measure(const TensorUpdate& tensor, const Completed& completed, Stream stream) {
  if (tensor.watched == nullptr) return;
  const auto measure_with = [&]<class R>(const R& rule) {
    auto job = cuda::make_watch(rule, static_cast<const R*>(completed.get()), tensor.args.roles, tensor.peaks,
                                device_table);
    const std::int64_t unit_count = units(job);
    constexpr std::int64_t kBytes = 8 * kWatched + cuda::kLargest * sizeof(LargestElement);
    StreamMemory room(std::max<std::int64_t>(1, unit_count) * kBytes, stream);
    job.sums = static_cast<double*>(room.data());
    job.largest = reinterpret_cast<LargestElement*>(job.sums + kWatched * unit_count);
    run<cuda::kSumPhases>(job, stream);
    launch(finish_watch, kWatched + cuda::kLargest, kThreads, std::int64_t{kThreads * sizeof(LargestElement)},
           stream, job.sums, job.largest, unit_count, tensor.watched);
  };
  std::visit(measure_with, tensor.rule);
}

void update_with(const TensorUpdate& tensor, const void* completed, Stream stream) {
  std::visit(
      [&]<class R>(const R& rule) {
        auto job = cuda::make_update(rule, tensor.args, tensor.storable, device_table);
        job.completed = static_cast<const R*>(completed);
        run_with_next_steps(job, stream);
      },
      tensor.rule);
}
void update_once(const TensorUpdate& tensor, Stream stream) {
  const Completed completed(tensor, stream);
  measure(tensor, completed, stream);
  update_with(tensor, completed.get(), stream);
}

}  // namespace

void PackedStream::encode(const EncodeArgs& args) const {
  begin(args.storable, stream);
  run_with_next_steps(cuda::make_encode(args, device_table), stream);
}

void PackedStream::decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) const {
  if (fast::decode(src, first, count, dst, stream)) return;
  for_each_element(count, DecodeTo{cuda::make_slot(src, device_table, {}), first, dst}, stream);
}
void PackedStream::decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count,
                               std::uint16_t* dst) const {
  if (fast::decode_bf16(src, first, count, dst, stream)) return;
  for_each_element(count, DecodeToBf16{cuda::make_slot(src, device_table, {}), first, dst}, stream);
}
void PackedStream::decode_rows(const DecodeRowsArgs& a) const {
  for_each_element(a.count * a.width,
                   DecodeRows{cuda::make_slot(a.src, device_table, {}), a.width, a.rows, a.dst, a.src_first,
                              a.src.elements},
                   stream);
}

void PackedStream::decode_sum(std::span<const RoleView> views, float* dst, float* rooms) const {
  const std::int64_t count = views.front().elements, level = groups_of(count) * kGroup;
  const auto room = [&](int i) { return i == 0 ? dst : rooms + (i - 1) * level; };
  const auto load = [&](int i, int /*one*/, int to) {
    decode(views[static_cast<std::size_t>(i)], 0, count, room(to));
  };
  const auto add = [&](int to, int from) { for_each_element(count, AddTo{room(from), room(to)}, stream); };
  const auto load_more = [&](int i, int one, int to, int free) {
    load(i, one, free);
    add(to, free);
  };
  add_as_tree(0, static_cast<int>(views.size()), 1, 0, 1, load, load_more, add);
}

void PackedStream::fold_alone(PackedDevice& device, const Fold& fold) {
  if (fold.args.stats != nullptr) return fold_counted(device, fold);
  if (fast::fold(fold, arrivals, stream)) return;
  const FoldJob job = cuda::make_fold(fold, device_table);
  begin(fold.finite(), stream);
  if (fold.square_sum() != nullptr) run_sums(cuda::make_folded_sum(job), fold.square_sum(), stream);
  run(job, stream);
}

void PackedStream::square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) {
  fast::square_sum(src, first, count, sum, arrivals, stream);
}

void PackedStream::clear(const RoleView& accumulator) const {
  const Codec& codec = accumulator.codec;
  if (is_packed(codec.format)) {
    fill_with_zeros(accumulator.steps, step_bytes(codec, accumulator.elements), stream);
  } else {
    fill_with_zeros(accumulator.codes, code_bytes(codec.format, accumulator.elements), stream);
  }
}

// Steps of rows are chosen over a whole tensor, and so are variances of rows: units on their own cannot.
static bool needs_whole(const TensorUpdate& tensor) {
  const auto has_rows = [](const RoleView& role) {
    return role.codes != nullptr && is_packed(role.codec.format) && !has_blocks(role.codec);
  };
  const RoleArray<RoleView>& roles = tensor.args.roles;
  return roles[Role::kRowVariance].codes != nullptr || std::any_of(roles.begin(), roles.end(), has_rows);
}

void PackedStream::update(PackedDevice& device, std::span<const TensorUpdate> tensors) const {
  const auto counted = [&](const TensorUpdate& tensor) {
    // measure() also advances variances of rows, as the update does.
    update_counted(device, tensor, [&] {
      if (tensor.watched != nullptr) measure(tensor, Completed(tensor, stream), stream);
    });
  };
  std::vector<TensorUpdate> together;
  std::deque<Completed> rooms;
  std::vector<const void*> completed;
  for (const TensorUpdate& tensor : tensors) {
    if (is_orthogonal(tensor.rule)) {
      begin(tensor.storable, stream);
      update_orthogonal(device, tensor, [&](TensorUpdate pass) {
        if (pass.args.stats == nullptr) {
          pass.storable = tensor.storable;
          return update_once(pass, stream);
        }
        bool storable = true;
        pass.storable = &storable;
        counted(pass);
        if (!storable && tensor.storable != nullptr) *tensor.storable = false;
      });
    } else if (tensor.args.stats != nullptr) {
      counted(tensor);
    } else if (needs_whole(tensor)) {
      begin(tensor.storable, stream);
      update_once(tensor, stream);
    } else {
      measure(tensor, rooms.emplace_back(tensor, stream), stream);
      together.push_back(tensor);
      completed.push_back(rooms.back().get());
    }
  }
  if (together.empty() || fast::update(together, completed, stream)) return;
  for (std::size_t i = 0; i < together.size(); ++i) {
    begin(together[i].storable, stream);
    update_with(together[i], completed[i], stream);
  }
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
