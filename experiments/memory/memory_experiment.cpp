#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "experiments/memory/memory_experiment.h"
#include "experiments/plots/chart.h"
#include "experiments/plots/csv.h"
#include "experiments/plots/figures.h"
#include "experiments/plots/records.h"
#include "experiments/sweep/sweep.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/host.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/process.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/files/locked_file.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/setup.h"
#include "models/families.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;
using Settings = std::vector<std::string>;

// One of the shipped configurations, with settings that make it run on any machine: no data beside the
// program.
struct Subject {
  std::string name, config;
  Settings settings;
};
Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}
Subject resnet(const char* name) {
  return {name,
          "resnet20_cifar10.toml",
          {fmt::format("model.name={}", name), "data.set=drawn", "data.train_images=1024",
           "data.test_images=128"}};
}
Subject gpt(const std::string& name, const Settings& shape) {
  return {name, "gpt2_xl.toml",
          with({"data.tokenizer=bytes", "model.vocabulary=50257", "data.length=256", "train.batch=1",
                "model.recompute=true"},
               shape)};
}
Settings shape(int layers, int embedding, int heads) {
  return {"model.name=gpt", fmt::format("model.layers={}", layers),
          fmt::format("model.embedding={}", embedding), fmt::format("model.heads={}", heads),
          "model.context=2048"};
}

// GPT-2's sizes (Radford et al. 2019) and GPT-3's (Brown et al. 2020, table 2.1).
std::vector<Subject> named_gpts() {
  return {gpt("GPT-2 124M", {"model.name=gpt2"}),       gpt("GPT-2 355M", {"model.name=gpt2-medium"}),
          gpt("GPT-2 774M", {"model.name=gpt2-large"}), gpt("GPT-2 1.5B", {"model.name=gpt2-xl"}),
          gpt("GPT-3 2.7B", shape(32, 2560, 32)),       gpt("GPT-3 6.7B", shape(32, 4096, 32)),
          gpt("GPT-3 13B", shape(40, 5120, 40)),        gpt("GPT-3 175B", shape(96, 12288, 96))};
}

// Plans that differ in few settings share the text they read.
class Planner {
 public:
  explicit Planner(std::string configs) : configs_(std::move(configs)) {}
  const Setup& setup(const Subject& subject, const std::string& preset, const Settings& more = {}) {
    const RunConfig config =
        load_config(configs_ + "/" + subject.config,
                    with_families({.preset = preset, .settings = with(subject.settings, more)}));
    setup_ = setup_ ? open_data(config, *setup_) : open_data(config);
    return *setup_;
  }
  Plan plan(const Subject& subject, const std::string& preset, const Settings& more = {}) {
    const Setup& planned = setup(subject, preset, more);
    return make_plan(planned, *make_model(planned.config));
  }

 private:
  std::string configs_;
  std::optional<Setup> setup_;
};

struct MemoryRow {
  std::string subject, preset;
  Plan plan;
  std::optional<std::int64_t> measured;  // peak of the resident memory of a run of two steps
};

// Trains two steps in a process of its own, where that was not done before.
std::int64_t measure(Planner& planner, const Subject& subject, const std::string& preset,
                     const MemoryExperiment& o) {
  const fs::path folder = fs::path(o.out) / "runs" / file_name(fmt::format("{}__{}", subject.name, preset));
  const Settings short_run = {"train.steps=2", "train.eval_every_epochs=0", "checkpoint.final=false"};
  const RunConfig config = planner.setup(subject, preset, short_run).config;
  std::optional<Json> summary = finished_run(folder.string(), config);
  if (!summary) {
    make_folder(folder.string());
    std::vector<std::string> arguments = {own_program(), "train", o.configs + "/" + subject.config,
                                          "--preset", preset};
    for (const std::string& s : with(subject.settings, short_run))
      arguments.insert(arguments.end(), {"--set", s});
    if (o.threads > 0) arguments.insert(arguments.end(), {"--threads", std::to_string(o.threads)});
    arguments.insert(arguments.end(), {"--quiet", "--resume", "--out", folder.string()});
    const std::string output = (folder / "output.txt").string();
    const int code = wait_process(start_process(arguments, {output, ""}));
    summary = finished_run(folder.string(), config);
    if (code != 0 || !summary) {
      throw RunError(
          fmt::format("{} with {} ended with exit code {}: see {}", subject.name, preset, code, output));
    }
  }
  const auto peak = number_in(*summary, "peak_rss_bytes");
  if (!peak) throw RunError(folder.string() + ": its summary lacks peak_rss_bytes");
  return static_cast<std::int64_t>(*peak);
}

// The largest size for which `fits`, which holds for all smaller ones; 0 where it holds for none.
int largest(int limit, const std::function<bool(int)>& fits) {
  int low = 0, high = limit + 1;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

struct Largest {
  int gigabytes;
  std::string rule, preset, named;
  std::int64_t gpt_parameters = 0, resnet_parameters = 0;
  int gpt_layers = 0, resnet_widen = 0;
};

// A GPT of L layers, 128 L wide, as GPT-3's largest are; a ResNet-110 with L times the channels.
Subject gpt_of(int layers) {
  return gpt("gpt", shape(layers, 128 * layers, layers));
}
Subject resnet_of(int widen) {
  Subject s = resnet("resnet110");
  s.settings =
      with(s.settings, {fmt::format("model.widen={}", widen), "train.batch=128", "train.microbatches=8"});
  return s;
}

Largest find_largest(Planner& planner, int gigabytes, const std::string& rule, const std::string& preset) {
  Largest out{.gigabytes = gigabytes, .rule = rule, .preset = preset, .named = "none"};
  const Settings optimizer = rule == "adamw" ? Settings{"optimizer.rule=adamw"}
                                             : Settings{"optimizer.rule=sgd", "optimizer.momentum=0.9"};
  const auto peak = [&](const Subject& s) { return planner.plan(s, preset, optimizer).peak_bytes; };
  const auto fits = [&](const Subject& s) { return peak(s) <= std::int64_t{gigabytes} * 1'000'000'000; };
  const auto parameters = [&](const Subject& s) {
    return planner.plan(s, preset, optimizer).ledger.parameters;
  };
  for (const Subject& s : named_gpts()) {
    if (fits(s)) out.named = s.name;
  }
  out.gpt_layers = largest(96, [&](int layers) { return fits(gpt_of(layers)); });
  if (out.gpt_layers > 0) out.gpt_parameters = parameters(gpt_of(out.gpt_layers));
  out.resnet_widen = largest(256, [&](int widen) { return fits(resnet_of(widen)); });
  if (out.resnet_widen > 0) out.resnet_parameters = parameters(resnet_of(out.resnet_widen));
  return out;
}

// Models of o.models with all presets; those that fit are trained. Stops where the user asks for it.
std::vector<MemoryRow> plan_and_measure(Planner& planner, const MemoryExperiment& o, Progress& progress) {
  constexpr std::int64_t kSmall = 130'000'000, kMost = 1'000'000'000;  // parameters of what is trained
  std::vector<Subject> subjects;
  for (const char* name : {"resnet8", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110"})
    subjects.push_back(resnet(name));
  subjects.push_back({"MLP 100M", "mlp_100m.toml", {}});
  const Settings embedded = {"data.path=\"\""};  // the licence texts
  subjects.push_back({"GPT characters 0.8M", "gpt_char_shakespeare.toml", embedded});
  subjects.push_back(
      {"GPT characters 11M", "gpt_char_shakespeare_384.toml", with(embedded, {"train.batch=16"})});
  for (Subject& s : named_gpts()) subjects.push_back(std::move(s));
  std::vector<MemoryRow> rows;
  std::vector<std::string_view> names;
  for (const Subject& subject : subjects) {
    names.push_back(subject.name);
    if (!matches_pattern(o.models, subject.name)) continue;
    for (const std::string& preset : o.presets) {
      if (InterruptGuard::asked()) return rows;
      MemoryRow row{subject.name, preset, planner.plan(subject, preset), {}};
      if (row.plan.peak_bytes < available_memory() / 10 * 9 &&
          row.plan.ledger.parameters <= (o.quick ? kSmall : kMost)) {
        progress.say(fmt::format("memory: two steps of {} with {}", subject.name, preset));
        row.measured = measure(planner, subject, preset, o);
      }
      rows.push_back(std::move(row));
    }
  }
  if (rows.empty())
    throw UsageError(fmt::format("no model is called {}; there are {}", o.models, join(names)));
  return rows;
}

constexpr const char* kRules[] = {"sgd", "adamw"};

std::vector<int> sizes_of(const MemoryExperiment& o) {
  return o.quick ? std::vector<int>{6} : o.gigabytes;
}

std::vector<Largest> find_all_largest(Planner& planner, const MemoryExperiment& o, Progress& progress) {
  std::vector<Largest> found;
  for (const char* rule : kRules) {
    for (const int gigabytes : sizes_of(o)) {
      for (const std::string& preset : o.presets) {
        if (InterruptGuard::asked()) return found;
        progress.say(
            fmt::format("memory: the largest models in {} GB with {} and {}", gigabytes, rule, preset));
        found.push_back(find_largest(planner, gigabytes, rule, preset));
      }
    }
  }
  return found;
}

std::string memory_csv(std::span<const MemoryRow> rows) {
  std::string csv = "model,preset,parameters,bits_per_parameter";
  for (const std::string& part : memory_parts()) csv += fmt::format(",{}_bytes", part);
  csv +=
      ",activation_bytes,workspace_bytes,data_bytes,overhead_bytes,planned_peak_bytes,measured_peak_bytes\n";
  for (const MemoryRow& row : rows) {
    const Plan& plan = row.plan;
    const Ledger& ledger = plan.ledger;
    csv += fmt::format("{},{},{},{:.4f}", csv_field(row.subject), csv_field(row.preset), ledger.parameters,
                       ledger.bits_per_parameter());
    const auto parts = model_memory_json(ledger);
    for (const std::string& part : memory_parts()) csv += fmt::format(",{}", parts[part].get<std::int64_t>());
    csv += "," + csv_line(ledger.activations, ledger.workspace, plan.data_bytes, plan.overhead_bytes,
                          plan.peak_bytes, row.measured ? std::to_string(*row.measured) : "");
  }
  return csv;
}

std::string largest_csv(std::span<const Largest> found) {
  std::string csv = csv_line("gigabytes", "optimizer", "preset", "largest_named", "gpt_layers",
                             "gpt_parameters", "resnet110_widen", "resnet110_parameters");
  for (const Largest& l : found) {
    csv += csv_line(l.gigabytes, l.rule, l.preset, l.named, l.gpt_layers, l.gpt_parameters, l.resnet_widen,
                    l.resnet_parameters);
  }
  return csv;
}

// Model memory of one model by role, stacked, a column for each preset.
Chart roles_of(std::span<const MemoryRow> rows, const std::string& model, const MemoryExperiment& o) {
  Chart chart{model + ", model memory", "", "bytes per parameter", "set boxwidth 0.8\nset xtics (", {}};
  for (std::size_t i = 0; i < o.presets.size(); ++i)
    chart.scales += fmt::format("{}'{}' {}", i == 0 ? "" : ", ", file_name(o.presets[i]), i);
  chart.scales += ") noenhanced rotate by 30 right\nset yrange [0:*]\n";
  // The whole column first; what lies below covers it.
  const auto parts = memory_parts();
  for (std::size_t part = parts.size(); part-- > 0;) {
    ChartSeries boxes{
        parts[part],
        fmt::format("boxes fs solid noborder lc '{}'", kRunColours[part % std::size(kRunColours)]),
        {}};
    for (const MemoryRow& row : rows) {
      const auto preset = std::find(o.presets.begin(), o.presets.end(), row.preset);
      if (row.subject != model || preset == o.presets.end()) continue;
      const auto bytes = model_memory_json(row.plan.ledger);
      double below = 0;
      for (std::size_t i = 0; i <= part; ++i) below += bytes[parts[i]].get<double>();
      boxes.points.emplace_back(static_cast<double>(preset - o.presets.begin()),
                                below / static_cast<double>(row.plan.ledger.parameters));
    }
    chart.series.push_back(std::move(boxes));
  }
  return chart;
}

std::vector<Chart> charts_of(std::span<const MemoryRow> rows, std::span<const Largest> found,
                             const MemoryExperiment& o) {
  constexpr const char* kPowers = "set logscale x\nset format x '10^{%L}'";
  Chart bits{"bits per parameter", "parameters", "all of model memory", kPowers, {}};
  Chart ratio{"measured over planned peak", "planned bytes", "", kPowers, {}};
  const auto style = [&](const char* kind, std::size_t preset) {
    return fmt::format("{} pt 7 lc '{}'", kind, kRunColours[preset % std::size(kRunColours)]);
  };
  for (std::size_t i = 0; i < o.presets.size(); ++i) {
    bits.series.push_back({o.presets[i], style("points", i), {}});
    ratio.series.push_back({o.presets[i], style("points", i), {}});
    for (const MemoryRow& row : rows) {
      if (row.preset != o.presets[i]) continue;
      bits.series[i].points.emplace_back(row.plan.ledger.parameters, row.plan.ledger.bits_per_parameter());
      const auto planned = static_cast<double>(row.plan.peak_bytes);
      if (row.measured)
        ratio.series[i].points.emplace_back(planned, static_cast<double>(*row.measured) / planned);
    }
  }
  std::vector<Chart> charts = {std::move(bits), std::move(ratio), roles_of(rows, "GPT-2 124M", o)};
  const std::string scales =
      fmt::format("set logscale xy\nset format y '10^{{%L}}'\nset xtics ({})", fmt::join(sizes_of(o), ", "));
  const std::pair<const char*, std::int64_t Largest::*> families[] = {
      {"GPT", &Largest::gpt_parameters}, {"ResNet-110 by width", &Largest::resnet_parameters}};
  for (const char* rule : kRules) {
    for (const auto& [family, parameters] : families) {
      Chart chart{fmt::format("largest {}, {}", family, rule), "gigabytes", "parameters", scales, {}};
      for (std::size_t i = 0; i < o.presets.size(); ++i) {
        ChartSeries line{o.presets[i], style("linespoints", i), {}};
        for (const Largest& l : found) {
          if (l.preset == o.presets[i] && l.rule == rule)
            line.points.emplace_back(l.gigabytes, l.*parameters);
        }
        chart.series.push_back(std::move(line));
      }
      charts.push_back(std::move(chart));
    }
  }
  std::erase_if(charts, [](const Chart& chart) {
    return std::all_of(chart.series.begin(), chart.series.end(),
                       [](const ChartSeries& s) { return s.points.empty(); });
  });
  return charts;
}

template <class T>
void refuse_twice(const char* option, std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const auto at = std::adjacent_find(values.begin(), values.end());
  if (at != values.end()) throw UsageError(fmt::format("{}: {} is given twice", option, *at));
}

}  // namespace

int run_memory_experiment(const MemoryExperiment& o) {
  refuse_twice("--presets", o.presets);
  refuse_twice("--gigabytes", o.gigabytes);
  const InterruptGuard guard;
  Progress progress(false);
  Planner planner(o.configs);
  const FolderLock lock(o.out, "another experiment");
  const std::vector<MemoryRow> rows = plan_and_measure(planner, o, progress);
  if (InterruptGuard::asked()) return kInterrupted;
  write_text((fs::path(o.out) / "memory.csv").string(), memory_csv(rows));
  const std::vector<Largest> found = find_all_largest(planner, o, progress);
  if (InterruptGuard::asked()) return kInterrupted;
  write_text((fs::path(o.out) / "largest.csv").string(), largest_csv(found));
  draw_picture({charts_of(rows, found, o)}, (fs::path(o.out) / "memory").string(), o.svg);
  progress.say(fmt::format("memory: wrote memory.csv, largest.csv and memory.png to {}", o.out));
  return kDone;
}

}  // namespace lpmm
