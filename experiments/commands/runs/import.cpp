// `lpmm import`: a GPT-2 in Hugging Face's layout becomes a run.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/text_data.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/run_folder.h"
#include "models/hugging_face.h"
#include "models/models.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSource = "source";  // in the state of a checkpoint that was imported

struct ImportArguments {
  std::string path, output, preset = "lpmm", folder;
  int threads = 0;
  bool json = false;
};

// What an import left that was killed: temporary files, or a checkpoint without its config.
void remove_half_import(const RunFolder& out) {
  namespace fs = std::filesystem;
  std::error_code error;
  remove_leftovers(out.root.string());
  if (fs::exists(out.config, error) || fs::exists(out.log, error)) return;
  const std::string checkpoint = newest_checkpoint(out.checkpoints.string(), true);
  if (fs::path(checkpoint).filename() != checkpoint_name(0)) return;
  if (checkpoint_run(checkpoint).contains(kSource)) fs::remove_all(checkpoint, error);
}

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
  const RunFolder out(o.output);
  remove_half_import(out);
  check_run_folder(out, config, false);
  const MadeFolder made(out.checkpoints);  // removed again where nothing comes into it
  Pool pool(o.threads);
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, config.train.seed, 1, pool);
  import_hugging_face(o.path, memory);
  ordered_json state = {{kSource, o.path}};
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
  const std::string checkpoint = save_checkpoint(out.checkpoints.string(), 0, config.model.name, memory,
                                                 Buffers(model->buffers()), state, 0);
  write_text(out.config.string(), sealed_config(config));
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
