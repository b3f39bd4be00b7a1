#include "lpmm/base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"

namespace lpmm {

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; std::fabs(value) >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 99.95 ? 0 : 1, kUnits[unit]);
}

std::string format_time(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::fmin(std::fmax(seconds, 0), 3.6e6)));
  if (s >= 3600) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  if (s >= 60) return fmt::format("{}m{:02}s", s / 60, s % 60);
  return fmt::format("{}s", s);
}

namespace {

constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();

// The columns that a line may fill without wrapping; the terminal may be resized at any time.
std::size_t terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - std::size_t{1} : kAnyWidth;
}

}  // namespace

Progress::Progress(bool quiet, std::chrono::milliseconds apart)
    : quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) == 1),
      apart_(terminal_ ? std::chrono::milliseconds(250) : apart),
      next_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

bool Progress::due() const {
  return !quiet_ && std::chrono::steady_clock::now() >= next_;
}

void Progress::show(const ProgressLine& l) {
  const auto digits = fmt::formatted_size("{}", l.steps), epoch_digits = fmt::formatted_size("{}", l.epochs);
  // The most important parts come first: a narrow terminal leaves out the rest.
  const std::string parts[] = {fmt::format("step {:>{}}/{}", l.step, digits, l.steps),
                               fmt::format("loss {:7.4f}", l.loss),
                               fmt::format("accuracy {:5.1f} %", 100 * l.accuracy),
                               fmt::format("{:>6} left", format_time(l.seconds_left)),
                               fmt::format("epoch {:>{}}/{}", l.epoch, epoch_digits, l.epochs),
                               fmt::format("{:6.{}f} {}/s", l.speed, l.speed < 10 ? 1 : 0, l.unit),
                               fmt::format("{:>7} memory", format_bytes(l.rss_bytes))};
  const std::size_t columns = terminal_ ? terminal_columns() : kAnyWidth;
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty() && text.size() + 2 + part.size() > columns) break;
    text += (text.empty() ? "" : "  ") + part;
  }
  show(text);
}

void Progress::show(const std::string& text) {
  if (quiet_) return;
  next_ = std::chrono::steady_clock::now() + apart_;
  if (terminal_) {
    tell(fmt::format("\r{}\x1b[K", cut_to_columns(printable(text), terminal_columns())));
    drawn_ = true;
  } else {
    tell(printable(text) + '\n');
  }
}

ProgressCall Progress::share_of(const std::string& work) {
  return [this, work](std::int64_t done, std::int64_t all) {
    if (done == all || !due()) return;
    if (all == 0) return show(fmt::format("{}: {} so far", work, done));  // nobody knows how much there is
    show(fmt::format("{}: {:.0f} %", work, 100.0 * static_cast<double>(done) / static_cast<double>(all)));
  };
}

void Progress::say(const std::string& text) {
  if (!quiet_) print(text);
}

void Progress::warn(const std::string& text) {
  print("warning: " + text);
}

void Progress::print(const std::string& text) {
  if (drawn_) tell("\r\x1b[K");
  drawn_ = false;
  tell(printable(text) + '\n');
}

}  // namespace lpmm
