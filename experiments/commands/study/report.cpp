// `lpmm report`: one page of HTML about runs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/plots/report.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/process.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

struct ReportArguments {
  RunArguments runs;
  std::string out;
  bool overwrite = false, json = false;
};

int run_report(const ReportArguments& o) {
  const std::vector<NamedRun> runs = o.runs.named();
  std::vector<std::string> command = {"lpmm", "report"};
  o.runs.keep_from(o.out);
  check_overwrite(o.out, o.overwrite, report_begin());
  for (const NamedRun& run : runs) command.push_back(path_argument(run.path));
  for (const std::string& label : o.runs.labels) command.insert(command.end(), {"--label", label});
  command.insert(command.end(), {"--out", o.out});
  const std::string page = report_html(runs, shell_command(command));
  write_text(o.out, page);
  print_answer({{"html", o.out}, {"runs", runs.size()}, {"bytes", page.size()}}, o.json);
  return kDone;
}

}  // namespace

void add_report_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ReportArguments>();
  CLI::App* command = program.add_subcommand("report", "Write one page of HTML about runs, for any browser");
  add_run_arguments(*command, o->runs);
  command->add_option("--out", o->out, "page to write")->required()->check(kOutput)->type_name("FILE.html");
  add_overwrite_option(*command, o->overwrite);
  command->add_flag("--json", o->json, "print one JSON object: html, runs, bytes");
  command->footer(
      R"(The page holds everything it shows and needs no network: what each run reached, curves, model
memory by role, and for every run its tensors, its config and the command that repeats it.
Runs that have not ended are shown as far as they came.
Example:
  lpmm report runs/fp32 runs/sr --label fp32 --label "lpmm, sr" --out report.html)");
  on_selected(*command, action, o, run_report);
}

}  // namespace lpmm
