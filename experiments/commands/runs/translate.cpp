// `lpmm translate`: lines of text through a translator.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/terminal.h"
#include "lpmm/files/gz_file.h"
#include "lpmm/program/generate/beam_search.h"
#include "lpmm/program/generate/translate.h"

namespace lpmm {
namespace {

struct TranslateArguments {
  std::string path, file;
  std::optional<std::string> text;
  BeamOptions beams;
  int threads = 0;
  bool json = false;
};

std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> given_lines(const TranslateArguments& o) {
  if (o.text && !o.file.empty()) throw UsageError("--text and --file: give one of them");
  if (o.text) return {*o.text};
  if (o.file.empty()) return lines_of(std::cin);
  std::istringstream in(read_plain_or_gz(o.file));
  return lines_of(in);
}

int run_translate(const TranslateArguments& o) {
  if (std::isnan(o.beams.length_penalty)) throw UsageError("--length-penalty is a number, not nan");
  LoadedModel loaded(o.path, o.threads, kPairTask);
  const std::vector<std::string> lines = given_lines(o);
  Progress progress(o.json);
  const std::vector<std::string> told =
      translate(loaded.config.model, loaded.config.train.compute, *loaded.model, loaded.memory, loaded.device,
                loaded.tokenizer(), lines, o.beams, progress.share_of("translating"));
  if (o.json) {
    print_answer({{"checkpoint", loaded.checkpoint}, {"source", lines}, {"target", told}}, true);
  } else {
    for (const std::string& line : told) fmt::print("{}\n", printable(line));
  }
  return kDone;
}

}  // namespace

void add_translate_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<TranslateArguments>();
  CLI::App* command = program.add_subcommand("translate", "Translate lines of text");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--text", o->text, "one line (default: the lines of standard input)");
  command->add_option("--file", o->file, "the lines of a file, which may be compressed by gzip")
      ->type_name("FILE");
  command->add_option("--beams", o->beams.beams, "beginnings that are kept; 1: the likeliest token each time")
      ->check(CLI::Range(1, 1000).description(""))
      ->capture_default_str();
  command
      ->add_option("--length-penalty", o->beams.length_penalty,
                   "what the length is raised to that a log probability is divided by; above 0 for longer "
                   "translations")
      ->check(CLI::Range(-100.0, 100.0).description(""))
      ->capture_default_str();
  command->add_option("--most", o->beams.most, "tokens of a translation; 0: three times its source's and 10")
      ->check(CLI::Range(0, 1 << 20).description(""))
      ->capture_default_str();
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object: checkpoint, source, target");
  command->footer(R"(Examples:
  lpmm translate runs/translator --text "A man is riding a bike."
  lpmm translate runs/translator --file test.en --beams 1 > test.de)");
  on_selected(*command, action, o, run_translate);
}

}  // namespace lpmm
