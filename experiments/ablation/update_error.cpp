// Measures what one step loses when the variance or momentum has few bits, on the states of a real run.
#include <fmt/format.h>

#include <cmath>

#include "experiments/ablation/exact_run.h"
#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "experiments/quantiles/code_book.h"
#include "experiments/quantiles/expanded.h"
#include "theory/update_study.h"

namespace lpmm {
namespace {

// The packed tensors' states after `percent` of the run.
struct Moment {
  int percent;
  double correction;
  std::vector<theory::AdamState> states;
};

Moment moment_of(const ModelMemory& memory, int percent, double beta2) {
  Moment m{percent, 1 - std::pow(beta2, static_cast<double>(memory.updates())), {}};
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    if (info.shape.size() < 2) continue;
    theory::AdamState& s = m.states.emplace_back();
    for (auto& [role, values] : {std::pair<Role, std::vector<float>&>(Role::kMomentum, s.momentum),
                                 std::pair<Role, std::vector<float>&>(Role::kVariance, s.variance)}) {
      values = exact_values(memory, i, role);
    }
  }
  return m;
}

// The states after each quarter of the run but the last.
std::vector<Moment> moments_of(const AblationOptions& options) {
  std::vector<Moment> moments;
  train_exactly(options, {}, 75, [&](const ModelMemory& memory, std::int64_t step, std::int64_t total) {
    if (step % (total / 4) != 0) return;
    moments.push_back(
        moment_of(memory, static_cast<int>(100 * step / total), setting(memory.optimizer(), "beta2")));
  });
  return moments;
}

struct StateCell {
  const Moment* moment;
  theory::UpdateStudy study;
  std::string other = {};  // its name, where it is stored in another way than by the study's spec
  theory::UpdateStudyResult result = {};
};

// Every packed format that the role can take, up to 8 bits, with every rounding.
std::vector<StateCell> cells_of(const std::vector<Moment>& moments) {
  std::vector<StateCell> cells;
  for (const Moment& m : moments) {
    for (const Role role : {Role::kVariance, Role::kMomentum}) {
      for (const Format f : all_formats()) {
        if (!is_packed(f) || f.bits > 8 || is_signed(f.map) != (role == Role::kMomentum)) continue;
        for (const Rounding rounding :
             {Rounding::kNearest, Rounding::kStochastic, Rounding::kUpdate, Rounding::kAverage}) {
          if (!can_round(f.map, rounding)) continue;
          const Spec spec = {f, 128, rounding, StepMode::kMoving};
          cells.push_back({&m, {.stored = role, .spec = spec, .correction = m.correction}});
        }
      }
    }
  }
  return cells;
}

// Formats that packed memory lacks, in blocks of 128 and rounded to nearest: a code book of each tensor's
// quantiles, and E4M3 with an exponent per block.
std::vector<StateCell> other_cells_of(const std::vector<Moment>& moments) {
  std::vector<StateCell> cells;
  for (const Moment& m : moments) {
    for (const Role role : {Role::kVariance, Role::kMomentum}) {
      const auto add = [&](std::string name, int bits, const auto& store) {
        Spec spec;
        spec.format.bits = static_cast<std::uint8_t>(bits);
        spec.rounding = Rounding::kNearest;
        cells.push_back({&m,
                         {.stored = role, .spec = spec, .store = store, .correction = m.correction},
                         std::move(name)});
      };
      const bool is_signed = role == Role::kMomentum;
      for (const int bits : {4, 6, 8}) {
        const MakeLevels make = [=](Device& device, const PanelSource& x) {
          return quantile_levels(device, x, bits, is_signed);
        };
        add(fmt::format("{}quantile{}", is_signed ? "" : "u", bits), bits,
            [make](const std::vector<float>& x, Device& device) {
              return stored_by_levels(x, 128, make, device);
            });
      }
      add("e4m3 expanded", 8, [](const std::vector<float>& x, Device&) { return stored_expanded(x, 128); });
    }
  }
  return cells;
}

}  // namespace

void run_update_errors(const AblationOptions& options) {
  const std::vector<Moment> moments = moments_of(options);
  std::vector<StateCell> cells = cells_of(moments);
  for (StateCell& cell : other_cells_of(moments)) cells.push_back(std::move(cell));
  measure_all(options, cells, "ways to store a state", [](StateCell& cell, Device& one) {
    cell.result = theory::run_update_study(cell.study, cell.moment->states, one);
  });
  std::string csv =
      csv_line("percent", "role", "format", "bits", "rounding", "error", "length", "worst_tensor");
  std::vector<Chart> charts;
  for (const StateCell& c : cells) {
    const Spec& spec = c.study.spec;
    csv += csv_line(c.moment->percent, to_string(c.study.stored),
                    c.other.empty() ? to_string(spec.format) : c.other, static_cast<int>(spec.format.bits),
                    to_string(spec.rounding), fmt::format("{:.5f}", c.result.error),
                    fmt::format("{:.5f}", c.result.length), fmt::format("{:.5f}", c.result.worst));
    if (c.moment->percent != 50 || !c.other.empty()) continue;  // charts show formats, at half of the run
    const std::string title = fmt::format("{}, {}", to_string(c.study.stored), to_string(spec.rounding));
    add_format_point(charts,
                     {title, "bits", "error of the update", "set logscale y\nset yrange [1e-3:2]", {}},
                     spec.format, c.result.error);
  }
  write_part(options, "update_error", csv, std::move(charts));
}

}  // namespace lpmm
