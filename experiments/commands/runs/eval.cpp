// `lpmm eval`: the test set through a checkpoint.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "experiments/commands/shipped_configs.h"
#include "experiments/pack/packed_data.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/images.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/setup.h"
#include "models/families.h"

namespace lpmm {
namespace {

struct EvalArguments {
  std::string path, config, compute;
  DataRequest request;
  int threads = 0;
  bool average = false, json = false;
};

// Throws UsageError where a file of the same name holds other data by now, or from this folder.
void check_data(const Setup& setup, const std::string& checkpoint) {
  const RunConfig& config = setup.config;
  const Json now = setup.task->identity();
  if (checkpoint_run(checkpoint).value("text", now) == now) return;
  throw UsageError(
      fmt::format("{}: is not the {} that {} was trained on; where it is meant, name it with --data",
                  config.data.text.path.empty() ? config.data.set : config.data.text.path,
                  task_of(config.model).reads, checkpoint));
}

// Throws RunError where the run's data lies at a relative path that leads nowhere from here.
void check_path(const std::string& path) {
  if (std::filesystem::path(path).is_absolute() || path.empty() || !find_data(path).empty()) return;
  throw RunError(
      fmt::format("{}: is not there; a relative path is looked for in the current folder and in LPMM_DATA: "
                  "run this where the training ran, or give --data",
                  path));
}

int run_eval(const EvalArguments& o) {
  DataRequest request = o.request;
  request.checkpoint = find_checkpoint(o.path);
  const std::string& checkpoint = request.checkpoint;
  std::vector<std::string> settings = compute_settings(o.compute);
  settings.push_back(fmt::format("train.threads={}", o.threads));
  RunConfig config = load_config(o.config.empty() ? config_beside(checkpoint) : find_config(o.config),
                                 with_families({.settings = std::move(settings)}));
  const TaskRow& task = task_of(config.model);
  name_data(request, config);
  if (request.data.empty()) check_path(config.data.text.path);
  if (!request.columns.empty() && !task.takes("columns", config.data.set)) {
    throw UsageError(fmt::format("--columns is for tables, and data.set = {} is none", config.data.set));
  }
  config.optimizer.frozen = true;
  if (o.average) take_averages(config.policy, checkpoint);
  auto tokenizer = saved_tokenizer(checkpoint, config);
  if (task.tests_own_part && tokenizer == nullptr) throw no_tokenizer(checkpoint);
  Progress progress(o.json);
  pack_named_pictures(config, checkpoint, progress);
  Setup setup = open_data(config, std::move(tokenizer), progress.share_of("reading text"));
  take_from_model(setup, checkpoint, true);
  if (task.tests_own_part && request.data.empty() && o.config.empty()) check_data(setup, checkpoint);
  const EvalResult result =
      evaluate(setup, *make_model(setup.config), checkpoint, progress.share_of("evaluating"));
  if (!std::isfinite(result.loss)) {
    throw RunError(
        fmt::format("{}: its loss on the test set is no finite number: the run diverged; evaluate an "
                    "earlier checkpoint, or train with a lower optimizer.learning_rate",
                    checkpoint));
  }
  nlohmann::ordered_json answer;
  answer["checkpoint"] = result.checkpoint;
  answer[result.unit] = result.items;
  for (const auto& [name, value] : result.scores) answer[name] = value;
  for (const auto& [name, value] : result.losses) answer["losses"][name] = value;
  if (task.is_judged_by_loss) {
    answer["loss"] = result.loss;
    if (result.has_perplexity) answer["perplexity"] = std::exp(result.loss);
  } else if (setup.config.model.classes > 0) {
    answer["test_loss"] = result.loss;
  }
  if (result.has_accuracy) answer["test_accuracy"] = result.accuracy;
  print_answer(answer, o.json);
  return kDone;
}

}  // namespace

void add_eval_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<EvalArguments>();
  CLI::App* command = program.add_subcommand("eval", "Run the test set through a checkpoint");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command
      ->add_option("--config", o->config,
                   "config of the run (default: the config.toml beside the checkpoints)")
      ->type_name("TOML");
  command
      ->add_option(
          "--data", o->request.data,
          "in place of the run's: a text or a file of tokens; sentences in a table; "
          "images or pairs, as data.path has them (a folder of pictures is packed), or the name of a set of "
          "them")
      ->type_name("PATH");
  command
      ->add_option(
          "--task", o->request.task,
          "a set of sentences in place of the run's, of the same kind: sst2, cola, mrpc, rte, stsb, or "
          "sentences with --data; models that only embed compare pairs by their cosine")
      ->type_name("SET");
  command
      ->add_option("--columns", o->request.columns,
                   "the columns of --data that are read, as data.columns names them (default: the run's)")
      ->check(kNotEmpty);
  command->add_flag("--skip-broken", o->request.skips_broken,
                    "leave out rows that cannot be read, and count them");
  command->add_flag("--test", o->request.tests_last,
                    "sentences, pairs: the test file, not dev, where its answers are public");
  add_average_option(*command, o->average);
  add_compute_option(*command, o->compute);
  add_threads_option(*command, o->threads);
  command->add_flag(
      "--json", o->json,
      "print one JSON object: checkpoint, images, test_loss, test_accuracy; of text: tokens, loss, "
      "perplexity; of pairs of answers: pairs, accuracy, margin, loss; of sentences and pairs what the set "
      "is scored by");
  command->footer(R"(Examples:
  lpmm eval runs/r20
  lpmm eval runs/r20/checkpoints/step_00003900 --json
  lpmm eval runs/gpt --data other.txt
  lpmm eval runs/resnet50 --data photos.images
  lpmm eval runs/minilm --task stsb --test
  lpmm eval runs/translator --test)");
  on_selected(*command, action, o, run_eval);
}

}  // namespace lpmm
