// The bodies of the CUDA kernels of kernels/cuda/packed/packed.cu, as functions of (block, thread) with
// nothing of CUDA in them but an atomic.
//
// A thread block takes one unit, a run of elements that is a multiple of every block and packing group, so no
// byte and no step is shared between units. It works in phases with a barrier after each: clear the shared
// maxima; load (decode, compute, find maxima); choose steps; encode to codes, twice where the momentum or the
// compensation waits for the parameter's rounding error; pack codes into bytes. Steps of rows and columns are
// chosen before, by a pass over all elements (kernels/cuda/packed/steps_body.h).
#pragma once

#include <algorithm>

#include "kernels/formats/compensation.h"
#include "kernels/formats/element.h"
#include "kernels/packed.h"
#include "kernels/sums.h"

namespace lpmm::kernels::cuda {

inline constexpr int kMaxStores = kElementRoles - 1;  // all but the accumulator
inline constexpr int kMinBlock = 64;
inline constexpr int kPhases = 7;

// One role of one tensor, as the bodies see it.
struct Slot {
  Codec codec;
  MapTable table;
  std::uint8_t* codes = nullptr;
  std::uint16_t* steps = nullptr;
  Noise noise;
  bool is_accumulator = false;
  float* next_steps = nullptr;  // of rows and columns: what `steps` will be when all is stored
};

using TableOf = MapTable (*)(Format);  // the tables where the bodies run

inline Slot make_slot(const RoleView& view, TableOf table_of, Noise noise) {
  return {view.codec, table_of(view.codec.format), view.codes, view.steps,
          rounding_noise(view.codec.rounding, noise)};
}

LPMM_HD float load_value(const Slot& s, std::int64_t element) {
  if (s.codec.format.map == Map::kFp32) return reinterpret_cast<const float*>(s.codes)[element];
  if (s.codec.format.map == Map::kBf16) {
    return bf16_to_float(reinterpret_cast<const std::uint16_t*>(s.codes)[element]);
  }
  if (s.codec.format.map == Map::kUlp) return ulp8_to_float(s.codes[element]);
  const std::uint32_t code = load_code(s.codes, s.codec.format, element);
  if (divides_first(s.codec)) {
    return decode_code(s.codec.format, s.table, code, stored_step(s.codec, s.steps, element));
  }
  const Scale scale = scale_of(s.codec.format, s.table, s.steps[element / s.codec.block]);
  return decode_code(s.codec.format, scale.table, code, scale.step);
}

// A job says what is stored and computes the new values of one element: load() fills values[0..stores), and
// peek(), where there is one, does so without changing anything.
struct Job {
  Slot slots[kMaxStores];
  int stores = 1;
  std::int64_t first = 0, end = 0;         // elements of the tensor
  int unit = 0;                            // elements per thread block
  bool* storable = nullptr;                // null: nobody asks
  std::uint16_t* cleared_steps = nullptr;  // of the accumulator an update empties; null where it has none
  std::int32_t cleared_block = 0;
  int late = -1;  // the slot that takes the rounding error of slot 0 before it is stored; -1: none
  // The value of the late slot, once slot 0 was to be `wanted` and is `stored`; `values` are those of the
  // element, `stride` apart.
  LPMM_HD float fed_back(float /*wanted*/, float /*stored*/, std::int64_t /*element*/,
                         const std::uint32_t* values, int /*stride*/) const {
    return bits_float(values[0]);
  }
};

struct EncodeJob : Job {
  const float* src = nullptr;
  LPMM_HD bool peek(std::int64_t element, float* values) const {
    values[0] = src[element - first];
    return make_storable(values[0]);
  }
  LPMM_HD bool load(std::int64_t element, float* values) const { return peek(element, values); }
};

struct FoldJob : Job {
  const void* gradient = nullptr;
  bool is_bf16 = false;
  float scale = 1;
  LPMM_HD float sum(std::int64_t element) const {
    const std::int64_t i = element - first;
    const float addend = is_bf16 ? bf16_to_float(static_cast<const std::uint16_t*>(gradient)[i])
                                 : static_cast<const float*>(gradient)[i];
    return load_value(slots[0], element) + scale * addend;
  }
  LPMM_HD bool load(std::int64_t element, float* values) const {
    values[0] = sum(element);
    return make_storable(values[0]);
  }
};

// The data that a rule reads of a tensor; roles that are not there are 0.
struct RoleSlots {
  RoleArray<Slot> at;
  std::int64_t columns = 0;  // where there is a value for each row
  RowShares shares;

  LPMM_HD Elements<float> load(std::int64_t element) const {
    Elements<float> x{};
    for (int r = 0; r < kElementRoles; ++r) {
      if (at.of[r].codes != nullptr) x.of[r] = load_value(at.of[r], element);
    }
    load_shared(element, x);
    const Slot &parameter = at[Role::kParameter], &compensation = at[Role::kCompensation];
    if (compensation.codes != nullptr) {
      float& p = x[Role::kParameter];
      p = TwoTerms{parameter.codec, compensation.codec}.sum(p, x[Role::kCompensation]);
    }
    return x;
  }
  // The values that a row or a column shares.
  LPMM_HD void load_shared(std::int64_t element, Elements<float>& x) const {
    const Slot &of_row = at[Role::kRowVariance], &of_column = at[Role::kColumnVariance];
    if (of_row.codes == nullptr) return;
    x[Role::kRowVariance] = load_value(of_row, shares.place(element / columns));
    if (of_column.codes != nullptr) x[Role::kColumnVariance] = load_value(of_column, element % columns);
  }
};

template <class RuleType>
struct UpdateJob : Job {
  RuleType rule;
  const RuleType* completed = nullptr;  // the rule after its first passes; null: it has none
  bool keeps_gradient = false;
  RoleSlots roles;
  RoleArray<int> place;  // of a role among the slots, or -1

  LPMM_HD const RuleType& complete() const { return completed == nullptr ? rule : *completed; }
  LPMM_HD bool peek(std::int64_t element, float* values) const {
    Elements<float> x = roles.load(element);
    complete()(x);
    bool fine = true;
    for (int r = 0; r < kElementRoles; ++r) {
      if (place.of[r] < 0) continue;
      float& value = values[place.of[r]];
      value = x.of[r];
      fine = make_storable(value) && fine;
    }
    return fine;
  }
  LPMM_HD bool load(std::int64_t element, float* values) const {
    const bool fine = peek(element, values);
    const Slot& accumulator = roles.at[Role::kAccumulator];
    if (accumulator.codes == nullptr || keeps_gradient) {
      // gradients are in the momentum, or the caller's
    } else if (accumulator.codec.format.map == Map::kFp32) {
      reinterpret_cast<float*>(accumulator.codes)[element] = 0.0F;
    } else if (accumulator.codec.format.map == Map::kBf16) {
      reinterpret_cast<std::uint16_t*>(accumulator.codes)[element] = 0;
    }
    return fine;
  }
  LPMM_HD float fed_back(float wanted, float stored, std::int64_t element, const std::uint32_t* values,
                         int stride) const {
    const Slot& compensation = roles.at[Role::kCompensation];
    if (compensation.codes != nullptr) {
      const Codec& parameter = roles.at[Role::kParameter].codec;
      return TwoTerms{parameter, compensation.codec}.rest(wanted, stored);
    }
    Elements<float> x{};
    for (int r = 0; r < kElementRoles; ++r) {
      if (place.of[r] >= 0) x.of[r] = bits_float(values[place.of[r] * stride]);
    }
    roles.load_shared(element, x);
    if constexpr (FeedsBack<RuleType>) complete().feed_back(wanted - stored, x);
    return x[Role::kMomentum];
  }
};

// Shared memory of a thread block: maxima [stores][unit / kMinBlock] of magnitudes and as many of inverted
// ones, then values [stores][unit], as bits.
template <class JobType>
std::int64_t shared_words(const JobType& job) {
  return std::int64_t{job.stores} * (2 * job.unit / kMinBlock + job.unit);
}

LPMM_HD void raise_to(std::uint32_t* largest, std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  atomicMax(largest, bits);
#else
  if (bits > *largest) *largest = bits;
#endif
}

// Byte `byte` of a group from the codes of its first `valid` elements; the padding stands for 0.
LPMM_HD std::uint8_t packed_byte(Format f, std::int32_t zero, const std::uint32_t* codes, int valid,
                                 int byte) {
  int shift = 0;
  int place = byte;
  int w = 0;
  for (int left = f.bits;; left -= w) {
    w = plane_width(left);
    if (place < 16 * w) break;
    place -= 16 * w;
    shift += w;
  }
  std::uint32_t bits = 0;
  for (int at = 0; at < 8; at += w) {
    const int element = place + 16 * at;
    const std::uint32_t code = element < valid ? codes[element] : static_cast<std::uint32_t>(zero);
    bits |= (code >> shift & ((1U << w) - 1U)) << at;
  }
  return static_cast<std::uint8_t>(bits);
}

// The step with which an element is stored.
LPMM_HD float next_step_of(const Slot& s, std::int64_t element) {
  if (s.next_steps == nullptr) return stored_step(s.codec, s.steps, element);
  return step_of_element(
      s.codec, [&](std::int64_t i) { return s.next_steps[i]; }, element);
}

LPMM_HD std::uint32_t encode_slot(const Slot& s, std::int64_t element, float x) {
  const std::uint32_t draw = takes_draws(s.codec.rounding) ? rounding_draw(s.noise, element) : 0U;
  if (s.codec.format.map == Map::kBf16) {
    return takes_draws(s.codec.rounding) ? float_to_bf16_stochastic(x, draw) : float_to_bf16(x);
  }
  if (s.codec.format.map == Map::kUlp) {
    return takes_draws(s.codec.rounding) ? float_to_ulp8_stochastic(x, draw) : float_to_ulp8(x);
  }
  if (divides_first(s.codec)) {
    return encode_quotient(s.codec, s.table, x, next_step_of(s, element), draw);
  }
  const Scale scale = scale_of(s.codec.format, s.table, s.steps[element / s.codec.block]);
  if (scale.step == 0.0F) return static_cast<std::uint32_t>(s.table.zero);
  return encode_value(s.codec.format, scale.table, s.codec.rounding, x, scale.step, draw);
}

// The value of a code just made; an fp32 code is the bits of the value.
LPMM_HD float stored_value(const Slot& s, std::int64_t element, std::uint32_t code) {
  if (s.codec.format.map == Map::kFp32) return bits_float(code);
  if (s.codec.format.map == Map::kBf16) return bf16_to_float(static_cast<std::uint16_t>(code));
  if (s.codec.format.map == Map::kUlp) return ulp8_to_float(static_cast<std::uint8_t>(code));
  if (divides_first(s.codec)) {
    return decode_code(s.codec.format, s.table, code, next_step_of(s, element));
  }
  const Scale scale = scale_of(s.codec.format, s.table, s.steps[element / s.codec.block]);
  return decode_code(s.codec.format, scale.table, code, scale.step);
}

// The part of a tensor and of shared memory that one thread works on.
struct Share {
  std::int64_t base;                   // the thread block's first element
  int count, thread, threads, maxima;  // elements of the thread block; maxima per store
  std::uint32_t *largest, *inverted, *values;
};

// A value that will be stored in slot s tells its block's maxima.
LPMM_HD void raise_maxima(const Slot& slot, int s, int i, float value, const Share& at) {
  if (!is_packed(slot.codec.format) || !has_blocks(slot.codec)) return;
  const int block = s * at.maxima + i / slot.codec.block;
  raise_to(at.largest + block, abs_bits(value));
  if (has_range(slot.codec.format.map)) raise_to(at.inverted + block, inverted(abs_bits(value)));
}

template <class JobType>
LPMM_HD void load_elements(const JobType& job, const Share& at) {
  for (int i = at.thread; i < at.count; i += at.threads) {
    float loaded[kMaxStores] = {};
    if (!job.load(at.base + i, loaded) && job.storable != nullptr) *job.storable = false;
    for (int s = 0; s < job.stores; ++s) {
      at.values[s * job.unit + i] = float_bits(loaded[s]);
      if (s != job.late) raise_maxima(job.slots[s], s, i, loaded[s], at);
    }
  }
}

LPMM_HD void choose_steps(const Slot& slot, int s, const Share& at) {
  for (int i = at.thread; i * slot.codec.block < at.count; i += at.threads) {
    const std::int64_t place = at.base / slot.codec.block + i;
    const int block = s * at.maxima + i;
    const float most = bits_float(at.largest[block]);
    if (divides_first(slot.codec)) {
      store_step(slot.codec, slot.steps, place, covering_step(slot.codec, most));
      continue;
    }
    std::uint16_t& step = slot.steps[place];
    if (has_range(slot.codec.format.map)) {
      const float least = bits_float(inverted(at.inverted[block]));
      step = next_range(slot.codec, slot.table, most, least, step);
    } else {
      step = slot.is_accumulator ? next_accumulator_step(slot.codec, most, step)
                                 : next_step(slot.codec, most, step);
    }
  }
}

// The rounding error of slot 0 goes into the value that waits for it.
template <class JobType>
LPMM_HD void feed_back_error(const JobType& job, int i, float wanted, std::uint32_t code, const Share& at) {
  const float stored = stored_value(job.slots[0], at.base + i, code);
  float late = job.fed_back(wanted, stored, at.base + i, at.values + i, job.unit);
  if (!make_storable(late) && job.storable != nullptr) *job.storable = false;
  at.values[job.late * job.unit + i] = float_bits(late);
  raise_maxima(job.slots[job.late], job.late, i, late, at);
}

// Values to codes; bf16 and fp32 are stored at once.
template <class JobType>
LPMM_HD void encode_elements(const JobType& job, int s, const Share& at) {
  const Slot& slot = job.slots[s];
  std::uint32_t* codes = at.values + s * job.unit;
  for (int i = at.thread; i < at.count; i += at.threads) {
    const float wanted = bits_float(codes[i]);
    if (slot.codec.format.map == Map::kFp32) {
      reinterpret_cast<float*>(slot.codes)[at.base + i] = wanted;
    } else {
      codes[i] = encode_slot(slot, at.base + i, wanted);
      if (slot.codec.format.map == Map::kBf16) {
        reinterpret_cast<std::uint16_t*>(slot.codes)[at.base + i] = static_cast<std::uint16_t>(codes[i]);
      } else if (slot.codec.format.map == Map::kUlp) {
        slot.codes[at.base + i] = static_cast<std::uint8_t>(codes[i]);
      }
    }
    if (s == 0 && job.late >= 0) feed_back_error(job, i, wanted, codes[i], at);
  }
}

LPMM_HD void pack_codes(const Slot& slot, const std::uint32_t* codes, const Share& at) {
  const int bytes = 16 * slot.codec.format.bits;
  for (int i = at.thread; i / bytes * kGroup < at.count; i += at.threads) {
    const int group = i / bytes;
    slot.codes[at.base / kGroup * bytes + i] = packed_byte(
        slot.codec.format, slot.table.zero, codes + group * kGroup, at.count - group * kGroup, i % bytes);
  }
}

template <class JobType>
LPMM_HD void run_phase(int phase, const JobType& job, std::int64_t block, int thread, int threads,
                       std::uint32_t* shared) {
  const int maxima = job.unit / kMinBlock;
  const std::int64_t base = job.first + block * job.unit;
  const std::int64_t rest = job.end - base;
  const int count = rest < job.unit ? static_cast<int>(rest) : job.unit;
  const int all = job.stores * maxima;
  const Share at = {base, count, thread, threads, maxima, shared, shared + all, shared + 2 * all};
  if (phase == 0) {
    for (int i = thread; i < 2 * all; i += threads) shared[i] = 0;
    return;
  }
  if (phase == 1) return load_elements(job, at);
  if (phase == 2 && job.cleared_steps != nullptr) {
    for (int i = thread; i * job.cleared_block < at.count; i += threads) {
      job.cleared_steps[base / job.cleared_block + i] = 0;
    }
  }
  for (int s = 0; s < job.stores; ++s) {
    const Slot& slot = job.slots[s];
    const int turn = job.late < 0 || s == 0 ? 2 : 4;  // the phase in which its steps are chosen
    if (phase == turn && is_packed(slot.codec.format)) {
      if (has_blocks(slot.codec)) choose_steps(slot, s, at);
    } else if (phase == turn + 1) {
      encode_elements(job, s, at);
    } else if (phase == kPhases - 1 && is_packed(slot.codec.format)) {
      pack_codes(slot, at.values + s * job.unit, at);
    }
  }
}

// ---- jobs from the views of kernels/packed.h -------------------------------------------------------------
// Four elements per thread where the blocks are small; the CPU's tile.
inline int unit_of(const RoleView& view) {
  return std::max(static_cast<int>(kUnit), view.codes == nullptr ? 0 : piece_of_blocks(view.codec));
}
inline int unit_of(const RoleArray<RoleView>& roles) {
  int unit = 0;
  for (const RoleView& v : roles) unit = std::max(unit, unit_of(v));
  return unit;
}
inline std::int64_t units(const Job& job) {
  return (job.end - job.first + job.unit - 1) / job.unit;
}
inline EncodeJob make_encode(const EncodeArgs& args, TableOf table_of) {
  EncodeJob job;
  job.slots[0] = make_slot(args.dst, table_of, args.noise);
  job.first = args.first;
  job.end = args.first + args.count;
  job.unit = unit_of(args.dst);
  job.storable = args.storable;
  job.src = args.src;
  return job;
}

inline FoldJob make_fold(const Fold& fold, TableOf table_of) {
  FoldJob job;
  job.slots[0] = make_slot(fold.accumulator, table_of, fold.args.noise);
  job.slots[0].is_accumulator = !is_stream_of(fold.args.noise.stream, Role::kMomentum);
  job.first = fold.first;
  job.end = fold.first + fold.gradient.count;
  job.unit = unit_of(fold.accumulator);
  job.storable = fold.finite();
  job.gradient = fold.gradient.data;
  job.is_bf16 = fold.gradient.type == ValueType::kBf16;
  job.scale = fold.args.scale;
  return job;
}

inline RoleSlots make_slots(const RoleArray<RoleView>& roles, Noise noise, TableOf table_of) {
  RoleSlots slots;
  for (const Role r : kEveryRole) {
    noise.stream = noise_stream(r);
    slots.at[r] = make_slot(roles[r], table_of, noise);
  }
  slots.columns = matrix_of(roles).columns;
  slots.shares = roles[Role::kRowVariance].shares;
  return slots;
}

template <class RuleType>
UpdateJob<RuleType> make_update(const RuleType& rule, const UpdateArgs& args, bool* storable,
                                TableOf table_of) {
  const RoleArray<RoleView>& roles = args.roles;
  UpdateJob<RuleType> job;
  job.keeps_gradient = args.keeps_gradient;
  job.roles = make_slots(roles, args.noise, table_of);
  job.stores = 0;
  for (const Role r : kEveryRole) {
    const bool is_stored = r != Role::kAccumulator && is_per_element(r) && roles[r].codes != nullptr;
    job.place[r] = is_stored ? job.stores : -1;
    if (is_stored) job.slots[job.stores++] = job.roles.at[r];
  }
  job.end = roles[Role::kParameter].elements;
  job.unit = unit_of(roles);
  job.storable = storable;
  job.rule = rule;
  if constexpr (FeedsBack<RuleType>) {
    if (rule.feedback != 0) job.late = job.place[Role::kMomentum];
  }
  if (job.place[Role::kCompensation] >= 0) job.late = job.place[Role::kCompensation];
  const RoleView& accumulator = roles[Role::kAccumulator];
  if (is_packed(accumulator.codec.format) && !args.keeps_gradient) {
    job.cleared_steps = accumulator.steps;
    job.cleared_block = accumulator.codec.block;
  }
  return job;
}

}  // namespace lpmm::kernels::cuda
