// Values to codes: the encoders of kernels/formats/element.h for vectors side by side.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/cpu/tile_decode-inl.h"
#include "kernels/cpu/tile_pack-inl.h"
#include "kernels/cpu/tile_tables-inl.h"
#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/formats/element.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// x / step to the last bit, for a step of 8 significant bits. The product with the rounded
// reciprocal is mended by its residual, which is exact for every pair of mantissas (all 2^30 were compared;
// tests repeat a part). Below 2^-3 the residual may be subnormal and the quotient off, where no code cares.
struct Quotient {
  VF step, inverse;
  HWY_INLINE explicit Quotient(float s) : step(set(s)), inverse(set(s > 0.0F ? 1.0F / s : 0.0F)) {}
  HWY_INLINE void operator()(const RowsF& x, RowsF& y) const {
    RowsF rest;
    each([&](int i) { y[i] = hn::Mul(x[i], inverse); });
    each([&](int i) { rest[i] = hn::NegMulAdd(y[i], step, x[i]); });
    each([&](int i) { y[i] = hn::MulAdd(rest[i], inverse, y[i]); });
  }
};

// (x >= 0 ? v : -v) for the sign of a float.
HWY_INLINE VI with_sign_of(VF x, VI v) {
  const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x));
  return hn::Sub(hn::Xor(v, sign), sign);
}

HWY_INLINE VI minus_one_where(hn::Mask<DF> mask) {
  return hn::BitCast(DI(), hn::VecFromMask(DF(), mask));
}

// element.h's rough_log2.
HWY_INLINE VF rough_log2(VF x) {
  const VI bits = hn::BitCast(DI(), x), one = set(0x3F800000);
  const VF m = hn::Sub(hn::BitCast(DF(), hn::Or(hn::And(bits, set(0x7FFFFF)), one)), set(1.0F));
  const VF bend = hn::Sub(set(0.4387F), hn::Mul(m, hn::Sub(set(0.239F), hn::Mul(set(0.0821F), m))));
  const VF curve = hn::Mul(hn::Mul(m, hn::Sub(set(1.0F), m)), bend);
  return hn::Add(to_float(hn::ShiftRight<23>(bits)), hn::Add(m, curve));
}

// element.h's goes_up under kLaw, where that is of a variance, between the entries of one block's table.
template <bool kHasRange, bool kStochastic, Rounding kLaw>
struct Neighbours {
  const float* map;
  VF step;
  VI last;  // that has an upper neighbour
  bool is_small = false;

  Neighbours() = default;
  HWY_INLINE Neighbours(Format f, const Scale& scale)
      : map(scale.table.values),
        step(set(scale.step > 0.0F ? scale.step : 1.0F)),  // without a step all are 0: the smallest
        last(set((1 << f.bits) - 2)),
        is_small(f.bits <= 4) {}

  HWY_INLINE VF at(VI code) const { return hn::Mul(entry(code), step); }
  // The code, or the next one.
  HWY_INLINE VI round(VI code, VF x, VI draw) const {
    const VF a = at(code), b = at(hn::Add(code, set(1)));
    VF rest = hn::Sub(b, x);
    if constexpr (is_of_variance(kLaw)) {
      const VF root_a = hn::Sqrt(a), root_b = hn::Sqrt(b), root_x = hn::Sqrt(hn::Max(x, hn::Zero(DF())));
      VF at_a = root_a, at_x = root_x;
      if constexpr (kLaw == Rounding::kAverage) {
        at_a = hn::Add(hn::Sqrt(root_a), hn::Sqrt(root_b));
        at_x = hn::Add(hn::Sqrt(root_x), hn::Sqrt(root_b));
      }
      rest = hn::Mul(rest,
                     hn::Div(hn::Mul(at_a, hn::Add(root_a, root_b)), hn::Mul(at_x, hn::Add(root_x, root_b))));
    }
    VF u = set(0.5F);
    if constexpr (kStochastic) u = hn::MulAdd(to_float(draw), set(0x1p-16F), set(0x1p-17F));  // exact
    return hn::Sub(code, minus_one_where(hn::Ge(hn::Mul(u, hn::Sub(b, a)), rest)));
  }

 private:
  // Tables of ranges lie behind one another, so that a vector more may be read.
  HWY_INLINE VF entry(VI code) const {
    if constexpr (kHasRange && kLanes >= 16) {
      if (is_small) return Lookup8::of(map, code);
    } else if constexpr (kHasRange && kLanes >= 8) {
      if (is_small) {
        const VF high = Lookup8::of(map + 8, code);
        return hn::IfNegativeThenElse(hn::BitCast(DF(), hn::ShiftLeft<28>(code)), high,
                                      Lookup8::of(map, code));
      }
    }
    return hn::GatherIndex(DF(), map, code);
  }
};

// element.h's encode_value for vectors side by side.
template <Coding kCoding, bool kSigned, bool kStochastic, Rounding kLaw = Rounding::kStochastic>
struct Encoder : ZoneColumns<kCoding> {
  static constexpr bool kIsLinear = kCoding == Coding::kLinear || kCoding == Coding::kLinearNoZero;
  static constexpr bool kIsAverageRoot = kLaw == Rounding::kAverage && kCoding == Coding::kSquareRoot;
  static constexpr bool kHasNeighbours =
      (is_of_variance(kLaw) && !kIsAverageRoot) || kCoding == Coding::kSquares || has_range(kCoding);
  static constexpr int kPartBits = kIsLinear || kCoding == Coding::kSquareRoot ? 16 : kCurvedBits;
  static constexpr int kDrawBits = kHasNeighbours ? 16 : kPartBits;
  static constexpr float kParts = kStochastic && kIsLinear ? 65536.0F : 1.0F;

  Quotient quotient;
  // Square root: u, or w - 1/2 of `ar`, is draw * draw_step + half_step. Squares: codes per root.
  VF inverse_root = set(0.0F), draw_step = set(0.0F), half_step = set(0.0F);
  std::int32_t limit, zero;
  struct None {};
  using Between = Neighbours<has_range(kCoding), kStochastic, kLaw>;
  std::conditional_t<kHasNeighbours, Between, None> neighbours;
  VF log_of_step = set(0.0F), codes_per_octave = set(0.0F);

  HWY_INLINE Encoder(Format f, MapTable table)
      : ZoneColumns<kCoding>(table), quotient(0.0F), limit(code_limit(f.bits)), zero(table.zero) {
    if constexpr (kIsAverageRoot) {
      const AverageDraw drawn = average_draw(f.bits);
      draw_step = set(drawn.scale);
      half_step = set(drawn.least);
    }
  }

  HWY_INLINE void set_step(Format f, float step) {
    const float levels = static_cast<float>(1 << f.bits);
    if (kCoding == Coding::kLinearNoZero) step /= levels;
    if (kCoding == Coding::kSquareRoot) step /= levels * levels;
    quotient = Quotient(step / kParts);
    if constexpr (kCoding == Coding::kSquareRoot) {
      inverse_root = set(step > 0.0F ? 1.0F / std::sqrt(step) : 0.0F);
    }
    if constexpr (kCoding == Coding::kSquareRoot && !kIsAverageRoot) {
      draw_step = set(step * 0x1p-16F);
      half_step = set(step * (kStochastic ? 0x1p-17F : 0.5F));
    }
  }

  HWY_INLINE void set_scale(Format f, const Scale& scale) {
    set_step(f, scale.step);
    if constexpr (kHasNeighbours) neighbours = Between(f, scale);
    if constexpr (kCoding == Coding::kSquares) {
      inverse_root = hn::Div(set(static_cast<float>((1 << f.bits) - 1)), hn::Sqrt(neighbours.step));
    }
    if constexpr (has_range(kCoding)) {
      log_of_step = rough_log2(neighbours.step);
      codes_per_octave = set(scale.table.codes_per_octave);
    }
  }

  // codes[i] for x[i] and, under stochastic rounding, draw[i].
  HWY_INLINE void operator()(const RowsF& x, const RowsI& draw, RowsI& codes) const {
    if constexpr (has_range(kCoding)) {
      log(x, draw, codes);
    } else if constexpr (kCoding == Coding::kSquares) {
      squares(x, draw, codes);
    } else if constexpr (kIsAverageRoot) {
      average_root(x, draw, codes);
    } else if constexpr (is_of_variance(kLaw)) {
      RowsI lowest;
      each([&](int i) { lowest[i] = hn::Zero(DI()); });
      in_value(x, lowest, codes);
      round_in_update(x, draw, codes);
    } else {
      in_value(x, draw, codes);
    }
  }

 private:
  HWY_INLINE void in_value(const RowsF& x, const RowsI& draw, RowsI& codes) const {
    if constexpr (kCoding == Coding::kLinear || kCoding == Coding::kLinearNoZero) {
      linear(x, draw, codes);
    } else if constexpr (kCoding == Coding::kSquareRoot) {
      square_root(x, draw, codes);
    } else if constexpr (kCoding == Coding::kSoftsign) {
      softsign(x, draw, codes);
    } else if constexpr (kCoding == Coding::kDynamic) {
      dynamic(x, draw, codes);
    } else {
      static_assert(kCoding == Coding::kZones);
      zones(x, draw, codes);
    }
  }

  HWY_INLINE void log(const RowsF& x, const RowsI& draw, RowsI& code) const {
    const VF last = to_float(neighbours.last), half = hn::Add(last, set(0.5F));
    each([&](int i) {
      const VF octaves = hn::Sub(rough_log2(x[i]), log_of_step);
      const VF place = hn::Add(half, hn::Mul(octaves, codes_per_octave));
      code[i] = truncate_to_int(hn::Min(hn::Max(place, hn::Zero(DF())), last));
    });
    each([&](int i) { code[i] = next_where_reached(x[i], code[i]); });
    each([&](int i) { code[i] = neighbours.round(code[i], x[i], draw[i]); });
  }

  HWY_INLINE void squares(const RowsF& x, const RowsI& draw, RowsI& code) const {
    const VF last = to_float(hn::Add(neighbours.last, set(kStochastic ? 0 : 1)));
    each([&](int i) {
      // The root of a negative value is NaN, and the larger of the two is then 0.
      const VF place = hn::Max(hn::Mul(hn::Sqrt(x[i]), inverse_root), hn::Zero(DF()));
      code[i] = truncate_to_int(hn::Min(kStochastic ? place : hn::Add(place, set(0.5F)), last));
    });
    if constexpr (!kStochastic) return;
    each([&](int i) {
      const VI lower = hn::Add(code[i], minus_one_where(hn::Gt(neighbours.at(code[i]), x[i])));
      code[i] = hn::Max(lower, hn::Zero(DI()));
    });
    each([&](int i) { code[i] = next_where_reached(x[i], code[i]); });
    each([&](int i) { code[i] = neighbours.round(code[i], x[i], draw[i]); });
  }

  // The next code that has an upper neighbour, where the value is at or beyond it.
  HWY_INLINE VI next_where_reached(VF x, VI code) const {
    const VI next = hn::Min(hn::Add(code, set(1)), neighbours.last);
    return hn::IfThenElse(hn::RebindMask(DI(), hn::Ge(x, neighbours.at(next))), next, code);
  }

  HWY_INLINE void round_in_update(const RowsF& x, const RowsI& draw, RowsI& code) const {
    each([&](int i) {
      const VI held = hn::Max(code[i], hn::Zero(DI()));
      const VI lower = hn::Add(held, minus_one_where(hn::Gt(neighbours.at(held), x[i])));
      code[i] = hn::Max(lower, hn::Zero(DI()));
    });
    each([&](int i) {
      const VI rounded = neighbours.round(hn::Min(code[i], neighbours.last), x[i], draw[i]);
      code[i] = hn::Max(code[i], rounded);
    });
  }

  HWY_INLINE void linear(const RowsF& x, const RowsI& draw, RowsI& k) const {
    RowsF y;
    quotient(x, y);
    each([&](int i) { k[i] = round_to_int(y[i]); });
    if constexpr (kStochastic) each([&](int i) { k[i] = hn::ShiftRight<16>(hn::Add(k[i], draw[i])); });
    // Packing saturates -1 to the lowest code.
    if constexpr (kCoding == Coding::kLinearNoZero) each([&](int i) { k[i] = hn::Sub(k[i], set(1)); });
  }

  HWY_INLINE void square_root(const RowsF& x, const RowsI& draw, RowsI& code) const {
    const VF one = set(1.0F);
    RowsF k, upper, rest, u;
    // The root of a negative value is NaN, and the larger of the two is then 0.
    each([&](int i) { k[i] = hn::Max(hn::Mul(hn::Sqrt(x[i]), inverse_root), hn::Zero(DF())); });
    each([&](int i) { code[i] = truncate_to_int(k[i]); });
    each([&](int i) { k[i] = to_float(code[i]); });
    each([&](int i) { upper[i] = hn::Add(k[i], one); });
    // The products with the step are exact: fused or not, the bits are the same.
    each([&](int i) { rest[i] = hn::MulSub(hn::Mul(upper[i], upper[i]), quotient.step, x[i]); });
    each([&](int i) {
      u[i] = half_step;
      if constexpr (kStochastic) u[i] = hn::MulAdd(to_float(draw[i]), draw_step, half_step);
    });
    // Packing saturates -1 to the lowest code.
    each([&](int i) {
      const auto stays = hn::Lt(hn::Mul(u[i], hn::Add(k[i], upper[i])), rest[i]);
      code[i] = hn::Add(code[i], minus_one_where(stays));
    });
  }

  HWY_INLINE void average_root(const RowsF& x, const RowsI& draw, RowsI& code) const {
    RowsF y, middle, bend, w;
    // The root of a negative value is NaN, and the larger of the two is then 0.
    each([&](int i) { y[i] = hn::Max(hn::Mul(hn::Sqrt(x[i]), inverse_root), hn::Zero(DF())); });
    each([&](int i) { code[i] = truncate_to_int(y[i]); });
    each([&](int i) { middle[i] = hn::Add(to_float(code[i]), set(0.5F)); });
    each([&](int i) {
      const VI bits = hn::Sub(set(static_cast<std::int32_t>(kBendBits)), hn::BitCast(DI(), middle[i]));
      bend[i] = hn::BitCast(DF(), bits);
    });
    each([&](int i) { w[i] = hn::MulAdd(to_float(draw[i]), draw_step, half_step); });
    each([&](int i) {
      const VF curve = hn::MulAdd(w[i], w[i], set(-0.25F));
      const auto stays = hn::Lt(hn::Sub(y[i], middle[i]), hn::MulAdd(bend[i], curve, w[i]));
      code[i] = hn::Add(code[i], minus_one_where(stays));
    });
  }

  HWY_INLINE void softsign(const RowsF& x, const RowsI& draw, RowsI& code) const {
    RowsF y, parts;
    each([&](int i) { y[i] = hn::Mul(hn::Abs(x[i]), quotient.inverse); });
    if (kLanes >= 8 && limit <= 7) {
      const SoftsignCells& cells = limit == 7 ? kSoft4Cells : kSoft3Cells;
      each([&](int i) {
        const VI cell = truncate_to_int(hn::Mul(y[i], set(SoftsignCells::kPerUnit)));
        const VF here = hn::MulAdd(Lookup8::of(cells.slope, cell), y[i], Lookup8::of(cells.start, cell));
        const VF next =
            hn::MulAdd(Lookup8::of(cells.next_slope, cell), y[i], Lookup8::of(cells.next_start, cell));
        parts[i] = hn::Min(here, next);
      });
    } else {
      const VF one = set(1.0F), twice = set(static_cast<float>(2 * limit));
      const VF unit = set(static_cast<float>(1 << kCurvedBits) / static_cast<float>(2 * limit));
      each([&](int i) {
        const VF k = to_float(truncate_to_int(hn::Div(hn::Mul(twice, y[i]), hn::Add(one, y[i]))));
        const VF below = hn::Sub(twice, k);
        const VF slope = hn::Mul(hn::Mul(below, hn::Sub(below, one)), unit);
        parts[i] = hn::MulAdd(slope, y[i], hn::Mul(hn::Mul(k, hn::Add(k, one)), unit));
      });
    }
    each([&](int i) { code[i] = with_sign_of(x[i], round_parts(parts[i], draw[i])); });
  }

  HWY_INLINE void dynamic(const RowsF& x, const RowsI& draw, RowsI& code) const {
    RowsF y;
    RowsI z;
    each([&](int i) {
      y[i] = hn::Mul(kSigned ? hn::Abs(x[i]) : hn::Max(x[i], hn::Zero(DF())), quotient.inverse);
    });
    each([&](int i) {
      const VF line = hn::Add(hn::Mul(to_float(hn::BitCast(DI(), y[i])), set(this->slope)), set(this->start));
      z[i] = truncate_to_int(hn::Min(hn::Max(line, hn::Zero(DF())), set(kDynamicZones - 1.0F)));
      const auto beyond = hn::Ge(y[i], Lookup8::of(this->next, z[i]));
      z[i] = hn::Sub(z[i], hn::BitCast(DI(), hn::VecFromMask(DF(), beyond)));
    });
    place_in_zones<Lookup8>(z, draw, y, code);
    if constexpr (kSigned) {
      each([&](int i) {
        const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x[i]));
        const VI most = hn::Add(set(limit + 1), sign);  // 1 has no negative
        const VI held = hn::Min(code[i], most);
        code[i] = hn::Add(set(limit), hn::Sub(hn::Xor(held, sign), sign));
      });
    }
  }

  HWY_INLINE void zones(const RowsF& x, const RowsI& draw, RowsI& code) const {
    RowsF y;
    RowsI z;
    hn::Mask<DF> is_negative[kSide];
    each([&](int i) {
      const VI sign = hn::ShiftRight<31>(hn::BitCast(DI(), x[i]));
      y[i] = hn::Mul(hn::Abs(x[i]), quotient.inverse);
      z[i] = hn::And(sign, set(std::int32_t{kZones}));
      is_negative[i] = hn::MaskFromVec(hn::BitCast(DF(), sign));
    });
    for (int j = 1; j < kZones; ++j) {
      const VF positive = set(this->first[j]), negative = set(this->first[kZones + j]);
      each([&](int i) {
        const VF start = hn::IfThenElse(is_negative[i], negative, positive);
        z[i] = hn::Sub(z[i], hn::BitCast(DI(), hn::VecFromMask(DF(), hn::Ge(y[i], start))));
      });
    }
    place_in_zones<Lookup32>(z, draw, y, code);
    each([&](int i) { code[i] = hn::Add(set(zero), with_sign_of(x[i], code[i])); });
  }

  // Turns the zones z of the magnitudes y into the numbers of their entries.
  template <class Lookup>
  HWY_INLINE void place_in_zones(const RowsI& z, const RowsI& draw, RowsF& y, RowsI& code) const {
    RowsF end;
    each([&](int i) {
      y[i] = hn::Mul(hn::Sub(y[i], Lookup::of(this->first, z[i])), Lookup::of(this->scale, z[i]));
    });
    each([&](int i) { end[i] = Lookup::of(this->last, z[i]); });
    each([&](int i) {
      y[i] = hn::Max(y[i], hn::Zero(DF()));
      const VF beyond = hn::Add(end[i], hn::Mul(hn::Sub(y[i], end[i]), Lookup::of(this->stretch, z[i])));
      y[i] = hn::IfThenElse(hn::Gt(y[i], end[i]), beyond, y[i]);
    });
    each([&](int i) { code[i] = hn::Add(Lookup::of(this->number, z[i]), round_parts(y[i], draw[i])); });
  }

  HWY_INLINE VI round_parts(VF parts, VI draw) const {
    if constexpr (!kStochastic) draw = set(1 << (kPartBits - 1));
    return hn::ShiftRight<kPartBits>(hn::Add(round_to_int(parts), draw));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
