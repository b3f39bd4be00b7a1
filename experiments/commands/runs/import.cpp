// `lpmm import`: a published model becomes a run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/pairs/marian_tokenizer.h"
#include "lpmm/data/text_data.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/files/locked_file.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/gguf/gguf.h"
#include "models/published/facts.h"
#include "models/published/folder.h"
#include "models/published/published.h"
#include "models/published/sentences.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

struct ImportArguments {
  std::string path, name, output, preset = "lpmm", folder;  // messages call the model by its name
  std::vector<std::string> settings;
  int threads = 0;
  bool json = false;
};

// Removes the rest of an import that was killed: temporary files, or a checkpoint without its config.
void remove_half_import(const RunFolder& out) {
  namespace fs = std::filesystem;
  std::error_code error;
  remove_leftovers(out.root.string());
  if (fs::exists(out.config, error) || fs::exists(out.log, error)) return;
  const std::string checkpoint = newest_checkpoint(out.checkpoints.string(), true);
  if (fs::path(checkpoint).filename() != checkpoint_name(0)) return;
  if (checkpoint_run(checkpoint).contains(kSource)) fs::remove_all(checkpoint, error);
}

// Returns true if a folder holds the publisher's tokenizer, under either name.
bool has_tokenizer(const PublishedTokenizer& tokenizer, const std::filesystem::path& folder) {
  if (tokenizer.name.empty()) return false;
  return std::filesystem::exists(folder / tokenizer.files[0].ours) ||
         std::filesystem::exists(folder / tokenizer.files[0].theirs);
}

// Looks for the tokenizer in the files of --vocab, else beside the weights, else for the publisher's among
// the data. Returns true if one was found.
bool find_tokenizer(const ImportArguments& o, const PublishedTokenizer& published, TextOptions& text) {
  namespace fs = std::filesystem;
  if (!o.folder.empty() && !fs::exists(o.folder)) {
    throw UsageError(fmt::format("--vocab {}: there is no such file or folder", o.folder));
  }
  const std::string folder = o.folder.empty() ? published_folder(o.path) : o.folder;
  const bool is_theirs = has_tokenizer(published, folder) && is_plain_gpt2(folder);
  const std::string file = fs::is_directory(folder) ? tokenizer_in(folder) : folder;
  if (!is_theirs && !file.empty()) {
    text.tokenizer = fs::absolute(file).string();
    return true;
  }
  if (!is_theirs && !o.folder.empty()) {
    throw UsageError(fmt::format("--vocab {}: holds no tokenizer that lpmm reads", o.folder));
  }
  text.tokenizer = published.name;
  if (is_theirs || !o.folder.empty()) text.folder = folder;
  return has_tokenizer(published, gpt2_folder(text));
}

// Returns the tokenizer that `export --hf` wrote beside the model; null if there is none.
ordered_json exported_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path file = fs::path(published_folder(path)) / kOwnTokenizer;
  return fs::exists(file) ? read_json(file.string(), std::uint64_t{1} << 26) : ordered_json();
}

// Throws where a translator's sentences end otherwise than the tokenizer's, so that it must be another's.
void check_end(const Tokenizer& tokenizer, const ImportArguments& o, const ModelConfig& model) {
  if (!task_of(model).translates) return;
  const auto end = tokenizer.end_of_text();
  if (!end || *end == model.integer(kEnd)) return;
  throw UsageError(
      fmt::format("{}: ends sentences with token {}, the model of {} with {}: it is the tokenizer of another "
                  "model",
                  o.folder.empty() ? "its tokenizer" : o.folder, *end, o.path, model.integer(kEnd)));
}

// The model's own tokenizer, else that of --vocab, else its publisher's where it fits; null where there is
// none. The config names its files.
ordered_json tokenizer_of(const ImportArguments& o, RunConfig& config) {
  TextOptions& text = config.data.text;
  const bool is_found = find_tokenizer(o, config.model.family->published->tokenizer, text);
  ordered_json described;
  if (o.folder.empty()) described = exported_tokenizer(o.path);
  const int most = config.model.integer(kVocabulary);
  if (described.is_null() && is_found) {
    const auto tokenizer = make_text_tokenizer(text, "");
    check_end(*tokenizer, o, config.model);
    if (const std::string left_out = tokenizer->fit(most); !left_out.empty()) {
      tell(fmt::format("{}: the model has no row for the added tokens {}: texts with one are refused\n",
                       o.name, left_out));
    }
    if (tokenizer->vocabulary() <= most) return tokenizer->describe();
    if (!o.folder.empty()) {
      throw UsageError(
          fmt::format("{}: has {} tokens, the model of {} only {}; name the model's own (--vocab)", o.folder,
                      tokenizer->vocabulary(), o.path, most));
    }
  }
  if (described.is_null()) {
    tell(fmt::format(
        "no tokenizer beside {} that fits: text cannot be sampled from this import (see --vocab)\n", o.name));
    text.tokenizer = TextOptions{}.tokenizer;
    return {};
  }
  if (!is_found && described.contains("checksum")) {
    throw RunError(
        fmt::format("{}: its tokenizer ({}) lies in a file that is not there: give it with --vocab", o.path,
                    described.value("kind", "")));
  }
  const auto own = make_tokenizer(described, tokenizer_files(text));
  own->fit(most);
  if (own->vocabulary() > most) {
    throw UsageError(
        fmt::format("{}: its tokenizer has {} tokens, the model only {}", o.path, own->vocabulary(), most));
  }
  const auto kind = described["kind"].get<std::string>();
  if (!is_found || kind == kGpt2Tokenizer) text.tokenizer = kind;
  return described;
}

// Takes the languages of the tokenizer, which pairs to test on have in their files' names.
void name_languages(RunConfig& config) {
  const Languages named = marian_languages(tokenizer_files(config.data.text));
  if (named.source.empty() || named.target.empty()) return;
  config.data.source = named.source;
  config.data.target = named.target;
}

// The model as the files describe it, with the settings of --set.
ModelConfig changed_model(const RunConfig& config, const std::string& path,
                          const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    if (setting.starts_with("model.") && !setting.starts_with("model.name")) continue;
    throw UsageError(
        fmt::format("--set {}: an import has only settings of its model, model.heads for one", setting));
  }
  ModelConfig changed = config.model;  // with what no configuration says: classes, sides
  const auto parsed = [&](const std::vector<std::string>& with) {
    return parse_config(to_toml(config), "the import", with_families({.settings = with})).model.settings;
  };
  try {
    changed.settings = parsed(settings);
  } catch (const UsageError&) {
    try {
      parsed({});
    } catch (const UsageError& e) {  // nobody typed this: the files say so
      const std::string_view what = e.what();
      throw RunError(fmt::format("{}: its files say{}", path, what.substr(what.find(": ") + 1)));
    }
    throw;
  }
  return changed;
}

RunConfig imported_config(const ImportArguments& o) {
  RunConfig config;
  config.families = &families();
  const Published& published = *published_family(o.path).published;
  config.model = published.read(o.path);
  config.policy = make_policy(o.preset);
  config.train.steps = 1;  // a config has some
  config.train.batch = 1;
  config.model = changed_model(config, o.path, o.settings);
  const std::string remark = published.remark == nullptr ? "" : published.remark(o.path, config.model);
  if (!remark.empty()) tell(fmt::format("{}: {}\n", o.name, remark));
  const TaskRow& task = task_of(config.model);
  config.data.set = task.by_path;  // there are no data yet
  if (!task.has_tokens) return config;
  // A long context is for those who ask for it: activations grow with it.
  constexpr int kUsualLength = 1024;
  config.data.text.length = std::min(config.model.integer(kContext), kUsualLength);
  if (!task.fills_lengths) return config;
  const int longest = read_sentence_vector(published_folder(o.path)).longest;
  if (longest > 0) config.data.text.length = std::min(config.data.text.length, longest);
  return config;
}

// Copies what belongs to the model into the run, which reads its tokenizer there from now on.
void keep_files(const ImportArguments& o, const Published& published, const RunFolder& out,
                RunConfig& config) {
  namespace fs = std::filesystem;
  const std::string kept = fs::absolute(out.root / kModelFiles).lexically_normal().string();
  make_model_files(out.root, [&](const fs::path& folder) {
    for (const std::string& said :
         keep_published(o.path, o.folder, published, config.model.channels, folder.string())) {
      tell(fmt::format("{}: {}\n", o.name, said));
    }
  });
  if (const std::string rates = dropout_beside(o.path, published); !rates.empty()) {
    tell(fmt::format("{}: its library trains with {}; here {}\n", o.name, rates,
                     config.model.has("dropout")
                         ? fmt::format("model.dropout is {}", config.model.number("dropout"))
                         : "this family has no dropout"));
  }
  if (const std::string unused = unused_beside(o.path, published); !unused.empty()) {
    tell(fmt::format("{}: not used: {}\n", o.name, unused));
  }
  if (const std::string templates = other_templates(published_folder(o.path)); !templates.empty()) {
    tell(fmt::format(
        "{}: its chat templates have other names than chat_template.jinja: {}; where dialogues are meant, "
        "give a .jinja file by --template or data.template\n",
        o.name, printable(templates)));
  }
  TextOptions& text = config.data.text;
  if (text.tokenizer == kGpt2Tokenizer && has_tokenizer(published.tokenizer, kept)) text.folder = kept;
  const std::string file = names_tokenizer_files(text) ? tokenizer_in(kept) : "";
  if (!file.empty()) text.tokenizer = file;
}

int import_folder(const ImportArguments& o) {
  RunConfig config = imported_config(o);
  const auto model = [&] {
    try {
      return make_model(config.model);
    } catch (const UsageError& e) {  // nobody typed this setting
      throw RunError(fmt::format("{}: {}", o.path, e.what()));
    }
  }();
  const RunFolder out(o.output);
  const MadeFolder made(out.checkpoints);  // removed again if it stays empty
  const FolderLock lock(o.output, "another import");
  remove_half_import(out);
  check_run_folder(out, config, false);
  CpuDevice device(o.threads);
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, config.train.seed, 1, device);
  Buffers buffers(model->buffers(), device);
  const Published& published = *config.model.family->published;
  published.load(o.path, memory);
  if (published.load_buffers != nullptr) published.load_buffers(o.path, buffers);
  const ReadFacts facts = read_published_facts(o.path, config.model);
  if (!facts.left_out.empty()) {
    tell(fmt::format("{}: {}: no token of the model, left out\n", o.name, facts.left_out));
  }
  if (!facts.otherwise.empty()) {
    tell(fmt::format("{}: generation_config.json counts before config.json: {}\n", o.name,
                     cut_to_columns(printable(facts.otherwise), 200)));
  }
  ordered_json state = {{kSource, o.name}};
  if (!facts.tokens.empty()) state[kSpecialTokens] = special_tokens_json(facts.tokens);
  if (!facts.classes.empty()) state[kClasses] = facts.classes;
  if (!task_of(config.model).has_tokens && lacks_image_head(o.path)) state[kNewHead] = true;
  const ordered_json tokenizer = task_of(config.model).has_tokens ? tokenizer_of(o, config) : ordered_json();
  if (!tokenizer.is_null()) {
    state["tokenizer"] = tokenizer;
    if (tokenizer["kind"] == kMarianTokenizer) name_languages(config);
  }
  sealed_config(config);  // throws for some paths
  keep_files(o, published, out, config);
  const std::string sealed = sealed_config(config);
  const std::string checkpoint =
      save_checkpoint(out.checkpoints.string(), 0, config.model.name, memory, buffers, state, 0);
  write_text(out.config.string(), sealed);
  ordered_json answer = {{"checkpoint", checkpoint}, {"parameters", memory.ledger().parameters}};
  for (const auto& [key, value] : config.model.settings) {
    if (const auto* size = std::get_if<std::int64_t>(&value)) answer[std::string(key)] = *size;
  }
  answer["preset"] = o.preset;
  answer["tokenizer"] = tokenizer.is_null() ? ordered_json() : tokenizer["kind"];
  print_answer(answer, o.json);
  return kDone;
}

// `text` with the GGUF's name in place of those of the folder that it is unpacked into.
std::string renamed(std::string text, const std::string& folder, const std::string& name) {
  for (const std::string& from : {fmt::format("{}/{}", folder, kGgufWeights), folder}) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + name.size()))
      text.replace(at, from.size(), name);
  }
  return text;
}

int run_import(const ImportArguments& given) {
  ImportArguments o = given;
  o.name = o.path;
  if (first_bad_byte(o.path) != std::string::npos) {
    throw UsageError(
        fmt::format("{}: is no UTF-8 text, which a run keeps its names in; rename it", printable(o.path)));
  }
  if (!is_gguf(o.path)) return import_folder(o);
  const UnpackedGguf unpacked(o.path);
  if (!unpacked.remark().empty()) tell(fmt::format("{}: {}\n", o.name, unpacked.remark()));
  o.path = unpacked.folder();
  try {
    return import_folder(o);
  } catch (const RunError& e) {
    throw RunError(renamed(e.what(), o.path, o.name));
  } catch (const UsageError& e) {
    throw UsageError(renamed(e.what(), o.path, o.name));
  }
}

}  // namespace

void add_import_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ImportArguments>();
  CLI::App* command = program.add_subcommand(
      "import", "Take over a published model: GPT-2, Llama-like, BERT-like, Marian, ResNet, ViT");
  command
      ->add_option("PATH", o->path,
                   "folder of config.json and model.safetensors or its shards, one of these files, or a GGUF")
      ->required();
  command->add_option("--out", o->output, "folder of a run to make; its checkpoint has no optimizer state")
      ->required()
      ->check(kNotEmpty)
      ->type_name("DIR");
  command->add_option("--preset", o->preset, "memory policy of the parameters")->capture_default_str();
  command->add_option(
      "--vocab", o->folder,
      "its tokenizer: tokenizer.json, vocab.txt, a SentencePiece .model, or a folder with one of them, with "
      "Marian's source.spm, target.spm and vocab.json, or with GPT-2's files (default: that of the model, "
      "else for a GPT-2 gpt2-bpe in the data folder)");
  add_settings_option(*command, o->settings, "changes one key of the model: --set model.heads=12");
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(R"(Examples:
  lpmm import gpt2/ --out runs/gpt2
  lpmm import SmolLM2-135M/ --out runs/smol
  lpmm import SmolLM2-135M.Q8_0.gguf --out runs/smol
  lpmm sample runs/gpt2 --prompt "The meaning of life is"
  lpmm train gpt2_124m --init runs/gpt2 --out runs/tuned)");
  on_selected(*command, action, o, run_import);
}

}  // namespace lpmm
