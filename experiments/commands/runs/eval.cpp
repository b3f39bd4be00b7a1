// `lpmm eval`: the test set through a checkpoint.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "experiments/commands/shipped_configs.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/data/pairs/pair_sets.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/run_progress.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {
namespace {

struct EvalArguments {
  std::string path, config, data, task;
  bool test = false;
  int threads = 0;
  bool json = false;
};

// A set by its name, or one that lies at a path.
void name_images(const std::string& given, RunConfig& config) {
  const auto& named = named_image_sets();
  const bool has_name =
      given == kDrawnSet || std::ranges::any_of(named, [&](const NamedImages& s) { return s.name == given; });
  config.data.set = has_name ? given : kImagesByPath;
  config.data.text.path = has_name ? "" : given;
}

// A set by its name, or a folder.
void name_pairs(const std::string& given, RunConfig& config) {
  const bool has_name = given != kPairsByPath && is_pair_set(given);
  config.data.set = has_name ? given : kPairsByPath;
  config.data.text.path = has_name ? "" : given;
}

// In place of the run's own data.
void name_data(const EvalArguments& o, const std::string& checkpoint, RunConfig& config) {
  const bool is_sentences = reads_sentences(config.model);
  const auto refuse = [&](const char* option) {
    return UsageError(fmt::format("{} is for models of sentences; {} reads {}", option, config.model.name,
                                  what_is_read(config.model)));
  };
  if (!o.data.empty() && o.task.empty()) {
    if (is_sentences) throw UsageError("--data beside models of sentences names where those of --task lie");
    if (reads_tokens(config.model)) {
      config.data.text.path = o.data;
      config.data.text.validation_share = 1;
    } else if (reads_pairs(config.model)) {
      name_pairs(o.data, config);
    } else {
      name_images(o.data, config);
    }
  }
  if (o.test && !is_sentences && !reads_pairs(config.model)) throw refuse("--test");
  if (o.test) config.data.test_file = kTestFile;
  if (o.task.empty()) return;
  if (!is_sentences) throw refuse("--task");
  if (!is_sentence_set(o.task)) load_sentences(o.task, "", kDevelopmentFile);  // says which there are
  config.data.cosine = stored_classes(StoredWeights(checkpoint), config.model) == 0;
  config.data.set = o.task;
  config.data.text.path = o.data;
}

// Throws UsageError where a file of the same name is another text by now, or from this folder.
void check_text(const Setup& setup, const std::string& checkpoint) {
  if (setup.text == nullptr) return;
  const Json now = data_json(setup);
  if (checkpoint_run(checkpoint).value("text", now) == now) return;
  throw UsageError(
      fmt::format("{}: is not the text that {} was trained on; where it is meant, name it with --data",
                  setup.text->name(), checkpoint));
}

int run_eval(const EvalArguments& o) {
  const std::string checkpoint = find_checkpoint(o.path);
  ConfigOptions options;
  options.settings = {fmt::format("train.threads={}", o.threads)};
  RunConfig config =
      load_config(o.config.empty() ? config_beside(checkpoint) : find_config(o.config), options);
  name_data(o, checkpoint, config);
  config.optimizer.frozen = true;
  auto tokenizer = saved_tokenizer(checkpoint, config);
  if (reads_tokens(config.model) && tokenizer == nullptr) throw no_tokenizer(checkpoint);
  Setup setup = open_data(config, std::move(tokenizer), o.json);
  take_from_model(setup, checkpoint);
  if (o.data.empty() && o.config.empty()) check_text(setup, checkpoint);
  Progress progress(o.json);
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
  if (!result.scores.empty()) {
    if (setup.config.model.classes > 0) answer["test_loss"] = result.loss;
    if (setup.pairs != nullptr) answer["test_accuracy"] = result.accuracy;  // of tokens
    print_answer(answer, o.json);
    return kDone;
  }
  if (reads_tokens(config.model)) {
    answer["loss"] = result.loss;
    answer["perplexity"] = std::exp(result.loss);
  } else {
    answer["test_loss"] = result.loss;
  }
  answer["test_accuracy"] = result.accuracy;
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
          "--data", o->data,
          "in place of the run's: a text or a file of tokens; images or pairs, as data.path has them, or the "
          "name of a set of them")
      ->type_name("PATH");
  command
      ->add_option(
          "--task", o->task,
          "a set of sentences in place of the run's, of the same kind: sst2, cola, mrpc, rte, stsb, or "
          "sentences with --data; models that only embed compare pairs by their cosine")
      ->type_name("SET");
  command->add_flag("--test", o->test,
                    "sentences, pairs: the test file, not dev, where its answers are public");
  add_threads_option(*command, o->threads);
  command->add_flag(
      "--json", o->json,
      "print one JSON object: checkpoint, images, test_loss, test_accuracy; of text: tokens, loss, "
      "perplexity; of sentences and pairs what the set is scored by");
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
