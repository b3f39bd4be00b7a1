// The memory and the names of the machine.
#pragma once

#include <cstdint>
#include <string>

namespace lpmm {

std::int64_t rss_bytes();       // resident memory of this process now
std::int64_t peak_rss_bytes();  // and at most so far
std::int64_t heap_bytes();      // allocated and not freed; 0 where sanitizers allocate
void return_freed_memory();     // gives the machine back what lies free between what is allocated

// Bytes this process may still take: free and reclaimable memory of the machine, bounded by every cgroup
// (v1 and v2) it lives in and by RLIMIT_AS. `root` is put in front of /proc and /sys.
std::int64_t available_memory(const std::string& root = "");

std::string cpu_name();
std::string host_name();

}  // namespace lpmm
