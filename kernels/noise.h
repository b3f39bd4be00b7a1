// Counter-based noise: Philox4x32-10 (Salmon et al., SC'11).
//
// key = run seed, counter = (call, tensor ordinal, step, stream), stream = role | microbatch | contribution.
// Nothing depends on threads, blocks or launch shapes, and no (call, tensor, step, stream) repeats.
//
// Rounding makes one call per packing group. Its first two words a and b are the group's line: lane i takes
// the draw ((a * i + b) mod 2^32) >> 16. Multiply-add-shift hashing (Dietzfelbinger 1996) makes every draw
// uniform and every two draws independent; three in one group are not (theory/README.md 1.7). Groups,
// tensors, steps and streams are as independent as Philox is.
#pragma once

#include <cstdint>

#include "kernels/formats/format.h"
#include "kernels/macros.h"

namespace lpmm {

struct PhiloxWords {
  std::uint32_t x[4];
};

LPMM_HD PhiloxWords philox4x32_10(PhiloxWords c, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c.x[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c.x[2];
    c = {{static_cast<std::uint32_t>(b >> 32) ^ c.x[1] ^ k0, static_cast<std::uint32_t>(b),
          static_cast<std::uint32_t>(a >> 32) ^ c.x[3] ^ k1, static_cast<std::uint32_t>(a)}};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

// Other uses of the same generator, kept apart from the roles by their stream number.
enum class Stream : std::uint32_t {
  kInitialize = 8,
  kShuffle = 9,
  kAugment = 10,
  kDraw = 11,
  kSample = 12,
  kDropout = 13,
  kTest = 15
};

// Bits 0..3 role or Stream, 4..17 microbatch, 18..31 contribution.
LPMM_HD std::uint32_t noise_stream(Role role, std::uint32_t microbatch = 0, std::uint32_t contribution = 0) {
  return static_cast<std::uint32_t>(role) | (microbatch & 0x3FFFU) << 4 | (contribution & 0x3FFFU) << 18;
}

// False for the other uses.
LPMM_HD bool is_stream_of(std::uint32_t stream, Role role) {
  return (stream & 15U) == static_cast<std::uint32_t>(role);
}

struct Noise {
  std::uint64_t seed = 0;
  std::uint32_t tensor = 0;
  std::uint32_t step = 0;
  std::uint32_t stream = 0;
  std::uint32_t first_group = 0;  // where only a part of a tensor is at hand: its groups before that part
  std::uint32_t shift = 0;        // added to every draw of rounding, modulo 2^16
};

// Elements of the largest tensor: the counter's word for the call holds 16 * (element / 128) for dropout.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 35;

// Odd, and the partial quotients of its continued fraction over 2^16 are at most 3: no stretch of its
// multiples is uneven.
inline constexpr std::uint32_t kWeylStep = 19463;

// The noise of `qr`, given that of `sr`. The draws an element takes in the writes t = 0, 1, ... of a role are
// a Weyl sequence (r0 + t * kWeylStep) mod 2^16 from a random start r0 of its own. Each draw is as uniform as
// an independent one, but of any T successive ones the share in an interval is within O(log T) / T of its
// length: rounding errors of a value that changes steadily cancel instead of adding up as a random walk
// (theory/README.md 1.6). t counts steps; in the accumulator, which starts afresh at every step,
// microbatches.
LPMM_HD Noise quasi_noise(Noise n) {
  constexpr std::uint32_t kMicrobatch = 0x3FFFU << 4;
  std::uint32_t t = n.step;
  if (is_stream_of(n.stream, Role::kAccumulator)) {
    t = (n.stream & kMicrobatch) >> 4;
    n.stream &= ~kMicrobatch;
  } else {
    n.step = 0;
  }
  n.shift = t * kWeylStep & 0xFFFFU;
  return n;
}
LPMM_HD Noise rounding_noise(Rounding rounding, const Noise& n) {
  return rounding == Rounding::kQuasiStochastic ? quasi_noise(n) : n;
}

LPMM_HD PhiloxWords noise_words(const Noise& n, std::uint32_t call) {
  return philox4x32_10({{call, n.tensor, n.step, n.stream}}, static_cast<std::uint32_t>(n.seed),
                       static_cast<std::uint32_t>(n.seed >> 32));
}

// The draws of a packing group, counted from the tensor's first.
struct NoiseLine {
  std::uint32_t slope, start;

  LPMM_HD std::uint32_t draw(std::uint32_t lane) const { return (slope * lane + start) >> 16; }
};
LPMM_HD NoiseLine noise_line(const Noise& n, std::uint32_t group) {
  const PhiloxWords w = noise_words(n, n.first_group + group);
  return {w.x[0], w.x[1] + (n.shift << 16)};
}

// The 16-bit draw that rounds an element, 0..65535.
LPMM_HD std::uint32_t rounding_draw(const Noise& n, std::int64_t element) {
  const NoiseLine line = noise_line(n, static_cast<std::uint32_t>(element / kGroup));
  return line.draw(static_cast<std::uint32_t>(element % kGroup));
}

// A 16-bit draw for whatever is not rounding, 0..65535: eight to a call. Element e takes draw (e % 128) / 16
// of call 16 * (e / 128) + e % 16, so that neighbouring lanes run neighbouring counters.
LPMM_HD std::uint32_t noise_draw(const Noise& n, std::int64_t element) {
  const std::uint32_t group = n.first_group + static_cast<std::uint32_t>(element / kGroup);
  const auto lane = static_cast<std::uint32_t>(element % kGroup);
  const PhiloxWords w = noise_words(n, 16 * group + lane % 16);
  const std::uint32_t draw = lane / 16;
  return w.x[draw / 2] >> (16 * (draw % 2)) & 0xFFFFU;
}

// The uniform number of a draw, (r + 1/2) / 2^16 in (0, 1).
LPMM_HD float noise_uniform(std::uint32_t draw) {
  return static_cast<float>(draw) * 0x1p-16F + 0x1p-17F;
}

}  // namespace lpmm
