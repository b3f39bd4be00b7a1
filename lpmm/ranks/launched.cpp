#include "lpmm/ranks/launched.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lpmm/base/exit_code.h"
#include "lpmm/base/host.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/process.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/ranks/transport.h"

namespace lpmm {
namespace {

constexpr int kMostRanks = 1024;
constexpr double kFinish = 10;  // seconds that a library may take to end well

struct Launcher {
  const char *by, *size, *rank;
};
// The first that has set one is the nearest: mpirun itself starts its helpers by srun. SLURM's are those of a
// step: a batch script has none.
constexpr std::array<Launcher, 3> kLaunchers = {{{"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                                 {"mpiexec", "PMI_SIZE", "PMI_RANK"},
                                                 {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}};

std::optional<int> number_in(const char* text, int least, int most) {
  if (text == nullptr) return {};
  const std::string_view all = text;
  int number = 0;
  const auto [end, error] = std::from_chars(all.begin(), all.end(), number);
  if (error != std::errc() || end != all.end() || number < least || number > most) return {};
  return number;
}

std::string shown(const char* name, const char* value) {
  return value == nullptr ? fmt::format("{} is not set", name)
                          : fmt::format("{} = {}", name, printable(std::string_view(value).substr(0, 40)));
}

// What each tells the others first. Bytes of another process.
struct Hello {
  char host[256] = {}, processes[64] = {};  // the name of the host, and of its table of processes
  pid_t process = 0;
  cpu_set_t processors = {};
};

template <std::size_t kSize>
void put(char (&field)[kSize], const std::string& text) {
  std::memcpy(field, text.data(), std::min(text.size(), kSize - 1));
}

Hello own_hello() {
  Hello hello;
  put(hello.host, host_name());
  std::error_code none;  // without /proc they are watched by nobody
  put(hello.processes, std::filesystem::read_symlink("/proc/self/ns/pid", none).string());
  hello.process = getpid();
  sched_getaffinity(0, sizeof(hello.processors), &hello.processors);
  return hello;
}

// Lets all know of all, and of who shares what.
std::vector<Transport::Peer> meet(WiredRanks& ranks) {
  const Hello own = own_hello();
  std::vector<Hello> all = ranks.all(own);
  std::vector<Transport::Peer> peers;
  std::vector<std::string> names;
  RankHost host{0, 0, 0};
  for (int i = 0; i < ranks.size(); ++i) {
    Hello& hello = all[static_cast<std::size_t>(i)];
    hello.host[sizeof(hello.host) - 1] = hello.processes[sizeof(hello.processes) - 1] = '\0';
    const bool is_here = std::strcmp(own.host, hello.host) == 0;
    const bool is_seen = is_here && own.processes[0] != '\0' &&
                         std::strcmp(own.processes, hello.processes) == 0 && hello.process > 0;
    names.push_back(fmt::format("rank {} (host {}, pid {})", i, printable(hello.host), hello.process));
    peers.push_back({names.back(), is_seen ? hello.process : 0});
    host.rank += is_here && i < ranks.rank();
    host.ranks += is_here;
    host.sharing += is_here && CPU_EQUAL(&own.processors, &hello.processors);
  }
  ranks.know(names, host);
  return peers;
}

// The part that is loaded: one that the loader finds (LD_LIBRARY_PATH, the installed one), or beside the
// program.
void* load_part(const Launch& launch) {
  const std::string name = "liblpmm_mpi.so";
  const auto beside = std::filesystem::path(own_program()).parent_path() / name;
  std::string why;
  for (const std::string& file : {name, beside.string()}) {
    if (void* const part = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return part;
    const std::string error = dlerror();
    std::error_code none;
    if (file != name && std::filesystem::exists(file, none)) why = error;
  }
  throw UsageError(fmt::format(
      "started as one of {} processes by {}, but {}: build it where MPI is installed (libopenmpi-dev), or "
      "start it once with --ranks {}",
      launch.size, launch.by,
      why.empty() ? "this lpmm was built without MPI"
                  : fmt::format("its part for MPI does not load ({})", why),
      launch.size));
}

std::unique_ptr<Wire> open_wire(void* part) {
  const auto interface = reinterpret_cast<WireInterface>(dlsym(part, "lpmm_wire_interface"));
  const auto open = reinterpret_cast<OpenWire>(dlsym(part, "lpmm_open_wire"));
  if (interface == nullptr || open == nullptr || std::strcmp(interface(), kWireInterface) != 0) {
    throw RunError("liblpmm_mpi.so is of another version of lpmm: build both anew");
  }
  return std::unique_ptr<Wire>(open());
}

// The launcher ends all at the first sign of trouble, while one still has to say what it was.
extern "C" void end_unless_one_leaves(int) {
  if (!Transport::some_leave) _exit(kInterrupted);
}

int exit_code_of(std::span<const Slate> slates) {
  try {
    throw_first(slates);
  } catch (const UsageError&) {
    return kBadUsage;
  } catch (const Interrupted&) {
    return kInterrupted;
  } catch (const RunError&) {
  }
  return kRunFailed;
}

bool have_all_done(std::span<const Slate> slates) {
  return std::ranges::all_of(slates, [](const Slate& s) { return s.ending == Ending::kDone; });
}

class Launched {
 public:
  using Explained = std::function<std::string(const std::string&)>;
  Launched(Launch launch, void* part, double timeout, Explained explained)
      : launch_(std::move(launch)),
        explained_(std::move(explained)),
        transport_(new Transport([part] { return open_wire(part); }, timeout)) {}
  ~Launched() {
    if (!transport_->is_stuck()) delete transport_;
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  int run(const std::function<int(Ranks&)>& body) {
    try {
      transport_->wait_until_open();
    } catch (const RunError&) {
      // A launcher ends all as soon as one has ended: the first one that is there speaks for all.
      std::this_thread::sleep_for(std::chrono::seconds(std::min(launch_.rank, 2)));
      end_without_libraries();
      throw;
    }
    check();
    WiredRanks ranks(*transport_);
    Slate own;
    write_ending(own, [&] {
      std::vector<Transport::Peer> peers = meet(ranks);
      for (const Transport::Peer& peer : peers) names_.push_back(peer.name);
      transport_->know(
          std::move(peers), [this](const Transport::Slates& slates) { abandon(slates); },
          [this](const std::string& what) {
            tell_nothing(false);
            tell(fmt::format("lpmm: {}\n", printable(explained_(what))));
          });
      if (!launch_.complaint.empty()) throw UsageError(launch_.complaint);
      if (!ranks.is_first()) tell_nothing(true);  // the first one does
      return body(ranks);
    });
    return end(ranks, own);
  }

 private:
  // Before they exchange anything: is what MPI says what the launcher says?
  void check() {
    const int size = transport_->size(), rank = transport_->rank();
    if (!launch_.complaint.empty()) {
      if (size == 1) throw UsageError(launch_.complaint);
    } else if (size != launch_.size || rank != launch_.rank) {
      launch_.complaint = fmt::format(
          "{} says that this is rank {} of {}, MPI that it is rank {} of {}: {}", launch_.by, launch_.rank,
          launch_.size, rank, size,
          launch_.by == "srun" ? "start it by srun --mpi=pmix, or another kind that this MPI knows"
                               : "variables of the environment are wrong, or the launcher is of another MPI");
      if (size == 1) throw UsageError(launch_.complaint);
    }
  }

  int end(const WiredRanks& ranks, const Slate& own) {
    Transport::Slates slates(static_cast<std::size_t>(ranks.size()));
    Slate& mine = slates[static_cast<std::size_t>(ranks.rank())];
    mine = own;
    const auto lose = [&](const std::string& why) {
      if (mine.ending == Ending::kDone) write_ending(mine, [&]() -> int { throw RankLost(why); });
    };
    try {
      slates = transport_->leave(own);
    } catch (const RankLost& e) {
      lose(e.what());
    }
    const auto silent = std::ranges::find(slates, Ending::kNone, &Slate::ending);
    if (silent != slates.end()) {
      lose(fmt::format("{} has not said how it ended",
                       ranks.name_of(static_cast<int>(silent - slates.begin()))));
    } else if (have_all_done(slates) && transport_->finish(kFinish)) {
      return own.result;
    }
    end_without_libraries();
    if (have_all_done(slates)) return own.result;
    tell_nothing(false);
    if (is_to_speak(slates)) speak(slates);
    give_way();
    return exit_code_of(slates);
  }

  // The first one that is heard of; one that was lost and goes on leaves it to those that have lost it.
  bool is_to_speak(std::span<const Slate> slates) const {
    const auto heard = std::ranges::find_if(slates, [](const Slate& s) { return s.ending != Ending::kNone; });
    return heard - slates.begin() == transport_->rank() && !transport_->stood_still();
  }

  void speak(std::span<const Slate> slates) const {
    try {
      throw_first(slates, names_);
    } catch (const RankLost& e) {
      throw RunError(explained_(e.what()));
    }
  }

  // On the transport's thread: the main one does not listen.
  void abandon(std::span<const Slate> slates) {
    if (is_to_speak(slates)) {
      tell_nothing(false);
      try {
        speak(slates);
      } catch (const std::exception& e) {
        tell(fmt::format("lpmm: {}\n", printable(e.what())));
      }
    } else {
      give_way();
    }
    _exit(exit_code_of(slates));
  }

  // A launcher ends all as soon as one has ended: let that be after the one that speaks.
  static void give_way() { std::this_thread::sleep_for(std::chrono::milliseconds(500)); }

  // What libraries do as the program ends may wait for others that are gone.
  static void end_without_libraries() {
    on_exit(
        [](int code, void*) {
          std::fflush(nullptr);
          _exit(code);
        },
        nullptr);
  }

  Launch launch_;
  const Explained explained_;
  Transport* transport_;
  std::vector<std::string> names_;
};

}  // namespace

std::optional<Launch> launch_of(const std::function<const char*(const char*)>& variable) {
  for (const Launcher& row : kLaunchers) {
    const char *const size = variable(row.size), *const rank = variable(row.rank);
    if (size == nullptr && (rank == nullptr || std::string_view(row.by) == "srun")) continue;
    const auto of = number_in(size, 1, kMostRanks);
    const auto number = number_in(rank, 0, of.value_or(1) - 1);
    if (of == 1 && number == 0) return {};
    Launch launch{row.by, number.value_or(0), of.value_or(1)};
    if (!of || !number) {
      launch.complaint = fmt::format(
          "{}, {}: as {} sets them, they number 1 to {} processes and one of these; unset both if it did not",
          shown(row.size, size), shown(row.rank, rank), row.by, kMostRanks);
    }
    return launch;
  }
  return {};
}

int run_launched(const Launch& launch, double timeout_seconds, const std::function<int(Ranks&)>& body,
                 const std::function<std::string(const std::string&)>& explained) {
  for (const int number : kStopSignals) signal(number, end_unless_one_leaves);
  void* part = nullptr;
  try {
    if (launch.by == "srun" && std::getenv("PMIX_RANK") == nullptr) {
      throw UsageError(fmt::format(
          "srun started {} processes that cannot find each other: use srun --mpi=pmix", launch.size));
    }
    part = load_part(launch);
  } catch (const UsageError&) {
    if (launch.rank == 0) throw;
    std::this_thread::sleep_for(std::chrono::seconds(1));  // after the first rank, which says it
    return kBadUsage;
  }
  return Launched(launch, part, timeout_seconds, explained).run(body);
}

}  // namespace lpmm
