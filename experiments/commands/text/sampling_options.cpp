#include "experiments/commands/text/sampling_options.h"

#include <fmt/format.h>

#include "experiments/commands/arguments.h"

namespace lpmm {

void add_sampling_options(CLI::App& command, WriteOptions& options) {
  SamplingOptions& o = options.sampling;
  command.add_option("--temperature", o.temperature, "below 1 bolder in its choice, 0: the likeliest")
      ->capture_default_str();
  command.add_option("--top-k", o.top_k, "choose among the k likeliest; 0: all")
      ->check(CLI::Range(0, 1 << 24).description(""))
      ->capture_default_str();
  command.add_option("--top-p", o.top_p, "choose among the likeliest of this probability together")
      ->capture_default_str();
  command
      .add_option("--min-p", o.min_p,
                  "choose among those that have this share of the likeliest one's probability")
      ->capture_default_str();
  command
      .add_option("--repetition-penalty", o.repetition_penalty,
                  "above 1 avoids tokens that the text has: positive logits are divided by it, negative ones "
                  "multiplied")
      ->capture_default_str();
  command.add_option("--seed", o.seed, "of the draws")->check(kUnsigned)->capture_default_str();
  command
      .add_option("--stop", options.stops, "a text that ends the writing, and is left out; again for more")
      ->check(kNotEmpty)
      ->take_all();
}

void add_context_option(CLI::App& command, std::optional<std::int64_t>& context) {
  command
      .add_option("--context", context,
                  fmt::format("tokens that it looks back to; 0: as many as the model can (default: the same, "
                              "but at most {})",
                              kUsualContext))
      ->check(CLI::Range(0, 1 << 30).description(""));
}

}  // namespace lpmm
