// The watch: what it calls a spike, what it keeps of one, whom it blames, and replays to the bit.
#include "lpmm/run/watch/watch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/roles.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/train_step.h"
#include "lpmm/run/trainer.h"
#include "lpmm/run/watch/ranking.h"
#include "lpmm/run/watch/replay.h"
#include "models/families.h"
#include "tests/lpmm/run/tiny_model.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBadStep = 60;  // in which the bias's gradient is far too large

RunConfig watched_config(const std::vector<std::string>& settings = {}) {
  const std::string text = R"(
    [model]
    name = "mlp"
    [data]
    set = "drawn"
    train_images = 96
    test_images = 16
    [train]
    steps = 100
    batch = 16
    microbatches = 2
    threads = 2
    eval_every_epochs = 0
    [optimizer]
    rule = "sgd"
    learning_rate = 0.01
    momentum = 0.5
    [checkpoint]
    every_steps = 20
    keep = 2
    [log]
    every_steps = 7
    [watch]
    log_every_steps = 25
  )";
  return parse_config(text, "watched.toml", with_families({"lpmm", "", settings}));
}

TinyModel bad_model() {
  TinyHooks hooks;
  hooks.bias_factor = [](std::uint32_t step) { return step == kBadStep ? 3e4F : 1.0F; };
  return TinyModel(hooks);
}

TrainResult run(const std::string& out, const RunConfig& config, const Model& model, bool resume = false) {
  return train(open_data(config), model, {out, resume, true});
}

std::vector<std::string> names_below(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) names.push_back(item.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// ---- what a spike is -------------------------------------------------------------------------------------

UpdateStatistics quiet(std::int64_t step, double loss, float rms = 1) {
  UpdateStatistics::Tensor tensor;
  tensor.rms = rms;
  return {step, loss, "", {tensor}};
}

// Losses of mean 2 and deviation 0.1.
WatchState usual_losses(int count) {
  WatchState state;
  for (int i = 0; i < count; ++i) state.losses.push_back(i % 2 == 0 ? 1.9 : 2.1);
  return state;
}

TEST(Spike, IsALossBeyondThreePointTwoDeviations) {
  const std::vector<std::string> names = {"w"};
  WatchState state = usual_losses(128);
  EXPECT_FALSE(find_spike(quiet(200, 2.31), names, state));
  state = usual_losses(128);
  const auto spike = find_spike(quiet(200, 2.33), names, state);
  ASSERT_TRUE(spike);
  EXPECT_EQ(spike->kind, SpikeKind::kLoss);
  EXPECT_EQ(spike->step, 200);
  EXPECT_NEAR(spike->mean, 2, 1e-12);
  EXPECT_NEAR(spike->deviation, 0.1, 1e-12);
  EXPECT_NEAR(spike->size, 3.3, 1e-9);
  EXPECT_EQ(state.losses.size(), 128U);
  EXPECT_EQ(state.losses.back(), 2.33);
  // Soon after it is the same one, later another.
  EXPECT_FALSE(find_spike(quiet(201, 9), names, state));
  EXPECT_FALSE(find_spike(quiet(233, 9), names, state));
  state.losses = usual_losses(128).losses;
  EXPECT_TRUE(find_spike(quiet(266, 9), names, state));
}

TEST(Spike, NeedsEnoughLossesToGoBy) {
  const std::vector<std::string> names = {"w"};
  for (const int count : {0, 1, 31, 32}) {
    WatchState state = usual_losses(count);
    EXPECT_EQ(find_spike(quiet(200, 100), names, state).has_value(), count >= 32) << count;
  }
  // Losses that never changed have no deviation.
  WatchState state;
  state.losses.assign(128, 2.0);
  EXPECT_FALSE(find_spike(quiet(200, 2.1), names, state));
}

TEST(Spike, IsATensorOfFarTooLargeGradientsAndAFailedStep) {
  const std::vector<std::string> names = {"w"};
  WatchState state = usual_losses(128);
  EXPECT_FALSE(find_spike(quiet(200, 2, 2.29F), names, state));
  const auto rms = find_spike(quiet(201, 2, 2.31F), names, state);
  ASSERT_TRUE(rms);
  EXPECT_EQ(rms->kind, SpikeKind::kRms);
  EXPECT_EQ(rms->tensor, "w");
  UpdateStatistics failed{202, std::nan(""), "the loss", {}};
  const auto spike = find_spike(failed, names, state);
  ASSERT_TRUE(spike);
  EXPECT_EQ(spike->kind, SpikeKind::kFailed);
  EXPECT_EQ(spike->tensor, "the loss");
  EXPECT_EQ(state.losses.size(), 128U);
  for (const double loss : state.losses) EXPECT_TRUE(std::isfinite(loss));
}

// ---- whom it blames --------------------------------------------------------------------------------------

TEST(Ranking, TheEarliestMoveComesFirstThenTheFurthest) {
  std::vector<UpdateStatistics> statistics;
  for (std::int64_t step = 1; step <= 100; ++step) {
    UpdateStatistics s{step, 2, "", std::vector<UpdateStatistics::Tensor>(4)};
    for (std::size_t t = 0; t < 4; ++t) {
      const float noise =
          1 + 0.05F * (static_cast<float>((step * 7 + static_cast<std::int64_t>(t) * 3) % 5) - 2);
      s.tensors[t].update = 1e-3F * noise;
      s.tensors[t].rms = s.tensors[t].gradient_norm = noise;
    }
    if (step >= 96) s.tensors[2].gradient_norm = 3;
    if (step >= 97) s.tensors[0].update = 4e-3F, s.tensors[0].update_norm = 2;
    if (step >= 97) s.tensors[1].rms = 2;
    if (step == 50) s.tensors[3].update = 1;   // long before
    if (step == 100) s.tensors[3].rms = 1.3F;  // not far enough
    statistics.push_back(s);
  }
  const std::vector<Move> moves = rank_moves(statistics, 100);
  ASSERT_EQ(moves.size(), 3U);
  EXPECT_EQ(moves[0].tensor, 2U);
  EXPECT_EQ(moves[0].step, 96);
  EXPECT_EQ(moves[0].measure, "gradient_norm");
  EXPECT_EQ(moves[0].value, 3);
  EXPECT_NEAR(moves[0].usual, 1, 0.01);
  EXPECT_EQ(moves[1].tensor, 0U);
  EXPECT_EQ(moves[1].step, 97);
  EXPECT_EQ(moves[2].tensor, 1U);
  EXPECT_TRUE(rank_moves(std::span(statistics).subspan(90), 100).empty());  // nothing to compare with
}

// ---- runs ------------------------------------------------------------------------------------------------

TEST(WatchedRun, ChangesNoBit) {
  const Scratch scratch;
  run(scratch / "with", watched_config({"train.steps=40"}), TinyModel());
  run(scratch / "without", watched_config({"train.steps=40", "watch.every_steps=0"}), TinyModel());
  for (const char* step : {"step_00000020", "step_00000040"}) {
    const auto bytes = [&](const std::string& of) {
      return read_text(fmt::format("{}/checkpoints/{}/model.safetensors", scratch / of, step), 1 << 30);
    };
    EXPECT_EQ(bytes("with"), bytes("without")) << step;
  }
  EXPECT_EQ(names_below(scratch / "with" + "/watch"),
            (std::vector<std::string>{"before_00000020.jsonl", "before_00000040.jsonl"}));
  EXPECT_FALSE(fs::exists(scratch / "without" + "/watch"));
}

TEST(WatchedRun, LogsTensorsAndKeepsASpikeWithItsCheckpoint) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  run(out, watched_config(), bad_model());
  int records = 0, spikes = 0;
  for (const Json& record : read_log(out + "/log.jsonl")) {
    if (record["type"] == "watch") {
      ++records;
      const UpdateStatistics s = parse_statistics(record, 2);
      EXPECT_EQ(s.step % 25, 0);
      for (const UpdateStatistics::Tensor& t : s.tensors) {
        EXPECT_GT(t.update, 0);
        EXPECT_GT(t.gradient_norm, 0);
        EXPECT_GT(t.largest_update, 0);
        EXPECT_EQ(t.rms, 0);  // SGD has no variance
      }
    }
    if (record["type"] != "spike") continue;
    ++spikes;
    EXPECT_EQ(record["kind"], "loss");
    EXPECT_EQ(record["step"], kBadStep + 1);
  }
  EXPECT_EQ(records, 4);
  EXPECT_EQ(spikes, 1);
  const SpikeFile file = read_spike(spike_path(out, kBadStep + 1));
  EXPECT_EQ(file.tensors, (std::vector<std::string>{"head.weight", "head.bias"}));
  EXPECT_EQ(file.statistics.size(), static_cast<std::size_t>(kBadStep + 1));
  EXPECT_EQ(file.spike.checkpoint, 40);  // 60 is but a step before
  EXPECT_GT(file.spike.size, 3.2);
  // The two checkpoints that are kept, and the one that the spike needs.
  EXPECT_EQ(names_below(out + "/checkpoints"),
            (std::vector<std::string>{"step_00000040", "step_00000080", "step_00000100"}));
}

TEST(WatchedRun, KeepsTheLast256StepsAndTheWorstSpikes) {
  const Scratch scratch;
  TinyHooks hooks;
  hooks.bias_factor = [](std::uint32_t step) {
    return step == 100 ? 3e4F : step == 200 ? 1e4F : step == 300 ? 1e6F : 1.0F;
  };
  run(scratch / "run", watched_config({"train.steps=320", "watch.spikes=2"}), TinyModel(hooks));
  int files = 0;
  for (const std::string& name : names_below(scratch / "run" + "/watch")) files += name.starts_with("spike_");
  EXPECT_EQ(files, 2);
  const SpikeFile file = read_spike(spike_path(scratch / "run", 301));
  EXPECT_EQ(file.statistics.size(), kKeptSteps);
  EXPECT_EQ(file.statistics.front().step, 301 - 255);
  EXPECT_EQ(file.statistics.back().step, 301);
  EXPECT_EQ(kept_spikes(scratch / "run").size(), 2U);
}

TEST(WatchedRun, AFailedStepIsASpike) {
  const Scratch scratch;
  int calls = 0;
  run(scratch / "run", watched_config({"train.steps=20"}), TinyModel([&] { return ++calls == 2 * 10 - 1; }));
  const SpikeFile file = read_spike(spike_path(scratch / "run", 10));
  EXPECT_EQ(file.spike.kind, SpikeKind::kFailed);
  EXPECT_EQ(file.spike.tensor, "head.weight");
  EXPECT_EQ(file.statistics.back().failed, "head.weight");
  EXPECT_TRUE(std::isnan(file.statistics.back().loss));
  EXPECT_TRUE(file.statistics.back().tensors.empty());
}

TEST(WatchedRun, AStepThatEndsTheRunIsASpike) {
  const Scratch scratch;
  TinyHooks hooks;
  hooks.bias_factor = [](std::uint32_t step) { return step == 50 ? 1e18F : 1.0F; };
  const std::string out = scratch / "run";
  EXPECT_THROW(run(out, watched_config({"optimizer.learning_rate=1e25"}), TinyModel(hooks)), RunError);
  const std::vector<SpikeFile> spikes = kept_spikes(out);
  ASSERT_FALSE(spikes.empty());
  EXPECT_EQ(spikes.back().spike.kind, SpikeKind::kFailed);
}

// The state of the watch is a part of the run: what comes after a stop is found all the same.
TEST(WatchedRun, FindsTheSameSpikeAfterAStop) {
  const Scratch scratch;
  run(scratch / "whole", watched_config(), bad_model());
  run(scratch / "parts", watched_config({"train.steps=50", "schedule.kind=constant"}), bad_model());
  run(scratch / "parts", watched_config(), bad_model(), true);
  const auto spikes_of = [&](const std::string& out) {
    std::string text;
    for (const Json& record : read_log(out + "/log.jsonl")) {
      if (record["type"] == "spike" || record["type"] == "watch") text += record.dump() + "\n";
    }
    return text;
  };
  EXPECT_EQ(spikes_of(scratch / "parts"), spikes_of(scratch / "whole"));
  EXPECT_NE(spikes_of(scratch / "parts").find("spike"), std::string::npos);
  // The statistics that are kept of it are the same, too.
  const auto statistics_of = [&](const std::string& out) {
    std::string text;
    for (const UpdateStatistics& s : read_spike(spike_path(out, kBadStep + 1)).statistics) {
      text += statistics_record(s).dump();
    }
    return text;
  };
  EXPECT_TRUE(statistics_of(scratch / "parts") == statistics_of(scratch / "whole"));
  // There is a file for each checkpoint that stays, and for no others.
  EXPECT_EQ(names_below(scratch / "whole/watch").size(), names_below(scratch / "parts/watch").size());
  std::set<std::string> kept, needed;
  for (const std::string& name : names_below(scratch / "whole/watch")) {
    if (name.starts_with("before_")) kept.insert(name);
  }
  for (const std::int64_t step : saved_steps(scratch / "whole/checkpoints")) {
    needed.insert(fmt::format("before_{:08}.jsonl", step));
  }
  EXPECT_EQ(kept, needed);
}

TEST(WatchedRun, SaysWhereItKnowsLessAfterAStop) {
  const Scratch scratch;
  const std::string out = scratch / "run", kept = out + "/watch/before_00000020.jsonl";
  const RunConfig config = watched_config({"train.steps=20"});
  run(out, config, TinyModel());
  CpuDevice device(1);
  const ModelMemory memory(TinyModel().tensors(), config.policy, config.optimizer, 1, 2, device);
  const Buffers buffers({}, device);
  WatchState state;
  const auto missing = [&] { return Watch(config, memory, buffers, out, state, 20).missing(); };
  EXPECT_EQ(missing(), "");
  EXPECT_EQ(Watch(config, memory, buffers, out, state, 0).missing(), "");
  const std::string whole = read_text(kept, 1 << 20);
  const std::string last = whole.substr(whole.rfind('\n', whole.size() - 2) + 1);
  for (const std::string& text :
       {std::string(), whole + last, whole.substr(0, whole.size() - last.size()), std::string("{}\n")}) {
    write_text(kept, text);
    EXPECT_NE(missing().find(kept), std::string::npos) << text;
  }
  fs::remove(kept);
  EXPECT_NE(missing().find("before step 21"), std::string::npos);
  EXPECT_NE(missing().find(kept), std::string::npos);
  EXPECT_EQ(missing().find(kept), missing().rfind(kept)) << "once";
  const RunConfig off = watched_config({"watch.every_steps=0"});
  EXPECT_EQ(Watch(off, memory, buffers, out, state, 20).missing(), "");
}

TEST(WatchedRun, SaysOfHowManyTensorsItKnowsNothing) {
  for (const bool at_once : {false, true}) {
    const RunConfig config =
        at_once ? watched_config({"train.microbatches=1", "memory.accumulator=none"}) : watched_config();
    CpuDevice device(1);
    const ModelMemory memory({{"w", {4, 4}}, {"tied", {4, 4}, TensorKind::kEmbedding, 1, 0, true}},
                             config.policy, config.optimizer, 1, at_once ? 1 : 2, device);
    const Scratch scratch;
    WatchState state = usual_losses(128);
    const Buffers buffers({}, device);
    Watch watch(config, memory, buffers, scratch.path(), state, 0);
    const std::string warning = watch.add(200, 5, "").warning;
    EXPECT_NE(warning.find("deviations above"), std::string::npos) << warning;
    EXPECT_EQ(warning.find("1 of 2 tensors are not measured") != std::string::npos, at_once) << warning;
  }
}

// A training is worth more than a diagnosis of it, and so is the room of its checkpoint.
TEST(WatchedRun, GoesOnWhereASpikeCannotBeKept) {
  const Scratch scratch;
  const std::string full = scratch / "full", odd = scratch / "odd";
  fs::create_directory(full), fs::create_directory(odd);
  write_text(odd + "/watch", "no folder");
  const bool is_mounted = ::mount("lpmm_test", full.c_str(), "tmpfs", 0, "size=1m") == 0;
  const RunConfig config = watched_config();
  CpuDevice device(1);
  const ModelMemory memory({{"w", {4, 4}}}, config.policy, config.optimizer, 1, 2, device);
  const Buffers buffers({}, device);
  for (const auto& [out, why] :
       {std::pair(odd, odd + "/watch: cannot be made"), {full, full + ": the disk has"}}) {
    if (out == full && !is_mounted) continue;  // it is not permitted
    WatchState state = usual_losses(128);
    Watch watch(config, memory, buffers, out, state, 0);
    const std::string first = watch.add(200, 5, "").warning;
    EXPECT_NE(first.find("deviations above"), std::string::npos) << first;
    EXPECT_NE(first.find("a file of it is not kept: " + why), std::string::npos) << first;
    EXPECT_TRUE(watch.needed_checkpoints().empty());
    EXPECT_EQ(watch.save(200), "") << "once";
    state.losses = usual_losses(128).losses;
    const std::string second = watch.add(300, 5, "").warning;
    EXPECT_NE(second.find("deviations above"), std::string::npos) << second;
    EXPECT_EQ(second.find("not kept"), std::string::npos) << second;
    EXPECT_FALSE(fs::exists(spike_path(out, 200)));
    EXPECT_NE(Watch(config, memory, buffers, out, state, 0).save(200).find(why), std::string::npos);
  }
  if (is_mounted) ::umount(full.c_str());
}

TEST(WatchedRun, ASpikeStaysUntilALargerOneIsThere) {
  const Scratch scratch;
  const RunConfig config = watched_config({"watch.spikes=1"});
  CpuDevice device(1);
  const ModelMemory memory({{"w", {4, 4}}}, config.policy, config.optimizer, 1, 2, device);
  const Buffers buffers({}, device);
  WatchState state = usual_losses(128);
  Watch watch(config, memory, buffers, scratch.path(), state, 0);
  watch.add(200, 5, "");
  fs::create_directory(spike_path(scratch.path(), 300));  // where no file can be written
  for (const std::int64_t step : {300, 400}) {
    EXPECT_TRUE(fs::is_regular_file(spike_path(scratch.path(), 200)));
    state.losses = usual_losses(128).losses;
    watch.add(step, 50, "");
  }
  EXPECT_FALSE(fs::exists(spike_path(scratch.path(), 200)));
  EXPECT_TRUE(fs::is_regular_file(spike_path(scratch.path(), 400)));
}

TEST(WatchedRun, IsCountedInThePlan) {
  const RunConfig config = watched_config();
  const TinyModel model;
  const std::int64_t bytes = make_plan(open_data(config), model).watch_bytes;
  EXPECT_GE(bytes, static_cast<std::int64_t>(256 * 2 * sizeof(UpdateStatistics::Tensor)));
  const std::int64_t peak = make_plan(open_data(config), model).peak_bytes;
  const RunConfig off = watched_config({"watch.every_steps=0"});
  EXPECT_EQ(make_plan(open_data(off), model).watch_bytes, 0);
  EXPECT_EQ(make_plan(open_data(off), model).peak_bytes, peak - bytes);
}

TEST(WatchedRun, PeaksAreCountedInThePlan) {
  const TinyModel model;
  const Plan with = make_plan(open_data(watched_config({"watch.every=true", "optimizer.rule=adamw"})), model);
  const Plan without = make_plan(open_data(watched_config({"optimizer.rule=adamw"})), model);
  const std::int64_t bytes = 2 * 64 * (kTinyFeatures * kTinyClasses / 128 + 1);  // packing groups are whole
  EXPECT_EQ(with.ledger.peaks, bytes);
  EXPECT_EQ(with.ledger.model_memory(), without.ledger.model_memory() + bytes);
  EXPECT_EQ(with.peak_bytes, without.peak_bytes + bytes);
  EXPECT_EQ(plan_json(with)["model_memory_bytes"]["peaks"], bytes);
  EXPECT_EQ(plan_json(without)["model_memory_bytes"]["peaks"], 0);
}

TEST(WatchedRun, RefusesPeaksOfWhatItCannotMeasure) {
  for (const auto& [settings, says] : std::initializer_list<std::pair<std::vector<std::string>, const char*>>{
           {{"watch.every_steps=0"}, "1, 2, 4, 8 or 16"},
           {{"watch.every_steps=3"}, "1, 2, 4, 8 or 16"},
           {{"watch.every_steps=32"}, "1, 2, 4, 8 or 16"},
           {{"optimizer.rule=adam_mini"}, "adam_mini makes the variances of rows in the update"},
           {{"train.microbatches=1", "memory.accumulator=none"}, "gradients are applied at once"}}) {
    std::vector<std::string> all = {"watch.every=true"};
    all.insert(all.end(), settings.begin(), settings.end());
    try {
      watched_config(all);
      ADD_FAILURE() << settings[0];
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("watch.every"), std::string::npos) << e.what();
    }
  }
}

TEST(WatchedRun, RefusesSettingsOutOfRange) {
  for (const char* setting :
       {"watch.every_steps=-1", "watch.log_every_steps=0.5", "watch.spikes=1001", "watch.evry_steps=2"}) {
    try {
      watched_config({setting});
      ADD_FAILURE() << setting;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("watch."), std::string::npos) << e.what();
    }
  }
}

// ---- replays ---------------------------------------------------------------------------------------------

struct Replayed {
  explicit Replayed(const std::string& out, const RunConfig& c, const Model& m)
      : folder(out),
        setup(open_data(c)),
        model(m),
        log(read_log(folder.log)),
        replay(setup, model, folder, log) {}
  RunFolder folder;
  Setup setup;
  const Model& model;
  std::vector<Json> log;
  Replay replay;
};

// Peaks of all elements of a tensor: codes of updates, then of ratios.
using Codes = std::vector<std::vector<int>>;

Codes codes_of(const ModelMemory& memory, int tensor) {
  Codes all(kPeaks);
  for (std::size_t k = 0; k < kPeaks; ++k) {
    const std::uint8_t* codes =
        memory.peaks(tensor).data() + static_cast<std::int64_t>(k) * peak_bytes(memory.info(tensor));
    for (std::int64_t e = 0; e < memory.info(tensor).elements(); ++e) {
      all[k].push_back(static_cast<int>(load_code(codes, kPeakFormat, e)));
    }
  }
  return all;
}

// Raises them by an AdamW step of rate 0.01 and decay 0.1, in fp64 from the values before it.
void raise_plainly(Codes& codes, const RoleArray<std::vector<float>>& x, std::int64_t step) {
  const auto raise = [&](int& code, double size, double lowest) {
    const double seen = size > 0 ? std::clamp(std::floor(std::log2(size)) - lowest + 1, 0.0, 15.0) : 0.0;
    code = std::max(std::max(0, code - (step % 16 == 0 ? 1 : 0)), static_cast<int>(seen));
  };
  const auto t = static_cast<double>(step);
  for (std::size_t e = 0; e < x[Role::kParameter].size(); ++e) {
    const double p = x[Role::kParameter][e], g = x[Role::kAccumulator][e];
    const double m = 0.9 * x[Role::kMomentum][e] + 0.1 * g;
    const double v = 0.999 * x[Role::kVariance][e] + 0.001 * g * g;
    const double root = std::sqrt(v / (1 - std::pow(0.999, t)));
    const double u = 0.01 * (m / (1 - std::pow(0.9, t)) / (root + 1e-8) + 0.1 * p);
    raise(codes[0][e], u == 0 ? 0.0 : std::abs(u / p), -11);
    raise(codes[1][e], std::pow(g / std::max(root, 1e-8), 2), -1);
  }
}

// After a step: the codes, and which parameters are no less than a quarter of their root mean square before.
struct Seen {
  Codes codes;
  std::vector<bool> is_large;
};
std::vector<bool> large_ones(const std::vector<float>& before, const std::vector<float>& after) {
  double squares = 0;
  for (const float p : before) squares += double{p} * double{p};
  std::vector<bool> large;
  for (const float p : after) {
    large.push_back(std::abs(double{p}) >= 0.25 * std::sqrt(squares / static_cast<double>(before.size())));
  }
  return large;
}

// "element 3, 1: 2 to 11 in step 60": those that rose furthest, at most five, in the order of the rise, the
// step and the place; by their updates only large ones.
std::vector<std::string> furthest(const Codes& before, const std::map<std::int64_t, Seen>& after) {
  std::vector<std::tuple<int, std::int64_t, std::size_t, std::size_t, int>> all;
  for (std::size_t k = 0; k < kPeaks; ++k) {
    for (std::size_t e = 0; e < before[k].size(); ++e) {
      int most = 1;
      std::int64_t when = 0;
      for (const auto& [step, seen] : after) {
        const int rise = seen.codes[k][e] - before[k][e];
        if (rise > most && (k == 1 || seen.is_large[e])) most = rise, when = step;
      }
      if (when > 0) all.emplace_back(-most, when, e, k, before[k][e]);
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<std::string> names;
  for (const auto& [fall, step, e, k, from] : all) {
    if (names.size() < 5) {
      names.push_back(fmt::format("element {}, {}: {} to {} in step {}", e, k, from, from - fall, step));
    }
  }
  return names;
}

TEST(Replay, NamesTheElementsThatPlainArithmeticNames) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  const std::vector<std::string> settings = {"optimizer.rule=adamw", "optimizer.weight_decay=0.1",
                                             "watch.every=true", "watch.every_steps=2"};
  TinyHooks hooks;
  hooks.bias_factor = [](std::uint32_t step) { return step == kBadStep ? 300.0F : 1.0F; };
  const TinyModel model(hooks);
  const RunConfig config = watched_config(settings);
  run(out, config, model);
  Replayed r(out, config, model);
  (void)r.replay.go({.from = 40, .to = 61, .first_measured = 53, .last_measured = 61}, {});
  const std::vector<std::vector<ElementMove>>& named = r.replay.elements();
  ASSERT_EQ(named.size(), 2U);

  // The same steps, with everything decoded before each update.
  CpuDevice device(1);
  ModelMemory memory(model.tensors(), config.policy, config.optimizer, 1, 2, device);
  Buffers buffers(model.buffers(), device);
  load_checkpoint(out + "/checkpoints/step_00000040", "mlp", memory, buffers);
  const auto data = load_data(r.setup, device.host_pool());
  const std::int64_t per_epoch = steps_per_epoch(*data, 16);
  Prefetcher batches(*data, {1, 16, 2, config.data.augment}, 40 / per_epoch, 40 % per_epoch);
  const auto program = model.build(8, config.train.compute, device);
  std::vector<Codes> plain = {codes_of(memory, 0), codes_of(memory, 1)}, before;
  std::vector<std::map<std::int64_t, Seen>> after(2);
  for (std::int64_t step = 41; step <= 61; ++step) {
    if (step == 53) before = plain;
    std::vector<RoleArray<std::vector<float>>> x(2);
    StepOptions options;
    options.step = static_cast<std::uint32_t>(step);
    options.learning_rate = 0.01;
    const auto keep_values = [&] {  // the last one's stay
      for (int t = 0; t < 2; ++t) {
        for (const Role role : {Role::kParameter, Role::kAccumulator, Role::kMomentum, Role::kVariance}) {
          std::vector<float>& values = x[static_cast<std::size_t>(t)][role];
          values.resize(static_cast<std::size_t>(memory.info(t).elements()));
          device.decode(memory.view(t, role), 0, std::ssize(values), values.data());
        }
      }
    };
    ASSERT_TRUE(train_step(*program, memory, buffers, batches, options, {.after_microbatch = keep_values})
                    .report.applied);
    for (std::size_t t = 0; t < 2; ++t) {
      if (step % 2 == 0 || step >= 53)
        raise_plainly(plain[t], x[t], step);  // the run measured every other one
      std::vector<float> parameters(x[t][Role::kParameter].size());
      memory.read(static_cast<int>(t), 0, parameters);
      if (step >= 53) after[t][step] = {plain[t], large_ones(x[t][Role::kParameter], parameters)};
    }
  }
  for (std::size_t t = 0; t < 2; ++t) {
    std::vector<std::string> names;
    for (const ElementMove& m : named[t]) {
      names.push_back(fmt::format("element {}, {}: {} to {} in step {}", m.element, static_cast<int>(m.peak),
                                  m.before, m.code, m.step));
    }
    EXPECT_EQ(names, furthest(before[t], after[t])) << t;
    EXPECT_EQ(names.size(), 5U) << t;
  }
  // It was the bias, in that step.
  ASSERT_FALSE(named[1].empty());
  EXPECT_EQ(named[1][0].step, kBadStep);
  EXPECT_GE(named[1][0].rise(), 4);
}

TEST(Replay, IsTheRunToTheBitAndTheSpikeVanishesWithoutTheRightTensor) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  const TinyModel model = bad_model();
  run(out, watched_config(), model);
  const SpikeFile file = read_spike(spike_path(out, kBadStep + 1));
  Replayed r(out, watched_config({"train.threads=1"}), model);
  const auto steps = r.replay.go({.from = 40, .to = 77}, {});
  ASSERT_EQ(steps.size(), 37U);
  // 21 of the kept ones, and the records of steps 42, 49, ..., 77.
  EXPECT_EQ(check_losses(steps, r.replay.window(), r.log, file.statistics), 21 + 6);
  // The statistics are the same as then, but for measures that are taken only now.
  for (const ReplayedStep& s : steps) {
    if (s.statistics.step > kBadStep + 1) continue;
    UpdateStatistics before = file.statistics[static_cast<std::size_t>(s.statistics.step - 1)];
    UpdateStatistics now = parse_statistics(statistics_record(s.statistics), 2);
    for (UpdateStatistics::Tensor& t : now.tensors) {
      EXPECT_TRUE(std::isfinite(t.momentum_bias));
      t.momentum_bias = t.variance_bias = std::nanf("");
    }
    EXPECT_EQ(statistics_record(now).dump(), statistics_record(before).dump());
  }
  std::vector<UpdateStatistics> statistics(file.statistics.begin(), file.statistics.begin() + 40);
  for (const ReplayedStep& s : steps) statistics.push_back(s.statistics);
  const std::vector<Move> moves = rank_moves(statistics, kBadStep + 1);
  ASSERT_FALSE(moves.empty());
  EXPECT_EQ(moves[0].tensor, 1U);
  EXPECT_EQ(moves[0].step, kBadStep);
  const LossRange range{file.spike.mean, file.spike.deviation};
  const auto worst = [&](int tensor) {
    double most = 0;
    for (const ReplayedStep& s : r.replay.go({.from = 40,
                                 .to = 77,
                                 .left_out = {tensor},
                                 .first_left_out = kBadStep,
                                 .last_left_out = kBadStep + 1},
                                             {})) {
      if (s.statistics.step > kBadStep) most = std::max(most, s.statistics.loss);
    }
    return most;
  };
  EXPECT_TRUE(range.holds(worst(1))) << worst(1);
  EXPECT_FALSE(range.holds(worst(0))) << worst(0);
  // A second time it is the run again.
  EXPECT_EQ(check_losses(r.replay.go({.from = 40, .to = 77}, {}), r.replay.window(), r.log, file.statistics),
            27);
}

TEST(Replay, BeginsAtTheInitialValuesToo) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  run(out, watched_config({"checkpoint.every_steps=0"}), bad_model());
  const TinyModel model = bad_model();
  Replayed r(out, watched_config(), model);
  const auto steps = r.replay.go({.from = 0, .to = 70}, {});
  EXPECT_EQ(check_losses(steps, r.replay.window(), r.log, read_spike(spike_path(out, 61)).statistics),
            61 + 10);
}

TEST(Replay, NoticesASingleBit) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  const TinyModel model = bad_model();
  run(out, watched_config(), model);
  Replayed r(out, watched_config(), model);
  const auto steps = r.replay.go({.from = 40, .to = 61}, {});
  std::vector<UpdateStatistics> kept = read_spike(spike_path(out, 61)).statistics;
  kept[50].loss = std::nextafter(kept[50].loss, 100);
  try {
    check_losses(steps, r.replay.window(), r.log, kept);
    ADD_FAILURE();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("step 51"), std::string::npos) << e.what();
  }
  for (Json& record : r.log) {
    if (record["type"] == "step" && record["step"] == 56) {
      record["loss"] = std::nextafter(record["loss"].get<double>(), 0);
    }
  }
  EXPECT_THROW(check_losses(steps, r.replay.window(), r.log, {}), RunError);
}

TEST(Replay, RefusesTheRunOfAnotherProgram) {
  const Scratch scratch;
  const std::string out = scratch / "run";
  run(out, watched_config({"train.steps=5"}), TinyModel());
  std::string log = read_text(out + "/log.jsonl", 1 << 30);
  const std::string key = "\"version\":\"";
  log.insert(log.find(key) + key.size(), "9.");
  write_text(out + "/log.jsonl", log);
  try {
    const TinyModel model;
    Replayed(out, watched_config(), model);
    ADD_FAILURE();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("computed by"), std::string::npos) << e.what();
  }
}

// ---- files -----------------------------------------------------------------------------------------------

TEST(SpikeFiles, OthersAreRefusedByName) {
  const Scratch scratch;
  const std::string out = scratch / "run", path = spike_path(out, 61);
  run(out, watched_config(), bad_model());
  const std::string good = read_text(path, 1 << 30);
  const std::size_t line = good.find('\n') + 1;
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), by);
  };
  for (const std::string& bad :
       {std::string(), good.substr(line), replaced("\"loss\"", "\"lost\""),
        replaced("\"kind\":\"loss\"", "\"kind\":\"odd\""), replaced("\"step\":61", "\"step\":-1"),
        replaced("\"head.bias\"", "5"), good + good.substr(line), replaced("\"update\":[", "\"update\":[1,"),
        replaced("\"checkpoint\":40", "\"checkpoint\":1e99"), replaced("\"tensors\"", "\"others\"")}) {
    write_text(path, bad);
    try {
      read_spike(path);
      ADD_FAILURE() << bad.substr(0, 200);
    } catch (const RunError& e) {
      EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
    }
  }
  write_text(path, good);
  EXPECT_EQ(read_spike(path).statistics.size(), 61U);
}

}  // namespace
}  // namespace lpmm
