// PackedVector in a loop of one's own, beside the same loop in fp32.
#include "lpmm/memory/packed_vector.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

// Least squares towards `target` with decaying steps: where 300 updates lead.
std::vector<float> fit(const OptimizerConfig& optimizer, std::string_view preset,
                       const std::vector<float>& target) {
  PackedVector w(std::vector<float>(target.size()), preset, optimizer, 7, 2);
  for (int step = 0; step < 300; ++step) {
    const std::vector<float> now = w;
    std::vector<float> gradient(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) gradient[i] = now[i] - target[i];
    w.step(gradient, peak_rate(optimizer) * (1 - step / 300.0));
  }
  return w;
}

TEST(PackedVector, ReachesWhatFullPrecisionReaches) {
  const auto target = normal_values(1000, 3, 1);
  const OptimizerConfig sgd = {.learning_rate = 0.1, .settings = {{"momentum", 0.9}}};
  const OptimizerConfig adam = {.rule = "adam", .learning_rate = 0.05};
  for (const OptimizerConfig& optimizer : {sgd, adam}) {
    for (const char* preset : {"fp32", "lpmm", "lpmm-compact", "lpmm-min"}) {
      const std::vector<float> found = fit(optimizer, preset, target);
      double error = 0;
      for (std::size_t i = 0; i < found.size(); ++i) error += std::abs(found[i] - target[i]) / 1000;
      // A code of 8 bits is about 0.025 wide here.
      EXPECT_LT(error, std::string_view(preset) == "fp32" ? 1e-3 : 0.02) << preset;
    }
  }
}

TEST(PackedVector, RefusesAGradientThatIsNotFinite) {
  PackedVector w(std::vector<float>(100, 1.0F), "lpmm",
                 {.learning_rate = 0.1, .settings = {{"momentum", 0.9}}});
  std::vector<float> gradient(100, 1.0F);
  gradient[50] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> before = w;
  EXPECT_THROW(w.step(gradient), RunError);
  EXPECT_EQ(static_cast<std::vector<float>>(w), before);
  gradient[50] = 1;
  w.step(gradient);
  EXPECT_NE(static_cast<std::vector<float>>(w), before);
  EXPECT_EQ(w.size(), 100);
}

TEST(PackedVector, GoesOnToTheBitAfterSaveAndLoad) {
  const Scratch folder;
  const OptimizerConfig adam = {.rule = "adam", .learning_rate = 0.05};
  const auto start = normal_values(700, 3, 1), gradient = normal_values(700, 4, 1);
  for (const char* preset : {"fp32", "lpmm", "lpmm-min", "lpmm-nano"}) {
    PackedVector first(start, preset, adam, 7, 2);
    for (int i = 0; i < 5; ++i) first.step(gradient);
    first.save(folder / "w.safetensors");
    PackedVector second(std::vector<float>(700), preset, adam, 7, 1);
    second.load(folder / "w.safetensors");
    EXPECT_EQ(static_cast<std::vector<float>>(second), static_cast<std::vector<float>>(first)) << preset;
    for (int i = 0; i < 5; ++i) first.step(gradient, 0.01), second.step(gradient, 0.01);
    EXPECT_EQ(static_cast<std::vector<float>>(second), static_cast<std::vector<float>>(first)) << preset;
  }
}

TEST(PackedVector, PercentileClippingGoesOnToTheBit) {
  const Scratch folder;
  const OptimizerConfig adam = {.rule = "adam", .learning_rate = 0.05, .percentile_clip = 30};
  const auto start = normal_values(700, 3, 1);
  PackedVector first(start, "lpmm", adam, 7, 2), second(std::vector<float>(700), "lpmm", adam, 7, 1);
  for (std::uint32_t i = 0; i < 5; ++i) first.step(normal_values(700, 4 + i, 1));
  first.save(folder / "w.safetensors");
  second.load(folder / "w.safetensors");
  for (std::uint32_t i = 0; i < 5; ++i) {
    const auto gradient = normal_values(700, 20 + i, 1);
    first.step(gradient), second.step(gradient);
  }
  EXPECT_EQ(static_cast<std::vector<float>>(second), static_cast<std::vector<float>>(first));
  // The whole history is the same: an entry from another step would clip differently.
  const auto a = first.memory().gradient_history(0)->squares(),
             b = second.memory().gradient_history(0)->squares();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  std::string bytes = read_text(folder / "w.safetensors", 1 << 20);
  const std::size_t at = bytes.find("gradient_history\":\"") + 19;
  for (const char bad : {'-', 'x', ' '}) {
    bytes[at] = bad;
    write_text(folder / "bad.safetensors", bytes);
    EXPECT_THROW(second.load(folder / "bad.safetensors"), RunError) << bad;
  }
}

TEST(PackedVector, LoadRefusesWhatIsNotItsOwn) {
  const Scratch folder;
  const OptimizerConfig sgd = {.learning_rate = 0.1, .settings = {{"momentum", 0.9}}};
  const auto start = normal_values(700, 3, 1);
  const PackedVector saved(start, "lpmm", sgd);
  saved.save(folder / "w.safetensors");
  const auto said = [&](PackedVector w, const std::string& file) {
    const std::vector<float> before = w;
    std::string message = "no error";
    try {
      w.load(folder / file);
    } catch (const RunError& e) {
      message = e.what();
    }
    EXPECT_EQ(static_cast<std::vector<float>>(w) == before, message != "no error") << message;
    return message;
  };
  const std::vector<float> zeros(700);
  EXPECT_EQ(said({zeros, "lpmm", sgd}, "w.safetensors"), "no error");
  for (const auto& [message, part] : std::vector<std::pair<std::string, std::string>>{
           {said({std::vector<float>(701), "lpmm", sgd}, "w.safetensors"), "the elements 700"},
           {said({zeros, "lpmm-min", sgd}, "w.safetensors"), "the vector that loads it"},
           {said({zeros, "lpmm", sgd, 2}, "w.safetensors"), "the seed 1"},
           {said({zeros, "lpmm", {.rule = "adam"}}, "w.safetensors"), "optimizer.rule sgd"},
           {said({zeros, "lpmm", sgd}, "none.safetensors"), "none.safetensors"}}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  const std::string bytes = read_text(folder / "w.safetensors", 1 << 20);
  const auto write = [&](std::string changed) { write_text(folder / "bad.safetensors", changed); };
  write(bytes.substr(0, bytes.size() / 2));
  EXPECT_NE(said({zeros, "lpmm", sgd}, "bad.safetensors"), "no error");
  // Wider types come first: the steps.
  const std::size_t at = 8 + static_cast<std::uint8_t>(bytes[0]) + 256 * static_cast<std::uint8_t>(bytes[1]);
  for (const char high : {'\xff', '\x7f', '\x80', '\x0c'}) {  // NaN, infinity, negative, below 2^-100
    std::string steps = bytes;
    write(steps.replace(at, 2, std::string{'\x80', high}));
    EXPECT_NE(said({zeros, "lpmm", sgd}, "bad.safetensors").find("no step"), std::string::npos);
  }
}

// Whatever an update is made of must be as it was, or it would go on otherwise and say nothing.
TEST(PackedVector, LoadRefusesAnotherOptimizer) {
  const Scratch folder;
  const std::string file = folder / "w.safetensors";
  const std::vector<float> start = normal_values(700, 3, 1), gradient = normal_values(700, 4, 1);
  const OptimizerConfig adam = {.rule = "adam", .learning_rate = 0.05, .percentile_clip = 30};
  PackedVector saved(start, "lpmm", adam);
  saved.step(gradient);
  saved.save(file);
  const auto said_of = [&](const std::function<void(OptimizerConfig&)>& change, const char* preset = "lpmm") {
    OptimizerConfig other = adam;
    change(other);
    PackedVector w(std::vector<float>(700), preset, other);
    const std::string error = said([&] { w.load(file); });
    EXPECT_EQ(static_cast<std::vector<float>>(w) == static_cast<std::vector<float>>(saved),
              error == "no error");
    return error;
  };
  EXPECT_EQ(said_of([](OptimizerConfig&) {}), "no error");
  EXPECT_EQ(said_of([](OptimizerConfig& o) { o.learning_rate = 0.5; }), "no error");      // it is each step's
  EXPECT_EQ(said_of([](OptimizerConfig& o) { o.settings["beta1"] = 0.9; }), "no error");  // as by default
  const auto expect = [&](const std::function<void(OptimizerConfig&)>& change, const std::string& what) {
    const std::string error = said_of(change);
    EXPECT_EQ(error, fmt::format("{}: has the {}", file, what));
  };
  expect([](OptimizerConfig& o) { o.rule = "adamw"; }, "optimizer.rule adam, the vector that loads it adamw");
  expect([](OptimizerConfig& o) { o.settings["beta1"] = 0.8; },
         "optimizer.beta1 0.9, the vector that loads it 0.8");
  expect([](OptimizerConfig& o) { o.weight_decay = 0.1; },
         "optimizer.weight_decay 0, the vector that loads it 0.1");
  expect([](OptimizerConfig& o) { o.groups = {{.pattern = "*", .weight_decay = 0.25}}; },
         "optimizer.weight_decay 0, the vector that loads it 0.25");
  expect([](OptimizerConfig& o) { o.groups = {{.pattern = "w*", .learning_rate_scale = 2}}; },
         "optimizer.group.learning_rate_scale 1, the vector that loads it 2");
  expect([](OptimizerConfig& o) { o.clip_norm = 1; }, "optimizer.clip_norm 0, the vector that loads it 1");
  expect([](OptimizerConfig& o) { o.percentile_clip = 5; },
         "optimizer.percentile_clip 30, the vector that loads it 5");
}

TEST(PackedVector, LoadTakesFilesThatDoNotSayTheirOptimizer) {
  const Scratch folder;
  const OptimizerConfig adam = {.rule = "adam", .learning_rate = 0.05};
  const std::vector<float> start = normal_values(700, 3, 1), gradient = normal_values(700, 4, 1);
  PackedVector first(start, "lpmm", adam, 7), second(std::vector<float>(700), "lpmm", adam, 7);
  first.step(gradient);
  first.save(folder / "now.safetensors");
  const SafetensorsFile now(folder / "now.safetensors");
  Metadata metadata = now.metadata();
  for (auto at = metadata.begin(); at != metadata.end();) {
    at = at->first.find('.') == std::string::npos ? std::next(at) : metadata.erase(at);
  }
  // All that files of November 2026 and earlier said.
  std::vector<std::string> keys;
  for (const auto& [key, value] : metadata) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"accumulator", "elements", "format", "learning_rate", "momentum",
                                            "parameter", "seed", "step", "updates", "variance", "version"}));
  std::vector<SafetensorsSource> sources;
  for (const SafetensorsEntry& entry : now.entries()) {
    sources.push_back({entry.name, entry.dtype, entry.shape, [&now, &entry](const auto& sink) {
                         std::vector<std::byte> bytes(entry.bytes);
                         now.read(entry, 0, bytes);
                         sink(bytes);
                       }});
  }
  write_safetensors(folder / "then.safetensors", metadata, sources);
  second.load(folder / "then.safetensors");
  first.step(gradient), second.step(gradient);
  EXPECT_EQ(static_cast<std::vector<float>>(second), static_cast<std::vector<float>>(first));
}

TEST(PackedVector, RefusesALearningRateThatIsNone) {
  PackedVector w(std::vector<float>(100, 1.0F), "lpmm", {.learning_rate = 0.1});
  const std::vector<float> gradient(100, 1.0F), before = w;
  for (const double rate :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(w.step(gradient, rate), UsageError);
    EXPECT_EQ(static_cast<std::vector<float>>(w), before);
  }
  w.step(gradient);
  EXPECT_EQ(w.memory().updates(), 1);
}

}  // namespace
}  // namespace lpmm
