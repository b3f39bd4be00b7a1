// How the ranks of a run end, and which of their errors is the one to tell.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "lpmm/ranks/ranks.h"

namespace lpmm {

enum class Ending : std::uint8_t { kNone, kDone, kUsage, kFailed, kLost, kInterrupted };

// What a rank says of itself at its end; bytes that other processes read.
struct Slate {
  RankPlace place;
  Ending ending = Ending::kNone;
  int result = 0;
  char message[3800] = {};
};

// Writes what becomes of the body: its result, or what it throws.
void write_ending(Slate& slate, const std::function<int()>& body);

// Throws the first error of those that failed, as UsageError, RunError or Interrupted, with the name of its
// rank ("rank 3"): wrong input before failures, what a loss of others made a rank say (RankLost) at last.
// Returns where none says one. `names` may be empty.
void throw_first(std::span<const Slate> slates, std::span<const std::string> names = {});

}  // namespace lpmm
