// Configurations: what is read, what is refused and how it is said, and that the printed form reads back.
#include "lpmm/run/config.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>
#include <tuple>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/roles.h"
#include "lpmm/run/config_keys.h"
#include "lpmm/run/log.h"
#include "lpmm/run/run_folder.h"
#include "models/families.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

RunConfig parse(const std::string& text, const ConfigOptions& options = {}) {
  return parse_config("train.steps = 1\n" + text, "run.toml", with_families(options));
}

// The message of the error, or "no error".
std::string message(const std::string& text, const ConfigOptions& options = {}) {
  try {
    parse_config(text, "run.toml", with_families(options));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}

void expect_refusal(const std::string& text, const std::vector<std::string>& parts,
                    const ConfigOptions& options = {}) {
  const std::string said = message(text, options);
  for (const std::string& part : parts) {
    EXPECT_NE(said.find(part), std::string::npos) << "\"" << said << "\" lacks \"" << part << "\"";
  }
}

// As a run writes its config.toml.
std::string sealed(const std::string& text) {
  return fmt::format("{}{}{:08x}: of the lines above.\n", text, kSeal,
                     crc32(std::as_bytes(std::span<const char>(text))));
}

TEST(Config, ReadsEverySection) {
  const RunConfig c = parse(R"(
    [model]
    name = "mlp"
    hidden = [512, 64]
    label_smoothing = 0.1
    [data]
    set = "drawn"
    augment = false
    train_images = 100
    test_images = 50
    draw_seed = 9
    [optimizer]
    rule = "adamw"
    learning_rate = 1e-3
    weight_decay = 1  # an integer is a number
    beta2 = 0.99
    clip_norm = 1.5
    [[optimizer.group]]
    pattern = "bn*"
    weight_decay = 0
    [schedule]
    kind = "step"
    milestones = [0.5, 0.75]
    gamma = 0.2
    [memory]
    preset = "lpmm-compact"
    momentum = "de8:block256:rn"
    [[memory.override]]
    pattern = "fc*"
    exempt = true
    [[memory.override]]
    pattern = "conv1.weight"
    parameter = "int16:block64:sr:sticky"
    [checkpoint]
    every_steps = 7
    keep = 3
    final = false
    [log]
    every_steps = 5
    underflow_every_steps = 50
  )");
  EXPECT_EQ(c.model.name, "mlp");
  EXPECT_EQ(c.model.integers("hidden"), (std::vector<std::int64_t>{512, 64}));
  EXPECT_EQ(c.model.number("label_smoothing"), 0.1);
  EXPECT_EQ(c.data.set, "drawn");
  EXPECT_FALSE(c.data.augment);
  EXPECT_EQ(c.data.draw_seed, 9U);
  EXPECT_EQ(c.train.steps, 1);
  EXPECT_EQ(c.optimizer.rule, RuleName("adamw"));
  EXPECT_EQ(c.optimizer.weight_decay, 1.0);
  ASSERT_EQ(c.optimizer.groups.size(), 1U);
  EXPECT_EQ(c.optimizer.groups[0].pattern, "bn*");
  EXPECT_EQ(c.optimizer.groups[0].weight_decay, 0.0);
  EXPECT_EQ(c.schedule.kind, ScheduleKind::kStep);
  EXPECT_EQ(c.schedule.milestones, (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(c.policy.preset, "lpmm-compact");
  EXPECT_EQ(to_string(c.policy.specs[Role::kMomentum]), to_string(parse_spec("de8:block256:rn")));
  ASSERT_EQ(c.policy.overrides.size(), 2U);
  EXPECT_TRUE(c.policy.overrides[0].exempt);
  EXPECT_EQ(c.policy.overrides[1].specs[Role::kParameter], parse_spec("int16:block64:sr:sticky"));
  EXPECT_EQ(c.checkpoint.keep, 3);
  EXPECT_FALSE(c.checkpoint.final);
  EXPECT_EQ(c.log.underflow_every_steps, 50);
}

// A family's settings are all there are; another's are refused, but for the defaults that files of earlier
// programs hold.
TEST(Config, ModelsHaveTheSettingsOfTheirFamily) {
  const std::string before =
      "[model]\nname = 'resnet8'\nhidden = []\nwiden = 2\nlabel_smoothing = 0\nlayers = 0\n"
      "heads = 0\nembedding = 0\ncontext = 0\nvocabulary = 0\ndropout = 0\nrecompute = false\n";
  const RunConfig c = parse(before);
  EXPECT_EQ(c.model.integer("widen"), 2);
  const std::string text = to_toml(c);
  EXPECT_NE(text.find("[model]\nname = \"resnet8\"\nwiden = 2\nlabel_smoothing = 0\n\n[data]"),
            std::string::npos)
      << text;
  EXPECT_TRUE(differences(c, parse_config(text, "again.toml", with_families())).empty());
  EXPECT_EQ(parse("").model.name, "resnet20");

  const std::string run = "[train]\nepochs=1\n[model]\n";
  expect_refusal(run + "name='resnet8'\nhidden=[3]\n",
                 {"run.toml:5", "model.hidden is no setting of resnet8, which has widen, label_smoothing"});
  expect_refusal(run + "name='gpt'\nwiden=2\n", {"model.widen", "gpt", "layers, heads"});
  expect_refusal(run + "name='mlp'\nrecompute=true\n", {"model.recompute", "mlp", "hidden"});
  expect_refusal(run + "name='resnet8'\nwidem=2\n", {"run.toml:5", "did you mean model.widen?"});
  expect_refusal(run + "name='gpt'\nlayers=1001\n", {"run.toml:5", "model.layers = 1001", "0 to 1000"});
  expect_refusal(run + "name='gpt'\ndropout=1\n", {"run.toml:5", "model.dropout = 1", "0 to 0.999"});
  expect_refusal(run + "name='gpt3'\n", {"run.toml:4", "unknown model", "did you mean gpt?"});
}

TEST(Config, CommandLineWinsInOrder) {
  const std::string text =
      "[memory]\npreset = 'lpmm'\nparameter = 'int16'\n[train]\nbatch = 32\nepochs = 2\n";
  const RunConfig c = parse_config(text, "run.toml",
                                   with_families({"lpmm-min",
                                                  "rn",
                                                  {"train.batch=64", "train.compute=fp32", "train.steps=3",
                                                   "schedule.milestones=[0.1, 0.2]"}}));
  EXPECT_EQ(c.policy.preset, "lpmm-min");
  EXPECT_EQ(c.policy.specs[Role::kParameter].format.bits,
            8);  // the preset replaces the file's parameter spec
  for (const Spec& spec : c.policy.specs) EXPECT_EQ(spec.rounding, Rounding::kNearest);
  EXPECT_EQ(c.train.batch, 64);
  EXPECT_EQ(c.train.steps, 3);
  EXPECT_EQ(c.train.epochs, 2);
  EXPECT_EQ(c.train.compute, ValueType::kFp32);  // a bare word
  EXPECT_EQ(c.schedule.milestones.size(), 2U);
}

TEST(Config, PresetsOfEightBitParametersFeedBackWithMomentumOfSgd) {
  const std::string sgdm = "[optimizer]\nrule = 'sgd'\nmomentum = 0.9\n";
  const auto feeds_back = [](const std::string& text, const ConfigOptions& options) {
    return parse(text, options).policy.error_feedback;
  };
  for (const std::string_view preset : preset_names()) {
    const ConfigOptions options{.preset = std::string(preset), .rounding = {}, .settings = {}};
    const bool feeds = preset == "lpmm-compact" || preset == "lpmm-min" || preset == "lpmm-nano";
    EXPECT_EQ(feeds_back(sgdm, options), feeds) << preset << ": error feedback with SGD is to be meant";
    EXPECT_FALSE(feeds_back("[optimizer]\nrule = 'sgd'\n", options)) << preset;
    EXPECT_FALSE(feeds_back("[optimizer]\nrule = 'adamw'\n", options)) << preset;
  }
  // A setting wins over the preset of the file, in any order of sections, and --preset over the file.
  const std::string min = "[memory]\npreset = 'lpmm-min'\n";
  EXPECT_TRUE(feeds_back(min + sgdm, {}));
  EXPECT_FALSE(feeds_back(min + "error_feedback = false\n" + sgdm, {}));
  EXPECT_TRUE(feeds_back("[memory]\nerror_feedback = false\n" + sgdm, {"lpmm-min", "", {}}));
  EXPECT_FALSE(feeds_back(sgdm, {"lpmm-min", "", {"memory.error_feedback=false"}}));
  EXPECT_TRUE(feeds_back(sgdm, {"lpmm", "", {"memory.error_feedback=true"}}));
  EXPECT_FALSE(feeds_back("[memory]\nerror_feedback = true\n" + sgdm, {"lpmm", "", {}}));
  // It goes with the preset's own parameter and momentum: configs from before presets had it name all roles.
  EXPECT_TRUE(feeds_back(min + "accumulator = 'int8'\n" + sgdm, {}));
  EXPECT_FALSE(feeds_back(min + "momentum = 'int3'\n" + sgdm, {}));
  EXPECT_FALSE(feeds_back(min + "parameter = 'int8:block128:sr:sticky'\n" + sgdm, {}));
  EXPECT_TRUE(feeds_back(min + "parameter = 'int6'\nerror_feedback = true\n" + sgdm, {}));
  EXPECT_FALSE(feeds_back(min + sgdm, {"", "rn", {}}));
  EXPECT_TRUE(feeds_back(min + sgdm, {"", "sr", {}}));
  EXPECT_TRUE(feeds_back(min + sgdm, {"", "rn", {"memory.error_feedback=true"}}));
}

TEST(Config, SmallTensorsAreExemptWhereThePresetOrTheConfigSaysSo) {
  const auto least = [](const std::string& text, const ConfigOptions& options) {
    return parse(text, options).policy.min_elements;
  };
  EXPECT_EQ(least("", {}), 0);
  EXPECT_EQ(least("[memory]\npreset = 'bnb8'\n", {}), 4096);
  EXPECT_EQ(least("[memory]\npreset = 'bnb8'\nmin_elements = 10\n", {}), 10);
  EXPECT_EQ(least("[memory]\nmin_elements = 10\n", {"thu4", "", {}}), 4097);  // --preset wins over the file
  EXPECT_EQ(least("", {"bnb8", "", {"memory.min_elements=0"}}), 0);
  const std::string text = to_toml(parse("[memory]\nmin_elements = 77\n"));
  EXPECT_EQ(parse_config(text, "again.toml", with_families()).policy.min_elements, 77);
  expect_refusal("train.steps = 1\n[memory]\nmin_elements = -1\n", {"memory.min_elements", "-1"});
}

TEST(Config, GradientsMayBeAccumulatedInTheMomentum) {
  const std::string sgdm = "[optimizer]\nrule = 'sgd'\nmomentum = 0.9\n";
  const std::string memory = "[memory]\npreset = 'lpmm'\naccumulator = 'momentum'\n";
  const auto in_momentum = [](const std::string& text, const ConfigOptions& options) {
    return parse(text, options).policy.accumulate_in_momentum;
  };
  EXPECT_FALSE(in_momentum(sgdm, {"lpmm", "", {}}));
  EXPECT_TRUE(in_momentum(memory + sgdm, {}));
  EXPECT_TRUE(in_momentum(sgdm, {"lpmm", "", {"memory.accumulator=momentum"}}));
  // --preset replaces what the file says of it, a spec as well.
  EXPECT_FALSE(in_momentum(memory + sgdm, {"lpmm", "", {}}));
  EXPECT_FALSE(in_momentum(memory + sgdm, {"", "", {"memory.accumulator=int8"}}));
  const std::string text = to_toml(parse(memory + sgdm));
  EXPECT_NE(text.find("accumulator = \"momentum\""), std::string::npos);
  EXPECT_TRUE(parse_config(text, "again.toml", with_families()).policy.accumulate_in_momentum);

  // "none" likewise, for one microbatch without clipping.
  const std::string none = "[memory]\naccumulator = 'none'\n";
  EXPECT_TRUE(parse(none + sgdm).policy.apply_at_once);
  EXPECT_TRUE(parse_config(to_toml(parse(none + sgdm)), "again.toml", with_families()).policy.apply_at_once);
  EXPECT_FALSE(parse(none + sgdm, {"", "", {"memory.accumulator=int8"}}).policy.apply_at_once);
  EXPECT_FALSE(parse(none + sgdm, {"", "", {"memory.accumulator=momentum"}}).policy.apply_at_once);
  expect_refusal("train.epochs = 1\n" + none + sgdm + "clip_norm = 1\n",
                 {"memory.accumulator = \"none\"", "with sgd", "optimizer.clip_norm = 0"});
  expect_refusal("train.epochs = 1\n" + none + "[optimizer]\nrule = 'lars'\n",
                 {"lars needs whole gradients"});

  // lpmm-nano does where it can, with specs of its own.
  const auto nano = [](const std::string& text) { return parse(text, {"lpmm-nano", "", {}}).policy; };
  EXPECT_TRUE(nano(sgdm).accumulate_in_momentum && nano(sgdm).error_feedback);
  EXPECT_EQ(nano(sgdm).specs[Role::kParameter].format.bits, 7);
  EXPECT_EQ(nano(sgdm).specs[Role::kMomentum].format.bits, 5);
  for (const std::string& other : {std::string("[optimizer]\nrule = 'adamw'\n"), std::string("[optimizer]\n"),
                                   sgdm + "nesterov = true\n", sgdm + "clip_norm = 1\n"}) {
    EXPECT_FALSE(nano(other).accumulate_in_momentum || nano(other).error_feedback) << other;
    EXPECT_EQ(nano(other).specs[Role::kMomentum].format.bits, 4);
  }
  EXPECT_FALSE(parse(sgdm, {"lpmm-nano", "", {"memory.accumulator=int8"}}).policy.accumulate_in_momentum);

  const std::string run = "[train]\nepochs=1\n";
  expect_refusal(run + memory,
                 {"run.toml", "memory.accumulator = \"momentum\" is not for sgd", "1e-06 or more"});
  expect_refusal(run + memory + "[optimizer]\nmomentum = 1e-20\n", {"1e-06 or more"});
  EXPECT_FALSE(nano("[optimizer]\nmomentum = 1e-20\n").accumulate_in_momentum);
  expect_refusal("[train]\nepochs=1\nbatch=16384\nmicrobatches=16384\n", {"run.toml:4", "16383"});
  expect_refusal(run + memory + sgdm + "nesterov = true\n", {"optimizer.nesterov = false"});
  expect_refusal(run + memory + sgdm + "clip_norm = 1\n", {"optimizer.clip_norm = 0"});
  expect_refusal(run + "[memory]\nmomentum = 'momentum'\n", {"run.toml:4", "memory.momentum"});
  expect_refusal(run + sgdm + "[[memory.override]]\npattern = 'a'\naccumulator = 'momentum'\n",
                 {"run.toml:", "for all tensors"});
  expect_refusal(run + memory + sgdm + "[[memory.override]]\npattern = 'a'\naccumulator = 'int8'\n",
                 {"give a momentum"});
}

TEST(Config, ParametersMayHaveASecondTerm) {
  const auto compensation = [](const std::string& text, const ConfigOptions& options) {
    return to_string(Role::kCompensation, parse(text, options).policy.specs[Role::kCompensation]);
  };
  const std::string own = "[memory]\npreset = 'lpmm-compact'\ncompensation = 'int4:block64:rn'\n";
  EXPECT_EQ(compensation("", {}), "none");
  EXPECT_EQ(compensation(own, {}), "int4:block64:rn");
  EXPECT_EQ(compensation(own, {"flash", "", {}}), "ulp8:rn");  // --preset wins over the file
  EXPECT_EQ(compensation(own, {"lpmm", "", {}}), "none");
  EXPECT_EQ(compensation("", {"flash", "", {"memory.compensation=none"}}), "none");
  EXPECT_EQ(compensation("", {"flash", "sr", {}}), "ulp8:sr");
  const RunConfig some =
      parse(own +
            "[[memory.override]]\npattern = 'a'\ncompensation = 'none'\n[[memory.override]]\npattern = 'b'\n"
            "compensation = 'int8'\n");
  const RunConfig again = parse_config(to_toml(some), "again.toml", with_families());
  EXPECT_EQ(to_toml(again), to_toml(some));
  EXPECT_EQ(again.policy.overrides[0].specs[Role::kCompensation], Spec{});
  EXPECT_EQ(to_string(*again.policy.overrides[1].specs[Role::kCompensation]), "int8:block128:sr");
  // It takes the place of a preset's error feedback; asked for both, there is no telling which is meant.
  const std::string sgdm = "[optimizer]\nrule = 'sgd'\nmomentum = 0.9\n";
  EXPECT_TRUE(parse("[memory]\npreset = 'lpmm-compact'\n" + sgdm).policy.error_feedback);
  EXPECT_TRUE(
      parse("[memory]\npreset = 'lpmm-compact'\ncompensation = 'none'\n" + sgdm).policy.error_feedback);
  EXPECT_FALSE(parse(own + sgdm).policy.error_feedback);
  const std::string run = "[train]\nepochs = 1\n";
  expect_refusal(run + own + "error_feedback = true\n" + sgdm, {"a second time", "memory.error_feedback"});
  expect_refusal(run + "[memory]\ncompensation = 'int8'\n",
                 {"memory.compensation = \"int8:block128:sr\"", "fp32 parameters lose nothing"});
  expect_refusal(run + "[memory]\npreset = 'lpmm'\ncompensation = 'ulp8'\n", {"use bf16:rn"});
  expect_refusal(run + "[memory]\npreset = 'lpmm'\ncompensation = 'int99'\n",
                 {"run.toml:5", "memory.compensation", "int99"});
  expect_refusal(run + "[memory]\npreset = 'lpmm'\nparameter = 'ulp8'\n", {"share of what rounding"});
}

TEST(Config, PrintsWhatItReads) {
  const RunConfig c = parse_config(
      "[train]\nepochs=3\nseed=7\n[optimizer]\nlearning_rate=0.1\nmomentum=0.9\nweight_decay=1e-4\n"
      "[[optimizer.group]]\npattern='a\"\\*'\n[memory]\npreset='lpmm'\nerror_feedback=true\n[[memory."
      "override]]\npattern='*.w'\n"
      "momentum='soft4:block256:sr'\n[model]\nname='mlp'\nhidden=[1,2]\n",
      "run.toml", with_families({"", "rn", {}}));
  const std::string text = to_toml(c);
  const RunConfig again = parse_config(text, "again.toml", with_families());
  EXPECT_EQ(to_toml(again), text);
  EXPECT_TRUE(differences(c, again).empty());
  EXPECT_EQ(again.optimizer.groups[0].pattern, "a\"\\*");
  EXPECT_EQ(again.optimizer.weight_decay, 1e-4);
  EXPECT_TRUE(again.policy.error_feedback);
  for (const Role role : kEveryElementRole) {
    if (is_state(role) && !uses(c.optimizer, role)) continue;
    EXPECT_EQ(again.policy.specs[role], c.policy.specs[role]);
  }
  EXPECT_EQ(again.policy.overrides[0].specs[Role::kMomentum], c.policy.overrides[0].specs[Role::kMomentum]);
}

TEST(Config, NamesDifferences) {
  // The key that decides which others there are is named first.
  const auto rules = differences(parse("[optimizer]\nrule='lion'\n"), parse("[optimizer]\nrule='adamw'\n"));
  ASSERT_GE(rules.size(), 2U);
  EXPECT_EQ(rules[0].key, "optimizer.rule");
  const auto d = differences(parse("train.seed = 3"), parse("train.seed = 4\n[memory]\npreset='lpmm'"));
  ASSERT_GE(d.size(), 2U);
  EXPECT_EQ(d.back().key, "train.seed");
  EXPECT_EQ(d.back().first, "3");
  EXPECT_EQ(d.back().second, "4");
}

// An SGD without momentum has neither state, one with momentum no variance. Files of earlier programs hold
// all.
TEST(Config, SpecsOfRolesWithoutMemoryAreNoDifference) {
  const auto changed = [](const std::string& optimizer, const std::string& role) {
    const std::string run = "[optimizer]\n" + optimizer + "[memory]\npreset='lpmm'\n";
    const std::string spec = role == "variance" ? " = 'sqrt02:block64:sr'\n" : " = 'int5:block64:sr'\n";
    return !differences(parse(run), parse_config(sealed("train.steps = 1\n" + run + role + spec), "run.toml",
                                                 with_families()))
                .empty();
  };
  const std::string sgd = "rule='sgd'\n", sgdm = "rule='sgd'\nmomentum=0.9\n", adam = "rule='adamw'\n";
  EXPECT_FALSE(changed(sgd, "momentum") || changed(sgd, "variance") || changed(sgdm, "variance"));
  EXPECT_TRUE(changed(sgdm, "momentum") && changed(adam, "momentum") && changed(adam, "variance"));
  EXPECT_TRUE(changed(sgd, "parameter") && changed(sgd, "accumulator"));
}

TEST(Config, NamesTheNearestKey) {
  expect_refusal("[train]\nepochs = 1\nbacth = 3\n",
                 {"run.toml:3", "train.bacth", "did you mean train.batch?"});
  expect_refusal("[train]\nepochs = 1\n[optimiser]\nlearning_rate = 1\n",
                 {"run.toml:4", "optimiser.learning_rate", "optimizer.learning_rate"});
  expect_refusal("[train]\nlearning_rate = 1\nepochs = 1\n", {"run.toml:2", "optimizer.learning_rate"});
  expect_refusal("epochs = 1\n", {"run.toml:1", "unknown key epochs", "train.epochs"});
  expect_refusal("[train]\nepochs = 1\n[[memory.override]]\npattern = 'x'\nmomentun = 'de8'\n",
                 {"run.toml:5", "memory.override.momentun", "memory.override.momentum"});
  expect_refusal("[train]\nepochs = 1\n[memory]\nrow_variance = 'bf16'\n",
                 {"run.toml:4", "unknown key memory.row_variance"});
  expect_refusal("[train]\nepochs = 1\n", {"--set train.bacth=3", "train.batch"},
                 {"", "", {"train.bacth=3"}});
}

// Names that other programs and habits give to keys lead to them.
TEST(Config, OtherWordsFindTheirKeys) {
  const std::string run = "[train]\nepochs = 1\n";
  expect_refusal(run + "[optimizer]\nlr = 1\n",
                 {"run.toml:4", "optimizer.lr", "mean optimizer.learning_rate?"});
  expect_refusal(run + "lr = 1\n", {"run.toml:3", "train.lr", "did you mean optimizer.learning_rate?"});
  expect_refusal("wd = 1\n" + run, {"run.toml:1", "unknown key wd", "did you mean optimizer.weight_decay?"});
  expect_refusal(run + "bs = 1\n", {"did you mean train.batch?"});
  expect_refusal(run + "momentum = 1\n", {"did you mean optimizer.momentum?"});
  expect_refusal(run, {"--set lr=0.1", "did you mean optimizer.learning_rate?"}, {"", "", {"lr=0.1"}});
  expect_refusal(run, {"--set optimizer.wd=0.1", "mean optimizer.weight_decay?"},
                 {"", "", {"optimizer.wd=0.1"}});
  // Every one of them is meant for a key that exists.
  for (const auto& [word, key] : config_keys::kOtherWords) {
    const std::vector<ConfigKey> all = all_config_keys(families());
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&, k = key](const ConfigKey& c) { return c.name == k; }))
        << word << " is said to mean " << key;
  }
}

// A key that has another name now means the same under its old one.
TEST(Config, OldKeysStillMeanTheSame) {
  const RunConfig config = parse("[model]\nname = 'llama'\nunturned_every = 4\n");
  EXPECT_EQ(config.model.integer("nope_every"), 4);
  EXPECT_NE(to_toml(config).find("nope_every = 4"), std::string::npos);
  EXPECT_THROW(parse("[model]\nname = 'llama'\nunturned_every = 4\nnope_every = 4\n"), UsageError);
  EXPECT_THROW(parse("[model]\nname = 'llama'\nunturned_every = 1001\n"), UsageError);
}

// Any text can be evaluated and any prompt typed where the run names no text of its own.
TEST(Config, TextWithoutAPathIsReadAsBytes) {
  const auto tokenizer = [](const std::string& data) {
    return parse("[model]\nname = 'gpt'\n[data]\nset = 'text'\n" + data).data.text.tokenizer;
  };
  EXPECT_EQ(tokenizer(""), "bytes");
  EXPECT_EQ(tokenizer("path = 'a.txt'\n"), "characters");
  EXPECT_EQ(parse("").data.text.tokenizer, "characters") << "runs of images keep what they wrote";
  EXPECT_EQ(tokenizer("tokenizer = 'characters'\n"), "characters");
  EXPECT_NE(to_toml(parse("[model]\nname = 'gpt'\n[data]\nset = 'text'\n")).find("tokenizer = \"bytes\""),
            std::string::npos);
}

TEST(Config, EveryKeyIsListedWithDefaultRangeAndHelp) {
  const std::vector<ConfigKey> keys = all_config_keys(families());
  std::set<std::string> names;
  for (const ConfigKey& key : keys) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name << " is listed twice";
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_FALSE(key.range.empty()) << key.name;
  }
  for (const char* name : {"train.batch", "memory.rounding", "memory.override.variance", "log.every_steps",
                           "optimizer.group.frozen", "model.hidden"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  const auto find = [&](const char* name) {
    return *std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& key) { return key.name == name; });
  };
  EXPECT_EQ(find("train.batch").default_value, "128");
  EXPECT_EQ(find("train.batch").range, "1 to 1048576");
  EXPECT_EQ(find("optimizer.learning_rate").range, "0 to 1e+30");
  EXPECT_EQ(find("train.compute").range, "bf16, fp32");
  // Every key that is written is listed.
  const std::string text = to_toml(parse("[memory]\npreset='lpmm'\n"));
  std::istringstream lines(text);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) section = line.substr(1, line.size() - 2);
    const std::size_t end = line.find(" = ");
    if (end != std::string::npos) {
      EXPECT_TRUE(names.contains(section + "." + line.substr(0, end))) << line;
    }
  }
}

// Without a rule, what differs between rules has no one default, and the help has them all.
TEST(Config, SettingsHaveTheDefaultsOfTheRuleThatIsChosen) {
  const auto of_optimizer = [](std::optional<RuleName> rule) {
    std::map<std::string, ConfigKey> found;
    for (const ConfigKey& key : all_config_keys(families(), rule)) found[key.name] = key;
    return found;
  };
  for (const std::string_view name : rule_names()) {
    const RuleName rule = RuleName::find(name).value();
    OptimizerConfig config;
    config.rule = rule;
    const auto keys = of_optimizer(rule);
    EXPECT_EQ(keys.at("optimizer.rule").default_value, fmt::format("\"{}\"", name));
    EXPECT_EQ(keys.at("optimizer.learning_rate").default_value, fmt::format("{}", peak_rate(config)));
    for (const SettingRow& s : all_settings()) {
      const auto key = keys.find(fmt::format("optimizer.{}", s.key.text()));
      ASSERT_EQ(key != keys.end(), has_setting(config, s.key)) << name << " " << s.key.text();
      if (key == keys.end()) continue;
      const double usual = setting(config, s.key);
      EXPECT_EQ(key->second.default_value,
                s.is_switch ? (usual != 0 ? "true" : "false") : fmt::format("{}", usual));
    }
  }
  const auto keys = of_optimizer({});
  for (const char* name : {"epsilon", "beta1", "beta2", "momentum", "nesterov"}) {
    EXPECT_EQ(keys.at(fmt::format("optimizer.{}", name)).default_value, "") << name;
  }
  EXPECT_NE(keys.at("optimizer.epsilon").help.find("1e-06 with lamb"), std::string::npos);
  EXPECT_NE(keys.at("optimizer.trust_clip").help.find("lars: no step longer than SGD's"), std::string::npos);
  EXPECT_EQ(keys.at("optimizer.ns_steps").default_value, "5");
}

TEST(Config, RefusesWrongTypesAndRanges) {
  expect_refusal("[train]\nepochs = 'ten'\n", {"run.toml:2", "train.epochs", "an integer", "string"});
  expect_refusal("[train]\nepochs = 1.5\n", {"run.toml:2", "an integer", "float"});
  expect_refusal("[train]\nepochs = -1\n", {"run.toml:2", "train.epochs = -1", "0 to"});
  expect_refusal("train = 5\n", {"run.toml:1", "[train]"});
  expect_refusal("[train]\nepochs=1\n[optimizer]\nlearning_rate = -0.1\n", {"run.toml:4", "0 to 1e+30"});
  expect_refusal("[train]\nepochs=1\n[optimizer]\nlearning_rate = nan\n", {"run.toml:4", "learning_rate"});
  expect_refusal("[train]\nepochs=1\n[optimizer]\nlearning_rate = inf\n", {"run.toml:4", "learning_rate"});
  expect_refusal("[train]\nepochs=1\n[optimizer]\nrule = 'adma'\n",
                 {"run.toml:4", "sgd, adam, adamw", "did you mean adam?"});
  expect_refusal("[train]\nepochs=1\n[schedule]\nmilestones = 3\n", {"run.toml:4", "array"});
  expect_refusal("[train]\nepochs=1\n[schedule]\nmilestones = [0.5, 2]\n", {"run.toml:4", "milestones = 2"});
  expect_refusal("[train]\nepochs=1\n[schedule]\nmilestones = [0.5, 0.25]\n", {"run.toml:4", "ascending"});
  expect_refusal("[train]\nepochs=1\n[[optimizer.group]]\nlearning_rate_scale = 2\n",
                 {"run.toml", "pattern"});
  expect_refusal("[train]\nepochs=1\n[optimizer]\ngroup = 4\n", {"run.toml:4", "[[optimizer.group]]"});
  expect_refusal("[train]\nepochs=1\nsteps = 99999999999\n", {"run.toml:3", "train.steps"});
}

TEST(Config, RefusesWhatDoesNotFitTogether) {
  expect_refusal(
      "[train]\nepochs=1\nbatch = 128\nmicrobatches = 3\n",
      {"run.toml:4", "train.batch = 128 is not divisible by train.microbatches = 3", "microbatches=1"});
  expect_refusal("[model]\nname='resnet8'\n", {"run.toml", "train.epochs or train.steps"});
  expect_refusal("[train]\nepochs=1\n", {"--preset lppm", "did you mean lpmm?"}, {"lppm", "", {}});
  expect_refusal("[train]\nepochs=1\n", {"--rounding up", "rn, sr, qr"}, {"", "up", {}});
  expect_refusal("[train]\nepochs=1\n[memory]\nparameter = 'int13:blok128'\n",
                 {"run.toml:4", "memory.parameter", "blok128"});
  expect_refusal("[train]\nepochs=1\n[memory]\nparameter = 'ude8'\n",
                 {"run.toml", "illegal policy for sgd: memory.parameter = \"ude8:block128:sr\""});
  expect_refusal(
      "[train]\nepochs=1\n[memory]\naccumulator = 'nothing'\n",
      {"run.toml:4", "memory.accumulator", "\"nothing\"", "int2 to int16", "\"momentum\" or \"none\""});
  expect_refusal("[train]\nepochs=1\n", {"--rounding ur", "memory.variance", "ur"}, {"", "ur", {}});
  expect_refusal("[train]\nepochs=1\n", {"--rounding ar", "sqrt08:block128:ar:sticky"}, {"", "ar", {}});
  expect_refusal("[train]\nepochs=1\n[memory]\nerror_feedback = true\n", {"run.toml", "optimizer.momentum"});
}

TEST(Config, RefusesSettingsOfAnotherRule) {
  const std::string run = "[train]\nepochs = 1\n[optimizer]\n";
  for (const auto& [rule, setting, more] :
       {std::tuple{"lion", "epsilon = 1e-8", "it is one of adam, adamw, "},
        {"lion", "update_clip = 1", "which has beta1, beta2;"},
        {"lamb", "alpha = 0.9", "it is one of rmsprop"},
        {"rmsprop", "nesterov = true", "which has alpha, "},
        {"adagrad", "beta1 = 0.9", "which has "},
        {"adamw", "beta3 = 0.9", "did you mean beta"},
        {"sgd", "epsilon = 1e-8", "which has decoupled_decay, momentum, "}}) {
    const std::string text = setting, key = "optimizer." + text.substr(0, text.find(' '));
    const std::string named = fmt::format("{} is no setting of {}, which has ", key, rule);
    expect_refusal(run + fmt::format("rule = '{}'\n{}\n", rule, setting), {"run.toml:5: " + named, more});
    // Typed beside the rule or under that of the file.
    const std::string typed = "optimizer." + text.substr(0, text.find(' ')) + text.substr(text.find('='));
    expect_refusal(run + fmt::format("rule = '{}'\n", rule), {"--set optimizer.", named, more},
                   {"", "", {typed}});
    expect_refusal(run, {"--set optimizer.", named, more},
                   {"", "", {fmt::format("optimizer.rule={}", rule), typed}});
  }
  expect_refusal(run + "beta1 = 0.9\n",
                 {"run.toml:4", "no setting of sgd (optimizer.rule is not set), which has"});
  EXPECT_EQ(setting(parse("[optimizer]\nrule='adamw'\nbeta1=0.8\n").optimizer, "beta1"), 0.8);
}

TEST(Config, ARateThatIsNotGivenIsTheRules) {
  const std::string adagrad = "[optimizer]\nrule = 'adagrad'\n";
  for (const auto& [text, options, rate] : std::vector<std::tuple<std::string, ConfigOptions, double>>{
           {"", {}, 1e-3},
           {adagrad, {}, 0.01},
           {adagrad, {"", "", {"optimizer.rule=lion"}}, 1e-4},
           {adagrad + "learning_rate = 0.5\n", {"", "", {"optimizer.rule=lion"}}, 0.5}}) {
    const RunConfig c = parse(text, options);
    EXPECT_EQ(c.optimizer.learning_rate, rate) << text;
    EXPECT_NE(to_toml(c).find(fmt::format("\nlearning_rate = {}\n", rate)), std::string::npos) << text;
  }
  RunConfig in_code;
  in_code.families = &families();
  in_code.optimizer.rule = "lion";
  EXPECT_NE(to_toml(in_code).find("\nlearning_rate = 0.0001\n"), std::string::npos);
}

TEST(Config, RefusesSpecsOfStatesThatTheRuleDoesNotKeep) {
  const std::string run = "[train]\nepochs = 1\n[optimizer]\nrule = '";
  const auto refuses = [&](const std::string& rule, const std::string& spec, const std::string& says) {
    expect_refusal(run + rule + "'\n[memory]\n" + spec, {"run.toml:6: memory.", says});
    expect_refusal(run + rule + "'\n[[memory.override]]\npattern = 'a'\n" + spec,
                   {"run.toml:7: memory.override.", says});
  };
  refuses("adamw", "slow_momentum = 'int8'\n",
          "slow_momentum is the spec of a state that adamw does not keep; it keeps momentum, variance");
  refuses("adagrad", "momentum = 'int8'\n", "adagrad does not keep; it keeps variance");
  refuses("sgd", "variance = 'sqrt08'\n", "sgd does not keep; it keeps momentum");
  refuses("adam_mini", "variance = 'fp32'\n", "adam_mini does not keep");
  // It may be that settings decide.
  refuses("sgd", "momentum = 'int8'\n",
          "sgd keeps only with optimizer.momentum: set that above 0, or leave ");
  refuses("rmsprop", "slow_momentum = 'int12'\n",
          "rmsprop keeps only with optimizer.centered: set that = true");
  EXPECT_NO_THROW(parse("[optimizer]\nmomentum = 0.9\n[memory]\nmomentum = 'int8'\n"));
  EXPECT_NO_THROW(
      parse("[optimizer]\nrule = 'rmsprop'\ncentered = true\n[memory]\nslow_momentum = 'int12'\n"));
  EXPECT_NO_THROW(parse("[optimizer]\nrule = 'adamw_factored'\n[memory]\nvariance = 'sqrt08'\n"));
  expect_refusal(run + "lion'\n", {"--set memory.variance=fp32", "lion does not keep"},
                 {"", "", {"memory.variance=fp32"}});
}

// Settings of the file's own rule are no error if the command line takes another rule.
TEST(Config, TheCommandLineMayChangeTheRuleOfAFile) {
  const std::string file =
      "[optimizer]\nrule = 'adamw'\nbeta2 = 0.99\n[memory]\npreset = 'lpmm'\nvariance = 'de08'\n"
      "[[memory.override]]\npattern = 'a'\nvariance = 'fp32'\n";
  const RunConfig c = parse(file, {"", "", {"optimizer.rule=sgd", "optimizer.momentum=0.9"}});
  EXPECT_EQ(c.optimizer.rule, RuleName("sgd"));
  EXPECT_EQ(to_toml(c).find("beta2"), std::string::npos);
  EXPECT_EQ(to_toml(c).find("\nvariance"), std::string::npos) << to_toml(c);
  EXPECT_TRUE(differences(c, parse_config(sealed_config(c), "config.toml", with_families())).empty());
  EXPECT_NO_THROW(parse("[optimizer]\nmomentum = 0.9\n[memory]\nmomentum = 'int8'\n",
                        {"", "", {"optimizer.momentum=0"}}));
  // This holds even if the file is wrong and the command line sets it right.
  EXPECT_NO_THROW(parse("[optimizer]\nrule = 'adma'\nbeta1 = 0.9\n", {"", "", {"optimizer.rule=adam"}}));
  // A setting of neither rule is refused.
  expect_refusal("train.steps = 1\n[optimizer]\nrule = 'adamw'\nbeta3 = 0.9\n",
                 {"run.toml:4", "optimizer.beta3 is no setting of sgd"}, {"", "", {"optimizer.rule=sgd"}});
  EXPECT_NO_THROW(parse("[optimizer]\nrule = 'adamw'\nbeta3 = 0.9\n", {"", "", {"optimizer.rule=ademamix"}}));
}

// Earlier programs wrote the specs of all roles into config.toml.
TEST(Config, WhatARunWroteIsTakenAsItIs) {
  const std::string text =
      "train.steps = 1\n[optimizer]\nrule = 'adamw'\n[memory]\npreset = 'lpmm'\nslow_momentum = 'int8'\n";
  expect_refusal(text, {"memory.slow_momentum"});
  EXPECT_NO_THROW(parse_config(sealed(text), "config.toml", with_families()));
  EXPECT_NO_THROW(
      parse_config(sealed(text), "config.toml", with_families({"", "", {"optimizer.rule=lion"}})));
  std::string edited = sealed(text);
  edited.replace(edited.find("int8"), 4, "int9");
  expect_refusal(edited, {"run.toml:6: memory.slow_momentum"});
  expect_refusal(sealed(text), {"--set memory.slow_momentum=int8"}, {"", "", {"memory.slow_momentum=int8"}});
}

// Programs before the seal wrote the settings and states of all rules, as the log beside the config shows.
TEST(Config, ARunFromBeforeTheSealIsRead) {
  const Scratch scratch;
  const std::string path = scratch / "config.toml";
  const std::string text =
      "train.steps = 1\n[optimizer]\nrule = 'adamw'\nlearning_rate = 0.01\ndecoupled_decay = false\nmomentum "
      "= 0\n"
      "[memory]\npreset = 'lpmm'\nslow_momentum = 'int8'\n"
      "override = [{ pattern = 'a', variance = 'fp32', slow_momentum = 'fp32' }]\n";
  write_text(path, text);
  EXPECT_THROW(load_config(path, with_families()), UsageError);  // no run is there
  write_text(scratch / "log.jsonl",
             Json{{"type", "config"}, {"toml", text}}.dump() + "\n{\"type\":\"system\"}\n");
  const RunConfig run = load_config(path, with_families());
  EXPECT_EQ(run.left_out,
            (std::vector<std::string>{"optimizer.decoupled_decay", "optimizer.momentum",
                                      "memory.slow_momentum", "memory.override.slow_momentum"}));
  EXPECT_EQ(to_toml(run).find("decoupled_decay"), std::string::npos);
  EXPECT_TRUE(check_run_folder(RunFolder(scratch.path()), run, true));  // goes on, and is to be sealed
  // A key that the run did not have is refused, and so is one that is typed.
  for (const auto& [key, more] :
       {std::pair("alpha", "[optimizer]\n"), std::pair("dampening", "[optimizer]\n")}) {
    std::string edited = text;
    write_text(path,
               edited.replace(edited.find(more), std::strlen(more), fmt::format("{}{} = 0.5\n", more, key)));
    EXPECT_THROW(load_config(path, with_families()), UsageError) << key;
  }
  write_text(path, text);
  EXPECT_THROW(load_config(path, with_families({"", "", {"optimizer.momentum=0.5"}})), UsageError);
  // A copy elsewhere is a new config.
  write_text(scratch / "copy.toml", text);
  EXPECT_THROW(load_config(scratch / "copy.toml", with_families()), UsageError);
  EXPECT_TRUE(parse("[optimizer]\nrule = 'adamw'\n").left_out.empty());
}

TEST(Config, NamesTheRuleWhereAPolicyIsNotForIt) {
  const std::string run = "[train]\nepochs = 1\n[memory]\n", sgdm = "[optimizer]\nmomentum = 0.9\n";
  expect_refusal(run + "error_feedback = true\n",
                 {"memory.error_feedback", "sgd has none", "set optimizer.momentum above 0"});
  expect_refusal(run + "error_feedback = true\n[optimizer]\nrule = 'lion'\n",
                 {"memory.error_feedback is not for lion", "set memory.error_feedback = false"});
  expect_refusal(run + "variance = 'int8'\n[optimizer]\nrule = 'adamw'\n",
                 {"illegal policy for adamw: memory.variance = \"int8:block128:sr\"", "sign"});
  expect_refusal(
      run + "accumulator = 'none'\n[optimizer]\nrule = 'lamb'\n",
      {"with lamb as soon as a gradient is known, but lamb needs whole gradients of tensors first. Either "
       "choose another optimizer.rule, or give memory.accumulator a spec"});
  expect_refusal(
      "train.steps = 1\ntrain.batch = 4\ntrain.microbatches = 4\n[memory]\naccumulator = 'none'\n",
      {"the gradients of 4 microbatches must be added up first. Either set train.microbatches = 1, or"});
  expect_refusal(run + "accumulator = 'none'\n[watch]\nevery = true\n",
                 {"watch.every = true measures every update before it is made, but with memory.accumulator = "
                  "\"none\" gradients are applied at once; set watch.every = false, or"});
  expect_refusal(run + sgdm + "nesterov = true\ndampening = 0.1\n",
                 {"optimizer.nesterov is on", "(optimizer.rule is sgd)"});
  expect_refusal(run + "[optimizer]\nrule='adam'\nbeta2 = 1\n",
                 {"optimizer.beta2 is 1, but must be ", " with adam"});
}

TEST(Config, RefusesBrokenFilesAndSettings) {
  expect_refusal("[train\nepochs=1\n", {"run.toml:1"});
  expect_refusal("[train]\nepochs=1\nepochs=2\n", {"run.toml:3"});
  for (const char* bad :
       {"train.epochs", "epochs=1", "=1", "train.epochs=", "train.epochs=[1", "tr ain.x=1", "a..b=1"}) {
    expect_refusal("[train]\nepochs=1\n", {std::string("--set ") + bad}, {"", "", {bad}});
  }
  EXPECT_THROW(load_config("/nowhere/a.toml", with_families()), UsageError);
  EXPECT_THROW(load_config("/tmp", with_families()), UsageError);
}

// A run writes a spec for each role, which a preset replaces.
TEST(Config, APresetAskedForReplacesTheSpecsOfTheFile) {
  const std::string written = to_toml(parse("[memory]\npreset = 'lpmm'\n"));
  const auto asked = [&](const ConfigOptions& options) {
    return to_toml(parse_config(written, "again.toml", with_families(options)));
  };
  const std::string nano = asked({"lpmm-nano", "", {}});
  EXPECT_NE(nano, written);
  EXPECT_EQ(asked({"", "", {"memory.preset=lpmm-nano"}}), nano);
  const std::vector<std::string> both = {"memory.parameter=int8:block128:sr", "memory.preset=lpmm-nano"};
  EXPECT_EQ(asked({"", "", both}), asked({"lpmm-nano", "", {both[0]}}));
}

TEST(Config, EpochsAskedForReplaceTheStepsOfTheFile) {
  const auto steps = [](const std::vector<std::string>& settings) {
    return parse("", {"", "", settings}).train.steps;
  };
  EXPECT_EQ(steps({}), 1);
  EXPECT_EQ(steps({"train.epochs=2"}), 0);
  EXPECT_EQ(steps({"train.epochs=2", "train.steps=7"}), 7);
  EXPECT_EQ(steps({"train.epochs=0", "train.steps=3"}), 3);
}

// A name that the command line gives decides what names decide, in a file that has every key too.
TEST(Config, ANameOfAModelReplacesTheSizesOfAFile) {
  const std::string file =
      to_toml(parse_config("[model]\nname = \"gpt\"\nlayers = 2\nheads = 2\nembedding = 8\ndropout = 0.25\n"
                           "[data]\nset = \"text\"\n[train]\nsteps = 1\n",
                           "file", with_families()));
  const auto model = [&](const std::vector<std::string>& settings) {
    return parse_config(file, "file", with_families({.settings = settings})).model;
  };
  EXPECT_EQ(model({}).integer("layers"), 2);
  EXPECT_EQ(model({"model.name=gpt2"}).integer("layers"), 12);
  EXPECT_EQ(model({"model.name=gpt2"}).integer("embedding"), 768);
  EXPECT_EQ(model({"model.name=gpt2"}).number("dropout"), 0.25);
  EXPECT_EQ(model({"model.name=gpt2", "model.layers=3"}).integer("layers"), 3);
  EXPECT_THROW(model({"model.name=smollm2-135m"}), UsageError);  // it has no model.dropout
}

TEST(Config, ShippedConfigsLoad) {
  int files = 0;
  for (const auto& item : std::filesystem::directory_iterator(LPMM_SOURCE_DIR "/experiments/configs")) {
    if (item.path().extension() != ".toml") continue;
    const RunConfig c = load_config(item.path().string(), with_families());
    EXPECT_TRUE(differences(c, parse_config(to_toml(c), "again", with_families())).empty()) << item.path();
    ++files;
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace lpmm
