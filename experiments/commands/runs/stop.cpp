// `lpmm stop`: asks a run that another process trains, or several, to save and to end.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "experiments/commands/arguments.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"
#include "lpmm/run/run_folder.h"

namespace lpmm {
namespace {

struct StopArguments {
  std::string run;
  bool quiet = false, json = false;
};

int run_stop(const StopArguments& o) {
  const RunFolder folder(o.run);
  std::error_code none;
  if (!std::filesystem::is_regular_file(folder.log, none)) {
    throw UsageError(fmt::format("{}: is no run's folder: it has no log.jsonl", o.run));
  }
  const auto last_checkpoint = [&] {
    const std::string last = newest_checkpoint(folder.checkpoints);
    return last.empty() ? std::string("it has no checkpoint")
                        : fmt::format("its last checkpoint is {}", last);
  };
  if (!ask_to_stop(folder.log)) {
    throw RunError(fmt::format("{}: is not running: no process writes it; {}", o.run, last_checkpoint()));
  }
  if (!o.quiet) tell("asked; waiting for the end of its step (Ctrl-C ends only the waiting)\n");
  // Again and again: it takes back wishes from before its own start.
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (ask_to_stop(folder.log));
  const std::vector<Json> records = read_log(folder.log);
  if (records.empty() || records.back()["type"] != "summary") {
    throw RunError(
        fmt::format("{}: ended, but not as asked: its log has no summary; {}", o.run, last_checkpoint()));
  }
  const Json& summary = records.back();
  if (o.json) {
    print_answer(summary, true);
  } else {
    fmt::print("{} after {} steps; {}\n", summary.value("interrupted", false) ? "stopped" : "ended",
               summary.value("steps", std::int64_t{0}), printable(last_checkpoint()));
  }
  return kDone;
}

}  // namespace

void add_stop_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<StopArguments>();
  CLI::App* command = program.add_subcommand("stop", "Have a run that is being trained save and end");
  command->add_option("RUN", o->run, "folder of the run")->required()->check(kNotEmpty);
  command->add_flag("--quiet", o->quiet, "no word on standard error");
  command->add_flag("--json", o->json, "print the run's summary as one JSON object");
  command->footer(
      R"(Ends the run as Ctrl-C does, after its step and with a checkpoint, and waits for that. It works for a run
of several processes, and from any host that sees the folder: the wish is a file there, RUN/stop, which
the run takes away. lpmm train --resume goes on.
Example:
  lpmm stop runs/gpt)");
  on_selected(*command, action, o, run_stop);
}

}  // namespace lpmm
