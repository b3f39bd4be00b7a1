// `lpmm`: reads the command line, runs one subcommand and turns what went wrong into one line and an exit
// code.
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/commands/setup/completion.h"
#include "experiments/commands/setup/help.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/version.h"

namespace {

using lpmm::kBadUsage;
using lpmm::kDone;
using lpmm::kReaderGone;
using lpmm::kRunFailed;

// Lines of ours begin with two spaces; a line break before anything else is within a name.
int complain(std::string what, int code) {
  for (std::size_t at = 0; (at = what.find('\n', at)) != std::string::npos; ++at) {
    if (what.compare(at + 1, 2, "  ") != 0) what.replace(at, 1, "\\x0A");
  }
  lpmm::tell(fmt::format("lpmm: {}\n", lpmm::printable(what)));
  return code;
}

// Libraries allocate before main() begins, and CUDA's does not survive that it cannot.
__attribute__((constructor(101))) void check_room_to_start() {
  constexpr std::size_t kRoom = 8 << 20;
  constexpr std::string_view kText =
      "lpmm: no memory to start: 8 MB are needed besides the program and its libraries; use a higher limit "
      "on "
      "address space (ulimit -v)\n";
  void* const room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) {
    munmap(room, kRoom);
    return;
  }
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText.data(), kText.size());
  std::_Exit(kRunFailed);
}

// Handles SIGBUS of a mapped file, where no read fails that could report the error.
extern "C" void end_where_a_file_was_cut(int /*signal*/) {
  constexpr std::string_view kText =
      "lpmm: a file that is being read was cut off, or its disk fails; put it back, then go on (--resume)\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText.data(), kText.size());
  std::_Exit(kRunFailed);
}

// Files that are opened later may not land on the numbers of the standard streams; and a reader that went
// away or a file at its size limit is an error of the write, not the end of the process. Where address space
// is limited, threads allocate from one heap: each heap of their own would take 64 MB of that at any time.
void prepare_process() {
  for (int number = 0; number < 3; ++number) {
    if (fcntl(number, F_GETFD) < 0 && open("/dev/null", O_RDWR) != number) std::_Exit(kRunFailed);
  }
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, end_where_a_file_was_cut);
}

// CLI11 only says that a command is required where one is misspelt.
void check_commands(CLI::App* app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.starts_with('-')) return;
    std::vector<std::string_view> names;
    CLI::App* found = nullptr;
    for (CLI::App* command : app->get_subcommands({})) {
      names.push_back(command->get_name());
      if (names.back() == word) found = command;
    }
    if (names.empty()) return;
    if (found == nullptr) {
      throw lpmm::UsageError(fmt::format(
          "there is no command {} {}; there are {}{}. `lpmm help {}` searches for it", app->get_name(), word,
          lpmm::join(names), lpmm::did_you_mean(lpmm::nearest_name(word, names)), word));
    }
    app = found;
  }
}

struct CommandGroup {
  const char* name;
  std::vector<void (*)(CLI::App&, lpmm::Action&)> commands;
};

void add_commands(CLI::App& program, lpmm::Action& action) {
  using namespace lpmm;  // NOLINT(google-build-using-namespace)
  const CommandGroup groups[] = {
      {"Before a run", {add_plan_command, add_config_command, add_data_command, add_advise_command}},
      {"Runs",
       {add_train_command, add_stop_command, add_watch_command, add_eval_command, add_report_command,
        add_plot_command}},
      {"Checkpoints", {add_inspect_command, add_export_command, add_import_command}},
      {"Trained models",
       {add_sample_command, add_chat_command, add_serve_command, add_logits_command, add_classify_command,
        add_embed_command, add_translate_command}},
      {"Comparisons and experiments", {add_sweep_command, add_experiment_command, add_ablate_command}},
      {"This build and machine",
       {add_info_command, add_bench_command, add_quantize_command, add_completion_command}}};
  for (const CommandGroup& group : groups) {
    for (const auto add : group.commands) {
      add(program, action);
      program.get_subcommands({}).back()->group(group.name);
    }
  }
}

// `lpmm` alone and `lpmm help COMMAND` ask for help; a grid of one's own is an experiment.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words.empty()) words.emplace_back("--help");
  if (words.size() > 1 && words[0] == "experiment" && words[1] != lpmm::kOwnGrid &&
      words[1].ends_with(".toml")) {
    words.insert(words.begin() + 1, lpmm::kOwnGrid);
  }
  return words;
}

// Returns the words of `lpmm help WORDS` if they name no command; empty for any other command line.
std::vector<std::string> words_asked_about(CLI::App& program, int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  if (argc < 3 || std::string_view(argv[1]) != "help" || words[0].starts_with('-')) return {};
  const auto commands = program.get_subcommands({});
  const auto is_command = [&](const CLI::App* command) { return command->get_name() == words[0]; };
  return std::ranges::any_of(commands, is_command) ? std::vector<std::string>() : words;
}

int run(int argc, char** argv) {
  CLI::App program(
      "Trains networks whose whole model memory (parameters, gradient accumulators, optimizer state) is "
      "packed at 2 to 16 bits.",
      "lpmm");
  program.set_version_flag("--version", LPMM_VERSION);
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer(R"(Examples:
  lpmm train resnet8_drawn --preset lpmm-compact --out runs/first
  lpmm plan resnet20_cifar10 --preset lpmm
  lpmm quantize weights.npy --spec int8:block128:sr
A published model and data of your own (a text, a table of texts and labels, a folder of photos):
  lpmm import MODEL_FOLDER --out runs/base
  lpmm train --init runs/base --set data.path=mine.csv --out runs/mine
  lpmm eval runs/mine

`lpmm help COMMAND` explains a command; `lpmm help WORDS` finds what has these words in it, as
"csv" or "finetune". --json prints one object on standard output; progress goes to standard error.
Exit codes: 0 done, 1 the run failed, 2 bad usage, 130 interrupted.)");
  lpmm::Action action;
  add_commands(program, action);
  if (const std::vector<std::string> asked = words_asked_about(program, argc, argv); !asked.empty()) {
    lpmm::print_help_on(program, asked);
    return kDone;
  }
  std::vector<std::string> words = arguments_of(argc, argv);
  if (words[0] == "complete") {
    for (const std::string& next : lpmm::completions(program, {words.begin() + 1, words.end()})) {
      fmt::print("{}\n", next);
    }
    return kDone;
  }
  check_commands(&program, words);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    program.parse(std::move(words));
  } catch (const CLI::Success& help_or_version) {
    return program.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    return complain(fmt::format("{} (see lpmm --help)", error.what()), kBadUsage);
  }
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  try {
    const int code = run(argc, argv);
    std::cout.flush();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
      pollfd reader = {STDOUT_FILENO, 0, 0};  // errno may be of another write than the one that failed
      if (poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) return kReaderGone;
      return complain("standard output cannot be written", code == kDone ? kRunFailed : code);
    }
    return code;
  } catch (const lpmm::UsageError& error) {
    return complain(error.what(), kBadUsage);
  } catch (const lpmm::Interrupted&) {
    return complain("interrupted; no file is left half written", lpmm::kInterrupted);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory; `lpmm plan` says what a run needs", kRunFailed);
  } catch (const std::system_error& error) {
    // `lpmm info | head` is no failure.
    if (error.code() == std::errc::broken_pipe) return kReaderGone;
    return complain(lpmm::error_text(error), kRunFailed);
  } catch (const std::exception& error) {
    return complain(lpmm::error_text(error), kRunFailed);
  }
}
