#include "lpmm/run/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/base/host.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/progress.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/run/advice.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/beside/reference.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/evaluate.h"
#include "lpmm/run/log.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/records.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/run_progress.h"
#include "lpmm/run/stored_weights.h"
#include "lpmm/run/train_step.h"
#include "lpmm/run/watch/watch.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The disk may be what failed; the first error is the one to tell.
void try_to(const auto& tell) {
  try {
    tell();
  } catch (const std::exception&) {
  }
}

// The result of a run that is already complete; nothing where it is not.
std::optional<TrainResult> finished_result(const RunFolder& folder, const RunConfig& config,
                                           std::int64_t steps) {
  const std::optional<std::string> summary = finished_summary(folder, config, steps);
  if (!summary) return {};
  const Json last = Json::parse(*summary);
  return TrainResult{false, diverged(last), *summary, last.value("train_seconds", 0.0)};
}

class Run {
 public:
  Run(const Setup& setup, const Model& model, const RunFolder& folder, const Plan& plan,
      const TrainOptions& options, Device& device, Ranks& ranks)
      : ranks_(ranks),
        setup_(setup),
        model_(model),
        text_(setup.task->identity()),
        config_(setup.config),
        folder_(folder),
        plan_(plan),
        resume_(options.resume),
        progress_(options.quiet || !ranks.is_first()),
        device_(device),
        data_(load_data(setup, device_.host_pool())),
        memory_(model.tensors(), config_.policy, config_.optimizer, config_.train.seed,
                config_.train.microbatches, device_, config_.slots(), ranks, config_.ranks.stage),
        buffers_(model.buffers(), device_),
        examples_(config_.train.batch / config_.train.microbatches),
        program_(model.build(examples_, config_.train.compute, device_, setup.size.longest)),
        steps_per_epoch_(steps_per_epoch(*data_, config_.train.batch, config_.data.keeps_last)),
        steps_(steps_of(setup)) {}

  TrainResult go();

 private:
  void start(bool config_changed);
  Json load(const std::string& checkpoint);
  void go_on(const std::string& checkpoint, bool write_config);
  std::string begin();  // returns the checkpoint whose parameters it starts from, or empty
  bool step();          // one step; false where its gradient failed
  void log_step(const StepReport& report, double rate);
  void watch(double loss, const std::string& failed);
  void measure(bool is_last_time);
  void write(const Json& record);
  void agree_on_stop() { stop_ = ranks_.any(InterruptGuard::asked() || (log_ && log_->is_to_stop())); }
  void test();
  void judge(double loss);  // a test's
  void save();
  void show(bool last);
  TrainResult end(bool interrupted, const std::string& error);
  std::int64_t epoch() const { return (state_.step - 1) / steps_per_epoch_; }  // of the last step, from 0
  bool gives_up() const {
    return config_.train.patience > 0 && state_.best.tests_since >= config_.train.patience;
  }
  bool is_last() const { return state_.step == steps_ || gives_up(); }
  std::string speed_key() const { return fmt::format("{}_per_second", data_->unit()); }

  Ranks& ranks_;
  const Setup& setup_;
  const Model& model_;
  Json tokens_;      // that begin and end a text, as it started with them
  const Json text_;  // the identity of its data; null if checkpoints keep none
  const RunConfig& config_;
  const RunFolder& folder_;
  const Plan& plan_;
  const bool resume_;
  Progress progress_;
  Device& device_;
  std::shared_ptr<const DataSource> data_;
  ModelMemory memory_;
  Buffers buffers_;
  const int examples_;  // a microbatch
  std::unique_ptr<Program> program_;
  const std::int64_t steps_per_epoch_, steps_;
  RunProgress state_;
  std::int64_t saved_step_ = -1;
  bool stop_ = false;  // after this step, some rank was asked to
  std::optional<RunLog> log_;
  std::optional<Watch> watch_;
  std::optional<Prefetcher> batches_;
  UnderflowWarnings underflow_warnings_;
  RunProgress begun_;  // as this process found it
  Clock::time_point started_ = Clock::now();
};

// Starts afresh or from the newest checkpoint, with the log cut to what the checkpoint knows of.
void Run::start(bool config_changed) {
  std::string checkpoint;
  if (ranks_.is_first()) {
    remove_leftovers(folder_.root.string());
    checkpoint = newest_checkpoint(folder_.checkpoints, true);
  }
  checkpoint = ranks_.gather(checkpoint)[0];
  const bool write_config = config_changed || checkpoint.empty();
  if (config_.checkpoint.final || config_.checkpoint.every_steps > 0) {
    check_disk(folder_.root.string(), memory_, buffers_);
  }
  std::string init;
  if (!checkpoint.empty()) {
    go_on(checkpoint, write_config);
  } else {
    init = begin();
  }
  // What it compares with is of the model as it is now, or as it was when the run began.
  data_ = !checkpoint.empty()
              ? with_kept_reference(data_, folder_.root)
              : with_asked_reference(data_, log_ ? folder_.root.string() : "", *program_, memory_, buffers_,
                                     examples_, progress_.share_of("asking the model before training"));
  progress_.say(fmt::format("training on {}: {}, {} threads{}", device_.name(), device_.compute_library(),
                            device_.host_threads(), ranks_text(ranks_)));
  if (write_config) write(config_record(config_));
  write(system_record(state_.step, device_, setup_.rss_at_start, init));
  if (checkpoint.empty()) write(ledger_record(plan_, memory_, setup_.size));
  if (log_) watch_.emplace(config_, memory_, buffers_, folder_.root.string(), state_.watch, state_.step);
  std::vector<std::string> warnings = storage_warnings(config_.policy, config_.optimizer, model_.tensors());
  warnings.push_back(underflow_warning(expect_lost_updates(memory_, peak_rate(config_.optimizer)), true));
  if (watch_) warnings.push_back(watch_->missing());
  for (const std::string& warning : warnings) {
    if (!warning.empty() && ranks_.is_first()) progress_.warn(warning);
  }
  const Share own = memory_.own_microbatches();
  batches_.emplace(*data_,
                   BatchPlan{config_.train.seed, config_.train.batch, config_.train.microbatches,
                             config_.data.augment, config_.data.keeps_last, own.first, own.count},
                   state_.step / steps_per_epoch_, state_.step % steps_per_epoch_);
  begun_ = state_, started_ = Clock::now();
}

void Run::go_on(const std::string& checkpoint, bool write_config) {
  const Json saved = load(checkpoint);
  if (state_.step > steps_) {
    throw UsageError(
        fmt::format("{}: has made {} steps, this run ends at {}; train longer or name another folder",
                    checkpoint, state_.step, steps_));
  }
  saved_step_ = state_.step;
  tokens_ = special_tokens_of(saved, config_.model, setup_.task->tokenizer());
  if (const std::string change = change_of_machine(saved, device_); !change.empty()) progress_.warn(change);
  if (write_config && log_) write_text(folder_.config, sealed_config(config_));
  if (log_) log_->cut(state_.log_bytes, state_.log_crc32, checkpoint);
  write({{"type", "checkpoint"}, {"step", state_.step}, {"path", fs::path(checkpoint).filename()}});
  progress_.say(fmt::format("going on from {}", checkpoint));
}

std::string Run::begin() {
  const std::string& given = config_.train.init;
  progress_.say(given.empty() ? "drawing initial parameters"
                              : fmt::format("taking the parameters of {}", given));
  const InitialParameters initial =
      set_initial_parameters(config_, model_, memory_, buffers_, setup_.class_names,
                             progress_.share_of("drawing initial parameters"));
  tokens_ = special_tokens_of(initial.run, config_.model, setup_.task->tokenizer());
  if (!initial.drawn.empty()) {
    const std::string reason = initial.reason.empty() ? "" : initial.reason + "; ";
    progress_.say(fmt::format("{}drawn anew: {}", reason, fmt::join(initial.drawn, ", ")));
  }
  if (!log_) return initial.checkpoint;
  const std::string sealed = sealed_config(config_);  // which refuses some paths
  keep_model_files(initial.checkpoint, folder_.root, *data_, setup_);
  write_text(folder_.config, sealed);  // before any record
  log_->cut(0);
  return initial.checkpoint;
}

// Fills the memory and the state. The data is compared first: if it has changed, the checkpoint is not to
// blame.
Json Run::load(const std::string& checkpoint) {
  try {
    const Json run = checkpoint_run(checkpoint);
    check_same_data(run, setup_, checkpoint);
    if (has_other_classes(run, setup_.class_names)) {
      throw UsageError(fmt::format("{}: {}; another run may start from it (--init)", checkpoint,
                                   compare_classes(run, config_.model.classes, config_, setup_.class_names)));
    }
    Json saved = load_checkpoint(checkpoint, config_.model.name, memory_, buffers_);
    state_ = parse_state(saved, config_, steps_per_epoch_, checkpoint);
    return saved;
  } catch (const DamagedCheckpoint& e) {
    throw RunError(fmt::format("{}. {}", e.what(), earlier_checkpoint(checkpoint)));
  }
}

void Run::write(const Json& record) {
  if (!log_) return;  // the first rank's
  try {
    log_->write(record);
  } catch (const RunError& e) {
    const std::string last = newest_checkpoint(folder_.checkpoints);
    throw RunError(fmt::format(
        "{}. {}", e.what(),
        last.empty() ? "There is no checkpoint."
                     : fmt::format("The last good checkpoint is {}; --resume goes on from it.", last)));
  }
}

bool Run::step() {
  if (state_.step % steps_per_epoch_ == 0) state_.epoch = {};
  const double rate = peak_rate(config_.optimizer) * schedule_factor(config_.schedule, state_.step, steps_);
  ++state_.step;
  // A short run is measured a few times too, over the whole schedule.
  const std::int64_t every =
      std::min(config_.log.underflow_every_steps, std::max<std::int64_t>(1, steps_ / 5));
  const bool measured = every > 0 && state_.step % every == 0;
  const StepOptions options{static_cast<std::uint32_t>(state_.step), rate, measured,
                            is_watched(config_, state_.step)};
  StepCalls calls;
  if (!ranks_.may_read()) calls.before_update = [this] { agree_on_stop(); };
  const StepResult done = train_step(*program_, memory_, buffers_, *batches_, options, calls);
  state_.train_seconds += done.seconds();
  state_.items += config_.train.batch * data_->labels();
  const std::string& failed = done.report.failed_tensor;
  if (!done.report.applied) {
    ++state_.skipped;
    ++state_.failed_in_row;
    write({{"type", "step"}, {"step", state_.step}, {"epoch", epoch()}, {"failed", failed}});
    progress_.warn(skip_text(config_, state_.step, failed));
    watch(std::nan(""), failed);
    return false;
  }
  state_.failed_in_row = 0;
  for (Meter* m : {&state_.epoch, &state_.window}) *m += done.meter;
  if (state_.step % config_.log.every_steps == 0 || is_last()) log_step(done.report, rate);
  if (measured) measure(state_.step + every > steps_);
  watch(done.meter.loss(), "");
  return true;
}

void Run::watch(double loss, const std::string& failed) {
  if (!watch_) return;
  const Watch::Said said = watch_->add(state_.step, loss, failed);
  for (const Json& record : said.records) write(record);
  if (!said.warning.empty()) progress_.warn(said.warning);
}

void Run::log_step(const StepReport& report, double rate) {
  write(step_record(state_, config_.optimizer, report, epoch(), rate, *data_));
  state_.window = {};
}

void Run::measure(bool is_last_time) {
  const std::vector<TensorStats> stats = memory_.take_stats();
  write(underflow_record(state_.step, memory_, stats,
                         is_last_time || config_.log.tensors == TensorRecords::kAll));
  for (const TensorStats& s : stats) {
    for (const Role r : kEveryRole) {
      state_.increments[r] += s.role[r].increments;
      state_.underflows[r] += s.role[r].underflows;
    }
  }
  for (const std::string& warning : underflow_warnings_.add(memory_, stats)) {
    progress_.warn(fmt::format("step {}: {}", state_.step, warning));
  }
}

void Run::test() {
  const auto started = Clock::now();
  Tested tested = run_test(*program_, memory_, buffers_, *data_, examples_, progress_.share_of("testing"));
  const std::string why_not = !log_
                                  ? ""
                                  : setup_.task->add_scores({config_, model_, memory_, device_}, true,
                                                            progress_.share_of("translating"), tested.scores);
  if (!why_not.empty()) progress_.warn(why_not);
  state_.test = tested.meter;
  state_.scores = tested.scores, state_.losses = tested.losses;
  write(eval_record(state_, epoch(), seconds_since(started)));
  progress_.say(test_text(state_, epoch()));
  if (tracks_best(config_)) judge(state_.test->loss());
}

void Run::judge(double loss) {
  BestTest& best = state_.best;
  if (best.step > 0 && !(loss < best.loss)) {
    ++best.tests_since;
  } else if (std::isfinite(loss)) {
    best = {state_.step, loss, 0};
    if (config_.checkpoint.keep_best) save();
  }
}

void Run::save() {
  if (saved_step_ == state_.step) return;
  saved_step_ = state_.step;  // also where that fails: it ends the run
  if (!log_) {
    save_checkpoint(folder_.checkpoints, state_.step, config_.model.name, memory_, buffers_, {}, 0);
    return;
  }
  log_->sync();
  log_->check_place();
  state_.log_bytes = log_->bytes();
  state_.log_crc32 = log_->checksum();
  Json saved = state_json(state_, config_, steps_per_epoch_, device_);
  if (const Tokenizer* tokenizer = setup_.task->tokenizer()) saved["tokenizer"] = tokenizer->describe();
  if (!tokens_.is_null()) saved[kSpecialTokens] = tokens_;
  if (!text_.is_null()) saved["text"] = text_;
  if (!setup_.class_names.empty()) saved[kClasses] = setup_.class_names;
  if (setup_.numbers_classes) saved[kNumbered] = true;
  // Nothing is removed for the sake of steps that changed nothing: what comes next may be no better.
  const int keep = state_.failed_in_row > 0 ? 0 : config_.checkpoint.keep;
  if (const std::string lost = watch_->save(state_.step); !lost.empty()) progress_.warn(lost);
  std::vector<std::int64_t> also_kept = watch_->needed_checkpoints();
  if (config_.checkpoint.keep_best && state_.best.step > 0) also_kept.push_back(state_.best.step);
  const std::string path = save_checkpoint(folder_.checkpoints, state_.step, config_.model.name, memory_,
                                           buffers_, saved, keep, also_kept);
  watch_->drop_old();
  write({{"type", "checkpoint"}, {"step", state_.step}, {"path", fs::path(path).filename()}});
}

void Run::show(bool last) {
  if (!last && !progress_.due()) return;
  const double speed = static_cast<double>(state_.items - begun_.items) /
                       std::max(1e-9, state_.train_seconds - begun_.train_seconds);
  const double seconds_per_step = seconds_since(started_) / static_cast<double>(state_.step - begun_.step);
  progress_.show({state_.step, steps_, epoch() + 1, (steps_ - 1) / steps_per_epoch_ + 1, state_.epoch.loss(),
                  state_.epoch.accuracy(), speed, data_->unit(), rss_bytes(),
                  seconds_per_step * static_cast<double>(steps_ - state_.step)});
}

// The last record, and what is to be told.
TrainResult Run::end(bool interrupted, const std::string& error) {
  Json last = summary_record(state_, plan_, setup_, speed_key(), interrupted, error);
  if (diverged(last)) progress_.warn(diverged_text());
  if (error.empty()) add_ranks(last, ranks_);
  write(last);
  if (log_) log_->sync();
  return {interrupted, diverged(last), last.dump(), begun_.train_seconds + seconds_since(started_)};
}

TrainResult Run::go() {
  bool config_changed = false;
  std::optional<TrainResult> done;
  if (ranks_.is_first()) {
    log_.emplace(folder_.log);  // from here on no other process writes to the folder; one may have before
    config_changed = check_run_folder(folder_, config_, resume_);
    done = finished_result(folder_, config_, steps_);
  }
  if (ranks_.any(done.has_value())) return done.value_or(TrainResult());
  try {
    start(config_changed);
  } catch (const Interrupted&) {  // while the reference was made
    progress_.say("stopped before the first step; --resume begins again");
    return end(true, "");
  }
  try {
    while (!is_last()) {
      if (!step() && state_.failed_in_row >= config_.train.max_failed_steps) {
        throw RunError(failures_text(state_));
      }
      show(is_last());
      const std::int64_t every = config_.train.eval_every_epochs * steps_per_epoch_;
      const bool is_due = is_last() || (every > 0 && state_.step % every == 0);
      const bool is_tested = is_due && data_->test_examples() > 0;
      if (is_tested) test();
      ranks_.now_in(state_.step, "end of the step");
      if (is_tested || ranks_.may_read()) agree_on_stop();
      const bool stop = stop_ && !is_last();
      const std::int64_t often = config_.checkpoint.every_steps;
      if (stop || (is_last() ? config_.checkpoint.final : often > 0 && state_.step % often == 0)) save();
      if (stop) {
        progress_.say(fmt::format("stopped after step {}; --resume goes on from there", state_.step));
        return end(true, "");
      }
    }
    if (state_.best.step > 0) progress_.say(best_text(state_.best, gives_up()));
    return end(false, "");
  } catch (const std::exception& e) {
    try_to([&] { watch(std::nan(""), error_text(e)); });  // of a step that this ended
    try_to([&] { end(true, error_text(e)); });
    throw;
  }
}

}  // namespace

TrainResult train(const Setup& setup, const Model& model, const TrainOptions& options, Ranks& ranks) {
  const InterruptGuard guard;
  const RunConfig& config = setup.config;
  if (options.out.empty()) throw UsageError("a run needs a folder (--out)");
  const RunFolder folder(options.out);
  check_ranks(config, ranks.size());
  ranks.let_read(config.ranks.reads);
  ranks.let_link(config.ranks.nccl);
  std::optional<TrainResult> done;
  if (ranks.is_first()) {
    check_run_folder(folder, config, options.resume, false);  // soon, and again under the lock
    check_trained(setup, model);
    done = finished_result(folder, config, steps_of(setup));
  }
  if (ranks.any(done.has_value())) return done.value_or(TrainResult());
  const auto device = make_device(config.train.device, threads_of(config, ranks.host().sharing));
  const Plan plan = make_plan(setup, model, *device, ranks.size(), ranks.rank());
  check_memory(plan, *device, ranks.host().ranks);
  std::optional<MadeFolder> made;  // removed again where nothing comes into it
  if (ranks.is_first()) made.emplace(folder.root);
  return Run(setup, model, folder, plan, options, *device, ranks).go();
}

}  // namespace lpmm
