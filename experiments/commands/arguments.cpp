#include "experiments/commands/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "experiments/commands/shipped_configs.h"
#include "experiments/plots/plot.h"
#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/policy.h"
#include "lpmm/run/run_folder.h"
#include "models/families.h"

namespace lpmm {

RunConfig ConfigArguments::load(const ModelConfig* start) const {
  ConfigOptions all = with_families(options);
  all.start = start;
  if (threads >= 0) all.settings.push_back(fmt::format("train.threads={}", threads));
  if (!device.empty()) all.settings.push_back(fmt::format("train.device={}", device));
  RunConfig config = load_config(find_config(path), all);
  if (!config.left_out.empty()) {
    tell(fmt::format("{}: an earlier program wrote settings that {} does not have; left out: {}\n",
                     printable(path), config.optimizer.rule.text(), fmt::join(config.left_out, ", ")));
  }
  return config;
}

void add_config_arguments(CLI::App& command, ConfigArguments& arguments) {
  command.add_option("CONFIG", arguments.path, "TOML file of the run, or a name: resnet8_drawn")->required();
  command.add_option(
      "--preset", arguments.options.preset,
      fmt::format("memory policy in place of the file's specs, error feedback and min_elements: {}",
                  join(preset_names())));
  command.add_option(
      "--rounding", arguments.options.rounding,
      "every role's rounding: sr (stochastic), qr (quasi-stochastic) or rn (nearest) (default: the "
      "preset's)");
  add_threads_option(command, arguments.threads);
  command.add_option("--device", arguments.device,
                     fmt::format("where to train: {}", fmt::join(kDeviceNames, ", ")));
  command
      .add_option("--set", arguments.options.settings,
                  "changes one key of CONFIG: --set train.epochs=10; `lpmm config` lists them")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
}

const CLI::Validator kNotEmpty([](std::string& text) { return text.empty() ? "is empty" : std::string(); },
                               "");

const CLI::Validator kOutput(
    [](std::string& text) {
      if (text.empty()) return std::string("is empty");
      const std::string run = run_made_of(text);
      return run.empty() ? run
                         : fmt::format("{} is part of the run {}; name another file", text, printable(run));
    },
    "");

const CLI::Validator kUnsigned(
    [](std::string& text) {
      std::uint64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      const bool whole = error == std::errc() && end == text.data() + text.size() && value >> 63 == 0;
      return whole ? std::string() : text + " is not a whole number from 0 to 2^63 - 1";
    },
    "", "unsigned");

std::vector<NamedRun> RunArguments::named() const {
  if (!labels.empty() && labels.size() != paths.size()) {
    throw UsageError(
        fmt::format("{} labels for {} runs; give one --label per run, or none", labels.size(), paths.size()));
  }
  std::vector<NamedRun> out;
  for (std::size_t i = 0; i < paths.size(); ++i) out.push_back({paths[i], labels.empty() ? "" : labels[i]});
  return out;
}

void RunArguments::keep_from(const std::string& output) const {
  namespace fs = std::filesystem;
  std::error_code none;  // a path that leads nowhere fails where it is opened
  const fs::path target = fs::weakly_canonical(output, none);
  for (const std::string& path : paths) {
    if (target != fs::weakly_canonical(log_path(path), none)) continue;
    throw UsageError(fmt::format("{} is the log that is read; name another file", output));
  }
}

void add_run_arguments(CLI::App& command, RunArguments& arguments) {
  command.add_option("RUN", arguments.paths, "run folders or log.jsonl files")->required();
  command
      .add_option("--label", arguments.labels,
                  "name of a run, in the order of the runs (default: its folder's)")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_settings_option(CLI::App& command, std::vector<std::string>& settings, const std::string& help) {
  command.add_option("--set", settings, help)
      ->type_name("A.B=C")
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_svg_option(CLI::App& command, bool& svg) {
  command.add_flag("--svg", svg, "draw every chart as an SVG file too");
}

void add_overwrite_option(CLI::App& command, bool& overwrite) {
  command.add_flag("--overwrite", overwrite, "replace what is there under the name of the output");
}

void check_overwrite(const std::string& output, bool overwrite, std::string_view own) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool is_file = fs::is_regular_file(output, error);
  if (is_file && !own.empty()) {
    std::string begin(own.size(), '\0');
    std::ifstream(output, std::ios::binary).read(begin.data(), std::ssize(begin));
    if (begin == own) return;
  }
  const bool has_files = fs::is_directory(output, error) && !fs::is_empty(output, error);
  if (overwrite || (!is_file && !has_files)) return;
  throw UsageError(fmt::format("{}: {} already; name another, or replace it with --overwrite", output,
                               is_file ? "is there" : "holds files"));
}

void add_threads_option(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "0: all processors; results do not depend on it")
      ->check(CLI::Range(0, 1024).description(""));
}

void add_compute_option(CLI::App& command, std::string& compute) {
  command.add_option("--compute", compute, "fp32 or bf16 (default: as the run)")
      ->check(CLI::IsMember({"fp32", "bf16"}).description(""));
}

std::vector<std::string> compute_settings(const std::string& compute) {
  if (compute.empty()) return {};
  return {"train.compute=" + compute};
}

namespace {

constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;  // for bytes that are not UTF-8

void print_lines(const nlohmann::ordered_json& value, const std::string& prefix) {
  for (const auto& [key, item] : value.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (item.is_object()) {
      print_lines(item, name);
    } else if (item.is_number_float()) {
      fmt::print("{:<34} {:.6g}\n", name, item.get<double>());
    } else {
      const std::string text =
          item.is_string() ? item.get<std::string>() : item.dump(-1, ' ', false, kReplace);
      fmt::print("{:<34} {}\n", name, printable(text));
    }
  }
}

}  // namespace

void flush_output() {
  if (std::fflush(stdout) == 0) return;
  throw std::system_error(errno, std::generic_category(), "standard output cannot be written");
}

void print_answer(const nlohmann::ordered_json& answer, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", answer.dump(2, ' ', false, kReplace));
  } else {
    print_lines(answer, "");
  }
  flush_output();
}

}  // namespace lpmm
