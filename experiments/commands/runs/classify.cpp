// `lpmm classify`: what a fine-tuned model tells of sentences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/sentence_model.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/terminal.h"

namespace lpmm {
namespace {

std::vector<double> probabilities_of(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> out;
  double sum = 0;
  for (const float logit : logits) sum += out.emplace_back(std::exp(logit - largest));
  for (double& p : out) p /= sum;
  return out;
}

int run_classify(const SentenceArguments& o) {
  SentenceModel model(o.path, o.threads, o.compute, false);
  nlohmann::ordered_json answers = nlohmann::ordered_json::array();
  const auto width = static_cast<std::size_t>(model.classes());
  for_each_line(o.file, false, [&](std::vector<SentenceExample> lines, bool are_pairs) {
    const std::size_t count = lines.size();
    const std::vector<float> outputs = model.outputs(std::move(lines), are_pairs);
    for (std::size_t i = 0; i < count; ++i) {
      const auto told = std::span(outputs).subspan(i * width, width);
      if (width == 1) {
        if (o.json) answers.push_back(told[0]);
        if (!o.json) fmt::print("{:.4f}\n", told[0]);
        continue;
      }
      const std::vector<double> probabilities = probabilities_of(told);
      const auto best = static_cast<std::size_t>(std::ranges::max_element(told) - told.begin());
      const std::string& label = model.class_names()[best];
      if (o.json) {
        answers.push_back(
            {{"label", label}, {"probability", probabilities[best]}, {"probabilities", probabilities}});
      } else {
        fmt::print("{}\t{:.4f}\n", printable(label), probabilities[best]);
      }
    }
    flush_output();
  });
  if (!o.json) return kDone;
  nlohmann::ordered_json answer = {{"checkpoint", model.checkpoint()}};
  if (width > 1) answer["labels"] = model.class_names();
  answer["answers"] = answers;
  print_answer(answer, true);
  return kDone;
}

}  // namespace

void add_classify_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<SentenceArguments>();
  CLI::App* command = program.add_subcommand(
      "classify", "Tell the class of sentences or pairs, or the number, by a tuned model");
  add_sentence_arguments(*command, *o);
  command->add_flag(
      "--json", o->json,
      "print one JSON object: checkpoint, labels, answers (label, probability, probabilities; or the "
      "number)");
  command->footer(
      R"(Reads a sentence a line, or two with a tab between, and prints of each its label, a tab, and how
probable the model finds it; a model that tells a number prints that. Labels have the names that the
data gave them.
Example:
  echo "a gripping, funny film" | lpmm classify runs/sst2)");
  on_selected(*command, action, o, run_classify);
}

}  // namespace lpmm
