// Ranks as processes that a launcher has started, on one host or several: mpirun, srun.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lpmm/ranks/ranks.h"

namespace lpmm {

// What a launcher says of this process in its environment.
struct Launch {
  std::string by;  // "mpirun"
  int rank = 0, size = 1;
  std::string complaint = {};  // where it makes no sense; the numbers are not to be used then
};

// Nothing where no launcher started this process, or it is the only one. `variable` is as getenv().
std::optional<Launch> launch_of(const std::function<const char*(const char*)>& variable);

// Calls `body` as one of the ranks, which exchange bytes through the part for MPI (liblpmm_mpi.so), and
// returns what it did. Where a rank fails or dies, all end within the timeout and three seconds. One throws
// the error: the first that failed, by its rank and host; `explained` adds to the text of a loss. The
// others return an exit code and have said nothing.
int run_launched(const Launch& launch, double timeout_seconds, const std::function<int(Ranks&)>& body,
                 const std::function<std::string(const std::string&)>& explained);

}  // namespace lpmm
