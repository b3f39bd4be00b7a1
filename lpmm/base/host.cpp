#include "lpmm/base/host.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace lpmm {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// The number after `key` in a file of "key value" lines, -1 where there is none.
std::int64_t field(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    std::int64_t value = 0;
    if (words >> word >> value && word == key) return value;
  }
  return -1;
}

// The only number in a file, -1 where there is none ("max" means no limit).
std::int64_t number(const std::string& path) {
  std::ifstream in(path);
  std::int64_t value = 0;
  return in >> value ? value : -1;
}

// Returns the memory that a cgroup leaves: limit - use, where droppable page cache counts as free.
std::int64_t left_in_group(const std::string& folder, const char* limit_file, const char* use_file,
                           const char* cache_key) {
  const std::int64_t limit = number(folder + limit_file), use = number(folder + use_file);
  if (limit < 0 || use < 0) return kNoLimit;
  const std::int64_t cache = std::max<std::int64_t>(0, field(folder + "/memory.stat", cache_key));
  return std::max<std::int64_t>(0, limit - use + std::min(cache, use));
}

// The group and every group above it. In a container the path may not exist below the mount; its root then
// is the container's own group.
std::int64_t left_in_groups(const std::string& mount, std::string group, const char* limit_file,
                            const char* use_file, const char* cache_key) {
  std::int64_t left = left_in_group(mount, limit_file, use_file, cache_key);
  while (group.size() > 1) {
    left = std::min(left, left_in_group(mount + group, limit_file, use_file, cache_key));
    group.resize(group.rfind('/'));
  }
  return left;
}

std::int64_t status_bytes(const char* key) {
  return std::max<std::int64_t>(0, field("/proc/self/status", key)) * 1024;
}

}  // namespace

std::int64_t rss_bytes() {
  return status_bytes("VmRSS:");
}

std::int64_t peak_rss_bytes() {
  return status_bytes("VmHWM:");
}

std::int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

void return_freed_memory() {
  malloc_trim(0);
}

std::int64_t available_memory(const std::string& root) {
  std::int64_t left = kNoLimit;
  if (const std::int64_t kib = field(root + "/proc/meminfo", "MemAvailable:"); kib >= 0) left = kib * 1024;

  // Lines are "number:controllers:path"; v2 has number 0 and no controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        left = std::min(
            left, left_in_groups(root + mount, group, "/memory.max", "/memory.current", "inactive_file"));
      }
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      left = std::min(left, left_in_groups(root + "/sys/fs/cgroup/memory", group, "/memory.limit_in_bytes",
                                           "/memory.usage_in_bytes", "total_inactive_file"));
    }
  }

  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const std::int64_t most = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoLimit));
    left = std::min(left, std::max<std::int64_t>(0, most - status_bytes("VmSize:")));
  }
  return left;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (const std::size_t colon = line.find(": ");
        line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace lpmm
