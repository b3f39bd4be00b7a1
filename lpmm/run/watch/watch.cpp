#include "lpmm/run/watch/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/roles.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

Json spike_record(const Spike& s) {
  Json record = {{"type", "spike"}, {"step", s.step}, {"kind", kSpikeKinds[static_cast<std::size_t>(s.kind)]},
                 {"loss", s.loss},  {"mean", s.mean}, {"deviation", s.deviation},
                 {"size", s.size}};
  if (!s.tensor.empty()) record["tensor"] = s.tensor;
  return record;
}

double number_or_nan(const Json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

SpikeFile parse_spike(const Json& record) {
  if (record.at("type") != "spike") throw RunError("its first record is of another type than spike");
  SpikeFile file;
  Spike& s = file.spike;
  const auto* kind = std::find(std::begin(kSpikeKinds), std::end(kSpikeKinds), record.at("kind"));
  if (kind == std::end(kSpikeKinds)) throw RunError("kind is no kind of spike");
  s.kind = static_cast<SpikeKind>(kind - std::begin(kSpikeKinds));
  s.step = to_count(record.at("step"), "step");
  s.loss = number_or_nan(record.at("loss"));
  s.mean = number_or_nan(record.at("mean"));
  s.deviation = number_or_nan(record.at("deviation"));
  s.size = number_or_nan(record.at("size"));
  s.tensor = record.value("tensor", "");
  s.checkpoint = to_count(record.at("checkpoint"), "checkpoint");
  record.at("tensors").get_to(file.tensors);
  return file;
}

constexpr std::string_view kBefore = "before_", kLogEnd = ".jsonl";
std::string before_path(const std::string& run, std::int64_t step) {
  return fmt::format("{}/watch/{}{:08}{}", run, kBefore, step, kLogEnd);
}

std::string warning_of(const Spike& s, bool is_kept) {
  std::string text;
  switch (s.kind) {
    case SpikeKind::kFailed:
      text = fmt::format("step {} failed at {}", s.step, s.tensor);
      break;
    case SpikeKind::kLoss:
      text = fmt::format(
          "step {}: a spike: the loss is {:.4g}, {:.1f} deviations above the mean {:.4g} of "
          "the steps before",
          s.step, s.loss, s.size, s.mean);
      break;
    case SpikeKind::kRms:
      text = fmt::format("step {}: gradients of {} are {:.1f} times what its variance expects", s.step,
                         s.tensor, s.size);
  }
  return is_kept ? text + "; `lpmm watch` tells what moved first" : text;
}

}  // namespace

std::pair<int, double> weight_of(const Spike& s) {
  return {-static_cast<int>(s.kind), std::isnan(s.size) ? std::numeric_limits<double>::infinity() : s.size};
}

std::int64_t checkpoint_before(const std::string& run, std::int64_t step) {
  std::int64_t newest = 0;
  for (const std::int64_t saved : saved_steps(run + "/checkpoints")) {  // newest first
    if (saved >= step) continue;
    if (newest == 0) newest = saved;
    if (saved <= step - kStepsBefore) return saved;
  }
  return newest;
}

LossRange range_of(std::span<const double> losses) {
  if (losses.size() < kFewestLosses) return {};
  double sum = 0, squares = 0;
  for (const double loss : losses) sum += loss;
  const auto count = static_cast<double>(losses.size());
  for (const double loss : losses) squares += (loss - sum / count) * (loss - sum / count);
  return {sum / count, std::sqrt(squares / count)};
}

std::optional<Spike> find_spike(const UpdateStatistics& now, std::span<const std::string> names,
                                WatchState& state) {
  const LossRange range = range_of(state.losses);
  Spike spike{.step = now.step, .loss = now.loss, .mean = range.mean, .deviation = range.deviation};
  std::vector<SpikeKind> kinds;
  double rms = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < now.tensors.size(); ++i) {
    if (now.tensors[i].rms > rms) rms = now.tensors[i].rms, most = i;
  }
  if (!now.failed.empty()) kinds.push_back(SpikeKind::kFailed);
  if (now.failed.empty() && !range.holds(now.loss)) kinds.push_back(SpikeKind::kLoss);
  // Variances of the first steps know too little.
  if (rms >= kSpikeRms && state.losses.size() >= kFewestLosses) kinds.push_back(SpikeKind::kRms);
  if (std::isfinite(now.loss)) state.losses.push_back(now.loss);
  if (state.losses.size() > kWatchedLosses) state.losses.erase(state.losses.begin());
  std::optional<Spike> found;
  for (const SpikeKind kind : kinds) {
    std::int64_t& last = state.last[static_cast<std::size_t>(kind)];
    const bool is_new = last == 0 || now.step > last + kSameSpike;
    last = now.step;
    if (!is_new || found) continue;
    found = spike;
    found->kind = kind;
    if (kind == SpikeKind::kFailed) found->tensor = now.failed;
    if (kind == SpikeKind::kLoss) found->size = (now.loss - range.mean) / range.deviation;
    if (kind == SpikeKind::kRms) found->tensor = names[most], found->size = rms;
  }
  return found;
}

std::string spike_path(const std::string& run, std::int64_t step) {
  return fmt::format("{}/watch/spike_{:08}.jsonl", run, step);
}

SpikeFile read_spike(const std::string& path) {
  const std::vector<Json> records = read_log(path);
  try {
    if (records.empty()) throw RunError("it is empty");
    SpikeFile file = parse_spike(records[0]);
    for (std::size_t i = 1; i < records.size(); ++i) {
      file.statistics.push_back(parse_statistics(records[i], file.tensors.size()));
      if (i > 1 && file.statistics[i - 1].step <= file.statistics[i - 2].step) {
        throw RunError("its steps are not in order");
      }
    }
    return file;
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}: is no spike that a run kept: {}", path, error_text(e)));
  }
}

std::vector<SpikeFile> kept_spikes(const std::string& run, bool skips_damaged) {
  std::vector<SpikeFile> spikes;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(run + "/watch", error)) {
    const std::string name = item.path().filename().string();
    if (!name.starts_with("spike_") || !name.ends_with(".jsonl")) continue;
    try {
      spikes.push_back(read_spike(item.path().string()));
      spikes.back().statistics.clear();
    } catch (const RunError&) {
      if (!skips_damaged) throw;
    }
  }
  std::sort(spikes.begin(), spikes.end(),
            [](const SpikeFile& a, const SpikeFile& b) { return a.spike.step < b.spike.step; });
  return spikes;
}

bool is_watched(const RunConfig& config, std::int64_t step) {
  const auto& watch = config.watch;
  if (watch.every_steps == 0) return false;
  return step % watch.every_steps == 0 || (watch.log_every_steps > 0 && step % watch.log_every_steps == 0);
}

std::string unseen_note(const RunConfig& config, std::span<const TensorInfo> tensors) {
  const std::int64_t unseen = count_unseen(config.policy, config.optimizer, tensors);
  if (unseen == 0) return "";
  return fmt::format(
      "{} of {} tensors are not measured, as their gradients are applied at once "
      "(memory.accumulator = \"none\")",
      unseen, tensors.size());
}

std::int64_t watch_bytes(const RunConfig& config, std::int64_t tensors) {
  if (config.watch.every_steps == 0) return 0;
  const std::int64_t of_step =
      std::int64_t{sizeof(UpdateStatistics)} + tensors * std::int64_t{sizeof(UpdateStatistics::Tensor)};
  return static_cast<std::int64_t>(kKeptSteps) * of_step;
}

Watch::Watch(const RunConfig& config, const ModelMemory& memory, const Buffers& buffers,
             const std::string& run, WatchState& state, std::int64_t step)
    : config_(config), memory_(memory), buffers_(buffers), run_(run), state_(state) {
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < memory.tensors(); ++i) tensors.push_back(memory.info(i));
  for (const TensorInfo& t : tensors) names_.push_back(t.name);
  unseen_ = unseen_note(config, tensors);
  for (const SpikeFile& file : kept_spikes(run, true)) kept_.push_back(file.spike);  // training needs none
  if (keeps_steps() && step > 0) load(step);
}

void Watch::load(std::int64_t step) {
  const std::string path = before_path(run_, step);
  const auto forget = [&](const std::string& why) {
    statistics_.clear();
    missing_ = fmt::format(
        "the watch knows no steps before step {}, and what is kept of a spike soon after will say less: {}",
        step + 1, why);
  };
  std::vector<Json> records;
  try {
    records = read_log(path);
  } catch (const RunError& e) {
    return forget(e.what());  // names the file
  }
  try {
    for (const Json& record : records) {
      UpdateStatistics s = parse_statistics(record, names_.size());
      if (!statistics_.empty() && s.step <= statistics_.back().step) {
        throw RunError("its steps are not in order");
      }
      statistics_.push_back(std::move(s));
    }
    if (statistics_.empty() || statistics_.back().step != step || statistics_.size() > kKeptSteps) {
      throw RunError(fmt::format("it does not hold the last steps up to {}", step));
    }
  } catch (const std::exception& e) {
    forget(fmt::format("{}: {}", path, error_text(e)));
  }
}

std::string Watch::save(std::int64_t step) {
  if (!keeps_steps()) return "";
  std::string text;
  for (const UpdateStatistics& s : statistics_) text += statistics_record(s).dump() + '\n';
  const std::string lost = write(before_path(run_, step), text);
  if (lost.empty() || std::exchange(has_lost_, true)) return "";
  return "the watch's last steps are not kept for a resume: " + lost;
}

std::string Watch::write(const std::string& path, const std::string& text) const {
  try {
    check_disk(run_, memory_, buffers_, std::ssize(text));
    make_folder(run_ + "/watch");
    write_text(path, text);
  } catch (const RunError& e) {
    return e.what();
  }
  return "";
}

void Watch::drop_old() const {
  std::set<std::string> needed;
  for (const std::int64_t step : saved_steps(run_ + "/checkpoints")) needed.insert(before_path(run_, step));
  std::error_code error;
  for (const auto& item : fs::directory_iterator(run_ + "/watch", error)) {
    const std::string name = item.path().filename().string();
    if (!name.starts_with(kBefore) || !name.ends_with(kLogEnd)) continue;
    if (!needed.contains(run_ + "/watch/" + name)) fs::remove(item.path(), error);
  }
}

Watch::Said Watch::add(std::int64_t step, double loss, const std::string& failed) {
  Said said;
  if (config_.watch.every_steps == 0 || (!statistics_.empty() && statistics_.back().step >= step)) {
    return said;
  }
  statistics_.push_back(measure_update(memory_, step, loss, failed));
  if (statistics_.size() > kKeptSteps) statistics_.pop_front();
  const UpdateStatistics& now = statistics_.back();
  const std::int64_t every = config_.watch.log_every_steps;
  if (every > 0 && step % every == 0 && !now.tensors.empty()) said.records.push_back(statistics_record(now));
  const std::optional<Spike> spike = find_spike(now, names_, state_);
  if (!spike) return said;
  said.records.push_back(spike_record(*spike));
  const std::string lost = keep(*spike);
  const bool is_kept =
      std::any_of(kept_.begin(), kept_.end(), [&](const Spike& s) { return s.step == spike->step; });
  const bool is_lost = !lost.empty() && !std::exchange(has_lost_, true);
  if (spike->kind != SpikeKind::kLoss && !is_lost) return said;
  said.warning = warning_of(*spike, is_kept);
  if (!unseen_.empty()) said.warning += "; " + unseen_;
  if (is_lost) said.warning += "; a file of it is not kept: " + lost;
  return said;
}

// The largest stay. A resumed run may meet a spike again, which was kept then with more steps before it.
std::string Watch::keep(Spike spike) {
  const auto is_same = [&](const Spike& s) { return s.step == spike.step; };
  if (config_.watch.spikes == 0 || std::any_of(kept_.begin(), kept_.end(), is_same)) return "";
  const auto least = std::min_element(
      kept_.begin(), kept_.end(), [](const Spike& a, const Spike& b) { return weight_of(a) < weight_of(b); });
  const bool is_full = std::ssize(kept_) >= config_.watch.spikes;
  if (is_full && weight_of(spike) <= weight_of(*least)) return "";
  spike.checkpoint = checkpoint_before(run_, spike.step);
  Json head = spike_record(spike);
  head["checkpoint"] = spike.checkpoint;
  head["tensors"] = names_;
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  for (const UpdateStatistics& s : statistics_) text += statistics_record(s).dump() + '\n';
  if (std::string lost = write(spike_path(run_, spike.step), text); !lost.empty()) return lost;
  if (is_full) {
    std::error_code ignored;
    fs::remove(spike_path(run_, least->step), ignored);
    kept_.erase(least);
  }
  kept_.push_back(std::move(spike));
  return "";
}

std::vector<std::int64_t> Watch::needed_checkpoints() const {
  std::vector<std::int64_t> steps;
  for (const Spike& s : kept_) {
    if (s.checkpoint > 0) steps.push_back(s.checkpoint);
  }
  return steps;
}

}  // namespace lpmm
