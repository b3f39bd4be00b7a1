#include "lpmm/run/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/roles.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/run_progress.h"
#include "lpmm/version.h"

namespace lpmm {

void check_set(const ModelConfig& model, const std::string& set, const FamilyList& families) {
  const auto holds = [&](const TaskRow* task) { return std::ranges::count(task->sets(), set) > 0; };
  const TaskRow& own = task_of(model);
  if (holds(&own)) return;
  std::vector<std::string_view> others;
  std::string_view held = "something else";
  for (const Family& family : families.rows) {
    if (!holds(family.reads)) continue;
    held = family.reads->reads;
    others.push_back(family.name);
  }
  throw UsageError(fmt::format(
      "model.name = {} reads {}, but data.set = {} holds {}; take another data.set ({}), or "
      "a model that reads {}: {}",
      model.name, own.reads, set, held, fmt::join(own.sets(), ", "), held, fmt::join(others, ", ")));
}

namespace {

// Keys that programs of old let any run have: only a run that begins is asked.
constexpr std::string_view kKeysOfOld[] = {"augment", "blocks", "columns", "side", "words"};

// Refuses keys that would do nothing, as only the rows of other sets have them.
void check_keys(const RunConfig& config, bool begins) {
  constexpr std::string_view kSection = "data.";
  RunConfig usual = config;
  usual.data = {};
  for (const ConfigDifference& said : differences(config, usual)) {
    if (!said.key.starts_with(kSection)) continue;
    const std::string_view key = std::string_view(said.key).substr(kSection.size());
    if (!begins && std::ranges::count(kKeysOfOld, key) > 0) continue;
    std::vector<std::string_view> sets;
    for (const TaskRow* task : config.families->tasks()) {
      for (const std::string_view set : task->sets()) {
        if (task->takes(key, set)) sets.push_back(set);
      }
    }
    if (sets.empty() || std::ranges::count(sets, config.data.set) > 0) continue;
    throw UsageError(fmt::format("{} is for data.set = {}, which is {} here", said.key,
                                 fmt::join(sets, " or "), config.data.set));
  }
}

// Completes the model as far as is possible without the data; throws if the model cannot read the set.
RunConfig without_data(RunConfig config, bool begins = false) {
  const TaskRow& row = task_of(config.model);
  check_set(config.model, config.data.set, *config.families);
  check_keys(config, begins);
  if (!config.data.text.mixture.empty() && !config.data.text.path.empty()) {
    throw UsageError("data.mixture names the files to train on in place of data.path: give one of the two");
  }
  if (row.choose_set != nullptr) row.choose_set(config);
  if (!row.has_tokens) return config;
  config.model = complete(config.model);
  const int context = config.model.integer(kContext);
  if (context < 1) {
    throw UsageError(
        fmt::format("model.context = {}: a {} has at least one position", context, config.model.name));
  }
  if (config.data.text.length == 0) config.data.text.length = context;
  config.model.length = config.data.text.length;
  return config;
}

// The tokenizer of the checkpoint that the parameters come from; null where the configuration decides.
std::unique_ptr<Tokenizer> initial_tokenizer(RunConfig& config) {
  if (config.train.init.empty()) return nullptr;
  const std::string checkpoint = find_checkpoint(config.train.init);
  take_tokenizer_files(config, checkpoint);
  return saved_tokenizer(checkpoint, config);
}

// `setup` has its task.
void fit(Setup& setup) {
  setup.task->fit(setup.config.model);
  setup.size = setup.task->size();
  setup.class_names = setup.task->class_names();
}

}  // namespace

Setup open_data(const RunConfig& given, std::unique_ptr<Tokenizer> own, const ProgressCall& progress) {
  Setup setup{.config = without_data(given, own == nullptr)};
  const TaskRow& row = task_of(setup.config.model);
  const PathSet* other = row.other(setup.config.data.set);
  const std::shared_ptr<Task> task = (other == nullptr ? row.make : other->make)(setup.config);
  setup.task = task;
  const std::int64_t before = heap_bytes();
  if (own == nullptr && row.has_tokens) own = initial_tokenizer(setup.config);
  task->open(setup.config, std::move(own), progress);
  fit(setup);
  if (!row.has_tokens) return setup;
  return_freed_memory();
  setup.size.bytes = std::max(setup.size.bytes, heap_bytes() - before);  // with the tokenizer
  return setup;
}

Setup open_data(const RunConfig& given, const Setup& other) {
  Setup setup{.config = without_data(given)};
  const auto &data = setup.config.data, &known = other.config.data;
  const bool is_same = data.set == known.set && data.text == known.text && data.cosine == known.cosine &&
                       data.test_file == known.test_file && data.conversations == known.conversations &&
                       data.preferences == known.preferences && data.source == known.source &&
                       data.target == known.target && given.train.init == other.config.train.init;
  const auto has_several = [](const ModelConfig& m) { return m.has(kMultiLabel) && m.flag(kMultiLabel); };
  const bool labels_agree = !has_several(setup.config.model) || has_several(other.config.model);
  // Ends of pairs that are said lie in the data.
  const auto agrees = [&](std::string_view key) {
    const int said = setup.config.model.integer(key);
    return said < 0 || said == other.config.model.integer(key);
  };
  const bool ends_agree = !task_of(setup.config.model).translates || (agrees(kStart) && agrees(kEnd));
  if (!is_same || !labels_agree || !ends_agree || other.task->tokenizer() == nullptr)
    return open_data(given);  // images are not read yet
  setup.task = other.task;
  fit(setup);
  setup.size.bytes = other.size.bytes;  // with the tokenizer
  return setup;
}

bool take_from_run(RunConfig& config, const RunConfig& run) {
  if (!config.train.init.empty()) return false;
  if (config.data.set == kAutoSet) config.data.set = run.data.set;
  config = without_data(config);
  if (config.model.name != run.model.name) return true;  // another run, as a comparison will say
  for (const std::string_view key : {kMultiLabel, kOfWords}) {
    if (run.model.has(key) && run.model.flag(key)) config.model.set(key, true);
  }
  for (const auto& [key, open] : {std::pair{kVocabulary, 0}, {kStart, -1}, {kEnd, -1}}) {
    for (const auto& [own, value] : run.model.settings) {
      if (own == key && config.model.integer(key) == open) config.model.set(key, value);
    }
  }
  return true;
}

std::unique_ptr<Model> make_model(const RunConfig& config) {
  const auto& overrides = config.policy.overrides;
  const bool keeps_some = std::any_of(overrides.begin(), overrides.end(), [](const PolicyOverride& o) {
    return o.specs[Role::kAccumulator].has_value();
  });
  return make_model(config.model, config.policy.apply_at_once && !keeps_some);
}

std::int64_t steps_of(const Setup& setup) {
  const auto& train = setup.config.train;
  return train.steps > 0
             ? train.steps
             : train.epochs * steps_in(setup.size.train_examples, train.batch, setup.config.data.keeps_last);
}

void make_init_absolute(RunConfig& config) {
  std::string& init = config.train.init;
  if (!init.empty()) init = std::filesystem::absolute(init).lexically_normal().string();
}

std::string config_of_run(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  const fs::path own =
      fs::absolute(checkpoint).lexically_normal().parent_path().parent_path() / "config.toml";
  std::error_code error;
  return fs::exists(own, error) ? own.string() : "";
}

void take_tokenizer_files(RunConfig& config, const std::string& checkpoint) {
  const std::string own = config_of_run(checkpoint);
  if (names_tokenizer_files(config.data.text) || own.empty()) return;
  const TextOptions text = load_config(own, {.families = config.families}).data.text;
  if (names_tokenizer_files(text)) config.data.text.tokenizer = text.tokenizer;
}

int batch_for(std::int64_t examples) {
  return static_cast<int>(
      std::bit_floor(std::max(std::uint64_t{1}, static_cast<std::uint64_t>(examples) / 2)));
}

void check_trained(const Setup& setup, const Model& model) {
  const RunConfig& config = setup.config;
  if (config.model.classes == 0) {
    throw UsageError(
        fmt::format("this model only embeds {}, which is not trained: data.set names what to tell of them, "
                    "without data.cosine",
                    task_of(config.model).reads));
  }
  if (tracks_best(config) && (setup.size.test_examples == 0 || config.train.eval_every_epochs == 0)) {
    throw UsageError(
        "checkpoint.keep_best and train.patience go by the loss of tests during the run: they need "
        "train.eval_every_epochs of 1 or more, and data to test on");
  }
  const std::int64_t examples = setup.size.train_examples, steps = steps_of(setup);
  if (examples == 0) {
    const double share = config.data.text.validation_share, usual = TextOptions().validation_share;
    const bool may_be_smaller = share > usual && setup.size.test_examples > 1;
    throw UsageError(fmt::format(
        "of {} nothing is left to train on: data.validation_share = {} keeps all of it for tests; {}",
        config.data.set, share,
        may_be_smaller ? fmt::format("a smaller one: --set data.validation_share={}", usual)
                       : "give more of it, or other data to test on (data.test_path)"));
  }
  if (examples < config.train.batch && !config.data.keeps_last) {
    const int batch = batch_for(examples), pieces = config.train.microbatches;
    throw UsageError(fmt::format(
        "train.batch = {} is more than the {} training examples of {}; a smaller one: --set train.batch={}{}",
        config.train.batch, examples, config.data.set, batch,
        batch % pieces == 0 ? "" : fmt::format(" --set train.microbatches={}", std::gcd(batch, pieces))));
  }
  const bool is_frozen = config.model.has("frozen_statistics") && config.model.flag("frozen_statistics");
  if (config.data.keeps_last && examples % config.train.batch != 0 && !model.buffers().empty() &&
      !is_frozen) {
    throw UsageError(
        fmt::format("data.last_batch = keep: {} normalizes by the statistics of each batch, and the last one "
                    "of an epoch is filled up: leave it out (drop), or where the model has "
                    "model.frozen_statistics set that",
                    config.model.name));
  }
  if (config.policy.average > 0 && !model.buffers().empty() && !is_frozen) {
    throw UsageError(
        fmt::format("train.average: {} normalizes by statistics of its batches, which are those of the last "
                    "weights and no others: set train.average = 0, or where the model has "
                    "model.frozen_statistics set that",
                    config.model.name));
  }
  if (steps >= std::int64_t{1} << 32) {
    throw UsageError(fmt::format("{} steps are too many; the most are 2^32 - 1", steps));
  }
}

void check_ranks(const RunConfig& config, int ranks) {
  if (config.train.microbatches % ranks != 0) {
    throw UsageError(fmt::format(
        "{0} ranks need train.microbatches = {0} or a multiple (it is {1}): a rank computes whole "
        "microbatches",
        ranks, config.train.microbatches));
  }
  check_slots(config.policy, config.train.microbatches, {config.slots(), ranks, 0, config.ranks.stage});
}

void check_agreement(const Setup& setup, Ranks& ranks) {
  const auto others = [&](const std::string& own) { return ranks.gather(own)[0]; };
  if (const std::string version = others(LPMM_VERSION); version != LPMM_VERSION) {
    throw UsageError(fmt::format("is lpmm {}, the first rank {}: use one program", LPMM_VERSION, version));
  }
  const std::string first = others(to_toml(setup.config));
  const RunConfig config =
      parse_config(first, "the config of the first rank", {.families = setup.config.families});
  for (const ConfigDifference& d : differences(config, setup.config)) {
    if (d.key == "train.threads") continue;
    throw UsageError(fmt::format("has another configuration than the first rank: {} is {} here and {} there",
                                 d.key, d.second.empty() ? "not set" : d.second,
                                 d.first.empty() ? "not set" : d.first));
  }
  const std::string data = fmt::format("{} to train on, {} to test on, {}", setup.size.train_examples,
                                       setup.size.test_examples, setup.task->identity().dump());
  if (const std::string there = others(data); there != data) {
    throw UsageError(fmt::format("has other data than the first rank: {} here, {} there", data, there));
  }
}

int threads_of(const RunConfig& config, int ranks) {
  const int all = config.train.threads;
  return ranks == 1 ? all : std::max(1, (all == 0 ? Pool::usable_processors() : all) / ranks);
}

std::unique_ptr<Tokenizer> saved_tokenizer(const std::string& checkpoint, const RunConfig& config) {
  const auto saved = checkpoint_run(checkpoint);
  const auto found = saved.find("tokenizer");
  if (found == saved.end()) return nullptr;
  try {
    auto tokenizer = make_tokenizer(*found, saved_tokenizer_files(checkpoint, config));
    const int rows = complete(config.model).integer(kVocabulary);
    if (rows > 0) tokenizer->fit(rows);
    return tokenizer;
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{} (the tokenizer of {}/state.json)", error_text(e), checkpoint));
  }
}

}  // namespace lpmm
