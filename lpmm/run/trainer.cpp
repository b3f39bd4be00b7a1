#include "lpmm/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "lpmm/base/error.h"
#include "lpmm/base/host.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/progress.h"
#include "lpmm/data/images.h"
#include "lpmm/files/files.h"
#include "lpmm/run/advice.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"
#include "lpmm/run/plan.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// ---- state ---------------------------------------------------------------------------------------------
struct Meter {
  double loss_sum = 0;
  std::int64_t correct = 0, count = 0;

  Meter& operator+=(const auto& r) {
    loss_sum += r.loss_sum;
    correct += r.correct;
    count += r.count;
    return *this;
  }
  double loss() const { return count == 0 ? std::nan("") : loss_sum / static_cast<double>(count); }
  double accuracy() const {
    return count == 0 ? std::nan("") : static_cast<double>(correct) / static_cast<double>(count);
  }
};

std::int64_t count_of(const Json& j, const char* key) {
  return to_count(j.at(key), key);
}

void to_json(Json& j, const Meter& m) {
  j = {{"loss_sum", m.loss_sum}, {"correct", m.correct}, {"count", m.count}};
}
void from_json(const Json& j, Meter& m) {
  j.at("loss_sum").get_to(m.loss_sum);
  m.correct = count_of(j, "correct");
  m.count = count_of(j, "count");
}

// Everything a run knows besides the model memory: what resuming needs.
struct RunProgress {
  std::int64_t step = 0;  // steps done, failed ones included: the data position
  std::int64_t skipped = 0, failed_in_row = 0;
  Meter epoch, window;  // since the epoch began, since the last step record
  std::array<std::int64_t, kRoles> increments = {}, underflows = {};
  std::optional<Meter> test;  // the last evaluation
  double train_seconds = 0;
  std::int64_t items = 0;  // images or tokens trained on
  std::uint64_t log_bytes = 0;
};

// What a run's bits depend on besides its config.
Json computed_by() {
  return {{"version", LPMM_VERSION},
          {"simd", kernels::simd_level()},
          {"compute_library", kernels::compute_library()}};
}

// A sentence where a checkpoint was computed by something else.
std::string change_of_machine(const Json& saved) {
  const auto before = saved.find("computed_by");
  if (before == saved.end() || *before == computed_by()) return "";
  return fmt::format("this run goes on with {}, it was begun with {}: from here on its bits are others",
                     computed_by().dump(), before->dump());
}

Json state_json(const RunProgress& s, const RunConfig& config, std::int64_t steps_an_epoch) {
  return {{"seed", config.train.seed},
          {"computed_by", computed_by()},
          {"step", s.step},
          {"epoch", s.step / steps_an_epoch},
          {"index", s.step % steps_an_epoch},
          {"skipped_steps", s.skipped},
          {"failed_in_row", s.failed_in_row},
          {"epoch_meter", s.epoch},
          {"window_meter", s.window},
          {"increments", s.increments},
          {"underflows", s.underflows},
          {"test", s.test ? Json(*s.test) : Json()},
          {"train_seconds", s.train_seconds},
          {"items", s.items},
          {"log_bytes", s.log_bytes}};
}

RunProgress parse_state(const Json& j, const RunConfig& config, std::int64_t steps_an_epoch,
                        const std::string& path) {
  try {
    RunProgress s;
    s.step = count_of(j, "step");
    if (fs::path(path).filename() != checkpoint_name(s.step) ||
        count_of(j, "epoch") != s.step / steps_an_epoch || count_of(j, "index") != s.step % steps_an_epoch ||
        j.at("seed") != config.train.seed) {
      throw RunError("step, epoch, index or seed are not this run's");
    }
    s.skipped = count_of(j, "skipped_steps");
    s.failed_in_row = count_of(j, "failed_in_row");
    j.at("epoch_meter").get_to(s.epoch);
    j.at("window_meter").get_to(s.window);
    const Json &increments = j.at("increments"), &underflows = j.at("underflows");
    if (increments.size() != kRoles || underflows.size() != kRoles) {
      throw RunError("increments or underflows are not one a role");
    }
    for (std::size_t r = 0; r < kRoles; ++r) {
      s.increments[r] = to_count(increments[r], "increments");
      s.underflows[r] = to_count(underflows[r], "underflows");
      if (s.underflows[r] > s.increments[r]) throw RunError("more underflows than increments");
    }
    if (!j.at("test").is_null()) s.test = j.at("test").get<Meter>();
    j.at("train_seconds").get_to(s.train_seconds);
    if (!(s.train_seconds >= 0)) throw RunError("train_seconds is not 0 or more");
    s.items = count_of(j, "items");
    s.log_bytes = static_cast<std::uint64_t>(count_of(j, "log_bytes"));
    return s;
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}/state.json: is not what was saved: {}", path, e.what()));
  }
}

// Which text a run goes on with, whatever its file is called.
Json text_json(const TextData& text) {
  return {{"tokens", text.size()}, {"crc32", text.checksum()}};
}

// ---- the run's folder ----------------------------------------------------------------------------------
struct Folder {
  explicit Folder(const std::string& out)
      : root(out), config(root / "config.toml"), log(root / "log.jsonl"), checkpoints(root / "checkpoints") {}
  fs::path root, config, log, checkpoints;
};

// Keys that may change when a run goes on: they do not touch the steps it has made. What a preset stands for
// is compared role by role.
bool may_change(const std::string& key) {
  for (const char* free : {"train.threads", "train.steps", "train.epochs", "train.eval_every_epochs",
                           "train.max_failed_steps", "memory.preset"}) {
    if (key == free) return true;
  }
  return key.starts_with("checkpoint.") || key.starts_with("log.");
}

// Refuses a folder that this run may not write. Returns whether its config differs from what is kept there.
bool check_folder(const Folder& folder, const RunConfig& config, bool resume) {
  std::error_code none;
  const bool has_log = fs::exists(folder.log) && fs::file_size(folder.log, none) > 0;
  const bool used = fs::exists(folder.config) || has_log || !newest_checkpoint(folder.checkpoints).empty();
  if (!used) return true;
  if (!resume) {
    throw UsageError(
        fmt::format("{}: holds a run already; go on with it (--resume) or name another folder (--out)",
                    folder.root.string()));
  }
  if (!fs::exists(folder.config)) {
    throw UsageError(fmt::format("{}: has no config.toml, so it cannot be told whether this is the same run",
                                 folder.root.string()));
  }
  const auto changed = differences(load_config(folder.config, {}), config);
  for (const ConfigDifference& d : changed) {
    if (may_change(d.key)) continue;
    throw UsageError(
        fmt::format("{}: holds another run: {} is {} there and {} here; use the same settings or "
                    "another folder (--out)",
                    folder.root.string(), d.key, d.first.empty() ? "not set" : d.first,
                    d.second.empty() ? "not set" : d.second));
  }
  return !changed.empty();
}

// The summary of a run that has nothing left to do: it came to its end, and what it should keep is there.
// Refuses to make one longer that kept nothing to go on from, as that would begin again and lose its log.
std::optional<std::string> finished_summary(const Folder& folder, const RunConfig& config,
                                            std::int64_t steps) {
  if (!fs::exists(folder.log)) return {};
  const fs::path newest = newest_checkpoint(folder.checkpoints);
  const bool kept = !config.checkpoint.final || newest.filename() == checkpoint_name(steps);
  if (!kept && !newest.empty()) return {};
  const std::vector<Json> records = read_log(folder.log);
  if (records.empty()) return {};
  const Json& last = records.back();
  const auto is = [&](const char* key, const Json& value) {
    return last.contains(key) && last[key] == value;
  };
  if (!is("type", "summary") || !is("interrupted", false)) return {};
  if (!is("steps", steps)) {
    if (!newest.empty()) return {};
    throw UsageError(fmt::format(
        "{}: holds a run that ended and kept no checkpoint to go on from: name another folder (--out), or "
        "remove this one",
        folder.root.string()));
  }
  return kept ? std::optional(last.dump()) : std::nullopt;
}

// ---- pieces --------------------------------------------------------------------------------------------
Meter run_test(Program& program, const ModelMemory& memory, const Buffers& buffers, const DataSource& data,
               int examples) {
  Meter meter;
  Batch batch;
  const std::int64_t all = data.test_examples();
  for (std::int64_t first = 0; first < all; first += examples) {
    data.make_test_batch(first, std::min<std::int64_t>(examples, all - first), batch);
    meter += program.evaluate(memory, buffers, batch);
  }
  return meter;
}

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
  if (s.packed_increments > 0)
    out["update_to_step"] = s.change_in_gaps / static_cast<double>(s.packed_increments);
  return out;
}

// Counts per role, of all tensors and of each one.
Json underflow_record(std::int64_t step, const ModelMemory& memory, std::span<const TensorStats> stats) {
  Json record = {
      {"type", "underflow"}, {"step", step}, {"roles", Json::object()}, {"tensors", Json::object()}};
  for (std::size_t r = 0; r < kRoles; ++r) {
    const std::string role(to_string(static_cast<Role>(r)));
    kernels::ChangeStats total;
    for (std::size_t i = 0; i < stats.size(); ++i) {
      const kernels::ChangeStats& s = stats[i].role[r];
      if (s.elements == 0) continue;
      total += s;
      record["tensors"][memory.info(static_cast<int>(i)).name][role] = stats_json(s);
    }
    if (total.elements > 0) record["roles"][role] = stats_json(total);
  }
  return record;
}

Json ledger_record(const Plan& plan, const ModelMemory& memory) {
  Json record = {{"type", "ledger"}};
  record.update(plan_json(plan));
  record["tensors"] = Json::array();
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    Json row = {{"name", info.name},
                {"shape", info.shape},
                {"exempt", is_exempt(memory.policy(), info)},
                {"specs", Json::object()}};
    std::int64_t bytes = 0;
    for (std::size_t r = 0; r < kRoles; ++r) {
      const kernels::RoleView v = memory.view(i, static_cast<Role>(r));
      if (v.codes == nullptr) continue;
      row["specs"][std::string(to_string(static_cast<Role>(r)))] = to_string(v.codec);
      bytes += code_bytes(v.codec.format, v.elements) + step_bytes(v.codec, v.elements);
    }
    row["bytes"] = bytes;
    record["tensors"].push_back(std::move(row));
  }
  return record;
}

Json config_record(const RunConfig& config) {
  return {{"type", "config"},
          {"preset", config.policy.preset},
          {"seed", config.train.seed},
          {"toml", to_toml(config)}};
}

// ---- the run -------------------------------------------------------------------------------------------
class Run {
 public:
  Run(const Setup& setup, const Model& model, const Folder& folder, const Plan& plan, bool quiet)
      : setup_(setup),
        text_(setup.text == nullptr ? Json() : text_json(*setup.text)),
        config_(setup.config),
        folder_(folder),
        plan_(plan),
        progress_(quiet),
        pool_(config_.train.threads),
        data_(load_data(setup, pool_)),
        memory_(model.tensors(), config_.policy, config_.optimizer, config_.train.seed,
                config_.train.microbatches, pool_),
        buffers_(model.buffers()),
        examples_(config_.train.batch / config_.train.microbatches),
        program_(model.build(examples_, config_.train.compute, pool_.threads())),
        steps_an_epoch_(steps_per_epoch(*data_, config_.train.batch)),
        steps_(config_.train.steps > 0 ? config_.train.steps : config_.train.epochs * steps_an_epoch_) {}

  TrainResult go(const Model& model, bool config_changed);

 private:
  Json load(const std::string& checkpoint);
  void start(const Model& model, bool config_changed);
  bool step();  // one step; false where its gradient failed
  void measure();
  void test();
  void save();
  void show(bool last);
  Json summary(bool interrupted, const std::string& error) const;
  bool is_last() const { return state_.step == steps_; }
  std::string speed_key() const { return fmt::format("{}_per_second", data_->unit()); }

  const Setup& setup_;
  const Json text_;  // which one it is; null for images
  const RunConfig& config_;
  const Folder& folder_;
  const Plan& plan_;
  Progress progress_;
  Pool pool_;
  std::shared_ptr<const DataSource> data_;
  ModelMemory memory_;
  Buffers buffers_;
  const int examples_;  // a microbatch
  std::unique_ptr<Program> program_;
  const std::int64_t steps_an_epoch_, steps_;
  RunProgress state_;
  std::int64_t saved_step_ = -1;
  std::optional<RunLog> log_;
  std::optional<Prefetcher> batches_;
  bool stalled_ = false, loses_ = false;
  double process_seconds_ = 0;  // of training steps in this process, for the speed that is shown
  std::int64_t process_items_ = 0;
};

// Starts afresh or from the newest checkpoint, with the log cut to what the checkpoint knows of.
void Run::start(const Model& model, bool config_changed) {
  log_.emplace(folder_.log);  // from here on no other process writes to the folder
  const std::string checkpoint = newest_checkpoint(folder_.checkpoints, true);
  const bool write_config = config_changed || checkpoint.empty();
  std::string init;  // the checkpoint whose parameters it starts from
  if (!checkpoint.empty()) {
    const Json saved = load(checkpoint);
    state_ = parse_state(saved, config_, steps_an_epoch_, checkpoint);
    if (state_.step > steps_) {
      throw UsageError(
          fmt::format("{}: has made {} steps, this run ends at {}; train longer or name another folder",
                      checkpoint, state_.step, steps_));
    }
    saved_step_ = state_.step;
    if (setup_.text != nullptr && (saved.value("tokenizer", Json()) != setup_.text->tokenizer()->describe() ||
                                   saved.value("text", text_) != text_)) {
      throw UsageError(
          fmt::format("{}: was trained on another text than {} is now, or with another tokenizer", checkpoint,
                      setup_.text->name()));
    }
    if (const std::string change = change_of_machine(saved); !change.empty()) progress_.warn(change);
    if (write_config) write_text(folder_.config, to_toml(config_));
    log_->cut(state_.log_bytes);
    log_->write({{"type", "checkpoint"}, {"step", state_.step}, {"path", fs::path(checkpoint).filename()}});
    progress_.say(fmt::format("going on from {}", checkpoint));
  } else {
    if (config_.train.init.empty()) {
      progress_.say("drawing initial parameters");
      model.initialize(memory_, config_.train.seed, progress_.share_of("drawing initial parameters"));
    } else {
      init = find_checkpoint(config_.train.init);
      progress_.say(fmt::format("taking the parameters of {}", init));
      load_parameters(init, memory_);
    }
    write_text(folder_.config, to_toml(config_));  // before any record
    log_->cut(0);
  }
  if (write_config) log_->write(config_record(config_));
  Json system = {{"type", "system"},
                 {"time", now_text()},
                 {"host", host_name()},
                 {"cpu", cpu_name()},
                 {"computed_by", computed_by()},
                 {"threads", pool_.threads()},
                 {"from_step", state_.step},
                 {"available_memory_bytes", available_memory()},
                 {"rss_at_start_bytes", setup_.rss_at_start}};
  if (!init.empty()) system["init"] = init;
  log_->write(system);
  if (checkpoint.empty()) log_->write(ledger_record(plan_, memory_));
  if (config_.checkpoint.final || config_.checkpoint.every_steps > 0) {
    make_folder(folder_.checkpoints);
    const std::int64_t needed = checkpoint_bytes(memory_, buffers_), space = free_space(folder_.root);
    if (space < needed) {
      throw RunError(fmt::format("{}: the disk has {} left, a checkpoint takes {}", folder_.root.string(),
                                 format_bytes(space), format_bytes(needed)));
    }
  }
  for (const std::string& warning :
       {underflow_warning(expect_lost_updates(memory_, config_.optimizer.learning_rate), true),
        zero_variance_warning(memory_)}) {
    if (!warning.empty()) progress_.warn(warning);
  }
  batches_.emplace(
      *data_,
      BatchPlan{config_.train.seed, config_.train.batch, config_.train.microbatches, config_.data.augment},
      state_.step / steps_an_epoch_, state_.step % steps_an_epoch_);
}

Json Run::load(const std::string& checkpoint) {
  try {
    return load_checkpoint(checkpoint, config_.model.name, memory_, buffers_);
  } catch (const RunError& e) {
    const std::string earlier = checkpoint_before(checkpoint);
    if (earlier.empty()) throw;
    throw RunError(fmt::format("{}. {} is earlier: remove the damaged one and --resume goes on from there",
                               e.what(), earlier));
  }
}

bool Run::step() {
  const auto started = Clock::now();
  const std::int64_t epoch = state_.step / steps_an_epoch_;
  if (state_.step % steps_an_epoch_ == 0) state_.epoch = {};
  const double rate =
      config_.optimizer.learning_rate * schedule_factor(config_.schedule, state_.step, steps_);
  ++state_.step;
  // A short run is measured a few times too, over the whole schedule.
  const std::int64_t every =
      std::min(config_.log.underflow_every_steps, std::max<std::int64_t>(1, steps_ / 5));
  const bool measured = every > 0 && state_.step % every == 0;

  memory_.begin_step(static_cast<std::uint32_t>(state_.step), measured);
  buffers_.begin();
  Meter meter;
  for (int k = 0; k < config_.train.microbatches; ++k) {
    const Batch& batch = batches_->next();
    if (memory_.failed()) continue;  // the data position moves on all the same
    const BatchResult result = program_->train(memory_, buffers_, batch, k);
    meter += result;
    if (!std::isfinite(result.loss_sum)) memory_.fail("the loss");
  }
  const StepReport report = memory_.commit(rate);
  const double seconds = seconds_since(started);
  state_.train_seconds += seconds;
  const std::int64_t items = config_.train.batch * data_->labels();
  state_.items += items;
  process_seconds_ += seconds;
  process_items_ += items;

  if (!report.applied) {
    ++state_.skipped;
    ++state_.failed_in_row;
    log_->write(
        {{"type", "step"}, {"step", state_.step}, {"epoch", epoch}, {"failed", report.failed_tensor}});
    progress_.warn(fmt::format("step {} was skipped: NaN or Inf in {}{}", state_.step, report.failed_tensor,
                               config_.policy.accumulate_in_momentum ? "; momentum starts afresh" : ""));
    return false;
  }
  buffers_.commit();
  state_.failed_in_row = 0;
  for (Meter* m : {&state_.epoch, &state_.window}) {
    *m += meter;
  }
  if (state_.step % config_.log.every_steps == 0 || is_last()) {
    Json record = {{"type", "step"},
                   {"step", state_.step},
                   {"epoch", epoch},
                   {"loss", state_.window.loss()},
                   {"accuracy", state_.window.accuracy()},
                   {"learning_rate", rate}};
    if (config_.optimizer.clip_norm > 0) {
      record["gradient_norm"] = report.gradient_norm;
      record["clip_factor"] = report.clip_factor;
    }
    record["seconds"] = state_.train_seconds;
    record[speed_key()] = static_cast<double>(state_.items) / state_.train_seconds;
    record["rss_bytes"] = rss_bytes();
    log_->write(record);
    state_.window = {};
  }
  if (measured) measure();
  return true;
}

void Run::measure() {
  const std::vector<TensorStats> stats = memory_.take_stats();
  log_->write(underflow_record(state_.step, memory_, stats));
  for (const TensorStats& s : stats) {
    for (std::size_t r = 0; r < kRoles; ++r) {
      state_.increments[r] += s.role[r].increments;
      state_.underflows[r] += s.role[r].underflows;
    }
  }
  // Said once each.
  const std::string stall = stall_warning(memory_, stats);
  if (!stall.empty() && !stalled_) {
    progress_.warn(fmt::format("step {}: {}", state_.step, stall));
    stalled_ = true;
  }
  const std::string loss = underflow_warning(count_lost_updates(memory_, stats), false);
  if (!loss.empty() && !loses_ && stall.empty()) {
    progress_.warn(fmt::format("step {}: {}", state_.step, loss));
    loses_ = true;
  }
}

void Run::test() {
  const auto started = Clock::now();
  state_.test = run_test(*program_, memory_, buffers_, *data_, examples_);
  log_->write({{"type", "eval"},
               {"step", state_.step},
               {"epoch", (state_.step - 1) / steps_an_epoch_},
               {"train_loss", state_.epoch.loss()},
               {"train_accuracy", state_.epoch.accuracy()},
               {"loss", state_.test->loss()},
               {"accuracy", state_.test->accuracy()},
               {"seconds", seconds_since(started)}});
  progress_.say(fmt::format("epoch {:>3}  train loss {:.4f}  test loss {:.4f}  test accuracy {:.2f} %",
                            (state_.step - 1) / steps_an_epoch_ + 1, state_.epoch.loss(), state_.test->loss(),
                            100 * state_.test->accuracy()));
}

void Run::save() {
  if (saved_step_ == state_.step) return;
  log_->sync();
  state_.log_bytes = log_->bytes();
  Json saved = state_json(state_, config_, steps_an_epoch_);
  if (setup_.text != nullptr) {
    saved["tokenizer"] = setup_.text->tokenizer()->describe();
    saved["text"] = text_;
  }
  const std::string path = save_checkpoint(folder_.checkpoints, state_.step, config_.model.name, memory_,
                                           buffers_, saved, config_.checkpoint.keep);
  saved_step_ = state_.step;
  log_->write({{"type", "checkpoint"}, {"step", state_.step}, {"path", fs::path(path).filename()}});
}

void Run::show(bool last) {
  if (!last && !progress_.due()) return;
  const double speed = static_cast<double>(process_items_) / std::max(1e-9, process_seconds_);
  progress_.show({state_.step, steps_, (state_.step - 1) / steps_an_epoch_ + 1,
                  (steps_ - 1) / steps_an_epoch_ + 1, state_.epoch.loss(), state_.epoch.accuracy(), speed,
                  data_->unit(), rss_bytes(),
                  static_cast<double>((steps_ - state_.step) * config_.train.batch * data_->labels()) /
                      std::max(1e-9, speed)});
}

Json Run::summary(bool interrupted, const std::string& error) const {
  Json underflow = Json::object();
  for (std::size_t r = 0; r < kRoles; ++r) {
    if (state_.increments[r] == 0) continue;
    underflow[std::string(to_string(static_cast<Role>(r)))] =
        share(state_.underflows[r], state_.increments[r]);
  }
  Json j = {{"type", "summary"},
            {"final_loss", state_.epoch.loss()},
            {"test_accuracy", state_.test ? Json(state_.test->accuracy()) : Json()},
            {"test_loss", state_.test ? Json(state_.test->loss()) : Json()},
            {"bits_per_parameter", plan_.ledger.bits_per_parameter()},
            {"model_memory_bytes", model_memory_json(plan_.ledger)},
            {"interrupted", interrupted},
            {"peak_rss_bytes", peak_rss_bytes()},
            {"rss_at_start_bytes", setup_.rss_at_start},
            {"plan_peak_bytes", plan_.peak_bytes},
            {speed_key(),
             state_.train_seconds > 0 ? static_cast<double>(state_.items) / state_.train_seconds : 0.0},
            {"train_seconds", state_.train_seconds},
            {"steps", state_.step},
            {"skipped_steps", state_.skipped},
            {"underflow", underflow}};
  if (reads_tokens(config_.model)) j["final_validation_loss"] = j["test_loss"];
  if (!error.empty()) j["error"] = error;
  return j;
}

TrainResult Run::go(const Model& model, bool config_changed) {
  start(model, config_changed);
  const auto end = [&](bool interrupted, const std::string& error) {
    const Json last = summary(interrupted, error);
    if (!interrupted && state_.test && !std::isfinite(state_.test->loss())) {
      progress_.warn(
          "the run diverged: its test loss is no number; lower the learning rate or clip gradients "
          "(optimizer.clip_norm)");
    }
    log_->write(last);
    log_->sync();
    return TrainResult{interrupted, last.dump()};
  };
  try {
    while (!is_last()) {
      if (!step() && state_.failed_in_row >= config_.train.max_failed_steps) {
        throw RunError(
            fmt::format("{} steps in a row had a loss or gradient that is not finite, the last one step {}: "
                        "lower the learning rate or clip gradients (optimizer.clip_norm)",
                        state_.failed_in_row, state_.step));
      }
      show(is_last());
      const std::int64_t every = config_.train.eval_every_epochs * steps_an_epoch_;
      if (is_last() || (every > 0 && state_.step % every == 0)) test();
      const bool stop = InterruptGuard::asked() && !is_last();
      const std::int64_t save_every = config_.checkpoint.every_steps;
      if (stop || (is_last() ? config_.checkpoint.final : save_every > 0 && state_.step % save_every == 0))
        save();
      if (stop) {
        progress_.say(fmt::format("stopped after step {}; --resume goes on from there", state_.step));
        return end(true, "");
      }
    }
    return end(false, "");
  } catch (const std::exception& e) {
    try {
      end(true, e.what());
    } catch (const std::exception&) {
      // The disk may be what failed; the first error is the one to tell.
    }
    throw;
  }
}

}  // namespace

TrainResult train(const Setup& setup, const Model& model, const TrainOptions& options) {
  const InterruptGuard guard;
  const RunConfig& config = setup.config;
  if (options.out.empty()) throw UsageError("a run needs a folder (--out)");
  const Folder folder(options.out);
  const bool config_changed = check_folder(folder, config, options.resume);
  const std::int64_t examples = setup.size.train_examples;
  const std::int64_t steps_an_epoch = examples / config.train.batch;
  if (steps_an_epoch == 0) {
    throw UsageError(fmt::format("train.batch = {} is more than the {} training examples of {}",
                                 config.train.batch, examples, config.data.set));
  }
  const std::int64_t steps =
      config.train.steps > 0 ? config.train.steps : config.train.epochs * steps_an_epoch;
  if (steps >= std::int64_t{1} << 32)
    throw UsageError(fmt::format("{} steps are too many; below 2^32 it must be", steps));
  if (auto done = finished_summary(folder, config, steps)) return {false, *done};

  const Plan plan = make_plan(setup, model);
  check_memory(plan, available_memory());
  make_folder(folder.root);
  Run run(setup, model, folder, plan, options.quiet);
  return run.go(model, config_changed);
}

EvalResult evaluate(const Setup& setup, const Model& model, const std::string& checkpoint) {
  RunConfig config = setup.config;
  config.optimizer.frozen = true;
  check_memory(make_plan(Setup(config, setup), model), available_memory());
  Pool pool(config.train.threads);
  ModelMemory memory(model.tensors(), config.policy, config.optimizer, config.train.seed,
                     config.train.microbatches, pool);
  Buffers buffers(model.buffers());
  load_checkpoint(checkpoint, config.model.name, memory, buffers);
  const auto data = load_data(setup, pool);
  const int examples = config.train.batch / config.train.microbatches;
  const auto program = model.build(examples, config.train.compute, pool.threads());
  const Meter meter = run_test(*program, memory, buffers, *data, examples);
  return {meter.loss(), meter.accuracy(), meter.count, data->unit(), checkpoint};
}

}  // namespace lpmm
