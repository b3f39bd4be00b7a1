// `lpmm`: reads the command line, runs one subcommand and turns what went wrong into one line and an exit
// code.
#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "experiments/commands/arguments.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace {

constexpr int kRunFailed = 1;
constexpr int kBadUsage = 2;
constexpr int kReaderGone = 141;  // what a shell says of a process that SIGPIPE ended

int complain(const std::string& what, int code) {
  lpmm::tell(fmt::format("lpmm: {}\n", lpmm::printable(what)));
  return code;
}

// Files that are opened later may not land on the numbers of the standard streams; and a reader that went
// away or a file at its size limit is an error of the write, not the end of the process.
void prepare_process() {
  for (int number = 0; number < 3; ++number) {
    if (fcntl(number, F_GETFD) < 0 && open("/dev/null", O_RDWR) != number) std::_Exit(kRunFailed);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// CLI11 only says that a command is required where one is misspelt.
void check_commands(CLI::App* app, int argc, char** argv) {
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string_view> names;
    CLI::App* found = nullptr;
    for (CLI::App* command : app->get_subcommands({})) {
      names.push_back(command->get_name());
      if (names.back() == argv[i]) found = command;
    }
    if (names.empty()) return;
    if (found == nullptr) {
      throw lpmm::UsageError(fmt::format("there is no command {} {}; did you mean {}?", app->get_name(),
                                         argv[i], lpmm::nearest_name(argv[i], names)));
    }
    app = found;
  }
}

int run(int argc, char** argv) {
  CLI::App program(
      "Trains networks whose whole model memory (parameters, gradient accumulators, optimizer state) is "
      "packed at "
      "2 to 16 bits.",
      "lpmm");
  program.set_version_flag("--version", LPMM_VERSION);
  program.require_subcommand(1);
  program.get_formatter()->column_width(34);
  program.footer(R"(Examples:
  lpmm train experiments/configs/resnet8_drawn.toml --preset lpmm-compact --out runs/first
  lpmm plan experiments/configs/resnet20_cifar10.toml --preset lpmm --json
  lpmm quantize weights.npy --spec int8:block128:sr

`lpmm COMMAND --help` explains a command. --json prints one object on standard output; progress
goes to standard error. Exit codes: 0 done, 1 the run failed, 2 bad usage, 130 interrupted.)");
  lpmm::Action action;
  lpmm::add_train_command(program, action);
  lpmm::add_eval_command(program, action);
  lpmm::add_sample_command(program, action);
  lpmm::add_logits_command(program, action);
  lpmm::add_import_command(program, action);
  lpmm::add_data_command(program, action);
  lpmm::add_plan_command(program, action);
  lpmm::add_advise_command(program, action);
  lpmm::add_bench_command(program, action);
  lpmm::add_quantize_command(program, action);
  lpmm::add_inspect_command(program, action);
  lpmm::add_export_command(program, action);
  lpmm::add_sweep_command(program, action);
  lpmm::add_ablate_command(program, action);
  lpmm::add_experiment_command(program, action);
  lpmm::add_plot_command(program, action);
  lpmm::add_report_command(program, action);
  lpmm::add_info_command(program, action);
  check_commands(&program, argc, argv);
  try {
    program.parse(argc, argv);
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
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
      if (errno == EPIPE) return kReaderGone;
      return complain("standard output cannot be written", code == 0 ? kRunFailed : code);
    }
    return code;
  } catch (const lpmm::UsageError& error) {
    return complain(error.what(), kBadUsage);
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
