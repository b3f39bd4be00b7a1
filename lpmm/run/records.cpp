#include "lpmm/run/records.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "lpmm/base/host.h"
#include "lpmm/data/scores.h"
#include "lpmm/memory/roles.h"
#include "lpmm/program/family.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {
namespace {

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json stats_json(const kernels::ChangeStats& s) {
  Json out = {{"share", share(s.underflows, s.increments)},
              {"increments", s.increments},
              {"saturated", share(s.saturated, s.elements)},
              {"relative_error",
               s.true_change_squared > 0 ? std::sqrt(s.change_error_squared / s.true_change_squared) : 0.0}};
  if (s.wanted_squared > 0) out["radial_bias"] = s.error_along_wanted / s.wanted_squared;
  if (s.packed_increments > 0)
    out["update_to_step"] = s.change_in_gaps / static_cast<double>(s.packed_increments);
  return out;
}

// Returns true if a finished run diverged: its losses are not numbers or far from those of any model that
// learns (nats per label), or its last step failed.
bool is_diverged(const RunProgress& state) {
  constexpr double kHopeless = 1e4;
  const auto is_lost = [](const Meter& m) { return m.count > 0 && !(m.loss() < kHopeless); };
  return state.failed_in_row > 0 || is_lost(state.epoch) || (state.test && is_lost(*state.test));
}

}  // namespace

Json config_record(const RunConfig& config) {
  return {{"type", "config"},
          {"preset", config.policy.preset},
          {"seed", config.train.seed},
          {"toml", to_toml(config)}};
}

Json system_record(std::int64_t from_step, const Device& device, std::int64_t rss_at_start,
                   const std::string& init) {
  Json record = {{"type", "system"},
                 {"time", now_text()},
                 {"host", host_name()},
                 {"cpu", cpu_name()},
                 {"computed_by", computed_by(device)},
                 {"device", device.name()},
                 {"threads", device.host_threads()},
                 {"from_step", from_step},
                 {"available_memory_bytes", available_memory()},
                 {"rss_at_start_bytes", rss_at_start}};
  if (!init.empty()) record["init"] = init;
  return record;
}

Json mixture_json(std::span<const MixtureShare> shares) {
  Json all = Json::array();
  for (const MixtureShare& s : shares) {
    all.push_back({{"path", s.name},
                   {"weight", s.weight},
                   {"sequences", s.sequences},
                   {"taken_per_epoch", s.taken},
                   {"test_sequences", s.tests}});
  }
  return all;
}

Json ledger_record(const Plan& plan, const ModelMemory& memory, const DataSize& size) {
  Json record = {{"type", "ledger"}};
  record.update(plan_json(plan));
  if (!size.mixture.empty()) record["mixture"] = mixture_json(size.mixture);
  record["tensors"] = Json::array();
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    Json row = {{"name", info.name},
                {"shape", info.shape},
                {"exempt", is_exempt(memory.policy(), info)},
                {"specs", Json::object()}};
    std::int64_t bytes = 0;  // of all ranks, and of one accumulator
    const TensorPlan stored = plan_tensor(memory.policy(), memory.optimizer(), info);
    for (const Role role : kEveryRole) {
      // An accumulator that is the momentum has its spec, and is said with it.
      const bool is_momentum = role == Role::kAccumulator && !stored[role] &&
                               folds_into_momentum(memory.policy(), memory.optimizer(), info);
      const auto& v = stored[is_momentum ? Role::kMomentum : role];
      if (!v) continue;
      row["specs"][std::string(to_string(role))] = to_string(v->codec);
      bytes += code_bytes(v->codec.format, v->elements) + step_bytes(v->codec, v->elements);
    }
    if (const auto average = plan_average(memory.policy(), memory.optimizer(), info)) {
      row["specs"][std::string(kAverageName)] = to_string(average->codec);
      bytes +=
          code_bytes(average->codec.format, info.elements()) + step_bytes(average->codec, info.elements());
    }
    row["bytes"] = bytes;
    record["tensors"].push_back(std::move(row));
  }
  return record;
}

Json underflow_record(std::int64_t step, const ModelMemory& memory, std::span<const TensorStats> stats,
                      bool per_tensor) {
  Json record = {{"type", "underflow"}, {"step", step}, {"roles", Json::object()}};
  if (per_tensor) record["tensors"] = Json::object();
  for (const Role r : kEveryRole) {
    const std::string role(to_string(r));
    kernels::ChangeStats total;
    for (std::size_t i = 0; i < stats.size(); ++i) {
      const kernels::ChangeStats& s = stats[i].role[r];
      if (s.elements == 0) continue;
      total += s;
      if (per_tensor) record["tensors"][memory.info(static_cast<int>(i)).name][role] = stats_json(s);
    }
    if (total.elements > 0) record["roles"][role] = stats_json(total);
  }
  return record;
}

Json step_record(const RunProgress& state, const OptimizerConfig& optimizer, const StepReport& report,
                 std::int64_t epoch, double rate, const DataSource& data) {
  Json record = {{"type", "step"},
                 {"step", state.step},
                 {"epoch", epoch},
                 {"loss", state.window.loss()},
                 {"accuracy", state.window.accuracy()},
                 {"learning_rate", rate}};
  if (data.learnt_labels() > 0) record["learnt_tokens"] = state.window.count;
  if (data.referred() != nullptr) {
    record["pairs"] = state.window.count;
    record["margin"] = state.window.margin();
  }
  if (optimizer.clip_norm > 0) {
    record["gradient_norm"] = report.gradient_norm;
    record["clip_factor"] = report.clip_factor;
  }
  if (optimizer.percentile_clip > 0) record["clipped_tensors"] = report.clipped_tensors;
  record["seconds"] = state.train_seconds;
  record[fmt::format("{}_per_second", data.unit())] = static_cast<double>(state.items) / state.train_seconds;
  record["rss_bytes"] = rss_bytes();
  return record;
}

Json eval_record(const RunProgress& state, std::int64_t epoch, double seconds) {
  Json record = {{"type", "eval"},
                 {"step", state.step},
                 {"epoch", epoch},
                 {"train_loss", state.epoch.loss()},
                 {"train_accuracy", state.epoch.accuracy()},
                 {"loss", state.test->loss()},
                 {"accuracy", state.test->accuracy()},
                 {"seconds", seconds}};
  for (const auto& [name, value] : state.scores) record["scores"][name] = value;
  for (const auto& [name, value] : state.losses) record["losses"][name] = value;
  return record;
}

std::string test_text(const RunProgress& state, std::int64_t epoch) {
  std::string said = fmt::format("epoch {:>3}  train loss {:.4f}  test loss {:.4f}", epoch + 1,
                                 state.epoch.loss(), state.test->loss());
  for (const auto& [name, value] : state.scores) said += "  " + score_text(name, value);
  for (const auto& [name, value] : state.losses) said += fmt::format("  {} {:.4f}", name, value);
  if (state.scores.empty()) said += fmt::format("  test accuracy {:.2f} %", 100 * state.test->accuracy());
  return said;
}

std::string best_text(const BestTest& best, bool gives_up) {
  return fmt::format("{}the least test loss, {:.4f}, is of step {}",
                     gives_up ? fmt::format("{} tests without a lower loss: ", best.tests_since) : "",
                     best.loss, best.step);
}

std::string skip_text(const RunConfig& config, std::int64_t step, const std::string& failed) {
  std::string rest;
  if (config.policy.accumulate_in_momentum) rest = "; momentum starts afresh";
  if (config.policy.apply_at_once) rest = "; tensors before it had their update already";
  return fmt::format("step {} was skipped: NaN or Inf in {}{}", step, failed, rest);
}

std::string failures_text(const RunProgress& state) {
  return fmt::format(
      "{} steps in a row had a loss or gradient that is not finite, the last one step {}: lower the learning "
      "rate or clip gradients (optimizer.clip_norm)",
      state.failed_in_row, state.step);
}

std::string ranks_text(const Ranks& ranks) {
  if (ranks.size() == 1) return {};
  return fmt::format(" in each of {} processes, which {}", ranks.size(),
                     ranks.may_read()   ? "read each other's memory"
                     : ranks.may_link() ? "send by NCCL"
                                        : "send by the host's memory");
}

std::string diverged_text() {
  return "the run diverged: its loss is no number or far too high, or its last steps failed; lower the "
         "learning rate or clip gradients (optimizer.clip_norm)";
}

Json summary_record(const RunProgress& state, const Plan& plan, const Setup& setup,
                    const std::string& speed_key, bool interrupted, const std::string& error) {
  Json underflow = Json::object();
  for (const Role r : kEveryRole) {
    if (state.increments[r] == 0) continue;
    underflow[std::string(to_string(r))] = share(state.underflows[r], state.increments[r]);
  }
  Json j = {
      {"type", "summary"},
      {"final_loss", state.epoch.loss()},
      {"test_accuracy", state.test ? Json(state.test->accuracy()) : Json()},
      {"test_loss", state.test ? Json(state.test->loss()) : Json()},
      {"bits_per_parameter", plan.ledger.bits_per_parameter()},
      {"model_memory_bytes", model_memory_json(plan.ledger)},
      {"interrupted", interrupted},
      {"peak_rss_bytes", peak_rss_bytes()},
      {"rss_at_start_bytes", setup.rss_at_start},
      {"plan_peak_bytes", plan.peak_bytes},
      {speed_key, state.train_seconds > 0 ? static_cast<double>(state.items) / state.train_seconds : 0.0},
      {"train_seconds", state.train_seconds},
      {"steps", state.step},
      {"skipped_steps", state.skipped},
      {"underflow", underflow}};
  for (const auto& [name, value] : state.scores) j["scores"][name] = value;
  if (state.best.step > 0) j["best"] = {{"step", state.best.step}, {"test_loss", state.best.loss}};
  if (task_of(setup.config.model).is_judged_by_loss) j["final_validation_loss"] = j["test_loss"];
  if (!error.empty()) j["error"] = error;
  if (!interrupted && is_diverged(state)) j["diverged"] = true;
  return j;
}

void add_ranks(Json& summary, Ranks& ranks) {
  if (ranks.size() == 1) return;
  ranks.now_in(summary.at("steps"), "end");
  (void)ranks.any(false);  // what each still had to send is sent
  summary["ranks"] = {{"reads", ranks.may_read()},
                      {"nccl", ranks.may_link()},
                      {"sent_bytes", ranks.all(ranks.sent_bytes())},
                      {"read_bytes", ranks.all(ranks.read_bytes())},
                      {"peak_rss_bytes", ranks.all(peak_rss_bytes())}};
}

const Json* end_of(std::span<const Json> records) {
  if (records.empty()) return nullptr;
  const Json& last = records.back();
  const auto is = [&](const char* key, const Json& value) {
    const auto found = last.find(key);
    return found != last.end() && *found == value;
  };
  return is("type", "summary") && is("interrupted", false) ? &last : nullptr;
}

bool diverged(const Json& summary) {
  const auto says = [&](const char* key) {
    const auto found = summary.find(key);
    return found != summary.end() && *found == true;
  };
  if (says("interrupted")) return false;
  if (says("diverged")) return true;
  // Without any test, the accuracy is not a number either.
  const auto loss = summary.find("test_loss"), accuracy = summary.find("test_accuracy");
  return loss != summary.end() && loss->is_null() && accuracy != summary.end() && accuracy->is_number();
}

}  // namespace lpmm
