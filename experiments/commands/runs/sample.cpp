// `lpmm sample`: a language model goes on with a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/terminal.h"
#include "lpmm/program/family.h"
#include "lpmm/program/generate/sampling.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {
namespace {

struct SampleArguments {
  std::string path, prompt = "\n";
  std::int64_t tokens = 200;
  SamplingOptions sampling;
  int threads = 0;
  bool json = false;
};

// The tokens that end a text: those that the run says, and its tokenizer's.
std::vector<std::int32_t> end_tokens(LoadedModel& loaded) {
  std::vector<std::int32_t> ends;
  for (const auto& [name, ids] : stored_facts(checkpoint_run(loaded.checkpoint)).tokens) {
    if (name == kEndToken) ends = ids;
  }
  if (const auto end = loaded.tokenizer().end_of_text()) ends.push_back(*end);
  return ends;
}

int run_sample(const SampleArguments& o) {
  if (std::isnan(o.sampling.temperature) || std::isnan(o.sampling.top_p)) {
    throw UsageError("--temperature and --top-p are numbers, not nan");
  }
  LoadedModel loaded(o.path, o.threads);
  const Tokenizer& tokenizer = loaded.tokenizer();
  std::vector<std::int32_t> ids = tokenizer.before_text();
  const std::vector<std::int32_t> prompt = tokenizer.encode(o.prompt);
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  if (prompt.empty()) throw UsageError("--prompt is empty; a text begins with something");
  const std::int64_t context = complete(loaded.config.model).integer(kContext);
  const std::vector<std::int32_t> ends = end_tokens(loaded);
  Utf8Stream text;
  std::string written;
  const auto show = [&](const std::string& piece) {
    written += piece;
    if (o.json) return;
    fmt::print("{}", printable(piece));
    flush_output();
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
    if (std::ranges::find(ends, next[0]) != ends.end()) break;
    show(text.push(tokenizer.decode(next, false)));
  }
  show(text.finish());
  if (o.json) {
    print_answer({{"checkpoint", loaded.checkpoint}, {"prompt", o.prompt}, {"text", written}, {"ids", ids}},
                 true);
  } else {
    fmt::print("\n");
  }
  return kDone;
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
  command->footer(
      R"(The text appears as it is written, control characters as \xNN; --json has them as they are. The same
seed gives the same text.
Example:
  lpmm sample runs/gpt --prompt "ROMEO:" --tokens 500 --temperature 0.8 --top-k 40)");
  on_selected(*command, action, o, run_sample);
}

}  // namespace lpmm
