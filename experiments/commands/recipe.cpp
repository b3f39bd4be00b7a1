#include "experiments/commands/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "experiments/commands/shipped_configs.h"
#include "experiments/pack/formats.h"
#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/table.h"
#include "lpmm/files/toml_table.h"
#include "lpmm/program/family.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"

namespace lpmm {
namespace {

// Returns the last value that the command line gives a key; nothing if it gives none.
std::optional<std::string> set_to(const ConfigArguments& config, std::string_view key) {
  std::optional<std::string> value;
  for (const std::string& setting : config.options.settings) {
    if (setting.starts_with(key) && setting.substr(key.size()).starts_with('='))
      value = setting.substr(key.size() + 1);
  }
  return value;
}

// Refuses a recipe without --init: the standard model, which it gets then, reads other data.
void check_named_model(const RunConfig& loaded, const ConfigArguments& config) {
  if (loaded.model.name != families().standard || set_to(config, "model.name") ||
      std::ranges::count(task_of(loaded.model).sets(), loaded.data.set) > 0 ||
      TomlTable::load(find_config(config.path)).table("model").has("name"))
    return;
  throw UsageError(fmt::format(
      "{}: names no model, and takes that of a run: add --init RUN (`lpmm import MODEL --out RUN` "
      "makes a run of a published model)",
      config.path));
}

// Returns the recipe for the data where they are not the kind's own set; empty: they are.
std::string_view other_recipe(const TaskRow& task, const ConfigArguments& config) {
  if (task.also_by_path.empty()) return "";
  if (const auto set = set_to(config, "data.set")) {
    const PathSet* other = task.other(*set);
    return other == nullptr ? "" : other->recipe;
  }
  // A .CSV is refused with a word, rather than read as plain text.
  return is_table(lower_case(set_to(config, "data.path").value_or(""))) ? task.also_by_path[0]->recipe : "";
}

// The family that is trained: that of the start, or one that starts from it where the data is for that.
const Family& trained_family(const RunConfig& start, const ConfigArguments& config) {
  const auto holds = [](const Family& family, const std::string& set) {
    return std::ranges::count(family.reads->sets(), set) > 0;
  };
  const auto set = set_to(config, "data.set");
  if (!set || holds(*start.model.family, *set) || set_to(config, "model.name")) return *start.model.family;
  bool is_known = false;
  for (const Family& family : families().rows) {
    if (!holds(family, *set)) continue;
    if (family.starts_from == start.model.family->name) return family;
    is_known = true;
  }
  if (is_known) check_set(start.model, *set, families());  // before the recipe's keys, which are for others
  return *start.model.family;
}

// Returns true if a head is to be drawn on an encoder that came without the pooler that transformers puts in
// front of such heads.
bool lacks_pooler(const RunConfig& start, const std::string& init) {
  const auto is = [&](std::string_view key) { return start.model.has(key) && start.model.flag(key); };
  if (!start.model.has("pooler") || is("pooler") || is("dense_head") || is("distilled")) return false;
  return stored_classes(StoredWeights(find_checkpoint(init)), start.model) == 0;
}

// Names the recipe for such models, and sets what the model's own configuration says of its data; returns
// what is trained on.
const TaskRow& choose_recipe(const RunConfig& start, const std::string& init, ConfigArguments& config) {
  const Family& family = trained_family(start, config);
  const TaskRow& task = *family.reads;
  if (!set_to(config, "data.path") && !set_to(config, "data.set")) {
    throw UsageError(
        fmt::format("say what to train on: --set data.path=PATH; a {} reads {} (`lpmm config data.path`)",
                    start.model.name, task.reads));
  }
  const std::string_view of_rows = other_recipe(task, config);
  config.path = of_rows.empty() ? fmt::format("tune_{}", task.by_path) : std::string(of_rows);
  const auto set = [&](std::string_view key, const std::string& value) {
    if (!set_to(config, key)) config.options.settings.push_back(fmt::format("{}={}", key, value));
  };
  if (task.has_tokens) {
    const int usual = of_rows.empty() ? 512 : 1024, length = start.data.text.length,
              context = start.model.integer(kContext);
    set("data.length", fmt::format("{}", std::min(usual, length > 0 ? length : context)));
  }
  // Models that go on with a text see each part of it a few times only.
  const bool has_dropout =
      std::ranges::any_of(family.settings, [](const ModelSetting& s) { return s.key == "dropout"; });
  if (has_dropout && !task.continues) set("model.dropout", "0.1");
  if (lacks_pooler(start, init)) set("model.pooler", "true");
  if (&family != start.model.family) set("model.name", std::string(family.name));
  if (task.translates) {
    set("data.source", start.data.source);
    set("data.target", start.data.target);
  }
  return task;
}

}  // namespace

void add_start_arguments(CLI::App& command, StartArguments& arguments) {
  add_config_arguments(command, arguments.config);
  command.get_option("CONFIG")->required(false);
  command
      .add_option("--init", arguments.init,
                  "start from the parameters of this run or checkpoint, as train.init (fine-tuning). Where "
                  "CONFIG names no model or another one of that family, the run has this one's sizes; "
                  "without CONFIG a recipe for such models decides the rest")
      ->type_name("CHECKPOINT");
}

RunConfig load_config(const StartArguments& arguments, const std::string& own, bool quiet) {
  ConfigArguments config = arguments.config;
  const std::string& init = arguments.init;
  if (config.path.empty()) config.path = own;
  if (init.empty()) {
    if (!config.path.empty()) {
      RunConfig loaded = config.load();
      check_named_model(loaded, config);
      return loaded;
    }
    throw UsageError("name a CONFIG (`lpmm help train`), or by --init a model to start from");
  }
  const std::string of_start = own.empty() ? config_of_run(find_checkpoint(init)) : own;
  if (config.path.empty() && of_start.empty()) {
    throw UsageError(fmt::format(
        "{}: has no config.toml beside its checkpoints that says what it is; name a CONFIG", init));
  }
  RunConfig start;
  if (!of_start.empty()) start = load_config(of_start, with_families({}));
  if (config.path.empty()) {
    const TaskRow& task = choose_recipe(start, init, config);
    if (!quiet) {
      tell(fmt::format("no CONFIG: the recipe {} for {}, with the model of {}\n", config.path, task.reads,
                       printable(init)));
    }
  }
  RunConfig loaded = config.load(of_start.empty() ? nullptr : &start.model);
  loaded.train.init = init;
  return loaded;
}

void fit_batch(const StartArguments& arguments, Setup& setup, bool quiet) {
  const ConfigArguments& given = arguments.config;
  RunConfig& config = setup.config;
  const std::int64_t examples = setup.size.train_examples;
  if (!given.path.empty() || set_to(given, "train.batch") || set_to(given, "train.microbatches")) return;
  if (examples == 0 || examples >= config.train.batch || config.data.keeps_last) return;
  const int before = config.train.microbatches;
  config.train.batch = batch_for(examples);
  config.train.microbatches = std::gcd(config.train.batch, before);
  if (quiet) return;
  const std::string fewer = config.train.microbatches == before
                                ? ""
                                : fmt::format(", train.microbatches = {}", config.train.microbatches);
  tell(fmt::format("the recipe takes train.batch = {}{} for {} training examples\n", config.train.batch,
                   fewer, examples));
}

}  // namespace lpmm
