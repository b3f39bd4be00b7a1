// The update of whole units in one pass, in registers: decode, rule, maxima, steps, draws and encode. A warp
// takes a unit of 1024 elements of one tensor, 8 groups and a thread for each column of one, and then
// another: codes and steps of the next unit are on their way while one is computed. It leaves to the bodies
// of kernels/cuda/packed/update_body.h, in a list, units that end early, values that are not storable, and
// operands out of the range of kernels/cuda/packed/exact.h. The bits are the same.
#pragma once

#include "kernels/cuda/packed/fused_state.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// The rules that units are updated with: arithmetic of one element, whose usual states are among these two. A
// first pass that finds norms is made before.
template <class R>
constexpr bool is_for_units() {
  bool is = !HasPasses<R>;
  for (const Role state : fused::states_of<R>()) {
    is = is && (state == Role::kMomentum || state == Role::kVariance);
  }
  return is;
}

// A scalar that is usually 0 (kernels/rules/rule.h): loops are compiled without its arithmetic too.
template <class R>
inline constexpr bool kHasUsual = requires(R& rule) {
  R::usually_zero(rule);
};
template <class R>
LPMM_HD bool is_usual(const R& rule) {
  if constexpr (kHasUsual<R>) return same(R::usually_zero(rule), 0.0F);
  return true;
}
template <bool kUsual, class R>
LPMM_DEVICE R known(R rule) {
  if constexpr (kUsual && kHasUsual<R>) R::usually_zero(rule) = 0.0F;
  return rule;
}

// A thread's part of the update of a unit. `kSet` is a place in fused::kCodecs; `kFeedback`: the momentum
// takes the rounding error of the parameter; `kUsual`: is_usual(rule) holds.
//
// Codes of sticky steps are made at once. A parameter's steps seldom move; one of a variance's eight per
// warp, with a beta2 of 0.95, moves in every other unit, and early in training in nearly all. So its values
// wait in shared memory, each in a word of codes that its thread has read, and are encoded once more from
// there. That is a loop, as short as can be: all of this is hardly less code than the instruction cache
// holds.
template <class R, int kSet, bool kFeedback, bool kUsual>
class UnitUpdate {
  static constexpr fused::Codecs kCodecs = fused::codecs_of<R, kSet>();
  template <Role kRole>
  using Of = Stored<kCodecs[kRole]>;
  using P = Of<Role::kParameter>;
  using A = Of<Role::kAccumulator>;
  using M = Of<Role::kMomentum>;
  using V = Of<Role::kVariance>;
  template <class Of>
  using StagedOf = Staged<Of::kIsThere ? Of::kBits : 0>;
  // Without a variance there are no roots to track.
  using Num = std::conditional_t<V::kIsThere, cuda::Number, cuda::PlainNumber>;
  static_assert((P::kIsPlain || P::kIsAtOnce) && P::kParts == 1 && A::kParts == 1 && V::kParts == 1);

 public:
  // Values of the variance wait in shared memory, if there are momenta that wait in registers, and codes of
  // all roles.
  static constexpr bool kParks = V::kIsThere && V::kIsAtOnce && M::kIsThere && !P::kIsPlain && !A::kIsPlain;
  // Thread blocks per multiprocessor: 128 registers for each thread, or 168 where more values are kept.
  static constexpr int kBlocks = V::kIsThere && M::kIsThere && (kFeedback || !kParks) ? 3 : 4;

  // Makes the tables, by all threads of a block.
  LPMM_DEVICE static void make_tables(SoftTable* tables, int thread) {
    if constexpr (A::kCoding == Coding::kSoftsign || M::kCoding == Coding::kSoftsign) {
      const int table = thread / kTableThreads, bits = table == 0 ? A::kBits : M::kBits;
      const bool is_soft = (table == 0 ? A::kCoding : M::kCoding) == Coding::kSoftsign;
      if (is_soft && table < kSoftTables) make_soft_table(tables[table], thread % kTableThreads, bits);
      __syncthreads();
    }
  }

  // Offsets of the roles' codes, and the bytes of all of them.
  static constexpr std::uint32_t kAtA = StagedOf<P>::kBytes, kAtM = kAtA + StagedOf<A>::kBytes,
                                 kAtV = kAtM + StagedOf<M>::kBytes, kStagedBytes = kAtV + StagedOf<V>::kBytes;
  // A role whose codes are too short for a word per row.
  template <class Of>
  static constexpr std::uint32_t kLacks = Of::kBits < kRows ? 1 : 0;
  // The bytes behind the staged codes for values that have no word of codes to wait in.
  static constexpr std::uint32_t kParkedBytes =
      P::kIsPlain ? sizeof(FourFloats) * kRows * kFusedThreads
      : kParks    ? 4 * kPairs * kFusedThreads * (kLacks<P> + kLacks<A> + kLacks<M> + kLacks<V>)
                  : 0;

  // Asks for the codes of the unit that begins with a group, by all lanes of a warp. Returns the step of the
  // role of the lane's column.
  LPMM_DEVICE static std::uint16_t stage(const cuda::UpdateJob<R>& job, std::uint32_t group, int lane,
                                         std::byte* to) {
    const RoleArray<cuda::Slot>& at = job.roles.at;
    const auto copy = [&]<class Of>(Of, Role role, std::byte* place) {
      if constexpr (Of::kIsThere) {
        StagedOf<Of>::copy(place, at[role].codes + std::int64_t{group} * (kGroup / 8 * Of::kBits), lane);
      }
    };
    copy(P(), Role::kParameter, to);
    copy(A(), Role::kAccumulator, to + kAtA);
    copy(M(), Role::kMomentum, to + kAtM);
    copy(V(), Role::kVariance, to + kAtV);
    const int column = lane % kColumns;
    const std::uint16_t* step = step_of(at, group + static_cast<std::uint32_t>(lane / kColumns), column);
    return has_step(column) ? *step : std::uint16_t{0};
  }

  LPMM_DEVICE UnitUpdate(const cuda::UpdateJob<R>& job, std::uint32_t group, int lane, const Given& given,
                         std::byte* shared, std::uint32_t staged)
      : job_(job),
        rule_(known<kUsual>(job.complete())),
        group_(group + static_cast<std::uint32_t>(lane / kColumns)),
        lane_(lane),
        column_(lane % kColumns),
        given_(given),
        shared_(shared),
        staged_(staged) {}

  // `step` is what stage() returned. False: nothing was written. There is a second turn where the parameter's
  // step moves. Their common work is done twice: kept, its results would take all registers.
  LPMM_DEVICE bool run(std::uint16_t step) {
    begin(step);
    Moves moves = {};
    while (true) {
      cuda::OperandRange range;
      forget(group_);
      forget(p_.line.start);
      forget(m_.line.start);
      forget(v_.line.start);
      pass(range);
      moves = choose_steps();
      if (lanes_where(!range.is_exact() || !is_fine()) != 0) return false;
      if (lanes_where(moves.parameter) == 0) break;
      if constexpr (kParks) stage_again();
    }
    store(lanes_where(moves.variance) != 0);
    return true;
  }

 private:
  struct Moves {
    bool parameter, variance;
  };
  // Values lie where codes were.
  LPMM_DEVICE void stage_again() {
    __syncwarp();
    stage(job_, group_ - static_cast<std::uint32_t>(lane_ / kColumns), lane_, shared_ + staged_);
    wait_for_copies();
    __syncwarp();
  }
  // The word of a role that holds a waiting value of row `pair` (kHalf 0) or pair + 4 (kHalf 1). The role's
  // words begin kAt bytes after the unit's; `kBefore` earlier roles lack such words.
  template <class Of, std::uint32_t kAt, std::uint32_t kBefore, int kHalf>
  LPMM_DEVICE std::uint32_t& parked(int pair) const {
    static_assert(Of::kIsThere && (kHalf == 1 || Of::kBits >= kPairs));
    const std::uint32_t in_turn = kBefore * kPairs + static_cast<std::uint32_t>(pair);
    const std::uint32_t at = kHalf == 1 && kLacks<Of> != 0
                                 ? behind_stages(kStagedBytes) + 4 * (in_turn * kFusedThreads + threadIdx.x)
                                 : StagedOf<Of>::place(staged_, kAt, lane_, pair + kHalf * kPairs);
    return *reinterpret_cast<std::uint32_t*>(shared_ + at);
  }
  // body(place, value) for the four values of such a row.
  template <int kHalf, class Body>
  LPMM_DEVICE void each_parked(int pair, float (&v)[kColumns], const Body& body) const {
    constexpr std::uint32_t kA = kLacks<P>, kM = kA + kLacks<A>, kV = kM + kLacks<M>;
    body(parked<P, 0, 0, kHalf>(pair), v[0]);
    body(parked<A, kAtA, kA, kHalf>(pair), v[1]);
    body(parked<M, kAtM, kM, kHalf>(pair), v[2]);
    body(parked<V, kAtV, kV, kHalf>(pair), v[3]);
  }
  // New values of a plain parameter wait in shared memory, for they would take a fifth of the registers.
  LPMM_DEVICE FourFloats& parked_row(int j) const {
    auto* const rows = reinterpret_cast<FourFloats*>(shared_ + behind_stages(kStagedBytes));
    return rows[static_cast<std::uint32_t>(j) * kFusedThreads + threadIdx.x];
  }
  LPMM_DEVICE void park(int n, float (&v)[kColumns]) const {
    const auto put = [](std::uint32_t& place, float value) { place = float_bits(value); };
    n % 2 == 0 ? each_parked<0>(n / 2, v, put) : each_parked<1>(n / 2, v, put);
  }
  template <int kHalf>
  LPMM_DEVICE std::uint32_t parked_codes(const typename V::Writer& writer, int pair) const {
    float v[kColumns];
    each_parked<kHalf>(pair, v, [](std::uint32_t place, float& value) { value = bits_float(place); });
    std::uint32_t places[kColumns];
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
      places[i] = writer.place(v[i], v_.line(pair + kHalf * kPairs, i));
    }
    return bytes_of<V::Writer::kAt>(places);
  }
  LPMM_DEVICE void store_parked(std::uint8_t* codes) const {
    static_assert(V::kBits == 8 || V::kBits == 4);
    const typename V::Writer writer(v_.next[0], given_);
    auto* to =
        global(reinterpret_cast<std::uint32_t*>(codes + std::int64_t{group_} * (16 * V::kBits)) + column_);
    LPMM_ROLLED for (int pair = 0; pair < kPairs; ++pair, to += kColumns) {
      const std::uint32_t first = parked_codes<0>(writer, pair), second = parked_codes<1>(writer, pair);
      *to = V::kBits == 8 ? first : (first & 0x0FU * kEachByte) | (second & 0x0FU * kEachByte) << 4;
      if constexpr (V::kBits == 8) to[kColumns * kPairs] = second;
    }
  }
  // Selects a column's role; the accumulator leaves its column to the second part of the momentum.
  template <class T>
  LPMM_DEVICE static T of_column(int column, T parameter, T momentum, T second, T variance) {
    return column < 2 ? (column == 0 ? parameter : second) : (column == 2 ? momentum : variance);
  }
  LPMM_DEVICE static bool has_step(int column) {
    return of_column(column, P::kIsThere, M::kIsThere, A::kIsThere || M::kParts == 2, V::kIsThere);
  }
  LPMM_DEVICE static std::uint32_t groups_of(int column) {
    return of_column(column, P::kGroups, M::kGroups, A::kGroups, V::kGroups);
  }
  LPMM_DEVICE static std::uint16_t* step_of(const RoleArray<cuda::Slot>& at, std::uint32_t group,
                                            int column) {
    const bool is_second = M::kParts == 2 && column == 1,
               is_of_parts = is_second || (M::kParts == 2 && column == 2);
    const std::uint32_t block = is_of_parts ? 2 * group + (is_second ? 1 : 0) : group / groups_of(column);
    return global(at.of[is_second ? static_cast<int>(Role::kMomentum) : column].steps) + block;
  }
  // Returns the step that the lane of a column of the same group has.
  LPMM_DEVICE float step_from(int column, std::uint16_t mine) const {
    return bf16_to_float(
        static_cast<std::uint16_t>(__shfl_sync(kAllLanes, std::uint32_t{mine}, lane_ - column_ + column)));
  }

  LPMM_DEVICE void begin(std::uint16_t step) {
    step_of_column_ = step;
    const float of_parameter = step_from(0, step), of_momentum = step_from(2, step);
    p_.begin(of_parameter, of_parameter);
    if constexpr (A::kIsThere) a_.begin(step_from(1, step), 0.0F);
    m_.begin(of_momentum, M::kParts == 2 ? step_from(1, step) : of_momentum);
    if constexpr (V::kIsThere) v_.begin(step_from(3, step), 0.0F);
    has_fine_steps_ = fmaxf(fmaxf(p_.step[0], a_.step[0]),
                            fmaxf(fmaxf(m_.step[0], m_.step[M::kParts - 1]), v_.step[0])) <= kMostStep;
    const RoleArray<cuda::Slot>& at = job_.roles.at;
    // Each column makes the line of the role of its number.
    const NoiseLine line = noise_line(at.of[column_].noise, group_);
    const auto take = [&](ThreadLine& of, Role role) {
      const int from = lane_ - column_ + static_cast<int>(role);
      of.slope = __shfl_sync(kAllLanes, line.slope, from);
      of.start = __shfl_sync(kAllLanes, line.start, from) +
                 of.slope * static_cast<std::uint32_t>(kColumns * column_);
    };
    take(p_.line, Role::kParameter);
    if constexpr (M::kIsThere) take(m_.line, Role::kMomentum);
    if constexpr (V::kIsThere) take(v_.line, Role::kVariance);
  }

  struct Inputs {
    InputOf<P> p;
    InputOf<A> a;
    InputOf<M> m;
    InputOf<V> v;
  };

  // Computes the largest magnitudes of the new values from the stored ones.
  LPMM_DEVICE void pass(cuda::OperandRange& range) {
    p_.restart();
    m_.restart();
    v_.restart();
    const typename P::Writer p_writer(p_.next[0], given_);
    const typename V::Writer v_writer(v_.next[0], given_);
    Inputs in;
    LPMM_UNROLL for (int n = 0; n < kRows; ++n) {
      const int pair = n / 2, j = pair + n % 2 * kPairs;
      if (n % 2 == 0) {
        begin_reading();
        const RoleArray<cuda::Slot>& at = job_.roles.at;
        in.p.load(at[Role::kParameter], group_, shared_, staged_, 0, lane_, pair);
        in.a.load(at[Role::kAccumulator], group_, shared_, staged_, kAtA, lane_, pair);
        in.m.load(at[Role::kMomentum], group_, shared_, staged_, kAtM, lane_, pair);
        in.v.load(at[Role::kVariance], group_, shared_, staged_, kAtV, lane_, pair);
      }
      update_row(in, n, j, range, p_writer, v_writer);
    }
  }
  LPMM_DEVICE Given given_of_momentum() const {
    Given given = given_;
    given.table = sizeof(SoftTable);
    return given;
  }
  // Row j, the n-th one in turn.
  LPMM_DEVICE void update_row(const Inputs& in, int n, int j, cuda::OperandRange& range,
                              const typename P::Writer& p_writer, const typename V::Writer& v_writer) {
    float p[kColumns], a[kColumns], m[kColumns], v[kColumns];
    in.p.read(p_, given_, j, p);
    in.a.read(a_, given_, j, a);
    in.m.read(m_, given_of_momentum(), j, m);
    in.v.read(v_, given_, j, v);
    Elements<Num> x[kColumns];
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
      x[i][Role::kParameter] = Num(p[i], &range);
      x[i][Role::kAccumulator] = Num(a[i], &range);
      x[i][Role::kMomentum] = Num(m[i], &range);
      x[i][Role::kVariance] = Num(v[i], &range);
      rule_(x[i]);
      p[i] = x[i][Role::kParameter].v;
    }
    p_.finish(p, j);
    if constexpr (P::kIsPlain) {
      parked_row(j) = {p[0], p[1], p[2], p[3]};
    } else {
      const auto stored = p_.encode(p_writer, p, j);
      const typename P::Reader p_reader(p_.next[0], given_);
      LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
        if constexpr (kFeedback) rule_.feed_back(Num(p[i] - p_reader.value(stored, i)), x[i]);
      }
    }
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
      m[i] = x[i][Role::kMomentum].v;
      v[i] = x[i][Role::kVariance].v;
    }
    if constexpr (M::kIsThere) m_.finish(m, j);
    if constexpr (V::kIsThere) v_.finish(v, j);
    if constexpr (kParks) {
      v_.encode(v_writer, v, j);
      park(n, v);
    }
  }

  // Each column chooses a step. Returns which sticky ones moved.
  LPMM_DEVICE Moves choose_steps() {
    constexpr int kLast = M::kParts - 1;
    p_.most[0] = largest_of_block<P::kGroups>(p_.most[0]);
    LPMM_UNROLL for (float& most : m_.most) most = largest_of_block<M::kGroups>(most);
    v_.most[0] = V::kIsThere ? largest_of_block<V::kGroups>(v_.most[0]) : 0.0F;
    constexpr auto kMode = [](bool is_at_once) { return is_at_once ? StepMode::kSticky : StepMode::kMoving; };
    const float limit =
        of_column(column_, P::kIsThere ? map_limit(P::kCodec.format) : 1.0F, map_limit(M::kCodec.format),
                  map_limit(M::kCodec.format), map_limit(V::kCodec.format));
    const StepMode mode = of_column(column_, kMode(P::kIsAtOnce), kMode(M::kIsAtOnce), kMode(M::kIsAtOnce),
                                    kMode(V::kIsAtOnce));
    next_of_column_ = next_step(
        limit, mode, of_column(column_, p_.most[0], m_.most[0], m_.most[kLast], v_.most[0]), step_of_column_);
    Moves moves = {};
    if constexpr (P::kIsThere) {
      const float p_next = step_from(0, next_of_column_);
      moves.parameter = !same(p_next, p_.next[0]);
      p_.next[0] = p_next;
    }
    m_.next[0] = step_from(2, next_of_column_);
    if constexpr (M::kParts == 2) m_.next[1] = step_from(1, next_of_column_);
    if constexpr (V::kIsThere) {
      const float v_next = step_from(3, next_of_column_);
      moves.variance = kParks && !same(v_next, v_.next[0]);
      v_.next[0] = v_next;
    }
    return moves;
  }
  LPMM_DEVICE bool is_fine() const {
    std::uint32_t most = float_bits(p_.most[0]);
    LPMM_UNROLL for (const float part : m_.most) most = float_bits(part) > most ? float_bits(part) : most;
    bool divides_exactly = true;
    if constexpr (V::kIsThere) {
      most = float_bits(v_.most[0]) > most ? float_bits(v_.most[0]) : most;
      divides_exactly = rule_.spreads_within(cuda::kLeastDenominator, cuda::kMostDenominator, v_.most[0]);
    }
    return divides_exactly && has_fine_steps_ && p_.next[0] <= kMostStep && is_storable(most);
  }

  LPMM_DEVICE void store_plain() const {
    const RoleArray<cuda::Slot>& at = job_.roles.at;
    if constexpr (P::kIsPlain) {
      LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
        write_plain(at[Role::kParameter], plain_four(group_, column_, j), parked_row(j), p_.line, j);
      }
    }
    if constexpr (A::kIsPlain) {
      if (job_.keeps_gradient) return;
      LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
        write_plain(at[Role::kAccumulator], plain_four(group_, column_, j), {}, {}, j);
      }
    }
  }
  LPMM_DEVICE void store(bool variance_moves) {
    const RoleArray<cuda::Slot>& at = job_.roles.at;
    store_plain();
    if constexpr (P::kIsThere) p_.store(at[Role::kParameter].codes, group_, column_, given_);
    if constexpr (M::kIsThere) m_.store(at[Role::kMomentum].codes, group_, column_, given_of_momentum());
    if constexpr (kParks) {
      if (variance_moves) {
        store_parked(at[Role::kVariance].codes);
      } else {
        v_.words.store(at[Role::kVariance].codes, group_, column_);
      }
    } else if constexpr (V::kIsThere) {
      v_.store(at[Role::kVariance].codes, group_, column_, given_);
    }
    // Each column writes the step of its role; that of the accumulator empties it.
    if (!has_step(column_) || group_ % groups_of(column_) != 0) return;
    *step_of(at, group_, column_) = A::kIsThere && column_ == 1 ? std::uint16_t{0} : next_of_column_;
  }

  const cuda::UpdateJob<R>& job_;
  const R rule_;
  std::uint32_t group_;
  const int lane_, column_;
  const Given given_;
  std::byte* shared_;
  const std::uint32_t staged_;  // bytes before this unit's codes
  RoleState<P, false> p_;
  RoleState<A, false> a_;
  RoleState<M, M::kIsThere> m_;
  RoleState<V, V::kIsThere && !kParks> v_;
  std::uint16_t step_of_column_ = 0, next_of_column_ = 0;
  bool has_fine_steps_ = true;
};

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
