// Ranks as processes of this host.
#pragma once

#include <functional>

#include "lpmm/ranks/ranks.h"

namespace lpmm {

// Forks `count` processes that call `body`, each as one rank, and waits for them; no thread may run and no
// GPU be open yet. Returns what the body of rank 0 did. SIGINT, SIGTERM, SIGHUP and SIGUSR1 are passed on.
// Where one fails or dies, the others end soon after, at the latest within two seconds; then UsageError or
// RunError is thrown here, once: what failed first, with the rank, its step and what that was doing, as
// RankLost where it only died. The first one alone tells things. None outlives this process.
int run_on_ranks(int count, double timeout_seconds, const std::function<int(Ranks&)>& body);

}  // namespace lpmm
