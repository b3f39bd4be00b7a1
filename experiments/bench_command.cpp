// `lpmm bench`: the update step, the codecs, plain copies and whole training steps, measured.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/bench_train.h"
#include "experiments/commands.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

struct TrainArguments {
  ConfigArguments config;
  std::int64_t steps = 50, warm_up = 5;
  bool json = false;
};

ImageData load(const RunConfig& config, Pool& pool) {
  const std::string folder = data_folder();
  const auto& d = config.data;
  if (d.set == "cifar10" || (d.set == "auto" && has_cifar10(folder))) return load_cifar10(folder);
  return draw_images(d.train_images, d.test_images, d.draw_seed, pool);
}

int run_train(const TrainArguments& o) {
  const RunConfig config = o.config.load();
  Pool pool(config.train.threads);
  const ImageData data = load(config, pool);
  const TrainSpeed speed = bench_train(config, data, pool, o.steps, o.warm_up);
  const auto share = [&](double part) { return part / speed.seconds; };
  print_answer({{"images_per_second", speed.images_per_second},
                {"step_milliseconds", 1e3 * speed.median_step_seconds},
                {"data_share", share(speed.data_seconds)},
                {"compute_share", share(speed.compute_seconds)},
                {"update_share", share(speed.update_seconds)},
                {"steps", o.steps},
                {"batch", config.train.batch},
                {"microbatches", config.train.microbatches},
                {"threads", pool.threads()},
                {"model", config.model.name},
                {"preset", config.policy.preset},
                {"compute", config.train.compute == Compute::kBf16 ? "bf16" : "fp32"}},
               o.json);
  return 0;
}

void add_train(CLI::App& bench, Action& action) {
  auto o = std::make_shared<TrainArguments>();
  CLI::App* command = bench.add_subcommand("train", "Images per second of a configuration's training steps");
  add_config_arguments(*command, o->config);
  command->add_option("--steps", o->steps, "measured steps")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--warm-up", o->warm_up, "steps before them")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      "Example:\n  lpmm bench train experiments/configs/resnet20_cifar10.toml --preset lpmm --threads 2");
  on_selected(*command, action, o, run_train);
}

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
  CLI::App* bench = program.add_subcommand("bench", "Measure the update step, the codecs and training");
  bench->require_subcommand(1);
  bench->footer(
      "Examples:\n"
      "  lpmm bench update --optimizer adamw --preset lpmm --elements 536870912 --threads 2 --json\n"
      "  lpmm bench codec\n"
      "  lpmm bench train experiments/configs/resnet20_cifar10.toml --preset lpmm");
  add_train(*bench, action);
}

}  // namespace lpmm
