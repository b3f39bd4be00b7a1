// `lpmm plan`: what a run will take, without running it.
#include "lpmm/run/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/commands/arguments.h"
#include "experiments/commands/recipe.h"
#include "experiments/pack/packed_data.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/text.h"
#include "lpmm/program/family.h"
#include "lpmm/run/advice.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/records.h"
#include "lpmm/run/setup.h"

namespace lpmm {
namespace {

struct PlanArguments {
  StartArguments start;
  int ranks = 1, stage = 0;
  double bandwidth = 0;  // Gbit/s
  bool json = false;
};

void print_row(const std::string& what, std::int64_t bytes, std::int64_t fp32) {
  fmt::print("{:<26} {:>10} {:>10}\n", what, format_bytes(bytes), format_bytes(fp32));
}

// Prints sizes for people, beside those of the same run with all memory in fp32.
void print_plan(const Plan& plan, const Plan& fp32, const Policy& policy) {
  const Ledger &a = plan.ledger, &b = fp32.ledger;
  fmt::print("{} parameters, {:.2f} bits each for all model memory; fp32: {:.2f} bits\n", a.parameters,
             a.bits_per_parameter(), b.bits_per_parameter());
  const double times = static_cast<double>(b.model_memory()) /
                       static_cast<double>(std::max<std::int64_t>(1, a.model_memory()));
  fmt::print("model memory {} in place of {}: {:.1f} times smaller\n\n", format_bytes(a.model_memory()),
             format_bytes(b.model_memory()), times);
  fmt::print("{:<26} {:>10} {:>10}\n", "", policy.preset, "fp32");
  for (const Role role : kEveryRole) {
    const bool is_kept = a.role_bytes(role) > 0 || b.role_bytes(role) > 0;
    if (is_kept) print_row(std::string(to_string(role)), a.role_bytes(role), b.role_bytes(role));
  }
  if (a.averages + b.averages > 0) print_row("average", a.averages, b.averages);
  print_row("exempt (fp32)", a.exempt, b.exempt);
  if (a.peaks > 0) print_row("peaks", a.peaks, b.peaks);
  print_row("buffers", a.buffers, b.buffers);
  print_row("model memory", a.model_memory(), b.model_memory());
  print_row("activations", a.activations, b.activations);
  print_row("workspace", a.workspace, b.workspace);
  if (plan.translation_bytes > 0) print_row("translations", plan.translation_bytes, fp32.translation_bytes);
  print_row("data", plan.data_bytes, fp32.data_bytes);
  print_row("watch", plan.watch_bytes, fp32.watch_bytes);
  print_row("program and libraries", plan.overhead_bytes, fp32.overhead_bytes);
  print_row("peak of the run", plan.peak_bytes, fp32.peak_bytes);
  if (plan.device_bytes > 0) print_row("on the device", plan.device_bytes, fp32.device_bytes);
  for (const ExemptTensors& e : plan.exempt) {
    fmt::print("\n{} tensors with {} parameters are exempt because of {}", e.tensors, e.parameters,
               e.because);
  }
  if (!plan.exempt.empty()) fmt::print("\n");
}

std::int64_t sent_bytes(const Plan& plan) {
  return plan.sent.all() + plan.read_bytes;
}
// On a link of so many Gbit/s that does nothing else.
double sending_seconds(const Plan& plan, double bandwidth) {
  return 8 * static_cast<double>(sent_bytes(plan)) / (1e9 * bandwidth);
}

// One of so many processes that share the run, which `plan` is of, beside a run of one.
void print_rank(const Plan& one, const Plan& plan, const PlanArguments& o, const RunConfig& config) {
  const int ranks = o.ranks, slots = config.slots();
  fmt::print("\n{:<26} {:>10} {:>10}\n", fmt::format("one of {} ranks", ranks), "a rank", "alone");
  const auto states = [](const Ledger& ledger) {
    std::int64_t bytes = 0;
    for (const Role role : kEveryRole) bytes += is_state(role) ? ledger.role_bytes(role) : 0;
    return bytes;
  };
  const Ledger &a = plan.ledger, &b = one.ledger;
  print_row("parameter", a.role_bytes(Role::kParameter), b.role_bytes(Role::kParameter));
  print_row(fmt::format("accumulator, {} of {} slots", slots / ranks, slots),
            a.role_bytes(Role::kAccumulator), b.role_bytes(Role::kAccumulator));
  print_row("states", states(a), states(b));
  print_row("exempt (fp32)", a.exempt, b.exempt);
  print_row("model memory", a.model_memory(), b.model_memory());
  print_row("workspace", a.workspace, b.workspace);
  fmt::print("sent in a step: {} ({} accumulators, {} updated parameters", format_bytes(sent_bytes(plan)),
             format_bytes(plan.sent.accumulators), format_bytes(plan.sent.parameters));
  if (plan.read_bytes > 0) {
    fmt::print(", {} parameters that others read, {} for each time", format_bytes(plan.read_bytes),
               format_bytes(plan.sent.pass));
  }
  fmt::print(")\n");
  if (config.ranks.reads) fmt::print("ranks of one host read that in each other's memory\n");
  if (o.bandwidth > 0) {
    fmt::print("a link of {:g} Gbit/s takes {:.3g} s for that\n", o.bandwidth,
               sending_seconds(plan, o.bandwidth));
  }
}

// The rank with the most memory.
Plan plan_of_rank(const Setup& setup, const Model& model, int ranks) {
  const auto device = make_device(setup.config.train.device, threads_of(setup.config, ranks));
  std::optional<Plan> most;
  for (int rank = 0; rank < ranks; ++rank) {
    Plan plan = make_plan(setup, model, *device, ranks, rank);
    if (!most || plan.ledger.model_memory() > most->ledger.model_memory()) most = std::move(plan);
  }
  return std::move(*most);
}

// Prints how many tokens a run on packed conversations learns.
void print_learnt(const Setup& setup) {
  const DataSize& size = setup.size;
  if (size.learnt_tokens == 0) return;
  const auto steps = static_cast<double>(steps_of(setup)),
             sequences = static_cast<double>(size.train_examples);
  const double epochs = steps * setup.config.train.batch / sequences;
  fmt::print(
      "\n{} sequences of {} tokens per epoch, of which {} tokens are learnt; the run passes over them {:.3g} "
      "times\n",
      size.train_examples, setup.config.model.length, size.learnt_tokens, epochs);
}

int run_plan(const PlanArguments& o) {
  if (o.ranks == 1 && (o.stage > 0 || o.bandwidth > 0)) {
    throw UsageError("--stage and --bandwidth are of several processes: --ranks says how many, from 2 on");
  }
  RunConfig config = load_config(o.start, "", o.json);
  if (!config.train.init.empty()) find_checkpoint(config.train.init);
  Progress progress(o.json);
  pack_named_pictures(config, config.train.init.empty() ? "" : find_checkpoint(config.train.init), progress);
  const auto stand_in = task_of(config.model).stand_in;
  auto tokenizer = stand_in == nullptr ? nullptr : stand_in(config);
  if (o.ranks > 1 && config.ranks.slots == 0) config.ranks.slots = o.ranks;
  if (o.stage > 0) config.ranks.stage = o.stage;
  check_ranks(config, o.ranks);
  Setup setup = open_data(config, std::move(tokenizer));
  fit_batch(o.start, setup, o.json);
  const auto model = make_model(setup.config);
  check_trained(setup, *model);
  const Plan plan = plan_of_rank(setup, *model, o.ranks);
  const std::vector<std::string> warnings =
      storage_warnings(setup.config.policy, setup.config.optimizer, model->tensors());
  if (o.json) {
    nlohmann::ordered_json answer = plan_json(plan);
    if (o.bandwidth > 0) answer["sending_seconds"] = sending_seconds(plan, o.bandwidth);
    if (!setup.size.mixture.empty()) answer["mixture"] = mixture_json(setup.size.mixture);
    if (setup.size.learnt_tokens > 0) answer["learnt_tokens_per_epoch"] = setup.size.learnt_tokens;
    answer["warnings"] = warnings;
    print_answer(answer, true);
    return kDone;
  }
  for (const std::string& warning : warnings) tell(fmt::format("warning: {}\n", warning));
  Setup plain = setup;
  plain.config.policy = make_policy(kPlainPreset);
  plain.config.policy.average = setup.config.policy.average;
  const Plan alone = o.ranks == 1 ? plan : make_plan(setup, *model);
  print_plan(alone, make_plan(plain, *make_model(plain.config)), setup.config.policy);
  if (o.ranks > 1) print_rank(alone, plan, o, setup.config);
  print_learnt(setup);
  return kDone;
}

}  // namespace

void add_plan_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<PlanArguments>();
  CLI::App* command =
      program.add_subcommand("plan", "Say what a run will take in memory, to the byte, without running it");
  add_start_arguments(*command, o->start);
  command->add_option("--ranks", o->ranks, "processes that share the run (lpmm train --ranks)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->add_option("--stage", o->stage, "what each of them keeps its share of (ranks.stage): 1 or 3")
      ->check(CLI::IsMember({1, 3}))
      ->type_name("N");
  command
      ->add_option("--bandwidth", o->bandwidth, "of a rank's link, to say how long it takes for what is sent")
      ->check(CLI::Range(0.001, 1e6).description(""))
      ->type_name("GBIT/S");
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Prints sizes beside those that fp32 would take. With --json, in bytes: parameters,
bits_per_parameter (of model_memory_bytes.total), model_memory_bytes by role, exempt and buffers, exempt
(which tensors stay fp32, because of what), activation_bytes, workspace_bytes, largest_transient_bytes
(the largest piece of a parameter or gradient that is ever unpacked at once), translation_bytes (of a
translator that is scored by BLEU), data_bytes, watch_bytes, overhead_bytes (of program, libraries and
threads), peak_bytes (the most resident memory that the whole process has at once), device_bytes (of a
GPU's memory, where the run uses one; else 0), sent_bytes (to other ranks in a step: accumulators,
updated parameters, and with ranks.stage = 3 what others read), with --bandwidth sending_seconds, of
conversations learnt_tokens_per_epoch, and warnings (of states that the run's own formats or rounding
harm). With --ranks they are of one rank.
Examples:
  lpmm plan resnet20_cifar10 --preset lpmm
  lpmm plan resnet20_cifar10 --preset lpmm-min --set train.batch=512 --json
  lpmm plan gpt2_124m --preset lpmm-min --set train.microbatches=4 --ranks 4
  lpmm plan gpt2_124m --set train.batch=8 --set train.microbatches=8 --ranks 8 --stage 3 --bandwidth 10
  lpmm plan --init runs/minilm --set data.path=reviews.csv)");
  on_selected(*command, action, o, run_plan);
}

}  // namespace lpmm
