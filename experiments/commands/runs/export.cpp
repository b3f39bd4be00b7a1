// `lpmm export`: the weights of a checkpoint for other programs.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"
#include "lpmm/data/text_data.h"
#include "lpmm/data/tokenizers/beside.h"
#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/gguf/gguf.h"
#include "models/published/folder.h"
#include "models/published/type.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

struct ExportArguments {
  std::string path, output, type;
  int threads = 0;
  bool hugging_face = false, gguf = false, average = false, overwrite = false, json = false;
};

// Writes the files of its tokenizer under their publisher's names, as programs beside lpmm look for them, and
// those beside them that are not `written` yet; adds which.
void write_tokenizer_files(const Json& described, const PublishedTokenizer& published,
                           const std::string& files, const std::string& output,
                           std::vector<std::string>& written) {
  std::vector<std::pair<fs::path, std::string>> names;  // and what is written
  if (described.at("kind") == kGpt2Tokenizer) {
    for (const auto& file : published.files) {
      names.emplace_back(fs::path(files) / file.ours, fmt::format("{}/{}", output, file.theirs));
    }
  } else if (described.contains("checksum")) {
    for (const fs::path file : tokenizer_paths(files)) {
      const auto kind = described.at("kind").get<std::string>();
      names.emplace_back(file, (fs::path(output) / standard_tokenizer_name(kind, file)).string());
      for (const std::string name : kFilesBeside) {
        const fs::path beside = file.parent_path() / name;
        const bool is_own = std::ranges::count(written, name) > 0;
        if (!is_own && fs::exists(beside)) names.emplace_back(beside, (fs::path(output) / name).string());
      }
    }
  }
  std::vector<std::string> texts;
  try {
    if (!names.empty()) make_tokenizer(described, files);  // they are those that the run had
    constexpr std::uint64_t kMost = 64 << 20;
    for (const auto& [from, to] : names) texts.push_back(read_text(from.string(), kMost));
  } catch (const RunError& e) {
    tell(fmt::format("the tokenizer's files are not written: {}\n", e.what()));
    return;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    write_text(names[i].second, texts[i]);
    written.push_back(fs::path(names[i].second).filename().string());
  }
}

// The run's tokenizer as lpmm describes it, and its files where they are known; returns which.
std::vector<std::string> export_tokenizer(const StoredWeights& weights, const Published& published,
                                          const RunConfig& config, const std::string& output) {
  const Json run = checkpoint_run(weights.path());
  const auto tokenizer = run.find("tokenizer");
  if (tokenizer != run.end()) write_text(output + "/" + kOwnTokenizer, tokenizer->dump(1) + "\n");
  const PublishedFacts facts = weights.facts();
  const std::string files = saved_tokenizer_files(weights.path(), config);
  const bool are_kept = !facts.files.empty() && files == facts.files;
  if (are_kept && tokenizer != run.end()) make_tokenizer(*tokenizer, facts.files);  // compares them
  std::vector<std::string> written =
      write_back(facts, publisher_of(published.by), Beside::kTokenizer, output);
  if (tokenizer != run.end()) written.emplace_back(kOwnTokenizer);
  if (are_kept || tokenizer == run.end()) return written;
  write_tokenizer_files(*tokenizer, published.tokenizer, files, output, written);
  return written;
}

// The run of a checkpoint, and how others publish such a model.
struct ExportedRun {
  RunConfig config;
  const Published& published;
};
ExportedRun exported_run(const std::string& checkpoint) {
  RunConfig config = load_config(config_beside(checkpoint), with_families());
  const Published* published = config.model.family->published;
  if (published == nullptr) {
    throw UsageError(fmt::format("{}: is a {}, which nobody publishes in a layout of theirs", checkpoint,
                                 config.model.name));
  }
  return {std::move(config), *published};
}

int export_hugging_face(const ExportArguments& o, const std::string& path, Device& device) {
  const auto [config, published] = exported_run(path);
  const StoredWeights weights(path, o.type, o.average);
  if (std::error_code none; fs::equivalent(o.output, model_files_of(path), none)) {
    throw UsageError(
        fmt::format("{}: is where the run keeps its files; name another folder (--out)", o.output));
  }
  published.save(weights, config.model, o.output, device);
  if (checkpoint_run(path).contains(kNewHead)) {
    tell(fmt::format("{}: its head of {} classes is new: the model came without one and is not trained yet\n",
                     o.output, stored_classes(weights, config.model)));
  }
  const std::vector<std::string> written = export_tokenizer(weights, published, config, o.output);
  remove_others(weights.facts(), publisher_of(published.by), written, o.output);
  if (const auto lost = not_written(weights.facts(), publisher_of(published.by), o.output); !lost.empty()) {
    tell(fmt::format("{}: not written, as the model has a head now and makes no vectors: {}\n", o.output,
                     lost));
  }
  print_answer({{"checkpoint", path}, {"output", o.output}, {"type", exported_type(weights.facts()).name}},
               o.json);
  return kDone;
}

// Writes the input of `ollama create NAME -f FILE.Modelfile`. The GGUF itself holds the chat template.
void write_modelfile(const std::string& gguf, bool overwrite) {
  const std::string path = gguf + ".Modelfile";
  check_overwrite(path, overwrite);
  write_text(path, fmt::format("FROM ./{}\n", fs::path(gguf).filename().string()));
}

int export_gguf(const ExportArguments& o, const std::string& path, Device& device) {
  const std::string name = o.type.empty()     ? "bf16"
                           : o.type == "fp32" ? "f32"
                           : o.type == "fp16" ? "f16"
                                              : o.type;
  const ExportedRun run = exported_run(path);
  const StoredWeights weights(path, {}, o.average);
  const std::string left_out = write_gguf_model(
      weights, run.published, run.config.model, *find_gguf_type(name), o.output, device,
      [&](const std::string& folder) { export_tokenizer(weights, run.published, run.config, folder); });
  if (!left_out.empty()) tell(fmt::format("{}: {}\n", o.output, left_out));
  write_modelfile(o.output, o.overwrite);
  print_answer(
      {{"checkpoint", path}, {"output", o.output}, {"type", name}, {"bytes", fs::file_size(o.output)}},
      o.json);
  return kDone;
}

int run_export(const ExportArguments& o) {
  const std::string path = find_checkpoint(o.path);
  check_overwrite(o.output, o.overwrite);
  CpuDevice device(o.threads);
  const bool is_block = o.type.starts_with('q');
  if (o.gguf) return export_gguf(o, path, device);
  if (is_block) throw UsageError(fmt::format("--type {} is for --gguf", o.type));
  if (o.hugging_face) return export_hugging_face(o, path, device);
  if (o.type == "fp16") throw UsageError("--type fp16 is for --hf and --gguf; plain files are fp32 or bf16");
  const std::string type = o.type.empty() ? "fp32" : o.type;
  export_checkpoint(path, o.output, type == "bf16" ? ValueType::kBf16 : ValueType::kFp32, device, o.average);
  const SafetensorsFile file(o.output);
  print_answer({{"checkpoint", path},
                {"output", o.output},
                {"type", type},
                {"tensors", file.entries().size()},
                {"bytes", fs::file_size(o.output)}},
               o.json);
  return kDone;
}

}  // namespace

void add_export_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ExportArguments>();
  CLI::App* command = program.add_subcommand("export", "Write a checkpoint's weights as safetensors or GGUF");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--out", o->output, "file to write; with --hf, a folder")
      ->required()
      ->check(kOutput)
      ->type_name("PATH");
  command
      ->add_option("--type", o->type,
                   "fp32, bf16, with --hf or --gguf fp16, with --gguf q8_0 or q4_0 (default: with --hf as it "
                   "came, with --gguf bf16, else fp32)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16", "q8_0", "q4_0"}).description(""));
  CLI::Option* hugging_face = command->add_flag(
      "--hf", o->hugging_face,
      "as its family is published: model.safetensors or shards, config.json, the tokenizer");
  command
      ->add_flag(
          "--gguf", o->gguf,
          "as llama.cpp and Ollama read it: one file with weights, tokenizer and template of dialogues, "
          "and FILE.Modelfile beside it")
      ->excludes(hugging_face);
  add_average_option(*command, o->average);
  add_overwrite_option(*command, o->overwrite);
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(With --hf a model's tokenizer is written beside it: as lpmm describes it, for lpmm import, and
its files under their publisher's names, with all else that came with the model: templates of
dialogues, settings of generation, how pictures are normalised, how sentences become vectors.
Examples:
  lpmm export runs/r20 --type bf16 --out r20.safetensors
  lpmm export runs/gpt --hf --out gpt_hf
  lpmm export runs/smol --gguf --type q8_0 --out smol.gguf)");
  on_selected(*command, action, o, run_export);
}

}  // namespace lpmm
