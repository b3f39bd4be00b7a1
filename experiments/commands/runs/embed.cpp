// `lpmm embed`: sentences as vectors.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/sentence_model.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/data/sentences/metrics.h"
#include "lpmm/files/files.h"
#include "lpmm/files/npy.h"

namespace lpmm {
namespace {

struct EmbedArguments {
  SentenceArguments sentences;
  std::string output;
  bool pairs = false;
};

// The sentences of lines, those of pairs one after the other.
std::vector<SentenceExample> single(std::vector<SentenceExample> lines, bool are_pairs) {
  if (!are_pairs) return lines;
  std::vector<SentenceExample> out;
  for (SentenceExample& line : lines) {
    out.push_back({.first = std::move(line.first), .second = {}, .line = line.line});
    out.push_back({.first = std::move(line.second), .second = {}, .line = line.line});
  }
  return out;
}

int run_embed(const EmbedArguments& o) {
  const SentenceArguments& s = o.sentences;
  if (o.output.empty() && !o.pairs)
    throw UsageError("embed: name a file for the embeddings (--out FILE.npy), or --pairs");
  std::error_code none;
  if (std::filesystem::equivalent(o.output, s.file, none)) {
    throw UsageError(fmt::format("embed: --out {}: is the file that is read; name another one", o.output));
  }
  SentenceModel model(s.path, s.threads, s.compute, true);
  nlohmann::ordered_json cosines = nlohmann::ordered_json::array();
  std::vector<float> all;
  std::size_t sentences = 0, width = 0;
  for_each_line(s.file, o.pairs, [&](std::vector<SentenceExample> lines, bool are_pairs) {
    if (are_pairs && !o.pairs) throw UsageError("embed: a line with a tab is two sentences; see --pairs");
    std::vector<SentenceExample> some = single(std::move(lines), are_pairs);
    const std::size_t count = some.size();
    const std::vector<float> outputs = model.outputs(std::move(some), false);
    width = outputs.size() / count;
    sentences += count;
    const auto row = [&](std::size_t i) { return std::span(outputs).subspan(i * width, width); };
    for (std::size_t i = 0; are_pairs && i < count; i += 2) {
      const double similar = cosine(row(i), row(i + 1));
      if (s.json) cosines.push_back(similar);
      if (!s.json) fmt::print("{:.6f}\n", similar);
    }
    flush_output();
    if (!o.output.empty()) all.insert(all.end(), outputs.begin(), outputs.end());
  });
  nlohmann::ordered_json answer = {
      {"checkpoint", model.checkpoint()}, {"sentences", sentences}, {"width", width}};
  if (o.pairs) answer["cosines"] = cosines;
  if (!o.output.empty()) {
    remove_leftovers(std::filesystem::path(o.output).parent_path().string());
    NewFile file(o.output);
    const std::int64_t shape[] = {static_cast<std::int64_t>(sentences), static_cast<std::int64_t>(width)};
    write_npy_header(file.file(), "<f4", shape);
    file.file().write(std::as_bytes(std::span(std::as_const(all))));
    file.keep();
    answer["output"] = o.output;
  }
  if (s.json || !o.pairs) print_answer(answer, s.json);
  return kDone;
}

}  // namespace

void add_embed_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<EmbedArguments>();
  CLI::App* command =
      program.add_subcommand("embed", "Turn sentences into vectors, or compare pairs of them");
  add_sentence_arguments(*command, o->sentences);
  command->add_option("--out", o->output, "file of NumPy's to write: (sentences, channels), fp32")
      ->check(kOutput)
      ->type_name("FILE.npy");
  command->add_flag("--pairs", o->pairs, "lines are two sentences with a tab between: print their cosine");
  command->add_flag("--json", o->sentences.json,
                    "print one JSON object: checkpoint, sentences, width, cosines, output");
  command->footer(
      R"(A vector is the mean of the last layer's positions, weighted or not, or the first or last of them, as
modules.json of the imported model says, and of length 1 where it says that, as sentence-transformers
does, whose default prompt and truncate_dim it follows too.
A model's head, where it has one, is left out.
Examples:
  lpmm embed runs/minilm --file sentences.txt --out sentences.npy
  printf 'a cat sits\ta cat is sitting\n' | lpmm embed runs/minilm --pairs)");
  on_selected(*command, action, o, run_embed);
}

}  // namespace lpmm
