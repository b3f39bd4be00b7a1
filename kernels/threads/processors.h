// The processors that a container pays for: quotas of Linux control groups, version 2.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace lpmm {

// This process's group, as "/a/b", out of a file like /proc/self/cgroup; "" where that names none.
inline std::string control_group(const std::string& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) return line.substr(3);
  }
  return {};
}

// The smallest quota of the group and of those above it, in processors, rounded up. `groups` is the folder
// where groups are mounted. Without a quota, or where its file cannot be read: the largest int.
inline int processors_of_quota(const std::string& groups, std::string group) {
  std::int64_t least = std::numeric_limits<int>::max();
  for (;;) {
    std::ifstream file(groups + group + "/cpu.max");
    std::int64_t quota = 0, period = 0;  // microseconds; the quota may also be the word "max"
    if (file >> quota >> period && quota > 0 && period > 0) {
      least = std::min(least, quota / period + (quota % period != 0 ? 1 : 0));
    }
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos) return static_cast<int>(least);
    group.resize(slash);
  }
}

}  // namespace lpmm
