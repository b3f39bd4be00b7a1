// `lpmm ablate`: the measurements behind the presets.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/ablation/ablation.h"
#include "experiments/commands/arguments.h"

namespace lpmm {

void add_ablate_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<AblationOptions>();
  CLI::App* command = program.add_subcommand("ablate", "Measure what steps and averages in low precision do");
  command->add_option("--out", o->out, "folder of the tables and plots, made if missing")
      ->check(kNotEmpty)
      ->required()
      ->type_name("DIR");
  command->add_option("--parts", o->parts, fmt::format("{}", fmt::join(ablation_parts(), ", ")))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--threads", o->threads, "threads; 0: all processors")
      ->check(CLI::Range(0, 1024).description(""))
      ->capture_default_str();
  add_svg_option(*command, o->svg);
  command->add_flag("--quick", o->quick, "a corner of each grid, to see that it works");
  command->footer(
      "Leaves a .csv of each part in DIR, with .png and the gnuplot script.\n"
      "Example:\n  lpmm ablate --out experiments/results/ablation");
  on_selected(*command, action, o, run_ablation);
}

}  // namespace lpmm
