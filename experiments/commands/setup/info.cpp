// `lpmm info`: what this build can do on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "kernels/compute.h"
#include "kernels/cpu.h"
#include "kernels/device.h"
#include "kernels/formats/maps.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/host.h"
#include "lpmm/base/text.h"
#include "lpmm/data/images.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/spec.h"
#include "lpmm/version.h"
#include "models/published/table.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

struct InfoArguments {
  bool json = false;
};

// Smallest value above zero and largest, in units of the step.
ordered_json format_row(Format format) {
  ordered_json row = {{"name", to_string(format)}, {"bits", format.bits}, {"signed", is_signed(format.map)}};
  row["zero"] = !is_zero_free(format.map);
  const MapRow& map = row_of(format.map);
  row["values"] = map.values;
  row["use"] = map.use;
  row["paper"] = map.paper;
  if (!is_packed(format)) return row;
  const MapTable table = map_table(format, kRanges - 1);
  float smallest = 1;
  for (int i = 0; i < table.entries; ++i) {
    if (table.values[i] > 0 && table.values[i] < smallest) smallest = table.values[i];
  }
  row["smallest"] = smallest;
  row["largest"] = map_limit(format);
  return row;
}

ordered_json presets() {
  ordered_json all = ordered_json::object();
  for (const std::string_view name : preset_names()) {
    const Policy policy = make_policy(name),
                 sgd = make_policy(name, {.rule = RuleName::of<Sgd>(), .settings = {{"momentum", 0.9}}}),
                 adagrad = make_policy(name, {.rule = RuleName::of<Adagrad>()});
    ordered_json& preset = all[std::string(name)];
    for (const Role role : kEveryElementRole) {
      preset[std::string(to_string(role))] = to_string(role, policy.specs[role]);
    }
    preset["error_feedback"] =
        !sgd.error_feedback ? "no"
                            : fmt::format("with {} and momentum{}", Sgd::kName,
                                          sgd.accumulate_in_momentum ? ", but not Nesterov or clipping" : "");
    if (policy.min_elements > 0) preset["min_elements"] = policy.min_elements;
    if (sgd.accumulate_in_momentum) {
      preset["sgd_parameter"] = to_string(sgd.specs[Role::kParameter]);
      preset["sgd_accumulator"] = kInMomentum;
      preset["sgd_momentum"] = to_string(sgd.specs[Role::kMomentum]);
    }
    if (adagrad.specs[Role::kVariance] != policy.specs[Role::kVariance]) {
      preset["adagrad_variance"] = to_string(adagrad.specs[Role::kVariance]);
    }
  }
  return all;
}

// Describes each rule, with its usual settings where they matter.
ordered_json rule_table() {
  ordered_json table = ordered_json::object();
  for (const std::string_view name : rule_names()) {
    const OptimizerConfig usual = {.rule = RuleName::find(name).value()};
    const RuleRow& row = rule_row(usual.rule);
    ordered_json states = ordered_json::array(), settings = ordered_json::array();
    for (const Role role : row.states) {
      if (uses(usual, role)) states.push_back(to_string(role));
    }
    for (const SettingRow& s : row.settings) settings.push_back(s.key.text());
    table[std::string(name)] = {{"help", row.help},
                                {"settings", settings},
                                {"states", states},
                                {"needs_whole_tensors", row.needs_whole_tensors(usual.settings)},
                                {"may_accumulate", row.may_accumulate}};
  }
  return table;
}

void print_rule_texts() {
  fmt::print("\n");
  for (const std::string_view name : rule_names()) {
    fmt::print("{:<16} {}\n", name, rule_row(RuleName::find(name).value()).help);
  }
}

void print_formats(const ordered_json& rows) {
  fmt::print("\n{:<8} {:>4} {:>9} {:>6} {:>12} {:>8}  {}\n", "format", "bits", "sign", "zero", "smallest",
             "largest", "use");
  for (const ordered_json& row : rows) {
    fmt::print("{:<8} {:>4} {:>9} {:>6}", row["name"].get<std::string>(), row["bits"].get<int>(),
               row["signed"].get<bool>() ? "signed" : "unsigned", row["zero"].get<bool>() ? "yes" : "none");
    if (row.contains("smallest")) {
      fmt::print(" {:>12.4g} {:>8g}", row["smallest"].get<double>(), row["largest"].get<double>());
    } else {
      fmt::print("{:22}", "");
    }
    fmt::print("  {}\n", row["use"].get<std::string>());
  }
  fmt::print(
      "smallest and largest are in units of the step\n"
      "a spec is FORMAT[:blockN|row|rank1][:step32][:rn|sr|qr|ur|ar][:moving|sticky|floored]; of states,\n"
      "row: a step for each row, rank1: the smaller one of row and column, step32: steps in fp32,\n"
      "floored: these are 1e-12 at least\n\n");
}

ordered_json backend_rows() {
  ordered_json rows = ordered_json::array();
  for (const BackendInfo& b : backends()) {
    ordered_json row = {{"name", b.name}, {"compiled", b.is_built}, {"available", b.is_available()}};
    if (!b.device.empty()) row["device"] = b.device;
    if (!b.compute_capability.empty()) row["compute_capability"] = b.compute_capability;
    if (b.memory_bytes > 0) row["memory_bytes"] = b.memory_bytes;
    row["libraries"] = b.libraries;
    if (!b.is_available()) row["why_not"] = b.why_not;
    rows.push_back(row);
  }
  return rows;
}

std::string backends_text() {
  std::vector<std::string> texts;
  for (const BackendInfo& b : backends()) {
    const std::string about = b.is_available() ? b.device : b.why_not;
    texts.push_back(about.empty() ? std::string(b.name) : fmt::format("{} ({})", b.name, about));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Lists the files and keys of published models that are read, kept and written back.
ordered_json publisher_tables() {
  ordered_json tables = ordered_json::object();
  for (const Publisher& publisher : publishers()) {
    ordered_json& table = tables[std::string(publisher.name)];
    for (const FileRow& row : publisher.files) {
      table["files"].push_back({{"name", row.name}, {"use", to_string(row.use)}, {"means", row.means}});
    }
    for (const KeyRow& row : publisher.keys) {
      ordered_json key = {{"key", row.key}, {"use", to_string(row.use)}, {"means", row.means}};
      if (!row.types.empty()) key["of"] = row.types;
      if (!row.absent.empty()) key["absent"] = ordered_json::parse(row.absent);
      table["keys"].push_back(key);
    }
  }
  return tables;
}

int run_info(const InfoArguments& o) {
  const std::string data = data_folder();
  ordered_json answer = {{"version", LPMM_VERSION},
                         {"compiler", fmt::format("{} {}", LPMM_COMPILER, __VERSION__)},
                         {"processor", cpu_name()},
                         {"threads", Pool::usable_processors()},
                         {"available_memory_bytes", available_memory()},
                         {"simd", kernels::simd_levels()},
                         {"compute_library", kernels::cpu_library()},
                         {"backends", backends_text()},
                         {"data_folder", data},
                         {"cifar10", has_cifar10(data)},
                         {"rules", rule_names()},
                         {"presets", presets()}};
  ordered_json formats = ordered_json::array();
  for (const Format format : all_formats()) formats.push_back(format_row(format));
  if (!o.json) {
    print_answer(answer, false);
    print_rule_texts();
    print_formats(formats);
    return kDone;
  }
  answer["rule_table"] = rule_table();
  answer["formats"] = formats;
  answer["backends"] = backend_rows();
  answer["publishers"] = publisher_tables();
  print_answer(answer, true);
  return kDone;
}

}  // namespace

void add_info_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<InfoArguments>();
  CLI::App* command = program.add_subcommand("info", "Say what this build can do on this machine");
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(R"(Version, compiler, instruction sets, oneDNN, CUDA (or why not), data folder, rules,
presets and formats; with --json also which files and keys of published models are read or kept.
Examples:
  lpmm info
  lpmm info --json)");
  on_selected(*command, action, o, run_info);
}

}  // namespace lpmm
