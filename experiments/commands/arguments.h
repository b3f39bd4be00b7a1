// The subcommands of `lpmm`. Each function adds one to the program; the one that the command line names sets
// `action`, which main() runs after parsing. An action returns the exit code and throws what went wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/run/config.h"

namespace lpmm {

struct NamedRun;
using Action = std::function<int()>;

void add_train_command(CLI::App& program, Action& action);
void add_stop_command(CLI::App& program, Action& action);
void add_watch_command(CLI::App& program, Action& action);
void add_eval_command(CLI::App& program, Action& action);
void add_sample_command(CLI::App& program, Action& action);
void add_chat_command(CLI::App& program, Action& action);
void add_serve_command(CLI::App& program, Action& action);
void add_translate_command(CLI::App& program, Action& action);
void add_logits_command(CLI::App& program, Action& action);
void add_classify_command(CLI::App& program, Action& action);
void add_embed_command(CLI::App& program, Action& action);
void add_import_command(CLI::App& program, Action& action);
void add_data_command(CLI::App& program, Action& action);
void add_pack_images_command(CLI::App& data, Action& action);
void add_data_show_command(CLI::App& data, Action& action);
void add_plan_command(CLI::App& program, Action& action);
void add_advise_command(CLI::App& program, Action& action);
void add_bench_command(CLI::App& program, Action& action);
void add_quantize_command(CLI::App& program, Action& action);
void add_inspect_command(CLI::App& program, Action& action);
void add_export_command(CLI::App& program, Action& action);
void add_sweep_command(CLI::App& program, Action& action);
void add_ablate_command(CLI::App& program, Action& action);
inline constexpr const char* kOwnGrid = "FILE.toml";  // the experiment that a path in its place stands for
void add_experiment_command(CLI::App& program, Action& action);
void add_plot_command(CLI::App& program, Action& action);
void add_report_command(CLI::App& program, Action& action);
void add_info_command(CLI::App& program, Action& action);
void add_config_command(CLI::App& program, Action& action);
void add_completion_command(CLI::App& program, Action& action);

// Lets `command` run body(options) once the command line has been read.
template <class Options>
void on_selected(CLI::App& command, Action& action, std::shared_ptr<Options> options,
                 int (*body)(const Options&)) {
  command.callback([&action, options, body] { action = [options, body] { return body(*options); }; });
}

// CONFIG and the options that change what it says, as train, plan and bench train take them.
struct ConfigArguments {
  std::string path;  // or the name of a shipped configuration
  ConfigOptions options;
  int threads = -1;    // negative: as in the file
  std::string device;  // empty: as in the file
  // `start`: ConfigOptions::start.
  RunConfig load(const ModelConfig* start = nullptr) const;
};
void add_config_arguments(CLI::App& command, ConfigArguments& arguments);

// RUN... and --label, as plot and report take them.
struct RunArguments {
  std::vector<std::string> paths, labels;
  std::vector<NamedRun> named() const;  // throws UsageError where there are not as many labels as runs
  // Throws UsageError where `output` is the log of one of the runs.
  void keep_from(const std::string& output) const;
};
void add_run_arguments(CLI::App& command, RunArguments& arguments);

// Checks options that name a file or folder.
extern const CLI::Validator kNotEmpty;

// Checks the name of a file to write: not empty, and no file that a run is made of.
extern const CLI::Validator kOutput;

// Checks options that hold an unsigned number, as far as TOML has them: CLI11 takes -1 and 2^64 for one.
extern const CLI::Validator kUnsigned;

// --set A.B=C of what has no CONFIG; by default of a grid.
void add_settings_option(CLI::App& command, std::vector<std::string>& settings,
                         const std::string& help =
                             "changes one key in every cell that no axis changes: "
                             "--set train.epochs=10");

// --svg of what draws charts.
void add_svg_option(CLI::App& command, bool& svg);

// --overwrite of what writes a file, or a folder of files, that the user named.
void add_overwrite_option(CLI::App& command, bool& overwrite);
// Throws UsageError where something is at `output` that may be somebody's, and is not to be replaced. A file
// that begins with `own`, where that is not empty, is what lpmm made before.
void check_overwrite(const std::string& output, bool overwrite, std::string_view own = {});

// --threads; 0 stands for all processors.
void add_threads_option(CLI::App& command, int& threads);

// --compute of what reads a checkpoint; empty: as its run.
void add_compute_option(CLI::App& command, std::string& compute);
// The settings of load_config() for it.
std::vector<std::string> compute_settings(const std::string& compute);

// Flushes standard output. Throws std::system_error if that fails, for instance because its reader is gone.
void flush_output();

// The answer of a command: one JSON object on standard output, or aligned lines of "key  value".
void print_answer(const nlohmann::ordered_json& answer, bool as_json);

}  // namespace lpmm
