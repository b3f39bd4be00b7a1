// The progress of a run on standard error: one line that is redrawn on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace lpmm {

std::string format_bytes(std::int64_t bytes);  // "1.2 GB", powers of ten
std::string format_time(double seconds);       // "1h02m", "3m05s", "12s"

// Long work tells how far it is, in units of its own.
using ProgressCall = std::function<void(std::int64_t done, std::int64_t all)>;

struct ProgressLine {
  std::int64_t step = 0, steps = 0, epoch = 0, epochs = 0;  // epoch counts from 1
  double loss = 0, accuracy = 0, speed = 0;
  const char* unit = "images";  // of speed, per second
  std::int64_t rss_bytes = 0;
  double seconds_left = 0;
};

class Progress {
 public:
  // `apart`: time between two lines where they are not redrawn.
  explicit Progress(bool quiet, std::chrono::milliseconds apart = std::chrono::seconds(5));
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Returns true if show() would draw now: a few times a second on a terminal, `apart` elsewhere.
  bool due() const;
  void show(const ProgressLine& line);
  void show(const std::string& text);  // the same for other work
  // Shows "WORK: N %" where that is due.
  ProgressCall share_of(const std::string& work);
  // A line that stays; quiet runs leave it out.
  void say(const std::string& text);
  // The same, said to quiet runs too.
  void warn(const std::string& text);

 private:
  void print(const std::string& text);
  bool quiet_, terminal_, drawn_ = false;
  std::chrono::milliseconds apart_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace lpmm
