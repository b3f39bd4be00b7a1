// `lpmm plot`: pictures and a table of runs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/commands.h"
#include "experiments/plot.h"
#include "lpmm/error.h"

namespace lpmm {
namespace {

struct PlotArguments {
  RunArguments runs;
  std::string out;
  bool table = false, json = false;
};

int run(const PlotArguments& o) {
  if (o.out.empty() && !o.table)
    throw UsageError("plot: nothing asked for; name pictures (--out) or --table");
  std::vector<PlotRun> runs;
  for (const NamedRun& run : o.runs.named()) runs.push_back(plot_run(run));
  nlohmann::ordered_json answer;
  if (o.table) {
    const std::string table = results_table(runs);
    if (o.json) {
      answer["table"] = table;
    } else {
      fmt::print("{}", table);
    }
  }
  if (!o.out.empty()) {
    draw_plot(runs, o.out);
    answer["png"] = o.out + ".png";
    answer["svg"] = o.out + ".svg";
  }
  if (o.json || !o.out.empty()) print_answer(answer, o.json);
  return 0;
}

}  // namespace

void add_plot_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<PlotArguments>();
  CLI::App* command = program.add_subcommand("plot", "Draw runs, or put them side by side in a table");
  add_run_arguments(*command, o->runs);
  command->add_option("--out", o->out, "draws PREFIX.png and PREFIX.svg with gnuplot")->type_name("PREFIX");
  command->add_flag("--table", o->table, "prints a Markdown table, one column a run");
  command->add_flag("--json", o->json, "print one JSON object: png, svg, table");
  command->footer(
      R"(Pictures: training loss, test loss, test accuracy and the underflow shares by role over steps. Table: bits
per parameter, model memory by role, loss, accuracy, underflow, planned and measured memory.
Example:
  lpmm plot runs/fp32 runs/sr --label fp32 --label "lpmm, sr" --out plots/both --table)");
  on_selected(*command, action, o, run);
}

}  // namespace lpmm
