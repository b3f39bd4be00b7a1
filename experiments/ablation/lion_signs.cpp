// Counts the signs of Lion's steps that flip when its momentum is kept in few bits, over a real run.
#include <fmt/format.h>

#include "experiments/ablation/exact_run.h"
#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "theory/sign_study.h"

namespace lpmm {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr int kFrom = 75;  // percent of the run after which steps count

// Every signed packed format, to nearest, random and quasi-random, in blocks of 128.
std::vector<Spec> specs_of() {
  std::vector<Spec> specs;
  for (const Format f : all_formats()) {
    if (!is_packed(f) || !is_signed(f.map) || f.bits < 3) continue;
    for (const Rounding r : {Rounding::kNearest, Rounding::kStochastic, Rounding::kQuasiStochastic}) {
      specs.push_back({f, 128, r, StepMode::kMoving});
    }
  }
  return specs;
}

// For each matrix, Lion's average before a step and the gradient that the average took in during the step.
class Gradients {
 public:
  template <class Use>
  void next(const ModelMemory& memory, float beta2, const Use& use) {
    int matrix = 0;
    for (int i = 0; i < memory.tensors(); ++i) {
      if (memory.info(i).shape.size() < 2) continue;
      const auto place = static_cast<std::size_t>(matrix);
      std::vector<float> now = exact_values(memory, i, Role::kMomentum);
      if (before_.size() <= place) before_.emplace_back(now.size());
      std::vector<float> gradient(now.size());
      for (std::size_t e = 0; e < now.size(); ++e) {
        gradient[e] = (now[e] - beta2 * before_[place][e]) / (1 - beta2);
      }
      use(matrix, before_[place], gradient);
      before_[place] = std::move(now);
      ++matrix;
    }
  }

 private:
  std::vector<std::vector<float>> before_;
};

struct SignCell {
  Spec spec;
  theory::SignStudy study;
};

}  // namespace

void run_lion_signs(const AblationOptions& options) {
  Pool pool(options.threads);
  std::vector<SignCell> cells;
  Gradients gradients;
  train_exactly(
      options, {"optimizer.rule=lion", "optimizer.learning_rate=1e-3"}, 100,
      [&](const ModelMemory& memory, std::int64_t step, std::int64_t total) {
        const double beta1 = setting(memory.optimizer(), "beta1"),
                     beta2 = setting(memory.optimizer(), "beta2");
        if (cells.empty()) {
          for (const Spec& s : specs_of()) cells.push_back({s, {s, beta1, beta2, kSeed}});
        }
        if (step == total * kFrom / 100) {
          for (SignCell& c : cells) c.study.begin_count();
        }
        gradients.next(
            memory, static_cast<float>(beta2),
            [&](int tensor, const std::vector<float>& momentum, const std::vector<float>& gradient) {
              pool.for_each(std::ssize(cells), [&](std::int64_t c, int) {
                CpuDevice one(1);
                cells[static_cast<std::size_t>(c)].study.update(tensor, momentum, gradient, one);
              });
            });
      });
  std::string csv = csv_line("format", "bits", "rounding", "turned", "turned_weight");
  std::vector<Chart> charts;
  for (const SignCell& c : cells) {
    const theory::TurnedSigns turned = c.study.turned();
    csv +=
        csv_line(to_string(c.spec.format), static_cast<int>(c.spec.format.bits), to_string(c.spec.rounding),
                 fmt::format("{:.5f}", turned.elements), fmt::format("{:.6f}", turned.weight));
    add_format_point(charts,
                     {std::string(to_string(c.spec.rounding)),
                      "bits",
                      "share of signs that turn",
                      "set logscale y\nset yrange [1e-5:1]",
                      {}},
                     c.spec.format, turned.elements);
  }
  write_part(options, "lion_signs", csv, std::move(charts));
}

}  // namespace lpmm
