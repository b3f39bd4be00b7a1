#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/cpu/packed/next_steps.h"
#include "kernels/cpu/packed/row_sums.h"
#include "kernels/cpu/packed/rule_loops.h"
#include "kernels/cpu/packed/run_statistics.h"
#include "kernels/cpu/packed/tile_view.h"
#include "kernels/cpu_packed.h"
#include "kernels/formats/compensation.h"
#include "kernels/orthogonal.h"

namespace lpmm::kernels {
namespace {

Cut cut_of(const RoleArray<RoleView>& roles) {
  int block = 0;
  for (const RoleView& role : roles) {
    if (role.codes != nullptr) block = std::max(block, piece_of_blocks(role.codec));
  }
  return {roles[Role::kParameter].elements, block};
}

TileValues values_of(Scratch& s) {
  TileValues values;
  for (const Role role : kEveryRole) values[role] = s.values[role].data();
  return values;
}

// Adds what a compensation holds to the parameter.
void add_compensation(const RoleArray<TileView>& views, Scratch& s) {
  const TileView& parameter = views[Role::kParameter];
  const TwoTerms terms{parameter.codec, views[Role::kCompensation].codec};
  float* p = s.values[Role::kParameter].data();
  const float* c = s.values[Role::kCompensation].data();
  for (std::int64_t i = 0; i < parameter.padded; ++i) p[i] = terms.sum(p[i], c[i]);
}
// The parameter's rounding error goes into the compensation, which is stored later.
void keep_rest(const RoleArray<TileView>& views, Scratch& s) {
  const TileView& parameter = views[Role::kParameter];
  const TwoTerms terms{parameter.codec, views[Role::kCompensation].codec};
  const float *wanted = s.values[Role::kParameter].data(), *stored = s.stored_values.data();
  float* c = s.values[Role::kCompensation].data();
  decode_tile(parameter, s.stored_values.data());
  for (std::int64_t i = 0; i < parameter.padded; ++i) c[i] = terms.rest(wanted[i], stored[i]);
}

// Decodes a tile of every role, and adds the compensation to the parameter. The rule does not read roles that
// are not there, but for the gradient, which is 0.
RoleArray<TileView> read_tile(const RoleArray<RoleView>& roles, std::int64_t at, std::int64_t n, Scratch& s) {
  RoleArray<TileView> views;
  const std::int64_t columns = matrix_of(roles).columns;
  for (const Role r : kEveryRole) {
    if (roles[r].codes == nullptr) {
      if (r == Role::kAccumulator) std::fill_n(s.values[r].data(), groups_of(n) * kGroup, 0.0F);
      continue;
    }
    if (!is_per_element(r)) {
      spread_tile(roles[r], kRoleRows[r].extent, columns, at, n, s.values[r].data());
      continue;
    }
    views[r] = tile_of(roles[r], at, n);
    decode_tile(views[r], s.values[r].data());
  }
  if (roles[Role::kCompensation].codes != nullptr) add_compensation(views, s);
  return views;
}

// Sums the squares of a tile's units.
void sum_squares(float* values, const TileView& tile, double* units) {
  zero_padding(values, tile);
  tile_kernels().square_sums(values, tile.padded, units + tile.first / kUnit);
}

// The rule with its norms, which a pass over the tensor that only reads has summed.
template <class R>
R with_norms(Pool& pool, R rule, const LoopsOf<R>& loops, const RoleArray<RoleView>& roles) {
  const Cut cut = cut_of(roles);
  SquareSums squares(R::kNorms, roles[Role::kParameter].elements);
  for_each_tile(pool, cut, 0, roles[Role::kParameter].elements,
                [&](std::size_t, std::int64_t at, std::int64_t n) {
                  Scratch& s = scratch();
                  const TileView tile = read_tile(roles, at, n, s)[Role::kParameter];
                  float* const terms[] = {s.old_values.data(), s.stored_values.data()};
                  static_assert(R::kNorms <= std::size(terms));
                  loops.terms(rule, values_of(s), terms, tile.padded);
                  for (std::size_t k = 0; k < R::kNorms; ++k) sum_squares(terms[k], tile, squares.units(k));
                });
  double sums[R::kNorms];
  for (std::size_t k = 0; k < R::kNorms; ++k) sums[k] = squares.take(k);
  rule.take_norms(sums);
  return rule;
}

// Moves the variances of rows and columns on, from a pass over the gradient. False: one was not storable.
template <class R>
bool update_rows(Pool& pool, R& rule, const RoleArray<RoleView>& roles) {
  const RoleView &of_rows = roles[Role::kRowVariance], &of_columns = roles[Role::kColumnVariance];
  if (of_rows.codes == nullptr || of_rows.elements == 0) return true;
  const TensorTraits matrix = matrix_of(roles);
  std::atomic<bool> storable{true};
  const auto move_on = [&](const RoleView& variances, std::int64_t place, double sum, std::int64_t count) {
    float& variance = reinterpret_cast<float*>(variances.codes)[place];
    variance = rule.next(variance, sum / static_cast<double>(count));
    if (!make_storable(variance)) storable.store(false, std::memory_order_relaxed);
  };
  const RowShares& shares = of_rows.shares;
  std::vector<double> shared(static_cast<std::size_t>(shares.shared));  // sums of these rows
  const auto take_row = [&](std::int64_t row, double sum) {
    if (row < shares.shared) {
      shared[static_cast<std::size_t>(row)] = sum;
    } else {
      move_on(of_rows, shares.place(row), sum, matrix.columns);
    }
  };
  const auto take_column = [&](std::int64_t column, double sum) {
    move_on(of_columns, column, sum, matrix.rows);
  };
  sum_squares(pool, roles[Role::kAccumulator], rule.gradient_scale, matrix, take_row,
              of_columns.codes == nullptr ? TakeSum() : take_column);
  for (auto row = shared.begin(); row != shared.end(); row += shares.run) {
    move_on(of_rows, (row - shared.begin()) / shares.run, std::accumulate(row, row + shares.run, 0.0),
            shares.run * matrix.columns);
  }
  if constexpr (NeedsRowMean<R>) rule.take_row_mean(mean_of_rows(of_rows));
  return storable;
}

// The rule with what passes before the update find; those of rows and columns change their variances.
Rule complete(Pool& pool, const Rule& rule, const RoleArray<RoleView>& roles, std::atomic<bool>& storable) {
  return with_rule(rule, [&]<class R>(R r, const LoopsOf<R>& loops) -> Rule {
    if constexpr (HasRows<R>) {
      if (!update_rows(pool, r, roles)) storable = false;
    }
    if constexpr (HasNorms<R>) {
      if (r.needs_norms()) return with_norms(pool, r, loops, roles);
    }
    return r;
  });
}

// The parameter's rounding error goes into the states that are stored next.
void feed_back(const Rule& rule, const TileView& parameter, Scratch& s) {
  decode_tile(parameter, s.stored_values.data());
  with_rule(rule, [&](const auto& r, const auto& loops) {
    if (loops.feed_back != nullptr)
      loops.feed_back(r, s.stored_values.data(), values_of(s), parameter.padded);
  });
}

bool is_stored(const RoleArray<RoleView>& roles, Role r) {
  return roles[r].codes != nullptr && is_per_element(r) && r != Role::kAccumulator;
}

// The next steps of roles that have them of rows, from a pass that applies the rule and stores nothing.
RoleArray<NextSteps> next_steps(Pool& pool, const Rule& rule, const RoleArray<RoleView>& roles) {
  RoleArray<NextSteps> next;
  bool is_needed = false;
  for (const Role r : kEveryRole) {
    if (is_stored(roles, r) && !has_blocks(roles[r].codec)) next[r] = NextSteps(roles[r]);
    is_needed = is_needed || next[r].is_needed();
  }
  if (!is_needed) return next;
  const auto tile = [&](std::size_t, std::int64_t at, std::int64_t n) {
    Scratch& s = scratch();
    const RoleArray<TileView> views = read_tile(roles, at, n, s);
    with_rule(rule,
              [&](const auto& r, const auto& loops) { loops.apply(r, values_of(s), groups_of(n) * kGroup); });
    for (const Role r : kEveryRole) {
      if (!next[r].is_needed()) continue;
      float* values = s.values[r].data();
      zero_padding(values, views[r]);
      make_tile_storable(views[r], values);
      next[r].raise(views[r], values);
    }
  };
  for_each_tile(pool, cut_of(roles), 0, roles[Role::kParameter].elements, tile);
  for (NextSteps& of_role : next) of_role.choose();
  return next;
}

// The largest of a tile, where it is larger than those before it. Maxima of groups say where to look for it.
void raise(LargestElement& largest, const float* values, std::int64_t first, std::int64_t count) {
  std::array<std::uint32_t, kTile / kGroup> groups;
  tile_kernels().largest(values, count, kGroup, groups.data());
  const auto* group = std::max_element(groups.data(), groups.data() + groups_of(count));
  if (*group <= largest.bits) return;
  const float* at = values + (group - groups.data()) * kGroup;
  at = std::find_if(at, at + kGroup, [group](float x) { return abs_bits(x) == *group; });
  largest.raise(*group, first + (at - values));
}

// Measures a tile that is not updated yet.
void measure_tile(const Rule& rule, const RoleArray<RoleView>& roles, std::int64_t at, std::int64_t n,
                  RunStatistics& into) {
  Scratch& s = scratch();
  const TileView tile = read_tile(roles, at, n, s)[Role::kParameter];
  const TileValues values = values_of(s);
  float* const measured[kWatched] = {values[Role::kParameter], s.old_values.data(),
                                     values[Role::kAccumulator], s.stored_values.data()};
  with_rule(rule, [&](const auto& r, const auto& loops) { loops.watch(r, values, measured, tile.padded); });
  const bool has_ratio = roles[Role::kVariance].codes != nullptr;
  for (std::size_t k = 0; k < kWatched - (has_ratio ? 0 : 1); ++k)
    sum_squares(measured[k], tile, into.squares[k]);
  const float *parameter = measured[static_cast<int>(Watched::kParameter)],
              *update = measured[static_cast<int>(Watched::kUpdate)],
              *ratio = measured[static_cast<int>(Watched::kRatio)];
  const auto raise_peaks = [&](Peak peak, std::uint8_t* codes, const float* of, const float* beside) {
    if (codes == nullptr) return;
    codes += code_bytes(kPeakFormat, tile.first);
    tile_kernels().raise_peaks(peak, of, beside, tile.padded, codes);
  };
  raise_peaks(Peak::kUpdate, into.peaks.update, update, parameter);
  raise_peaks(Peak::kRatio, into.peaks.ratio, ratio, ratio);
  raise(into.update, update, at, tile.padded);
  if (has_ratio) raise(into.ratio, ratio, at, tile.padded);
}

void lower_peaks(Pool& pool, const PeakView& peaks, const Cut& cut, std::int64_t elements) {
  for (std::uint8_t* const codes : {peaks.update, peaks.ratio}) {
    if (codes == nullptr || !peaks.fall) continue;
    for_each_tile(pool, cut, 0, elements, [&](std::size_t, std::int64_t at, std::int64_t n) {
      std::uint8_t* const of_tile = codes + code_bytes(kPeakFormat, at);
      for (std::int64_t i = 0; i < code_bytes(kPeakFormat, n); ++i) {
        of_tile[i] = raised_peaks(of_tile[i], true, 0, 0);
      }
    });
  }
}

// None: nothing is watched.
std::optional<StatisticsByRun> begin_statistics(Pool& pool, const TensorUpdate& tensor, const Cut& cut) {
  if (tensor.watched == nullptr) return {};
  const std::int64_t elements = tensor.args.roles[Role::kParameter].elements;
  lower_peaks(pool, tensor.peaks, cut, elements);
  return StatisticsByRun(elements, cut.runs(), tensor.peaks);
}

// Marks the elements whose update, from the old values of the parameter, is exactly 0.
void mark_still(Scratch& s, std::size_t count) {
  const std::array<float, kTile>& updated = s.values[Role::kParameter];
  for (std::size_t i = 0; i < count; ++i) s.is_still[i] = same(updated[i], s.old_values[i]);
}

// The fused loop of a tensor. If it takes an fp32 parameter and gradient, and these are stored in another
// way, some tiles at a time are decoded for it, and the parameter is encoded.
template <class R>
class FusedTiles {
 public:
  FusedTiles(const R& rule, const LoopsOf<R>& loops, const UpdateArgs& args) : rule_(rule), args_(args) {
    if (loops.fused == nullptr || args.stats != nullptr) return;
    loop_ = loops.fused(args.roles);
    const Codec& parameter = args.roles[Role::kParameter].codec;
    const RoleView& gradient = args.roles[Role::kAccumulator];  // without codes it is in the momentum
    // The loops may end amid what is larger than a group, and half a block is not stored or emptied. They see
    // no rounding of the parameter that a rule could take back. A packed gradient comes with a packed
    // parameter, and both have a loop of their own or none.
    const bool may_widen =
        (!is_packed(parameter.format) || gradient.codec == Codec()) && gradient.codes != nullptr &&
        (parameter == Codec() || !feeds_back(rule)) && piece_of_blocks(parameter) <= kGroup &&
        piece_of_blocks(gradient.codec) <= kGroup && args.roles[Role::kCompensation].codes == nullptr;
    if (loop_ != nullptr || !may_widen) return;
    is_widened_ = true;
    RoleArray<RoleView> floats = args.roles;
    for (const Role r : kWidened) floats[r].codec = Codec();
    loop_ = loops.fused(floats);
  }
  // Updates elements of [at, at + n) and returns how many.
  std::int64_t operator()(std::int64_t at, std::int64_t n, RunStatistics* statistics) const {
    if (loop_ == nullptr) return 0;
    if (!is_widened_) return loop_(rule_, args_, at, n, statistics);
    std::int64_t done = 0;
    for (std::int64_t ready = 0; done == ready && done < n;) {
      const std::int64_t now = std::min(kAtOnce, n - done);
      done += update_widened(at + done, now, statistics);
      ready += now;
    }
    return done;
  }

 private:
  static constexpr std::int64_t kAtOnce = 2 * kUnit;
  static constexpr std::array kWidened = {Role::kParameter, Role::kAccumulator};

  std::int64_t update_widened(std::int64_t at, std::int64_t n, RunStatistics* statistics) const {
    Scratch& s = scratch();
    UpdateArgs args = args_;
    args.stored = &args_.roles;
    for (const Role r : kWidened) {
      RoleView& role = args.roles[r];
      if (role.codes == nullptr || role.codec == Codec()) continue;
      float* values = s.values[r].data();
      decode_tile(tile_of(role, at, n), values);
      // The address that the first of all its elements would have: a number, as there is nothing to point to.
      const auto first = reinterpret_cast<std::uintptr_t>(values) - 4 * static_cast<std::uintptr_t>(at);
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      role = {Codec(), reinterpret_cast<std::uint8_t*>(first), nullptr, role.elements};
    }
    const std::int64_t done = loop_(rule_, args, at, n, statistics);
    if (done == 0) return 0;
    const RoleView &parameter = args_.roles[Role::kParameter], &gradient = args_.roles[Role::kAccumulator];
    if (parameter.codec != Codec()) {
      Noise noise = args_.noise;
      noise.stream = noise_stream(Role::kParameter);
      encode_tile(tile_of(parameter, at, done), s.values[Role::kParameter].data(), noise, s);
    }
    if (!args_.keeps_gradient && gradient.codes != nullptr) empty_tile(tile_of(gradient, at, done));
    return done;
  }

  const R& rule_;
  const UpdateArgs& args_;
  FusedUpdate<R> loop_ = nullptr;
  bool is_widened_ = false;
};

bool update_tensor(Pool& pool, const TensorUpdate& tensor) {
  const UpdateArgs& args = tensor.args;
  const RoleArray<RoleView>& roles = args.roles;
  std::atomic<bool> storable{true};
  const Rule rule = complete(pool, tensor.rule, roles, storable);
  const RoleArray<NextSteps> next = next_steps(pool, rule, roles);
  const Cut cut = cut_of(roles);
  std::optional<StatisticsByRun> watched = begin_statistics(pool, tensor, cut);
  RoleArray<std::vector<ChangeStats>> stats;
  if (args.stats != nullptr) stats.fill(std::vector<ChangeStats>(static_cast<std::size_t>(cut.runs())));
  const bool has_two_terms = roles[Role::kCompensation].codes != nullptr;
  const auto tile = [&](std::size_t run, std::int64_t at, std::int64_t n) {
    if (watched) measure_tile(rule, roles, at, n, watched->run(run));
    Scratch& s = scratch();
    RoleArray<TileView> views = read_tile(roles, at, n, s);
    if (args.stats != nullptr && has_two_terms) s.old_values = s.values[Role::kParameter];
    with_rule(rule,
              [&](const auto& r, const auto& loops) { loops.apply(r, values_of(s), groups_of(n) * kGroup); });
    if (args.stats != nullptr && has_two_terms) mark_still(s, static_cast<std::size_t>(n));
    for (const Role r : kEveryRole) {
      views[r].next_steps = next[r].data();
      if (roles[r].codes == nullptr || !is_per_element(r)) continue;
      if (r == Role::kAccumulator) {
        if (!args.keeps_gradient) empty_tile(views[r]);
        continue;
      }
      Noise noise = args.noise;
      noise.stream = noise_stream(r);
      float* values = s.values[r].data();
      zero_padding(values, views[r]);
      if (args.stats != nullptr) remember(views[r], s);
      if (!encode_tile(views[r], values, noise, s)) storable.store(false, std::memory_order_relaxed);
      const bool is_term = has_two_terms && (r == Role::kParameter || r == Role::kCompensation);
      if (args.stats != nullptr) {
        stats[r][run] += count_changes(views[r], values, s, is_term ? s.is_still.data() : nullptr);
      }
      if (r != Role::kParameter) continue;
      if (feeds_back(rule)) feed_back(rule, views[r], s);
      if (has_two_terms) keep_rest(views, s);
    }
  };
  with_rule(rule, [&]<class R>(const R& r, const LoopsOf<R>& loops) {
    const FusedTiles<R> fused(r, loops, args);
    const auto update_fused = [&](std::size_t run, std::int64_t at, std::int64_t n) {
      return fused(at, n, watched ? &watched->run(run) : nullptr);
    };
    for_each_tile(pool, cut, 0, roles[Role::kParameter].elements, update_fused, tile);
  });
  for (const NextSteps& of_role : next) of_role.store();
  if (watched) *tensor.watched = watched->take();
  if (args.stats != nullptr) {
    for (const Role r : kEveryRole) {
      if (is_stored(roles, r)) sum_in_order(stats[r], &(*args.stats)[r]);
    }
  }
  return storable;
}

}  // namespace

void cpu::update(PackedDevice& device, std::span<const TensorUpdate> tensors) {
  Pool& pool = device.host_pool();
  for (const TensorUpdate& tensor : tensors) {
    bool storable = true;
    if (is_orthogonal(tensor.rule)) {
      update_orthogonal(device, tensor,
                        [&](const TensorUpdate& pass) { storable = update_tensor(pool, pass) && storable; });
    } else {
      storable = update_tensor(pool, tensor);
    }
    if (tensor.storable != nullptr) *tensor.storable = storable;
  }
}

}  // namespace lpmm::kernels
