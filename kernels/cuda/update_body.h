// The bodies of the CUDA kernels, as functions of (block, thread) with nothing of CUDA in them but an atomic:
// kernels/cuda/update.cu launches them, tests/kernels/cuda_test.cpp walks the grid on the CPU.
//
// A thread block takes one unit, a run of elements that is a multiple of every block and packing group, so no
// byte and no step is shared between units. It works in phases with a barrier after each: clear the shared
// maxima; load (decode, compute, find maxima); choose steps; encode to codes, twice where the momentum waits
// for the parameter's rounding error; pack codes into bytes.
#pragma once

#include <initializer_list>

#include "kernels/codec.h"
#include "kernels/cuda.h"

namespace lpmm::kernels::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kMaxStores = 3;  // parameter, momentum, variance
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
};

using TableOf = MapTable (*)(Format);  // the tables where the bodies run

inline Slot make_slot(const RoleView& view, TableOf table_of, Noise noise) {
  return {view.codec,
          table_of(view.codec.format),
          view.codes,
          view.steps,
          rounding_noise(view.codec.rounding, noise),
          false};
}

LPMM_HD float load_value(const Slot& s, std::int64_t element) {
  if (s.codec.format.map == Map::kFp32) return reinterpret_cast<const float*>(s.codes)[element];
  if (s.codec.format.map == Map::kBf16) {
    return bf16_to_float(reinterpret_cast<const std::uint16_t*>(s.codes)[element]);
  }
  const float step = bf16_to_float(s.steps[element / s.codec.block]);
  return decode_code(s.codec.format, s.table, load_code(s.codes, s.codec.format, element), step);
}

// Clamps what is not storable, NaN to 0. False where it had to.
LPMM_HD bool make_storable(float& x) {
  if (is_storable(abs_bits(x))) return true;
  x = x != x ? 0.0F : x < 0.0F ? -kMaxMagnitude : kMaxMagnitude;
  return false;
}

// A job says what is stored and computes the new values of one element: load() fills values[0..stores).
struct Job {
  Slot slots[kMaxStores];
  int stores = 1;
  std::int64_t first = 0, end = 0;  // elements of the tensor
  int unit = 0;                     // elements a thread block
  int* failed = nullptr;
  std::uint16_t* cleared_steps = nullptr;  // of the accumulator an update empties; null where it has none
  std::int32_t cleared_block = 0;
  int late = -1;  // the slot that takes the rounding error of slot 0 before it is stored; -1: none
  // The value of the late slot with that error; `values` are those of the element, `stride` apart.
  LPMM_HD float fed_back(float /*error*/, const std::uint32_t* values, int /*stride*/) const {
    return bits_float(values[0]);
  }
};

struct EncodeJob : Job {
  const float* src = nullptr;
  LPMM_HD bool load(std::int64_t element, float* values) const {
    values[0] = src[element - first];
    return make_storable(values[0]);
  }
};

struct FoldJob : Job {
  const float* contribution = nullptr;
  float scale = 1;
  LPMM_HD bool load(std::int64_t element, float* values) const {
    values[0] = load_value(slots[0], element) + scale * contribution[element - first];
    return make_storable(values[0]);
  }
};

template <class RuleType>
struct UpdateJob : Job {
  RuleType rule;
  Slot accumulator;
  int momentum = -1, variance = -1;  // their places among the slots, or -1
  LPMM_HD bool load(std::int64_t element, float* values) const {
    float p = load_value(slots[0], element);
    float m = momentum < 0 ? 0.0F : load_value(slots[momentum], element);
    float v = variance < 0 ? 0.0F : load_value(slots[variance], element);
    rule(p, accumulator.codes == nullptr ? 0.0F : load_value(accumulator, element), m, v);
    if (accumulator.codes == nullptr) {
      // gradients are in the momentum
    } else if (accumulator.codec.format.map == Map::kFp32) {
      reinterpret_cast<float*>(accumulator.codes)[element] = 0.0F;
    } else if (accumulator.codec.format.map == Map::kBf16) {
      reinterpret_cast<std::uint16_t*>(accumulator.codes)[element] = 0;
    }
    values[0] = p;
    bool fine = make_storable(values[0]);
    if (momentum >= 0) {
      values[momentum] = m;
      fine = make_storable(values[momentum]) && fine;
    }
    if (variance >= 0) {
      values[variance] = v;
      fine = make_storable(values[variance]) && fine;
    }
    return fine;
  }
  LPMM_HD float fed_back(float error, const std::uint32_t* values, int stride) const {
    const float v = variance < 0 ? 0.0F : bits_float(values[variance * stride]);
    return rule.feed_back(error, bits_float(values[momentum * stride]), v);
  }
};

// Shared memory of a thread block: maxima [stores][unit / kMinBlock], then values [stores][unit], as bits.
template <class JobType>
std::int64_t shared_words(const JobType& job) {
  return std::int64_t{job.stores} * (job.unit / kMinBlock + job.unit);
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

LPMM_HD std::uint32_t encode_slot(const Slot& s, std::int64_t element, float x) {
  const std::uint32_t draw = takes_draws(s.codec.rounding) ? noise_draw(s.noise, element) : 0U;
  if (s.codec.format.map == Map::kBf16) {
    return takes_draws(s.codec.rounding) ? float_to_bf16_stochastic(x, draw) : float_to_bf16(x);
  }
  const float step = bf16_to_float(s.steps[element / s.codec.block]);
  if (step == 0.0F) return static_cast<std::uint32_t>(s.table.zero);
  return encode_value(s.codec.format, s.table, s.codec.rounding, x, step, draw);
}

// What a code just made stands for; fp32 keeps the bits of the value.
LPMM_HD float stored_value(const Slot& s, std::int64_t element, std::uint32_t code) {
  if (s.codec.format.map == Map::kFp32) return bits_float(code);
  if (s.codec.format.map == Map::kBf16) return bf16_to_float(static_cast<std::uint16_t>(code));
  return decode_code(s.codec.format, s.table, code, bf16_to_float(s.steps[element / s.codec.block]));
}

template <class JobType>
LPMM_HD void run_phase(int phase, const JobType& job, std::int64_t block, int thread, int threads,
                       std::uint32_t* shared) {
  const int maxima = job.unit / kMinBlock;
  std::uint32_t* values = shared + job.stores * maxima;
  const std::int64_t base = job.first + block * job.unit;
  const std::int64_t rest = job.end - base;
  const int count = rest < job.unit ? static_cast<int>(rest) : job.unit;
  if (phase == 0) {
    for (int i = thread; i < job.stores * maxima; i += threads) shared[i] = 0;
    return;
  }
  if (phase == 1) {
    for (int i = thread; i < count; i += threads) {
      float loaded[kMaxStores] = {};
      if (!job.load(base + i, loaded)) *job.failed = 1;
      for (int s = 0; s < job.stores; ++s) {
        values[s * job.unit + i] = float_bits(loaded[s]);
        if (is_packed(job.slots[s].codec.format) && s != job.late) {
          raise_to(shared + s * maxima + i / job.slots[s].codec.block, abs_bits(loaded[s]));
        }
      }
    }
    return;
  }
  if (phase == 2 && job.cleared_steps != nullptr) {
    for (int i = thread; i * job.cleared_block < count; i += threads) {
      job.cleared_steps[base / job.cleared_block + i] = 0;
    }
  }
  for (int s = 0; s < job.stores; ++s) {
    const Slot& slot = job.slots[s];
    const Format format = slot.codec.format;
    std::uint32_t* codes = values + s * job.unit;
    const int turn = job.late < 0 || s == 0 ? 2 : 4;  // the phase in which its steps are chosen
    if (phase == turn && is_packed(format)) {
      for (int i = thread; i * slot.codec.block < count; i += threads) {
        std::uint16_t& step = slot.steps[base / slot.codec.block + i];
        const float largest = bits_float(shared[s * maxima + i]);
        step = slot.is_accumulator ? next_accumulator_step(slot.codec, largest, step)
                                   : next_step(slot.codec, largest, step);
      }
    } else if (phase == turn + 1) {
      for (int i = thread; i < count; i += threads) {
        const float wanted = bits_float(codes[i]);
        if (format.map == Map::kFp32) {
          reinterpret_cast<float*>(slot.codes)[base + i] = bits_float(codes[i]);
        } else {
          codes[i] = encode_slot(slot, base + i, wanted);
          if (format.map == Map::kBf16) {
            reinterpret_cast<std::uint16_t*>(slot.codes)[base + i] = static_cast<std::uint16_t>(codes[i]);
          }
        }
        if (s == 0 && job.late >= 0) {
          const float stored = stored_value(slot, base + i, codes[i]);
          float late = job.fed_back(wanted - stored, values + i, job.unit);
          if (!make_storable(late)) *job.failed = 1;
          const Slot& waits = job.slots[job.late];
          values[job.late * job.unit + i] = float_bits(late);
          if (is_packed(waits.codec.format)) {
            raise_to(shared + job.late * maxima + i / waits.codec.block, abs_bits(late));
          }
        }
      }
    } else if (phase == kPhases - 1 && is_packed(format)) {
      const int bytes = 16 * format.bits;
      for (int i = thread; i / bytes * kGroup < count; i += threads) {
        const int group = i / bytes;
        slot.codes[base / kGroup * bytes + i] =
            packed_byte(format, slot.table.zero, codes + group * kGroup, count - group * kGroup, i % bytes);
      }
    }
  }
}

// ---- jobs from the views of kernels/packed.h -------------------------------------------------------------
inline int unit_of(std::initializer_list<const RoleView*> views) {
  int unit = 1024;  // four elements a thread where the blocks are small
  for (const RoleView* v : views) {
    if (v->codes != nullptr && v->codec.block > unit) unit = v->codec.block;
  }
  return unit;
}
template <class JobType>
std::int64_t units(const JobType& job) {
  return (job.end - job.first + job.unit - 1) / job.unit;
}

inline EncodeJob make_encode(const RoleView& dst, std::int64_t first, std::int64_t count, const float* src,
                             const Noise& noise, int* failed, TableOf table_of) {
  EncodeJob job;
  job.slots[0] = make_slot(dst, table_of, noise);
  job.first = first;
  job.end = first + count;
  job.unit = unit_of({&dst});
  job.failed = failed;
  job.src = src;
  return job;
}

inline FoldJob make_fold(const RoleView& accumulator, std::int64_t first, std::int64_t count,
                         const float* contribution, float scale, const Noise& noise, int* failed,
                         TableOf table_of) {
  FoldJob job;
  job.slots[0] = make_slot(accumulator, table_of, noise);
  job.slots[0].is_accumulator = !is_stream_of(noise.stream, Role::kMomentum);
  job.first = first;
  job.end = first + count;
  job.unit = unit_of({&accumulator});
  job.failed = failed;
  job.contribution = contribution;
  job.scale = scale;
  return job;
}

template <class RuleType>
UpdateJob<RuleType> make_update(const RuleType& rule, const Roles& roles, Noise noise, int* failed,
                                TableOf table_of) {
  UpdateJob<RuleType> job;
  const auto add = [&](const RoleView& view, Role role) {
    noise.stream = noise_stream(role);
    job.slots[job.stores] = make_slot(view, table_of, noise);
    return job.stores++;
  };
  job.stores = 0;
  add(roles.parameter, Role::kParameter);
  if (roles.momentum.codes != nullptr) job.momentum = add(roles.momentum, Role::kMomentum);
  if (roles.variance.codes != nullptr) job.variance = add(roles.variance, Role::kVariance);
  job.end = roles.parameter.elements;
  job.unit = unit_of({&roles.parameter, &roles.accumulator, &roles.momentum, &roles.variance});
  job.failed = failed;
  job.rule = rule;
  if (rule.feedback != 0) job.late = job.momentum;
  job.accumulator = make_slot(roles.accumulator, table_of, noise);
  if (is_packed(roles.accumulator.codec.format)) {
    job.cleared_steps = roles.accumulator.steps;
    job.cleared_block = roles.accumulator.codec.block;
  }
  return job;
}

}  // namespace lpmm::kernels::cuda
