#include "lpmm/run/run_progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "lpmm/version.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

std::int64_t count_of(const Json& j, const char* key) {
  return to_count(j.at(key), key);
}

// A sum that is NaN or Inf is null in JSON.
Json meter_json(const Meter& m) {
  Json j = {{"loss_sum", m.loss_sum}, {"correct", m.correct}, {"count", m.count}};
  if (m.margin_sum != 0) j["margin_sum"] = m.margin_sum;
  return j;
}

WatchState parse_watch(const Json& j) {
  WatchState s;
  j.at("losses").get_to(s.losses);
  if (s.losses.size() > kWatchedLosses) throw RunError("more losses than the watch goes by");
  const Json& last = j.at("last");
  if (!last.is_array() || last.size() != s.last.size()) throw RunError("watch.last is not one per kind");
  for (std::size_t i = 0; i < s.last.size(); ++i) s.last[i] = to_count(last[i], "watch.last");
  return s;
}

// A score that is NaN is null in JSON.
DataSource::Scores parse_scores(const Json& j) {
  constexpr std::size_t kMost = 16, kLongestName = 64;
  if (!j.is_object() || j.size() > kMost) throw RunError("scores is no list of some");
  DataSource::Scores scores;
  for (const auto& [name, value] : j.items()) {
    if (name.empty() || name.size() > kLongestName || !(value.is_null() || value.is_number())) {
      throw RunError("scores holds what is no score");
    }
    scores.emplace_back(name, value.is_null() ? std::nan("") : value.get<double>());
  }
  return scores;
}

BestTest parse_best(const Json& j, std::int64_t step) {
  BestTest best{count_of(j, "step"), j.at("loss").get<double>(), count_of(j, "tests_since")};
  if (best.step < 1 || best.step > step) throw RunError("best.step is none of this run's");
  return best;
}

Meter parse_meter(const Json& j) {
  Meter m;
  const auto sum = [&](const char* key) {
    return j.at(key).is_null() ? std::nan("") : j.at(key).get<double>();
  };
  m.loss_sum = sum("loss_sum");
  if (j.contains("margin_sum")) m.margin_sum = sum("margin_sum");
  m.correct = count_of(j, "correct");
  m.count = count_of(j, "count");
  return m;
}

// "1000 tokens with the checksum 0123abcd", of what Task::identity() said.
std::string data_text(const Json& data) {
  std::string text;
  for (const auto& [key, value] : data.items()) {
    if (!value.is_number_integer()) continue;
    text += key == "crc32" ? fmt::format(" with the checksum {:08x}", value.get<std::uint64_t>())
                           : fmt::format("{} {}", value.get<std::uint64_t>(), key);
  }
  return text.empty() ? data.dump() : text;
}

// Says how many training examples the run had if they made another number of steps per epoch than `examples`
// do; empty if they made as many, or if the counts of the state do not fit together.
std::string change_of_examples(const Json& saved, std::int64_t examples, std::int64_t batch,
                               bool keeps_last) {
  constexpr std::int64_t kMostSteps = std::int64_t{1} << 32;
  const auto number = [&](const char* key) { return saved.value(key, Json()); };
  for (const char* key : {"step", "epoch", "index"}) {
    const Json n = number(key);
    if (!n.is_number_integer() || n < 0 || n >= kMostSteps) return "";
  }
  const std::int64_t step = number("step"), epoch = number("epoch"), index = number("index");
  const std::int64_t now = std::max<std::int64_t>(1, steps_in(examples, batch, keeps_last));
  const std::int64_t rest = keeps_last ? 1 - batch : 0;  // a last batch may have one example alone
  if (step / now == epoch && step % now == index) return "";
  if (epoch == 0) {
    if (index != step) return "";
    return fmt::format("was trained on at least {} examples: it is at step {} of its first epoch",
                       (step + 1) * batch + rest, step);
  }
  const std::int64_t before = (step - index) / epoch;
  if (before <= index || before * epoch + index != step) return "";
  return fmt::format("was trained on {} to {} examples: an epoch had {} steps of {}", before * batch + rest,
                     before * batch + batch - 1 + rest, before, batch);
}

}  // namespace

Json computed_by(const Device& device) {
  Json by = {{"version", LPMM_VERSION}, {"rounding", kRoundingBits}};
  if (!device.own_bytes()) by["simd"] = kernels::simd_level();  // of the host, which computes
  by["compute_library"] = device.compute_library();
  return by;
}

std::string change_of_machine(const Json& saved, const Device& device) {
  const auto before = saved.find("computed_by");
  if (before == saved.end() || *before == computed_by(device)) return "";
  std::vector<std::string> changes;
  const auto text = [](const Json& of, const std::string& key) {
    return !of.is_object() || !of.contains(key) ? "none"
           : of[key].is_string()                ? of[key].get<std::string>()
                                                : of[key].dump();
  };
  Json now = computed_by(device);
  for (const auto& [key, value] : before->items()) {
    if (!now.contains(key)) now[key] = "none";
  }
  for (const auto& [key, value] : now.items()) {
    const std::string was = text(*before, key), is = text(now, key);
    if (was != is) changes.push_back(fmt::format("{} was {} and is {} now", key, was, is));
  }
  return fmt::format("this run goes on otherwise than it was begun: {}; from here on its bits are others",
                     fmt::join(changes, ", "));
}

Json state_json(const RunProgress& s, const RunConfig& config, std::int64_t steps_per_epoch,
                const Device& device) {
  Json out = {{"seed", config.train.seed},
              {"computed_by", computed_by(device)},
              {"step", s.step},
              {"epoch", s.step / steps_per_epoch},
              {"index", s.step % steps_per_epoch},
              {"skipped_steps", s.skipped},
              {"failed_in_row", s.failed_in_row},
              {"epoch_meter", meter_json(s.epoch)},
              {"window_meter", meter_json(s.window)},
              {"increments", s.increments.of},
              {"underflows", s.underflows.of},
              {"test", s.test ? meter_json(*s.test) : Json()},
              {"train_seconds", s.train_seconds},
              {"items", s.items},
              {"watch", {{"losses", s.watch.losses}, {"last", s.watch.last}}},
              {"log_bytes", s.log_bytes},
              {"log_crc32", s.log_crc32 ? Json(*s.log_crc32) : Json()}};
  for (const auto& [name, value] : s.scores) out["scores"][name] = value;
  if (s.best.step > 0) {
    out["best"] = {{"step", s.best.step}, {"loss", s.best.loss}, {"tests_since", s.best.tests_since}};
  }
  if (const PackedPictures& p = config.data.packed; !p.file.empty()) {
    out[kPacked] = {{"file", p.file}, {"path", p.path}, {"test_path", p.test_path}, {"columns", p.columns}};
  }
  return out;
}

RunProgress parse_state(const Json& j, const RunConfig& config, std::int64_t steps_per_epoch,
                        const std::string& path) {
  try {
    RunProgress s;
    s.step = count_of(j, "step");
    if (fs::path(path).filename() != checkpoint_name(s.step) ||
        count_of(j, "epoch") != s.step / steps_per_epoch ||
        count_of(j, "index") != s.step % steps_per_epoch || j.at("seed") != config.train.seed) {
      throw RunError("step, epoch, index or seed are not this run's");
    }
    s.skipped = count_of(j, "skipped_steps");
    s.failed_in_row = count_of(j, "failed_in_row");
    s.epoch = parse_meter(j.at("epoch_meter"));
    s.window = parse_meter(j.at("window_meter"));
    const Json &increments = j.at("increments"), &underflows = j.at("underflows");
    if (!increments.is_array() || !underflows.is_array() || increments.size() != underflows.size() ||
        increments.size() > kRoles) {
      throw RunError("increments or underflows are not one per role");
    }
    for (const Role r : kEveryRole) {
      const auto at = static_cast<std::size_t>(r);
      if (at >= increments.size()) break;  // the program that saved it did not know this role
      s.increments[r] = to_count(increments[at], "increments");
      s.underflows[r] = to_count(underflows[at], "underflows");
      if (s.underflows[r] > s.increments[r]) throw RunError("more underflows than increments");
    }
    if (!j.at("test").is_null()) s.test = parse_meter(j.at("test"));
    if (const auto scores = j.find("scores"); scores != j.end()) s.scores = parse_scores(*scores);
    if (const auto best = j.find("best"); best != j.end()) s.best = parse_best(*best, s.step);
    j.at("train_seconds").get_to(s.train_seconds);
    if (!(s.train_seconds >= 0)) throw RunError("train_seconds is not 0 or more");
    s.items = count_of(j, "items");
    if (const auto watch = j.find("watch"); watch != j.end()) s.watch = parse_watch(*watch);
    s.log_bytes = static_cast<std::uint64_t>(count_of(j, "log_bytes"));
    if (const auto crc = j.find("log_crc32"); crc != j.end() && !crc->is_null()) {
      s.log_crc32 = static_cast<std::uint32_t>(count_of(j, "log_crc32") & 0xFFFFFFFF);
    }
    return s;
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}/state.json: is not what was saved: {}", path, error_text(e)));
  }
}

void check_same_data(const Json& saved, const Setup& setup, const std::string& checkpoint) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError(
        fmt::format("{}: {}. Keep the checkpoint: put the old files back to go on with this run, or start a "
                    "new one from its weights (--init {}) in another folder (--out)",
                    checkpoint, what, checkpoint));
  };
  const RunConfig& config = setup.config;
  const std::string& data = config.data.text.path.empty() ? config.data.set : config.data.text.path;
  const Tokenizer* tokenizer = setup.task->tokenizer();
  if (tokenizer != nullptr && saved.value("tokenizer", Json()) != tokenizer->describe()) {
    refuse(fmt::format("was trained with another tokenizer than the one that reads {} now", data));
  }
  const Json now = setup.task->identity();
  if (const Json before = saved.value("text", now); before != now) {
    refuse(
        fmt::format("was trained on other data: {}; {} has {} now", data_text(before), data, data_text(now)));
  }
  if (const std::string what =
          change_of_examples(saved, setup.size.train_examples, config.train.batch, config.data.keeps_last);
      !what.empty()) {
    refuse(fmt::format("{}; {} has {} now", what, data, setup.size.train_examples));
  }
}

}  // namespace lpmm
