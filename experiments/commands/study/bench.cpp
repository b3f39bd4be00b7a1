// `lpmm bench`: the update step, the codecs, plain copies and whole training steps, measured.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/bench/ceilings.h"
#include "experiments/bench/quantiles.h"
#include "experiments/bench/train.h"
#include "experiments/bench/update.h"
#include "experiments/commands/arguments.h"
#include "experiments/pack/packed_data.h"
#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/host.h"
#include "lpmm/base/progress.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/rules.h"
#include "lpmm/memory/spec.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/setup.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

struct TrainSpeedArguments {
  ConfigArguments config;
  std::int64_t steps = 50, warm_up = 5;
  bool json = false;
};

int run_train_speed(const TrainSpeedArguments& o) {
  Progress progress(o.json);
  RunConfig given = o.config.load();
  pack_named_pictures(given, given.train.init.empty() ? "" : find_checkpoint(given.train.init), progress);
  const Setup setup = open_data(given);
  const RunConfig& config = setup.config;
  const auto device = make_device(config.train.device, config.train.threads);
  check_memory(make_plan(setup, *make_model(config), *device), *device);
  const auto data = load_data(setup, device->host_pool());
  const TrainSpeed speed =
      bench_train(config, *data, *device, o.steps, o.warm_up, progress.share_of("measuring steps"));
  const double products = product_speed(*device);
  const auto share = [&](double part) { return part / speed.seconds; };
  print_answer({{fmt::format("{}_per_second", data->unit()), speed.items_per_second},
                {"step_milliseconds", 1e3 * speed.median_step_seconds},
                {"data_share", share(speed.data_seconds)},
                {"compute_share", share(speed.compute_seconds)},
                {"update_share", share(speed.update_seconds)},
                {"product_gflops", products / 1e9},
                {"peak_rss_bytes", peak_rss_bytes()},
                {"steps", o.steps},
                {"batch", config.train.batch},
                {"microbatches", config.train.microbatches},
                {"device", device->name()},
                {"threads", device->host_threads()},
                {"model", config.model.name},
                {"preset", config.policy.preset},
                {"compute", config.train.compute == ValueType::kBf16 ? "bf16" : "fp32"}},
               o.json);
  return kDone;
}

void add_train(CLI::App& bench, Action& action) {
  auto o = std::make_shared<TrainSpeedArguments>();
  CLI::App* command = bench.add_subcommand("train", "Images per second of a configuration's training steps");
  add_config_arguments(*command, o->config);
  command->add_option("--steps", o->steps, "measured steps")
      ->check(CLI::Range(1, 1000000).description(""))
      ->capture_default_str();
  command->add_option("--warm-up", o->warm_up, "steps before them")
      ->check(CLI::Range(0, 1000000).description(""))
      ->capture_default_str();
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(R"(Example:
  lpmm bench train resnet20_cifar10 --preset lpmm --threads 2)");
  on_selected(*command, action, o, run_train_speed);
}

// The device on which kernels are measured.
struct DeviceArguments {
  std::string name = "cpu";
  int threads = 0;
};
void add_device_arguments(CLI::App& command, DeviceArguments& arguments) {
  command
      .add_option("--device", arguments.name,
                  fmt::format("where to measure: {}", fmt::join(kDeviceNames, ", ")))
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kDeviceNames), std::end(kDeviceNames)))
                  .description(""))
      ->capture_default_str();
  add_threads_option(command, arguments.threads);
}

// The kernels of packed memory on another instruction set than the best one here.
std::vector<std::string> simd_names() {
  return {kernels::simd_levels().begin(), kernels::simd_levels().end()};
}
void add_simd_option(CLI::App& command, std::string& simd) {
  command.add_option("--simd", simd, fmt::format("instruction set: {}", fmt::join(simd_names(), ", ")))
      ->check(CLI::IsMember(simd_names()).description(""))
      ->default_str(kernels::simd_level());
}
void use_simd(const std::string& name) {
  kernels::use_simd_level(name.c_str());
}

struct UpdateArguments {
  UpdateBenchOptions bench;
  DeviceArguments device;
  std::string simd;
  bool json = false;
};

int run_update(const UpdateArguments& o) {
  const UpdateBenchOptions& options = o.bench;
  use_simd(o.simd);
  Progress progress(o.json);
  const auto device = make_device(o.device.name, o.device.threads);
  const UpdateBenchResult result = bench_update(options, *device, progress.share_of("measuring updates"));
  ordered_json answer = {{"elements_per_second", result.elements_per_second},
                         {"packed_bytes_per_element", result.packed_bytes_per_element},
                         {"copy_gb_per_second", result.copy_gb_per_second},
                         {"fp32_roofline_ratio", result.fp32_roofline_ratio},
                         {"peak_extra_bytes", result.peak_extra_bytes}};
  if (options.watches) {
    answer["watched_elements_per_second"] = result.watched_per_second;
    answer["watched_with_peaks_elements_per_second"] = result.watched_with_peaks_per_second;
  }
  if (options.slots > 0) {
    answer["by_fp32_elements_per_second"] = result.by_fp32_per_second;
    answer["by_slots_elements_per_second"] = result.by_slots_per_second;
  }
  answer.update({{"device", device->name()},
                 {"simd", kernels::simd_level()},
                 {"optimizer", options.optimizer},
                 {"preset", options.preset},
                 {"elements", options.elements}});
  print_answer(answer, o.json);
  return kDone;
}

void add_update(CLI::App& bench, Action& action) {
  auto o = std::make_shared<UpdateArguments>();
  o->bench.optimizer = "sgd";
  o->bench.preset = "lpmm";
  o->bench.elements = std::int64_t{1} << 26;
  CLI::App* command =
      bench.add_subcommand("update", "The packed optimizer step against what fp32 could reach");
  command
      ->add_option("--optimizer", o->bench.optimizer,
                   fmt::format("{} (a momentum that is to be set is 0.9)", fmt::join(rule_names(), ", ")))
      ->capture_default_str();
  command->add_option("--preset", o->bench.preset, "memory policy")->capture_default_str();
  add_settings_option(*command, o->bench.settings, "changes one key of [optimizer] or [memory]");
  command->add_option("--elements", o->bench.elements, "parameters of the one tensor")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40).description(""))
      ->capture_default_str();
  command->add_flag("--watch", o->bench.watches,
                    "time updates that the watch measures too, without peaks and with them");
  command
      ->add_option("--slots", o->bench.slots,
                   "measure updates by a gradient of fp32 too, and by the sum of so many slots' accumulators")
      ->check(CLI::Range(2, 64).description(""));
  add_device_arguments(*command, o->device);
  add_simd_option(*command, o->simd);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(fp32_roofline_ratio: elements_per_second against copy_gb_per_second over the bytes an element takes in
fp32 (parameter and states read and written, the gradient read: 20 with one state, 8 more with each
other), which is what fp32 could reach. The copy runs in a process of its own, over as
many bytes, between 256 MiB and 2 GiB. peak_extra_bytes: resident memory of the updates above the tensors.
--set memory.rounding is of all roles, the spec of a role of that one alone.
Examples:
  lpmm bench update --optimizer adamw --preset lpmm --elements 536870912 --threads 2 --json
  lpmm bench update --optimizer adamw --preset lpmm-min --set memory.momentum=soft4:block128:qr)");
  on_selected(*command, action, o, run_update);
}

struct CodecArguments {
  std::vector<std::string> specs;
  std::int64_t elements = std::int64_t{1} << 26;
  DeviceArguments device;
  std::string simd;
  bool json = false;
};

int run_codec(const CodecArguments& o) {
  std::vector<Spec> specs;
  for (const std::string& text : o.specs) specs.push_back(parse_spec(text));
  if (specs.empty()) {
    for (const Format format : all_formats()) {
      specs.push_back(parse_spec(to_string(format)));
      if (format.map != Map::kFp32) specs.push_back(parse_spec(to_string(format) + ":rn"));
    }
  }
  using Column = std::pair<std::string_view, CodecSpeed CodecBenchRow::*>;
  static constexpr Column columns[] = {{"encode", &CodecBenchRow::encode},
                                       {"decode", &CodecBenchRow::decode},
                                       {"decode_bf16", &CodecBenchRow::decode_bf16},
                                       {"fold", &CodecBenchRow::fold}};
  use_simd(o.simd);
  ordered_json rows = ordered_json::array();
  Progress progress(o.json);
  const auto device = make_device(o.device.name, o.device.threads);
  for (const CodecBenchRow& row :
       bench_codec(specs, o.elements, *device, progress.share_of("measuring codecs"))) {
    ordered_json speeds = {{"spec", to_string(row.codec)}};
    for (const auto& [name, speed] : columns) {
      if ((row.*speed).elements_per_second == 0) continue;
      speeds[fmt::format("{}_elements_per_second", name)] = (row.*speed).elements_per_second;
      speeds[fmt::format("{}_copy_ratio", name)] = (row.*speed).copy_ratio;
    }
    rows.push_back(speeds);
  }
  if (o.json) {
    print_answer({{"device", device->name()},
                  {"simd", kernels::simd_level()},
                  {"elements", o.elements},
                  {"rows", rows}},
                 true);
    return kDone;
  }
  fmt::print("M elements per second, and bytes against those of a copy, with {}\n{:<24}",
             kernels::simd_level(), "spec");
  for (const auto& [name, speed] : columns) fmt::print(" {:>12} {:>6}", name, "copy");
  fmt::print("\n");
  for (const ordered_json& row : rows) {
    fmt::print("{:<24}", row["spec"].get<std::string>());
    for (const auto& [name, speed] : columns) {
      if (!row.contains(fmt::format("{}_elements_per_second", name))) {
        fmt::print(" {:>12} {:>6}", "-", "-");
        continue;
      }
      fmt::print(" {:>12.0f} {:>6.2f}", row[fmt::format("{}_elements_per_second", name)].get<double>() * 1e-6,
                 row[fmt::format("{}_copy_ratio", name)].get<double>());
    }
    fmt::print("\n");
  }
  return kDone;
}

void add_codec(CLI::App& bench, Action& action) {
  auto o = std::make_shared<CodecArguments>();
  CLI::App* command =
      bench.add_subcommand("codec", "Encode, decode and fold of each format against a plain copy");
  command
      ->add_option("--spec", o->specs, "spec to measure, may be repeated (default: every format, sr and rn)")
      ->allow_extra_args(false);
  command->add_option("--elements", o->elements, "fp32 values to encode and decode")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40).description(""))
      ->capture_default_str();
  add_device_arguments(*command, o->device);
  add_simd_option(*command, o->simd);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(copy: bytes read and written against those that a plain copy moves in the same time. decode_bf16 writes
panel after panel into the same room, as training reads a weight; fold is that of a second microbatch.
Example:
  lpmm bench codec --spec int12:block512:sr --spec de8:block256:rn --threads 2)");
  on_selected(*command, action, o, run_codec);
}

struct QuantileArguments {
  std::int64_t smallest = std::int64_t{1} << 20, largest = std::int64_t{1} << 26;
  DeviceArguments device;
  bool json = false;
};

int run_quantile_speed(const QuantileArguments& o) {
  if (o.smallest > o.largest) throw UsageError("bench quantiles: --from is more than --to");
  Progress progress(o.json);
  const auto device = make_device(o.device.name, o.device.threads);
  const std::vector<QuantileBenchRow> rows =
      bench_quantiles(o.smallest, o.largest, *device, progress.share_of("measuring quantiles"));
  if (o.json) {
    ordered_json all = ordered_json::array();
    for (const QuantileBenchRow& row : rows) {
      all.push_back({{"method", row.method},
                     {"values", row.values},
                     {"nanoseconds_per_value", row.nanoseconds_per_value},
                     {"processor_nanoseconds_per_value", row.processor_nanoseconds_per_value},
                     {"speed_against_sort", row.speed_against_sort},
                     {"rank_error", row.rank_error}});
    }
    print_answer({{"device", device->name()}, {"threads", device->host_threads()}, {"rows", all}}, true);
    return kDone;
  }
  fmt::print("256 quantiles on {}, {} threads; sorts on one thread of the host\n", device->name(),
             device->host_threads());
  fmt::print("{:<18} {:>12} {:>10} {:>10} {:>12} {:>12}\n", "method", "values", "ns/value", "processor",
             "times sort", "rank error");
  for (const QuantileBenchRow& row : rows) {
    fmt::print("{:<18} {:>12} {:>10.3f} {:>10.3f} {:>12.2f} {:>12.2e}\n", row.method, row.values,
               row.nanoseconds_per_value, row.processor_nanoseconds_per_value, row.speed_against_sort,
               row.rank_error);
  }
  return kDone;
}

void add_quantiles(CLI::App& bench, Action& action) {
  auto o = std::make_shared<QuantileArguments>();
  CLI::App* command =
      bench.add_subcommand("quantiles", "Quantiles by sorting, by sorted tiles and by counting");
  const auto add_count = [&](const char* name, std::int64_t& count, const char* help) {
    command->add_option(name, count, help)
        ->check(CLI::Range(std::int64_t{1} << 10, std::int64_t{1} << 32).description(""))
        ->capture_default_str();
  };
  add_count("--from", o->smallest, "normal values to begin with; then four times as many, and again");
  add_count("--to", o->largest, "values to end with");
  add_device_arguments(*command, o->device);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(processor: ns a value of all threads together, for machines that are busy otherwise. times sort: against
std::sort of the same values, by the clock. rank error: the largest distance of the 256 quantiles, from 1/512
to 511/512, from the ranks they should have, as a share of all ranks. tiles: the estimate by sorted tiles of
4,096; histogram: counts of bf16 keys, and two more passes for exact ones.
Example:
  lpmm bench quantiles --threads 1)");
  on_selected(*command, action, o, run_quantile_speed);
}

// The child of the other benchmarks: prints GB/s as one number.
struct CopyArguments {
  int threads = 0;
  std::int64_t bytes = kMostCopied;
};

int run_copy(const CopyArguments& o) {
  fmt::print("{}\n", host_copy_bandwidth(o.threads, o.bytes) / 1e9);
  return kDone;
}

void add_copy(CLI::App& bench, Action& action) {
  auto o = std::make_shared<CopyArguments>();
  CLI::App* command = bench.add_subcommand("copy", "GB/s of a plain copy")->group("");
  command->add_option("--bytes", o->bytes)->check(CLI::Range(kLeastCopied, kMostCopied).description(""));
  add_threads_option(*command, o->threads);
  on_selected(*command, action, o, run_copy);
}

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
  CLI::App* bench =
      program.add_subcommand("bench", "Measure the update step, the codecs, quantiles and training");
  bench->require_subcommand(1);
  bench->footer(R"(Examples:
  lpmm bench update --optimizer adamw --preset lpmm --elements 536870912 --threads 2 --json
  lpmm bench codec
  lpmm bench quantiles --threads 1
  lpmm bench train resnet20_cifar10 --preset lpmm)");
  add_update(*bench, action);
  add_codec(*bench, action);
  add_quantiles(*bench, action);
  add_copy(*bench, action);
  add_train(*bench, action);
}

}  // namespace lpmm
