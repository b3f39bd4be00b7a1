// `lpmm sample`: a language model goes on with a text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/commands/text/sampling_options.h"
#include "experiments/commands/text/text_writer.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/terminal.h"

namespace lpmm {
namespace {

struct SampleArguments {
  std::string path, prompt = "\n";
  WriteOptions write;
  int threads = 0;
  bool average = false, json = false;
};

int run_sample(const SampleArguments& o) {
  check_sampling(o.write.sampling);
  TextWriter writer(o.path, o.threads, kWholeContext, o.average);
  std::vector<std::int32_t> ids = writer.tokenizer().before_text();
  const std::vector<std::int32_t> prompt = writer.tokenizer().encode(o.prompt);
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  if (prompt.empty()) throw UsageError("--prompt is empty; a text begins with something");
  const auto show = [&](const std::string_view piece) {
    if (o.json) return;
    fmt::print("{}", printable(piece));
    flush_output();
  };
  show(o.prompt);
  WriteOptions options = o.write;
  options.rolls = true;
  const Written written = writer.write(ids, options, [&](const WrittenToken& token) {
    show(token.text);
    return true;
  });
  if (!o.json) {
    fmt::print("\n");
    return kDone;
  }
  ids.insert(ids.end(), written.ids.begin(), written.ids.end());
  print_answer({{"checkpoint", writer.loaded().checkpoint},
                {"prompt", o.prompt},
                {"text", written.text},
                {"ids", ids}},
               true);
  return kDone;
}

}  // namespace

void add_sample_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<SampleArguments>();
  CLI::App* command = program.add_subcommand("sample", "Let a language model go on with a text");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--prompt", o->prompt, "how the text begins (default: a line break)");
  command->add_option("--tokens", o->write.tokens, "to write")
      ->check(CLI::Range(1, 100000000).description(""))
      ->capture_default_str();
  add_sampling_options(*command, o->write);
  add_average_option(*command, o->average);
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object at the end: checkpoint, prompt, text, ids");
  command->footer(
      R"(The text appears as it is written, control characters as \xNN; --json has them as they are. The same
seed gives the same text. The repetition penalty comes first, then temperature, top-k, top-p and min-p,
each of what is left, as in transformers. Where the context is full, it goes on from its second half.
Example:
  lpmm sample runs/gpt --prompt "ROMEO:" --tokens 500 --temperature 0.8 --top-k 40)");
  on_selected(*command, action, o, run_sample);
}

}  // namespace lpmm
