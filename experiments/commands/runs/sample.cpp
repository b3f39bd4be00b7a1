// `lpmm sample`, `lpmm logits` and `lpmm import`: language models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/text_data.h"
#include "lpmm/files/files.h"
#include "lpmm/program/sampling.h"
#include "lpmm/run/checkpoint.h"
#include "models/hugging_face.h"
#include "models/models.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

// ---- sample ----------------------------------------------------------------------------------------------
struct SampleArguments {
  std::string path, prompt = "\n";
  std::int64_t tokens = 200;
  SamplingOptions sampling;
  int threads = 0;
  bool json = false;
};

int run_sample(const SampleArguments& o) {
  if (std::isnan(o.sampling.temperature) || std::isnan(o.sampling.top_p)) {
    throw UsageError("--temperature and --top-p are numbers, not nan");
  }
  LoadedModel loaded(o.path, o.threads);
  const Tokenizer& tokenizer = loaded.tokenizer();
  std::vector<std::int32_t> ids = tokenizer.encode(o.prompt);
  if (ids.empty()) throw UsageError("--prompt is empty; a text begins with something");
  const std::int64_t context = loaded.memory.info(loaded.memory.find("wpe.weight")).shape[0];
  Utf8Stream text;
  std::string written;
  const auto show = [&](const std::string& piece) {
    written += piece;
    if (o.json) return;
    fmt::print("{}", piece);
    std::fflush(stdout);
  };
  if (!o.json) show(o.prompt);
  Inference state;
  std::span<const std::int32_t> next(ids);
  for (std::int64_t i = 0; i < o.tokens; ++i) {
    if (state.position + static_cast<std::int64_t>(next.size()) > context) {
      // The context is full: go on from its second half.
      state = {};
      next = std::span<const std::int32_t>(ids).last(
          static_cast<std::size_t>(std::max<std::int64_t>(1, context / 2)));
    }
    loaded.infer(next, state);
    // A vocabulary may have been padded: only tokens that mean something are drawn.
    const std::size_t known = std::min(state.logits.size(), static_cast<std::size_t>(tokenizer.vocabulary()));
    ids.push_back(sample_token(std::span<const float>(state.logits).first(known), o.sampling,
                               static_cast<std::int64_t>(ids.size())));
    next = std::span<const std::int32_t>(ids).last(1);
    if (next[0] == tokenizer.end_of_text()) break;
    show(text.push(tokenizer.decode(next)));
  }
  show(text.finish());
  if (o.json) {
    print_answer({{"checkpoint", loaded.checkpoint}, {"prompt", o.prompt}, {"text", written}, {"ids", ids}},
                 true);
  } else {
    fmt::print("\n");
  }
  return 0;
}

// ---- logits ----------------------------------------------------------------------------------------------
struct LogitsArguments {
  std::string path;
  std::vector<std::int32_t> ids;
  int threads = 0;
  bool json = false;
};

int run_logits(const LogitsArguments& o) {
  LoadedModel loaded(o.path, o.threads);
  Inference state;
  state.all = true;
  loaded.infer(o.ids, state);
  const std::size_t vocabulary = state.logits.size() / o.ids.size();
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < o.ids.size(); ++i) {
    const float* row = state.logits.data() + i * vocabulary;
    if (o.json) {
      rows.push_back(std::vector<float>(row, row + vocabulary));
      continue;
    }
    const auto best = static_cast<std::size_t>(std::max_element(row, row + vocabulary) - row);
    fmt::print("position {:>4}  token {:>6}  most likely next {:>6}  logit {:.4f}\n", i, o.ids[i], best,
               row[best]);
  }
  if (o.json) print_answer({{"checkpoint", loaded.checkpoint}, {"ids", o.ids}, {"logits", rows}}, true);
  return 0;
}

// ---- import ----------------------------------------------------------------------------------------------
struct ImportArguments {
  std::string path, output, preset = "lpmm", folder;
  int threads = 0;
  bool json = false;
};

int run_import(const ImportArguments& o) {
  RunConfig config;
  config.model = hugging_face_model(o.path);
  config.policy = make_policy(o.preset);
  config.data.set = "text";
  config.data.text.tokenizer = "gpt2";
  config.data.text.folder = o.folder;
  config.data.text.length = config.model.context;
  config.train.steps = 1;  // a config has some
  config.train.batch = 1;
  const auto model = make_model(config.model);
  const std::filesystem::path out(o.output), saved = out / "config.toml";
  if (std::filesystem::exists(saved)) {
    throw UsageError(fmt::format("{}: holds a run already; name another folder (--out)", o.output));
  }
  Pool pool(o.threads);
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, config.train.seed, 1, pool);
  import_hugging_face(o.path, memory);
  ordered_json state = {{"source", o.path}};
  const std::string folder = gpt2_folder(config.data.text);
  const bool has_tokenizer = std::filesystem::exists(std::filesystem::path(folder) / "encoder.json");
  if (has_tokenizer) {
    const auto tokenizer = load_gpt2_tokenizer(folder);
    if (tokenizer->vocabulary() > config.model.vocabulary) {
      throw UsageError(
          fmt::format("{}: has {} tokens, the model of {} only {}; name the model's own (--vocab)", folder,
                      tokenizer->vocabulary(), o.path, config.model.vocabulary));
    }
    state["tokenizer"] = tokenizer->describe();
  } else {
    tell(fmt::format("no tokenizer in {}: text cannot be sampled from this import (see --vocab)\n", folder));
  }
  make_folder((out / "checkpoints").string());
  const std::string checkpoint = save_checkpoint((out / "checkpoints").string(), 0, config.model.name, memory,
                                                 Buffers(model->buffers()), state, 0);
  write_text(saved.string(), to_toml(config));
  print_answer({{"checkpoint", checkpoint},
                {"parameters", memory.ledger().parameters},
                {"layers", config.model.layers},
                {"heads", config.model.heads},
                {"embedding", config.model.embedding},
                {"context", config.model.context},
                {"vocabulary", config.model.vocabulary},
                {"preset", o.preset},
                {"tokenizer", has_tokenizer ? ordered_json("gpt2") : ordered_json()}},
               o.json);
  return 0;
}

}  // namespace

void add_sample_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<SampleArguments>();
  CLI::App* command = program.add_subcommand("sample", "Let a language model go on with a text");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--prompt", o->prompt, "how the text begins (default: a line break)");
  command->add_option("--tokens", o->tokens, "to write")
      ->check(CLI::Range(1, 100000000).description(""))
      ->capture_default_str();
  command
      ->add_option("--temperature", o->sampling.temperature, "below 1 bolder in its choice, 0: the likeliest")
      ->check(CLI::Range(0.0, 1e6).description(""))
      ->capture_default_str();
  command->add_option("--top-k", o->sampling.top_k, "choose among the k likeliest; 0: all")
      ->check(CLI::Range(0, 1 << 24).description(""))
      ->capture_default_str();
  command->add_option("--top-p", o->sampling.top_p, "choose among the likeliest of this probability together")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->capture_default_str();
  command->add_option("--seed", o->sampling.seed, "of the draws")->check(kUnsigned)->capture_default_str();
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object at the end: checkpoint, prompt, text, ids");
  command->footer(R"(The text appears as it is written. The same seed gives the same text.
Example:
  lpmm sample runs/gpt --prompt "ROMEO:" --tokens 500 --temperature 0.8 --top-k 40)");
  on_selected(*command, action, o, run_sample);
}

void add_logits_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<LogitsArguments>();
  CLI::App* command = program.add_subcommand("logits", "A language model's logits after each of some tokens");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--ids", o->ids, "token ids, separated by commas")->required()->delimiter(',');
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object: ids, logits (ids, vocabulary)");
  command->footer(R"(Example:
  lpmm logits runs/gpt --ids 1,2,3 --json)");
  on_selected(*command, action, o, run_logits);
}

void add_import_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ImportArguments>();
  CLI::App* command = program.add_subcommand("import", "Take over a GPT-2 in Hugging Face's layout");
  command->add_option("PATH", o->path, "model.safetensors, or the folder that holds it and config.json")
      ->required();
  command->add_option("--out", o->output, "folder of a run to make; its checkpoint has no optimizer state")
      ->required()
      ->type_name("DIR");
  command->add_option("--preset", o->preset, "memory policy of the parameters")->capture_default_str();
  command->add_option("--vocab", o->folder,
                      "folder of gpt2's encoder.json and vocab.bpe (default: gpt2-bpe in the data folder)");
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(R"(Examples:
  lpmm import gpt2/ --out runs/gpt2
  lpmm sample runs/gpt2 --prompt "The meaning of life is"
  lpmm train experiments/configs/gpt2_124m.toml --init runs/gpt2 --out runs/tuned)");
  on_selected(*command, action, o, run_import);
}

}  // namespace lpmm
