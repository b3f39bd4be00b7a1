// `lpmm logits`: what a language model makes of some tokens.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/exit_code.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

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
  return kDone;
}

}  // namespace

void add_logits_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<LogitsArguments>();
  CLI::App* command = program.add_subcommand("logits", "A language model's logits after each of some tokens");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--ids", o->ids, "token ids, separated by commas")
      ->required()
      ->check(kNotEmpty)
      ->delimiter(',');
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object: ids, logits (ids, vocabulary)");
  command->footer(R"(Example:
  lpmm logits runs/gpt --ids 1,2,3 --json)");
  on_selected(*command, action, o, run_logits);
}

}  // namespace lpmm
