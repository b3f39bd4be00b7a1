// Every rule against itself written plainly in fp64: steps from what is stored (20 in fp32, 50 with 8-bit
// states, as the tests of bitsandbytes have it), runs of packed states that are left alone, and the same
// gates for every other rule, which none may pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "kernels/cpu.h"
#include "lpmm/memory/roles.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/lpmm/memory/two_terms.h"
#include "tests/newton_schulz.h"
#include "tests/normal_values.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

using Vector = std::vector<double>;

constexpr double kDecay = 0.2;  // as much as the gradients

constexpr int kRows = 8;

// A matrix's values, and one textbook step of a rule from them.
struct Plain {
  Vector p, m, v, slow, of_rows, of_columns;
  explicit Plain(std::size_t columns)
      : p(kRows * columns), m(p), v(p), slow(p), of_rows(kRows), of_columns(columns) {}
  std::size_t columns() const { return of_columns.size(); }
  Vector& of(Role role) {
    switch (role) {
      case Role::kParameter:
        return p;
      case Role::kMomentum:
        return m;
      case Role::kVariance:
        return v;
      case Role::kRowVariance:
        return of_rows;
      case Role::kColumnVariance:
        return of_columns;
      default:
        return slow;
    }
  }
};
struct PlainStep {
  double lr, decay;
  int t;
  double variance_share() const { return 1 - std::pow(0.999, t); }  // the share of v in v^
};

double norm(const Vector& x) {
  double sum = 0;
  for (const double e : x) sum += e * e;
  return std::sqrt(sum);
}
double sign_of(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}
double mix(double kept, double old, double fresh) {
  return kept * old + (1 - kept) * fresh;
}

// The direction of Adam, from gradients with or without the decay.
Vector adam_direction(Plain& x, const Vector& g, const PlainStep& s, double epsilon) {
  Vector u(g.size());
  const double of_m = 1 - std::pow(0.9, s.t), of_v = s.variance_share();
  for (std::size_t i = 0; i < g.size(); ++i) {
    x.m[i] = mix(0.9, x.m[i], g[i]);
    x.v[i] = mix(0.999, x.v[i], g[i] * g[i]);
    u[i] = x.m[i] / of_m / (std::sqrt(x.v[i] / of_v) + epsilon);
  }
  return u;
}
Vector with_decay(const Plain& x, Vector g, double decay) {
  for (std::size_t i = 0; i < g.size(); ++i) g[i] += decay * x.p[i];
  return g;
}
void subtract(Plain& x, const Vector& u, double rate) {
  for (std::size_t i = 0; i < u.size(); ++i) x.p[i] -= rate * u[i];
}
// m = 0.9 m + u
const Vector& heavy_ball(Plain& x, const Vector& u) {
  for (std::size_t i = 0; i < u.size(); ++i) x.m[i] = 0.9 * x.m[i] + u[i];
  return x.m;
}

void rmsprop(Plain& x, const Vector& gradient, const PlainStep& s, bool is_centred) {
  Vector u = with_decay(x, gradient, s.decay);
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double g = u[i];
    x.v[i] = mix(0.9, x.v[i], g * g);
    double spread = x.v[i];
    if (is_centred) {
      x.slow[i] = mix(0.9, x.slow[i], g);
      spread = std::max(x.v[i] - x.slow[i] * x.slow[i], x.v[i] / 16);
    }
    u[i] = g / (std::sqrt(spread) + 1e-8);
  }
  subtract(x, heavy_ball(x, u), s.lr);
}

// Moves variances of rows and columns on, each by the mean square of its gradients.
void move_rows(Plain& x, const Vector& g, double kept) {
  Vector of_rows(kRows), of_columns(x.columns());
  for (std::size_t i = 0; i < g.size(); ++i) {
    of_rows[i / x.columns()] += g[i] * g[i] / static_cast<double>(x.columns());
    of_columns[i % x.columns()] += g[i] * g[i] / kRows;
  }
  for (std::size_t r = 0; r < kRows; ++r) x.of_rows[r] = mix(kept, x.of_rows[r], of_rows[r]);
  for (std::size_t c = 0; c < x.columns(); ++c) x.of_columns[c] = mix(kept, x.of_columns[c], of_columns[c]);
}
// The closest variances of rank one.
double factored(const Plain& x, std::size_t i) {
  double mean = 0;
  for (const double v : x.of_rows) mean += v / kRows;
  return x.of_rows[i / x.columns()] * x.of_columns[i % x.columns()] / mean;
}
// AdamW by a variance that rows and columns share.
template <class Variance>
void adamw_by(Plain& x, const Vector& g, const PlainStep& s, const Variance& variance) {
  move_rows(x, g, 0.999);
  for (std::size_t i = 0; i < g.size(); ++i) {
    x.m[i] = mix(0.9, x.m[i], g[i]);
    const double root = std::sqrt(variance(i) / s.variance_share());
    x.p[i] -= s.lr * (s.decay * x.p[i] + x.m[i] / (1 - std::pow(0.9, s.t)) / (root + 1e-8));
  }
}

void adafactor(Plain& x, const Vector& g, const PlainStep& s) {
  move_rows(x, g, 1 - std::pow(s.t, -0.8));
  Vector u(g.size());
  for (std::size_t i = 0; i < g.size(); ++i) u[i] = g[i] / std::sqrt(factored(x, i));
  const double root = std::sqrt(static_cast<double>(g.size()));
  const double rate = std::min(s.lr, 1 / std::sqrt(s.t)) * std::max(1e-3, norm(x.p) / root);
  const double length = std::max(1.0, norm(u) / root);
  subtract(x, Vector(x.p), s.lr * s.decay);
  subtract(x, u, rate / length);
}

void lars(Plain& x, const Vector& g, const PlainStep& s, bool nesterov) {
  Vector u = with_decay(x, g, s.decay);
  const double rate = 1e-3 * norm(x.p) / (norm(g) + s.decay * norm(x.p) + 1e-8);
  for (double& e : u) e *= rate;
  heavy_ball(x, u);
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = nesterov ? u[i] + 0.9 * x.m[i] : x.m[i];
  subtract(x, u, s.lr);
}

void muon(Plain& x, const Vector& g, const PlainStep& s, bool nesterov) {
  DenseMatrix direction(kRows, static_cast<int>(x.columns()));
  for (std::size_t i = 0; i < g.size(); ++i) {
    x.m[i] = mix(0.9, x.m[i], g[i]);
    direction.values[i] = nesterov ? mix(0.9, x.m[i], g[i]) : x.m[i];
  }
  const double size = 0.2 * std::sqrt(std::max<double>(kRows, static_cast<double>(x.columns())));
  subtract(x, Vector(x.p), s.lr * s.decay);
  subtract(x, newton_schulz(direction, 5).values, s.lr * size);
}

struct Row {
  std::string name;
  OptimizerConfig config;
  std::function<void(Plain&, const Vector&, const PlainStep&)> step;
  // The learning rate. For LARS it is a share of the tensor; RMSProp begins with steps of 3 / (1 - momentum)
  // rates.
  double rate() const {
    return config.rule == RuleName("lars") ? 1 : config.rule == RuleName("rmsprop") ? 1e-5 : 1e-3;
  }
};

// Every rule of the table, and those of its settings that are an algorithm of their own.
std::vector<Row> rows() {
  using Step = std::function<void(Plain&, const Vector&, const PlainStep&)>;
  const std::map<std::string_view, Step> plain = {
      {"sgd", [](Plain& x, const Vector& g,
                 const PlainStep& s) { subtract(x, heavy_ball(x, with_decay(x, g, s.decay)), s.lr); }},
      {"adam",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         subtract(x, adam_direction(x, with_decay(x, g, s.decay), s, 1e-8), s.lr);
       }},
      {"adamw",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         const Vector u = adam_direction(x, g, s, 1e-8);
         subtract(x, Vector(x.p), s.lr * s.decay);
         subtract(x, u, s.lr);
       }},
      {"lion",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         subtract(x, Vector(x.p), s.lr * s.decay);
         for (std::size_t i = 0; i < g.size(); ++i) {
           x.p[i] -= s.lr * sign_of(mix(0.9, x.m[i], g[i]));
           x.m[i] = mix(0.99, x.m[i], g[i]);
         }
       }},
      {"lamb",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         const Vector u = with_decay(x, adam_direction(x, g, s, 1e-6), s.decay);
         subtract(x, u, s.lr * norm(x.p) / norm(u));
       }},
      {"rmsprop", [](Plain& x, const Vector& g, const PlainStep& s) { rmsprop(x, g, s, false); }},
      {"lars", [](Plain& x, const Vector& g, const PlainStep& s) { lars(x, g, s, false); }},
      {"lars_clip",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         const Vector& m = heavy_ball(x, with_decay(x, g, s.decay));
         subtract(x, m, s.lr * std::min(1.0, 0.02 * norm(x.p) / norm(m)));
       }},
      {"adagrad",
       [](Plain& x, const Vector& gradient, const PlainStep& s) {
         const Vector g = with_decay(x, gradient, s.decay);
         for (std::size_t i = 0; i < g.size(); ++i) {
           x.v[i] += g[i] * g[i];
           x.p[i] -= s.lr * g[i] / (std::sqrt(x.v[i]) + 1e-10);
         }
       }},
      {"ademamix",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         Vector u = adam_direction(x, g, s, 1e-8);
         const double of_v = s.variance_share();
         for (std::size_t i = 0; i < g.size(); ++i) {
           x.slow[i] = mix(0.99, x.slow[i], g[i]);
           u[i] += 5 * x.slow[i] / (std::sqrt(x.v[i] / of_v) + 1e-8);
         }
         subtract(x, with_decay(x, u, s.decay), s.lr);
       }},
      {"adam_mini",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         adamw_by(x, g, s, [&](std::size_t i) { return x.of_rows[i / x.columns()]; });
       }},
      {"adamw_factored",
       [](Plain& x, const Vector& g, const PlainStep& s) {
         adamw_by(x, g, s, [&](std::size_t i) { return factored(x, i); });
       }},
      {"adafactor", adafactor},
      {"muon", [](Plain& x, const Vector& g, const PlainStep& s) { muon(x, g, s, true); }},
  };
  std::vector<Row> all;
  for (const std::string_view name : rule_names()) {
    EXPECT_TRUE(plain.contains(name)) << name << " has no plain form here";
    if (plain.contains(name))
      all.push_back({std::string(name), of_rule(name, {{"momentum", 0.9}, {"alpha", 0.9}, {"beta3", 0.99}}),
                     plain.at(name)});
  }
  all.push_back({"rmsprop, centred", of_rule("rmsprop", {{"momentum", 0.9}, {"alpha", 0.9}, {"centered", 1}}),
                 [](Plain& x, const Vector& g, const PlainStep& s) { rmsprop(x, g, s, true); }});
  all.push_back({"adamw, clipped", of_rule("adamw", {{"update_clip", 0.25}}),
                 [](Plain& x, const Vector& g, const PlainStep& s) {
                   const Vector u = adam_direction(x, g, s, 1e-8);
                   const double of_v = s.variance_share();
                   double sum = 0;
                   for (std::size_t i = 0; i < g.size(); ++i) {
                     sum += g[i] * g[i] / std::max(x.v[i] / of_v, 1e-16);
                   }
                   const double rms = std::sqrt(sum / static_cast<double>(g.size()));
                   const double rate = s.lr / std::max(1.0, rms / 0.25);
                   subtract(x, Vector(x.p), rate * s.decay);
                   subtract(x, u, rate);
                 }});
  for (Row& row : all) row.config.weight_decay = kDecay;
  return all;
}

// Other forms of those rules, each with the row that it is most like: Nesterov's step, or none of it where
// that is usual; dampening, and every rule without decay.
struct Form {
  Row row;
  const Row* like;
};
std::vector<Form> forms(const std::vector<Row>& all) {
  std::vector<Form> forms;
  const auto add = [&](std::string_view rule, const char* what, SettingKey key, double value, auto step) {
    const Row& like = *std::find_if(all.begin(), all.end(), [&](const Row& r) { return r.name == rule; });
    Row& row = forms.emplace_back(Form{like, &like}).row;
    row.name += what;
    row.config.settings[key] = value;
    row.step = step;
  };
  add("sgd", ", Nesterov", "nesterov", 1, [](Plain& x, const Vector& gradient, const PlainStep& s) {
    Vector u = with_decay(x, gradient, s.decay);
    heavy_ball(x, u);
    for (std::size_t i = 0; i < u.size(); ++i) u[i] += 0.9 * x.m[i];
    subtract(x, u, s.lr);
  });
  add("sgd", ", dampening", "dampening", 0.3, [](Plain& x, const Vector& gradient, const PlainStep& s) {
    Vector u = with_decay(x, gradient, s.decay);
    for (double& e : u) e *= s.t == 1 ? 1 : 0.7;  // the first gradient is taken whole
    subtract(x, heavy_ball(x, u), s.lr);
  });
  add("sgd", ", decoupled decay", "decoupled_decay", 1,
      [](Plain& x, const Vector& gradient, const PlainStep& s) {
        subtract(x, Vector(x.p), s.lr * s.decay);
        subtract(x, heavy_ball(x, gradient), s.lr);
      });
  add("lars", ", Nesterov", "nesterov", 1,
      [](Plain& x, const Vector& g, const PlainStep& s) { lars(x, g, s, true); });
  add("muon", ", plain momentum", "nesterov", 0,
      [](Plain& x, const Vector& g, const PlainStep& s) { muon(x, g, s, false); });
  for (const Row& like : all) {
    Row& row = forms.emplace_back(Form{like, &like}).row;
    row.name += ", no decay";
    row.config.weight_decay = 0;
  }
  return forms;
}

constexpr float kGradient = 0.01F;

// Gradients are drawn twice as large as they are after clipping, so that every rule's step is of a clipped
// one.
OptimizerConfig clipping(OptimizerConfig config, std::int64_t width) {
  config.clip_norm = kGradient * std::sqrt(static_cast<double>(kRows * width));
  return config;
}

// Memory under training, and its plain reference.
struct Training {
  CpuDevice device{2};
  ModelMemory memory;
  Plain plain;
  double most_norm;
  int t = 0;

  Training(const Row& row, const Policy& policy, std::int64_t width)
      : memory({{"w", {kRows, width}}}, policy, clipping(row.config, width), 1, 1, device),
        plain(static_cast<std::size_t>(width)),
        most_norm(clipping(row.config, width).clip_norm) {
    const auto start = normal_values(kRows * width, 1, 0.1F);
    memory.initialize(0, 0, start);
    plain.p = Vector(start.begin(), start.end());
  }
  // True for the roles that the reference has as well.
  bool has(Role role) const {
    return role != Role::kAccumulator && role != Role::kCompensation && memory.view(0, role).codes != nullptr;
  }
  std::vector<float> stored(Role role) {
    return role == Role::kParameter ? sum_of_terms(memory) : values_in(memory, 0, role);
  }
  void set_back() {
    for (const Role role : kEveryRole) {
      if (!has(role)) continue;
      const auto x = stored(role);
      plain.of(role) = Vector(x.begin(), x.end());
    }
  }
  void step(const Row& trained, const Row& reference) {
    ++t;
    const double rate = trained.rate();
    auto gradient = normal_values(std::ssize(plain.p), 10 + static_cast<std::uint64_t>(t), 2 * kGradient);
    // Columns of unlike sizes, which rules with variances of rows alone do not see.
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] *= i % plain.columns() % 2 == 0 ? 1.0F : 0.5F;
    Step this_step = memory.begin_step({static_cast<std::uint32_t>(t), rate});
    this_step.fold(0, 0, gradient, 0);
    ASSERT_TRUE(std::move(this_step).commit().applied);
    Vector clipped(gradient.begin(), gradient.end());
    const double factor = std::min(1.0, most_norm / (norm(clipped) + 1e-6));
    for (double& g : clipped) g *= factor;
    reference.step(plain, clipped, {rate, reference.config.weight_decay, t});
  }
};

// Counts the values that are off by more than 1e-6 (of their mean size, where that is above 1) and 1e-5 of
// themselves; and the sum of errors over the sum of sizes.
struct Distance {
  int outliers = 0;
  double relative = 0;
};
Distance distance(const std::vector<float>& x, const Vector& y) {
  double error = 0, size = 1e-300;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::abs(x[i] - y[i]);
    size += std::abs(y[i]);
  }
  const double absolute = 1e-6 * std::max(1.0, size / static_cast<double>(y.size()));
  Distance d{0, error / size};
  for (std::size_t i = 0; i < x.size(); ++i) {
    d.outliers += std::abs(x[i] - y[i]) > absolute + 1e-5 * std::abs(y[i]) ? 1 : 0;
  }
  return d;
}

constexpr std::int64_t kWidths[] = {1, 32, 1025};  // of two tiles and a tail

// The most values of the parameter that are off in one of twenty steps from what is stored.
int most_outliers(const Row& trained, const Row& reference, std::int64_t width) {
  Training run(trained, make_policy("fp32"), width);
  int most = 0;
  for (int s = 0; s < 20; ++s) {
    run.set_back();
    run.step(trained, reference);
    for (const Role role : kEveryRole) {
      if (run.has(role)) most = std::max(most, distance(run.stored(role), run.plain.of(role)).outliers);
    }
  }
  return most;
}

TEST(Gates, TwentyStepsInFp32AreThePlainOnes) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  for (const Row& row : rows()) {
    for (const std::int64_t width : kWidths) EXPECT_EQ(most_outliers(row, row, width), 0) << row.name;
  }
}

// ... and none of them passes the gate of the one that it is most like.
TEST(Gates, TwentyStepsOfOtherFormsAreThePlainOnesToo) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  const std::vector<Row> all = rows();
  for (const Form& form : forms(all)) {
    for (const std::int64_t width : {1, 33, 1024}) {
      EXPECT_EQ(most_outliers(form.row, form.row, width), 0) << form.row.name << ", width " << width;
    }
    EXPECT_GT(most_outliers(form.row, *form.like, 33), 0) << form.row.name;
    EXPECT_GT(most_outliers(*form.like, form.row, 33), 0) << form.row.name;
  }
}

// Fresh states make the step, so that parameters are as good as without packing; what is stored of the states
// is near them, by the share of their sizes that the dynamic map is known for.
void expect_fifty_steps(const Row& row, std::int64_t width) {
  Training run(row, make_policy("states8"), width);
  for (int s = 0; s < 50; ++s) {
    run.set_back();
    run.step(row, row);
    for (const Role role : kEveryRole) {
      if (!run.has(role)) continue;
      const bool is_parameter = role == Role::kParameter;
      const Distance d = distance(run.stored(role), run.plain.of(role));
      if (is_parameter) {
        ASSERT_EQ(d.outliers, 0) << row.name << " width " << width << " step " << s;
      } else {
        ASSERT_LT(d.relative, 0.03) << row.name << " " << to_string(role) << " width " << width;
      }
    }
  }
}
TEST(Gates, FiftyStepsWithEightBitStatesAreThePlainOnes) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  const std::vector<Row> all = rows();
  for (const Row& row : all) {
    for (const std::int64_t width : kWidths) expect_fifty_steps(row, width);
  }
  for (const Form& form : forms(all)) expect_fifty_steps(form.row, 33);
}

Policy gate_policy(const char* parameter, const char* compensation) {
  Policy policy = make_policy("states8");
  policy.specs[Role::kParameter] = parse_spec(parameter);
  policy.specs[Role::kCompensation] = parse_spec(Role::kCompensation, compensation);
  return policy;
}

// One step after another from what is stored: the sum is off by what its second term cannot hold, a 254th of
// a bf16 number's half unit, or of a block's half gap. Without that term, by all of it.
TEST(Gates, FiftyStepsOfParametersInTwoTermsAreThePlainOnes) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  struct Terms {
    const char *parameter, *compensation;
    double most;
  };
  const Terms kTwo[] = {{"bf16:rn", "ulp8:rn", 2e-5}, {"int8:block64:rn:sticky", "int8:block64:rn", 1e-4}};
  const auto largest_error = [](const Row& row, const Policy& policy, std::int64_t width) {
    Training run(row, policy, width);
    double most = 0;
    for (int s = 0; s < 50; ++s) {
      run.set_back();
      run.step(row, row);
      most = std::max(most, distance(run.stored(Role::kParameter), run.plain.p).relative);
    }
    return most;
  };
  for (const Row& row : rows()) {
    for (const Terms& terms : kTwo) {
      for (const std::int64_t width : {1, 33}) {
        EXPECT_LT(largest_error(row, gate_policy(terms.parameter, terms.compensation), width), terms.most)
            << row.name << " " << terms.compensation << " width " << width;
      }
    }
    if (row.name != "adamw" && row.name != "lion") continue;
    for (const Terms& terms : kTwo) {
      EXPECT_GT(largest_error(row, gate_policy(terms.parameter, "none"), 32), 20 * terms.most) << row.name;
    }
  }
}

// The total move of the parameters, against the reference: the square of the error over that of the move.
double drift(const Row& trained, const Row& reference, const Policy& policy) {
  constexpr int kSteps = 50;
  Training run(trained, policy, 128);
  const Vector start = run.plain.p;
  for (int s = 0; s < kSteps; ++s) run.step(trained, reference);
  const auto p = run.stored(Role::kParameter);
  double error = 0, moved = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    error += (p[i] - run.plain.p[i]) * (p[i] - run.plain.p[i]);
    moved += (run.plain.p[i] - start[i]) * (run.plain.p[i] - start[i]);
  }
  return error / moved;
}

// Free runs of 50 steps; states of 8 and 12 bits.
TEST(Gates, PackedRunsStayNearTheirOwnRuleAndNoOther) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  constexpr double kNear = 0.01;
  Policy policy = make_policy("fp32");
  for (const Role role : kEveryRole) {
    if (is_state(role)) policy.specs[role] = make_policy("lpmm").specs[role];
  }
  const std::vector<Row> all = rows();
  for (const Row& trained : all) {
    for (const Row& reference : all) {
      const double d = drift(trained, reference, policy);
      if (&trained == &reference) {
        EXPECT_LT(d, kNear) << trained.name;
      } else {
        EXPECT_GT(d, kNear) << trained.name << " is taken for " << reference.name;
      }
    }
  }
  for (const Form& form : forms(all)) {
    EXPECT_LT(drift(form.row, form.row, policy), kNear) << form.row.name;
  }
}

// Two terms are left alone for as long. With LARS' clip a weight moves by 2e-5 of itself per step, which is
// as little as 24 bits hold.
TEST(Gates, FreeRunsOfTwoTermsStayNearTheirOwnRuleAndNoOther) {
  if (kSanitized) GTEST_SKIP() << kReleaseOnly;
  const std::vector<Row> all = rows();
  for (const char* compensation : {"ulp8:rn", "int16:block128:rn"}) {
    Policy policy = gate_policy("bf16:rn", compensation);
    for (const Role role : kEveryRole) {
      if (is_state(role)) policy.specs[role] = {};
    }
    for (const Row& trained : all) {
      if (trained.name == "lars_clip" && policy.specs[Role::kCompensation].format.bits == 8) continue;
      EXPECT_LT(drift(trained, trained, policy), 1e-3) << trained.name << " " << compensation;
      const Row& other = &trained == &all.front() ? all.back() : all.front();
      EXPECT_GT(drift(trained, other, policy), 0.01) << trained.name << " is taken for " << other.name;
    }
  }
}

}  // namespace
}  // namespace lpmm
