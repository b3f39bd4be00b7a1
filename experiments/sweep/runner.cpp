#include "experiments/sweep/runner.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "experiments/plots/records.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/process.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/text.h"
#include "lpmm/data/scores.h"
#include "lpmm/files/files.h"
#include "lpmm/run/records.h"
#include "lpmm/run/run_folder.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// Keys that may differ between a finished cell and the sweep that finds it: no result depends on them. The
// specs of a preset are compared role by role instead of its name.
bool changes_no_result(const std::string& key) {
  return key == "train.device" || key == "train.threads" || key == "memory.preset" ||
         key == "checkpoint.every_steps" || key == "checkpoint.keep";
}

// Share of its steps that a running cell has logged, from the end of its log.
double progress_of(const fs::path& folder, std::int64_t steps) {
  constexpr std::streamoff kTail = 1 << 16;
  std::ifstream in(folder / "log.jsonl", std::ios::binary | std::ios::ate);
  if (!in) return 0;
  in.seekg(std::max<std::streamoff>(0, std::streamoff{in.tellg()} - kTail));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  constexpr std::string_view kMark = "{\"type\":\"step\",\"step\":";
  const std::size_t at = text.rfind(kMark);
  if (at == std::string::npos) return 0;
  const double step = std::strtod(text.c_str() + at + kMark.size(), nullptr);
  return std::clamp(step / static_cast<double>(steps), 0.0, 1.0);
}
std::string last_line(const fs::path& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

class Runner {
 public:
  Runner(const std::vector<SweepCell>& cells, const SweepOptions& options)
      : cells_(cells), options_(options), summaries_(cells.size()), errors_(cells.size()) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      summaries_[i] = finished_run(folder(i).string(), cells[i].config);
      if (summaries_[i]) {
        ++done_;
      } else {
        waiting_.push_back(i);
      }
    }
    if (options.only_finished && !waiting_.empty()) {
      throw UsageError(fmt::format("{}: no run lies there that came to its end; without --draw it is trained",
                                   folder(waiting_[0]).string()));
    }
    std::reverse(waiting_.begin(), waiting_.end());
  }

  // False where the user stopped it.
  bool run() {
    progress_.say(fmt::format("sweep: {} cells, {} finished before, {} to run, {} at a time", cells_.size(),
                              done_, waiting_.size(), options_.jobs));
    const InterruptGuard guard;
    bool passed_on = false;
    while (!running_.empty() || (!waiting_.empty() && !InterruptGuard::asked())) {
      while (!InterruptGuard::asked() && !waiting_.empty() &&
             running_.size() < static_cast<std::size_t>(options_.jobs)) {
        const std::size_t next = waiting_.back();
        waiting_.pop_back();
        try {
          start(next);
        } catch (const std::exception& e) {
          fail(next, e.what());
        }
      }
      if (InterruptGuard::asked() && !passed_on) {
        passed_on = true;
        progress_.say("sweep: stopping; the running cells save a checkpoint (a second Ctrl-C ends at once)");
        for (const Running& r : running_) kill(r.process, SIGINT);
      }
      collect();
      show();
      if (!running_.empty()) poll(nullptr, 0, 20);
    }
    return !InterruptGuard::asked();
  }

  CellResults take_results(bool whole) { return {std::move(summaries_), std::move(errors_), !whole}; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    std::size_t cell;
    pid_t process;
    Clock::time_point started;
    double progress_at_start;
  };

  fs::path folder(std::size_t cell) const { return fs::path(options_.out) / cells_[cell].name; }
  static double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

  void start(std::size_t index) {
    const SweepCell& cell = cells_[index];
    make_folder(folder(index).string());
    std::vector<std::string> arguments = {own_program(), "train", cell.config_path};
    if (!cell.options.preset.empty()) arguments.insert(arguments.end(), {"--preset", cell.options.preset});
    for (const std::string& setting : cell.options.settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    arguments.insert(arguments.end(), {"--threads", std::to_string(options_.threads), "--quiet", "--resume",
                                       "--out", folder(index).string()});
    const double progress = progress_of(folder(index), cell.steps);
    const pid_t process = start_process(arguments, {(folder(index) / "output.txt").string(), ""});
    running_.push_back({index, process, Clock::now(), progress});
  }

  void fail(std::size_t cell, const std::string& why) {
    errors_[cell] = why;
    progress_.say(fmt::format("FAILED {}: {}", cells_[cell].name, why));
  }

  // Takes note of the cells that have ended.
  void collect() {
    for (std::size_t i = 0; i < running_.size();) {
      const Running r = running_[i];
      int status = 0;
      if (waitpid(r.process, &status, WNOHANG) != r.process) {
        ++i;
        continue;
      }
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      end(r, exit_code(status));
    }
  }

  void end(const Running& r, int code) {
    // A run that diverged ends with 1 and is a result too.
    if (code <= 1) summaries_[r.cell] = finished_run(folder(r.cell).string(), cells_[r.cell].config);
    const std::string name = cells_[r.cell].name, time = format_time(since(r.started));
    work_done_ += 1 - r.progress_at_start;
    if (summaries_[r.cell]) {
      ++done_;
      const Json& summary = *summaries_[r.cell];
      const std::vector<NamedScore> scores = scores_in(summary);
      const bool has_score = !scores.empty() && scores[0].value;
      const std::string result = diverged(summary) ? "diverged"
                                 : has_score       ? score_text(scores[0].name, *scores[0].value)
                                                   : "done";
      progress_.say(fmt::format("[{}/{}] {}: {} in {}", done_, cells_.size(), name, result, time));
    } else if (!InterruptGuard::asked()) {
      fail(r.cell,
           fmt::format("exit code {} after {}: {}", code, time, last_line(folder(r.cell) / "output.txt")));
    }
  }

  // One line with what runs and when all is done: redrawn on a terminal, now and then elsewhere.
  void show() {
    if (!progress_.due()) return;
    double done = work_done_, left = static_cast<double>(waiting_.size());
    for (const Running& r : running_) {
      const double progress = progress_of(folder(r.cell), cells_[r.cell].steps);
      done += std::max(0.0, progress - r.progress_at_start);
      left += 1 - progress;
    }
    const double elapsed = since(started_);
    const std::string line = fmt::format("sweep: {}/{} done, {} running, {} elapsed, ETA {}", done_,
                                         cells_.size(), running_.size(), format_time(elapsed),
                                         done > 0.01 ? format_time(elapsed * left / done) : "-");
    progress_.show(line);
  }

  const std::vector<SweepCell>& cells_;
  const SweepOptions& options_;
  std::vector<std::optional<Json>> summaries_;
  std::vector<std::string> errors_;
  std::vector<std::size_t> waiting_;  // the next one last
  std::vector<Running> running_;
  std::size_t done_ = 0;
  double work_done_ = 0;  // in cells, since the start
  const Clock::time_point started_ = Clock::now();
  Progress progress_{false, std::chrono::minutes(1)};
};

}  // namespace

std::optional<Json> summary_of_run(const RunFolder& folder) {
  std::error_code none;
  if (!fs::exists(folder.log, none)) return {};
  const std::vector<Json> records = read_log(folder.log.string());
  const Json* last = end_of(records);
  return last == nullptr || last->contains("error") ? std::nullopt : std::optional(*last);
}

std::optional<Json> finished_run(const std::string& path, const RunConfig& config) {
  const RunFolder folder(path);
  if (!fs::exists(folder.config)) return {};
  check_same_run(folder, config, changes_no_result, "name another folder (--out), or remove this one");
  return summary_of_run(folder);
}

CellResults run_cells(const std::vector<SweepCell>& cells, const SweepOptions& options) {
  Runner runner(cells, options);
  const bool whole = runner.run();
  return runner.take_results(whole);
}

}  // namespace lpmm
