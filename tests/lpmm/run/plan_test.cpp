// The plan: exact to the byte where it counts bytes.
#include "lpmm/run/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/base/progress.h"
#include "lpmm/files/files.h"
#include "models/families.h"
#include "tests/lpmm/run/tiny_model.h"
#include "tests/lpmm/scratch.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

TEST(Plan, LedgerIsWhatTheMemoryTakes) {
  const TinyModel model;
  CpuDevice device(1);
  for (const std::string_view preset : preset_names()) {
    for (const char* rule : {"sgd", "adamw"}) {
      const RunConfig config =
          parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n[optimizer]\nmomentum=0.9\n", "plan.toml",
                       with_families({std::string(preset),
                                      "",
                                      {std::string("optimizer.rule=") + rule, "optimizer.percentile_clip=5",
                                       "memory.override=[{pattern='head.bias', "
                                       "parameter='int8:block64', compensation='none'}]"}}));
      const Ledger planned = make_plan(open_data(config), model).ledger;
      Ledger real = ModelMemory(model.tensors(), config.policy, config.optimizer, 1, 1, device).ledger();
      real.buffers += buffer_bytes(model.buffers());
      EXPECT_EQ(planned.parameters, real.parameters);
      EXPECT_EQ(planned.role_codes, real.role_codes);
      EXPECT_EQ(planned.role_steps, real.role_steps);
      EXPECT_EQ(planned.exempt, real.exempt);
      EXPECT_EQ(planned.buffers, real.buffers);
      EXPECT_EQ(planned.model_memory(), real.model_memory());
    }
  }
}

TEST(Plan, CountsTheWorkspaceOfUpdates) {
  const TinyModel model;
  CpuDevice device(1);
  const auto workspace = [&](const char* rule) {
    const RunConfig config =
        parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n", "plan.toml",
                     with_families({"lpmm", "", {std::string("optimizer.rule=") + rule}}));
    const ModelMemory memory(model.tensors(), config.policy, config.optimizer, 1, 1, device);
    return std::pair(make_plan(open_data(config), model, device).ledger.workspace, memory.ledger().workspace);
  };
  const auto [adamw, none] = workspace("adamw");
  const auto [muon, made] = workspace("muon");
  EXPECT_EQ(none, 0);
  EXPECT_GE(made, 4 * 2 * kTinyFeatures * kTinyClasses);
  EXPECT_EQ(muon - adamw, made);
}

// Words and what finds them take more than the text that they were found in.
TEST(Plan, CountsTheTokenizer) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have a heap of their own";
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "word" + std::to_string(i) + " ";
  write_text(scratch / "text", text);
  const lpmm::Setup setup =
      open_data(parse_config("[model]\nname='gpt'\nlayers=1\nheads=1\nembedding=8\ncontext=16\n"
                             "[data]\nset='text'\ntokenizer='words'\npath='" +
                                 (scratch / "text") + "'\n[train]\nsteps=1\n",
                             "words.toml", with_families()));
  EXPECT_EQ(setup.task->size().bytes, 80000);
  EXPECT_GE(setup.size.bytes, 80000 + 20000 * 64);
  EXPECT_LE(setup.size.bytes, 80000 + 20000 * 512);
  EXPECT_EQ(open_data(setup.config, setup).size.bytes, setup.size.bytes);
}

TEST(Plan, HasTheKeysProgramsRelyOn) {
  const RunConfig config =
      parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n", "plan.toml", with_families({"lpmm", "", {}}));
  const Plan plan = make_plan(open_data(config), TinyModel());
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

TEST(Plan, SaysWhichTensorsAreExemptBecauseOfWhat) {
  const TinyModel model;
  std::int64_t least = 0, vectors = 0, in_vectors = 0, small = 0, in_small = 0;
  for (const TensorInfo& t : model.tensors()) {
    const bool is_vector = t.shape.size() == 1;
    ++(is_vector ? vectors : small);
    (is_vector ? in_vectors : in_small) += t.elements();
    least = std::max(least, t.elements() + 1);
  }
  ASSERT_GT(small, 0);
  const RunConfig config =
      parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n", "plan.toml",
                   with_families({"lpmm", "", {"memory.min_elements=" + std::to_string(least)}}));
  const Plan plan = make_plan(open_data(config), model);
  std::map<std::string, nlohmann::ordered_json> rows;
  const auto j = plan_json(plan);
  for (const auto& row : j["exempt"]) rows[row["because"]] = row;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows["one dimension"]["tensors"], vectors);
  EXPECT_EQ(rows["one dimension"]["parameters"], in_vectors);
  const auto& few = rows["fewer than memory.min_elements = " + std::to_string(least)];
  EXPECT_EQ(few["tensors"], small);
  EXPECT_EQ(few["parameters"], in_small);
  EXPECT_EQ(plan.ledger.exempt, 8 * (in_vectors + in_small));  // SGD: parameter and accumulator
}

TEST(Plan, SaysWhatDoesNotFit) {
  const RunConfig config =
      parse_config("[data]\nset='drawn'\n[train]\nsteps=1\n", "plan.toml", with_families());
  const Plan plan = make_plan(open_data(config), TinyModel());
  EXPECT_NO_THROW(check_memory(plan, plan.peak_bytes));
  try {
    check_memory(plan, plan.peak_bytes - 1);
    FAIL() << "should not fit";
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find(format_bytes(plan.peak_bytes)), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace lpmm
