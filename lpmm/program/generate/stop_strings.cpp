#include "lpmm/program/generate/stop_strings.h"

#include <algorithm>
#include <utility>

namespace lpmm {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopStrings::push(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    found_ = true;
    held_.resize(end);
    return std::exchange(held_, {});
  }
  std::size_t kept = 0;  // bytes at the end that begin a stop string
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > kept; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) kept = n;
    }
  }
  std::string sure = held_.substr(0, held_.size() - kept);
  held_.erase(0, sure.size());
  return sure;
}

std::string StopStrings::finish() {
  return std::exchange(held_, {});
}

}  // namespace lpmm
