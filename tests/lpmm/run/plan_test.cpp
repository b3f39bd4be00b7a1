// The plan: exact to the byte where it counts bytes, and the memory that the machine says it has.
#include "lpmm/run/plan.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/host.h"
#include "lpmm/base/progress.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/run/tiny_model.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

TEST(Plan, LedgerIsWhatTheMemoryTakes) {
  const TinyModel model;
  Pool pool(1);
  for (const std::string_view preset : preset_names()) {
    for (const char* rule : {"sgd", "adamw"}) {
      const RunConfig config =
          parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n[optimizer]\nmomentum=0.9\n", "plan.toml",
                       {std::string(preset),
                        "",
                        {std::string("optimizer.rule=") + rule,
                         "memory.override=[{pattern='head.bias', "
                         "parameter='int8:block64'}]"}});
      const Ledger planned = make_plan(config, model).ledger;
      Buffers buffers(model.buffers());
      Ledger real = ModelMemory(model.tensors(), config.policy, config.optimizer, 1, 1, pool).ledger();
      real.buffers = buffers.bytes();
      EXPECT_EQ(planned.parameters, real.parameters);
      EXPECT_EQ(planned.role_codes, real.role_codes);
      EXPECT_EQ(planned.role_steps, real.role_steps);
      EXPECT_EQ(planned.exempt, real.exempt);
      EXPECT_EQ(planned.model_memory(), real.model_memory());
    }
  }
}

TEST(Plan, HasTheKeysProgramsRelyOn) {
  const RunConfig config =
      parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n", "plan.toml", {"lpmm", "", {}});
  const Plan plan = make_plan(config, TinyModel());
  const auto j = plan_json(plan);
  for (const char* key : {"parameters", "bits_per_parameter", "activation_bytes", "workspace_bytes",
                          "largest_transient_bytes", "peak_bytes"}) {
    EXPECT_TRUE(j[key].is_number()) << key;
  }
  std::int64_t total = 0;
  for (const char* key : {"parameter", "accumulator", "momentum", "variance", "exempt", "buffers"}) {
    total += j["model_memory_bytes"][key].get<std::int64_t>();
  }
  EXPECT_EQ(j["model_memory_bytes"]["total"], total);
  EXPECT_DOUBLE_EQ(j["bits_per_parameter"], 8.0 * static_cast<double>(total) / j["parameters"].get<double>());
  EXPECT_GT(j["peak_bytes"], total);
}

TEST(Plan, SaysWhatDoesNotFit) {
  const RunConfig config = parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n", "plan.toml", {});
  const Plan plan = make_plan(config, TinyModel());
  EXPECT_NO_THROW(check_memory(plan, plan.peak_bytes));
  try {
    check_memory(plan, plan.peak_bytes - 1);
    FAIL() << "should not fit";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find(format_bytes(plan.peak_bytes)), std::string::npos) << e.what();
  }
}

// A machine made of files: 8 GB free, and what the test adds.
class Machine {
 public:
  Machine() { put("/proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable:    8000000 kB\n"); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(scratch_.path() + path).parent_path());
    write_text(scratch_.path() + path, text);
  }
  std::int64_t available() const { return available_memory(scratch_.path()); }

 private:
  Scratch scratch_;
};

TEST(Host, MemoryOfTheMachine) {
  const Machine m;
  EXPECT_EQ(m.available(), 8000000LL * 1024);
}

TEST(Host, CgroupTwoLimitsItAndItsParents) {
  const Machine m;
  m.put("/proc/self/cgroup", "0::/a/b\n");
  m.put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  m.put("/sys/fs/cgroup/a/b/memory.current", "100000000\n");
  EXPECT_EQ(m.available(), 8000000LL * 1024);
  m.put("/sys/fs/cgroup/a/memory.max", "1000000000\n");
  m.put("/sys/fs/cgroup/a/memory.current", "700000000\n");
  m.put("/sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 200000000\n");
  EXPECT_EQ(m.available(), 500000000);  // page cache can be dropped
  m.put("/sys/fs/cgroup/a/b/memory.max", "300000000\n");
  EXPECT_EQ(m.available(), 200000000);
  m.put("/sys/fs/cgroup/a/b/memory.current", "900000000\n");
  EXPECT_EQ(m.available(), 0);
}

TEST(Host, CgroupTwoInAContainer) {
  const Machine m;  // the path is the host's and does not exist here
  m.put("/proc/self/cgroup", "0::/docker/abc\n");
  m.put("/sys/fs/cgroup/memory.max", "50000000\n");
  m.put("/sys/fs/cgroup/memory.current", "10000000\n");
  EXPECT_EQ(m.available(), 40000000);
}

TEST(Host, CgroupOne) {
  const Machine m;
  m.put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/7\nbroken line\n1:name=systemd:/\n");
  m.put("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "9223372036854771712\n");
  m.put("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "5\n");
  m.put("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "600000000\n");
  m.put("/sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "100000000\n");
  m.put("/sys/fs/cgroup/memory/jobs/7/memory.stat", "total_inactive_file 50000000\n");
  EXPECT_EQ(m.available(), 550000000);
}

TEST(Host, ThisProcess) {
  EXPECT_GT(rss_bytes(), 1 << 20);
  EXPECT_GE(peak_rss_bytes(), rss_bytes() / 2);
  EXPECT_GT(available_memory(), 1 << 20);
}

TEST(Progress, Figures) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1500), "1.5 kB");
  EXPECT_EQ(format_bytes(123456789), "123 MB");
  EXPECT_EQ(format_time(12.4), "12s");
  EXPECT_EQ(format_time(185), "3m05s");
  EXPECT_EQ(format_time(3720), "1h02m");
  EXPECT_EQ(format_time(-1), "0s");
}

}  // namespace
}  // namespace lpmm
