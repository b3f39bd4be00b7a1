// The progress of a run on standard error: one line that is redrawn on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lpmm {

struct ProgressLine {
  std::int64_t step = 0, steps = 0, epoch = 0, epochs = 0;
  double loss = 0, images_per_second = 0, learning_rate = 0;
  std::int64_t rss_bytes = 0;
  double seconds_left = 0;
};

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Draws at most a few lines a second on a terminal, one line every few seconds elsewhere.
  void show(const ProgressLine& line, bool last = false);
  // A line that stays.
  void say(const std::string& text);

 private:
  void clear();
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace lpmm
