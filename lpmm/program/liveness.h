// One block of memory shared by values whose lives do not meet.
#pragma once

#include <cstdint>
#include <vector>

namespace lpmm {

// A value that lives from time `begin` to time `end`, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int begin = 0, end = 0;
  std::int64_t offset = 0;  // set by place()
};

// Gives every lifetime an offset, a multiple of 64, so that no two that meet overlap: largest first, each at
// the lowest offset that is free. Returns the bytes of the arena. `comparisons` gets the work: how
// often an offset was compared with those that are taken.
std::int64_t place(std::vector<Lifetime>& lifetimes, std::int64_t* comparisons = nullptr);

}  // namespace lpmm
