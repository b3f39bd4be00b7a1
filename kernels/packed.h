// Kernels over packed model memory: encode, decode, fold, update.
//
// Ranges start at a multiple of kTile elements of the tensor, or of the least common multiple of 128 and the
// block where that is smaller; they end at the tensor's end or at such a multiple. Work is cut into tiles of
// at most kTile elements whatever the number of threads; temporaries are one tile of fp32 per role and
// thread. All functions give the same bits for any number of threads, any SIMD level, and as the scalar code
// of kernels/formats/element.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/formats/codec.h"
#include "kernels/formats/scales.h"
#include "kernels/matrix.h"
#include "kernels/peaks.h"
#include "kernels/roles.h"
#include "kernels/rules.h"
#include "kernels/rules/watched.h"

namespace lpmm::kernels {

inline constexpr std::int64_t kTile = 4096;  // a multiple of every block and of the packing group

// The storage of one role of one tensor. bf16 and fp32 keep uint16_t and float in `codes` and have no steps.
struct RoleView {
  Codec codec;
  std::uint8_t* codes = nullptr;  // 64-byte aligned; null where the tensor has no such role
  // bf16, one per block; is_step() of kernels/formats/codec.h holds. Or as load_step() of
  // kernels/formats/scales.h has them.
  std::uint16_t* steps = nullptr;
  std::int64_t elements = 0;  // of the whole tensor; rows, columns where the role has a value for each
  RowShares shares = {};      // of a value for each row; `elements` is then that of shares.places()
};

// Elements first, ..., first + count - 1 as a tensor of their own, where blocks and groups of 128 begin and
// end; not of roles with steps of rows. Noise of the part begins at its first group (Noise::first_group).
inline RoleView part_of(const RoleView& role, std::int64_t first, std::int64_t count) {
  if (role.codes == nullptr) return role;
  RoleView part = role;
  part.codes += code_bytes(role.codec.format, first);
  if (part.steps != nullptr) part.steps += step_bytes(role.codec, first) / 2;
  part.elements = count;
  return part;
}

// The underflow ledger's counts for one role, summed over elements in a fixed order.
struct ChangeStats {
  std::int64_t elements = 0;
  std::int64_t increments = 0;      // elements whose true change is not 0
  std::int64_t underflows = 0;      // of those, the ones whose stored code (and step) stayed the same
  std::int64_t saturated = 0;       // elements whose code is the largest or smallest one, in blocks that hold
                                    // anything but 0
  double true_change_squared = 0;   // sum of (wanted - old)^2
  double change_error_squared = 0;  // sum of (stored - wanted)^2
  // The number of increments of packed elements in blocks that hold anything but 0, and their sum of
  // |wanted - old| in gaps between the codes around `wanted`. Their quotient is the update-to-step ratio.
  std::int64_t packed_increments = 0;
  double change_in_gaps = 0;
  // Tell if rounding makes values longer or shorter: the quotient is the radial bias <Q(x) - x, x> / |x|^2.
  double error_along_wanted = 0;  // sum of (stored - wanted) * wanted
  double wanted_squared = 0;
  ChangeStats& operator+=(const ChangeStats& o) {
    elements += o.elements;
    increments += o.increments;
    underflows += o.underflows;
    saturated += o.saturated;
    true_change_squared += o.true_change_squared;
    change_error_squared += o.change_error_squared;
    packed_increments += o.packed_increments;
    change_in_gaps += o.change_in_gaps;
    error_along_wanted += o.error_along_wanted;
    wanted_squared += o.wanted_squared;
    return *this;
  }
};

struct FoldArgs {
  float scale = 1;  // 1/K, or what the momentum takes
  Noise noise;      // stream: role | microbatch | contribution
  bool want_square_sum = false;
  ChangeStats* stats = nullptr;
};

// Made as here when a fold begins: the fold may write failures alone.
struct FoldResult {
  // False: some gradient or sum is not storable; nothing in the range, and no sum, is to be trusted.
  bool finite = true;
  double square_sum = 0;  // of the accumulated fp32 values before encoding, if wanted
};

// A loss that a device computes, to be read with a step's folds.
struct LossResult {
  double sum = 0;  // over rows
  std::int64_t correct = 0;
  double margin = 0;  // of preferences: over pairs
};

// fp32 or bf16 values in memory of anybody's, aligned to the size of one: a gradient as it comes, which is
// not copied to be widened.
struct Values {
  const void* data = nullptr;
  std::int64_t count = 0;
  ValueType type = ValueType::kFp32;

  Values() = default;
  Values(const float* first, std::size_t size) : data(first), count(static_cast<std::int64_t>(size)) {}
  template <class Floats>
  requires std::convertible_to<const Floats&, std::span<const float>>
  // NOLINTNEXTLINE(google-explicit-constructor): a span, vector or array of them
  Values(const Floats& floats)
      : Values(std::span<const float>(floats).data(), std::span<const float>(floats).size()) {}
  static Values bf16(std::span<const std::uint16_t> halves) {
    Values values;
    values.data = halves.data();
    values.count = std::ssize(halves);
    values.type = ValueType::kBf16;
    return values;
  }

  std::int64_t bytes() const { return count * value_bytes(type); }
};

// accumulator[first..] += scale * gradient. An empty accumulator has all steps 0 (fp32, bf16: all zeros).
// Where gradients are accumulated in the momentum, that is the accumulator; the noise is of its stream, and
// its steps are chosen as in an update. A gradient of bf16 gives what the same values in fp32 give, to the
// bit.
struct Fold {
  RoleView accumulator;
  std::int64_t first = 0;
  Values gradient;
  FoldArgs args = {};
  FoldResult* result = nullptr;

  // The flag that a failure clears, and the place of the sum; null where nobody asks.
  bool* finite() const { return result == nullptr ? nullptr : &result->finite; }
  double* square_sum() const {
    return args.want_square_sum && result != nullptr ? &result->square_sum : nullptr;
  }
};

struct UpdateArgs {
  // Unused roles have null codes; without an accumulator the rule's gradient is 0.
  RoleArray<RoleView> roles;
  Noise noise;                              // its stream is set for each role by the kernel
  RoleArray<ChangeStats>* stats = nullptr;  // null: not counted
  bool keeps_gradient = false;              // the accumulator is a gradient of the caller's: it stays
  // Where `roles` are decoded from, some elements at a time; null: they are what is stored.
  const RoleArray<RoleView>* stored = nullptr;
};

// The rows and columns of a tensor that has a value for each row, else 0. A value for each column comes only
// beside that.
inline TensorTraits matrix_of(const RoleArray<RoleView>& roles) {
  const RoleView& of_rows = roles[Role::kRowVariance];
  const std::int64_t rows = of_rows.shares.rows(of_rows.elements);
  return {rows, rows == 0 ? 0 : roles[Role::kParameter].elements / rows};
}

// The largest magnitude and where it is; of equal ones the first.
struct LargestElement {
  std::uint32_t bits = 0;  // of the float
  std::int64_t element = 0;

  float size() const { return bits_float(bits); }
  LPMM_HD void raise(std::uint32_t other, std::int64_t at) {
    if (other < bits || (other == bits && at >= element)) return;
    bits = other;
    element = at;
  }
};

// The effect of an update on one tensor, before rounding.
struct WatchStats {
  double squares[kWatched] = {};  // sums over elements, in the order of kernels/sums.h
  LargestElement update, ratio;
};

struct TensorUpdate {
  Rule rule;
  UpdateArgs args;
  bool* storable = nullptr;  // becomes false where a new value was not storable, true else
  // Holds update_workspace_bytes() bytes (kernels/orthogonal.h), 64-byte aligned; tensors may share it.
  std::byte* workspace = nullptr;
  // If not null, receives what the update does; where the step is an orthogonal matrix, that of the last
  // pass, whose gradient is that matrix.
  WatchStats* watched = nullptr;
  PeakView peaks = {};  // raised where the update is watched
};

// dst[first, first + count) <- src; the whole tensor, where its steps are of rows. Values that are not
// storable (NaN, Inf, above 2^120) are stored as 0 (NaN) or clamped, and the caller decides what the failure
// means.
struct EncodeArgs {
  RoleView dst;
  std::int64_t first = 0, count = 0;
  const float* src = nullptr;
  Noise noise = {};
  bool* storable = nullptr;  // where not null, becomes false where a value was not storable, true else
};
// dst[i] <- row rows[i] of a matrix of rows of `width` elements, of which src has those from `src_first` on:
// elements that it has not stay as they are in dst.
struct DecodeRowsArgs {
  RoleView src;
  std::int64_t width = 0;
  const std::int32_t* rows = nullptr;
  std::int64_t count = 0;
  float* dst = nullptr;
  std::int64_t src_first = 0;
};

// The operations of a device (kernels/packed_device.h) on packed memory. Results go where pointers say and
// are there once the device is synchronized.
class PackedKernels {
 public:
  virtual void encode(const EncodeArgs& args) = 0;
  virtual void decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst) = 0;
  virtual void decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count,
                           std::uint16_t* dst) = 0;          // each value rounded to nearest bf16
  virtual void decode_rows(const DecodeRowsArgs& args) = 0;  // decodes no more than those rows touch
  // dst <- the sum of what the views hold, which have one codec and as many elements, added in fp32 in the
  // order of sum_as_tree() (kernels/sums.h). May write whole groups. `rooms` has as many for each level of
  // the tree, bit_width(views - 1) times, if the device is not the host, and is not used else. Both are
  // 64-byte aligned.
  virtual void decode_sum(std::span<const RoleView> views, float* dst, float* rooms) = 0;
  // The folds may be done in any order or at once, to the same bits: no two may share elements.
  virtual void fold(std::span<const Fold> folds) = 0;
  // True if small folds take less time together than each on its own.
  virtual bool gathers_folds() const { return false; }
  // Sum of squares of what is stored; it and the fold's are made in the order of kernels/sums.h.
  virtual void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum) = 0;
  // Empties an accumulator: steps to 0, or fp32 and bf16 values to 0.
  virtual void clear(const RoleView& accumulator) = 0;
  // One optimizer step over whole tensors, in one pass: decode, rule, encode, and empty the accumulator. A
  // rule that needs norms, or has a variance per row, takes a pass before it for each; their sums are in the
  // order of kernels/sums.h. One whose step is an orthogonal matrix takes the passes of kernels/orthogonal.h.
  virtual void update(std::span<const TensorUpdate> tensors) = 0;

 protected:
  PackedKernels() = default;
  ~PackedKernels() = default;
};

}  // namespace lpmm::kernels
