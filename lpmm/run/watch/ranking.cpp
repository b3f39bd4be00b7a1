#include "lpmm/run/watch/ranking.h"

#include <algorithm>
#include <tuple>

#include "lpmm/run/watch/watch.h"

namespace lpmm {

std::optional<Usual> usual(std::span<const UpdateStatistics> statistics, std::int64_t spike,
                           std::size_t tensor, const Measure& measure) {
  std::vector<double> values;
  const std::int64_t end = spike - kStepsBefore, begin = end - static_cast<std::int64_t>(kWatchedLosses);
  for (const UpdateStatistics& s : statistics) {
    if (s.step < begin || s.step >= end || s.tensors.size() <= tensor) continue;
    values.push_back(s.tensors[tensor].*measure.value);
  }
  if (values.size() < kFewestSteps) return {};
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  const auto count = static_cast<double>(values.size());
  for (const double v : values) squares += (v - sum / count) * (v - sum / count);
  return Usual{sum / count, std::sqrt(squares / count)};
}

std::vector<Move> rank_moves(std::span<const UpdateStatistics> statistics, std::int64_t spike) {
  std::vector<Move> moves;
  const auto comes_first = [](const Move& a, const Move& b) {
    return std::tuple(a.step, -a.reach, a.tensor) < std::tuple(b.step, -b.reach, b.tensor);
  };
  const std::size_t tensors = statistics.empty() ? 0 : statistics.back().tensors.size();
  for (std::size_t t = 0; t < tensors; ++t) {
    std::optional<Move> first;
    for (const Measure& measure : kMeasures) {
      const std::optional<Usual> before = usual(statistics, spike, t, measure);
      if (!before) continue;
      for (const UpdateStatistics& s : statistics) {
        if (s.step < spike - kStepsBefore || s.step > spike || s.tensors.size() <= t) continue;
        const double value = s.tensors[t].*measure.value;
        const bool is_usual =
            value <= before->mean + kSpikeDeviations * before->deviation || value <= kMoved * before->mean;
        if (is_usual) continue;
        const double reach = double{s.tensors[t].update_norm} * s.tensors[t].gradient_norm;
        const Move move{t, s.step, measure.name, value, before->mean, reach};
        if (!first || move.step < first->step) first = move;
        break;
      }
    }
    if (first) moves.push_back(*first);
  }
  std::sort(moves.begin(), moves.end(), comes_first);
  return moves;
}

}  // namespace lpmm
