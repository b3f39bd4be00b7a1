// `lpmm inspect`: what a checkpoint holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "experiments/commands/arguments.h"
#include "kernels/formats/scales.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/terminal.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/spec.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/checkpoint_files.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

struct InspectArguments {
  std::string path;
  bool json = false;
};

// Smallest, largest and mean step of the blocks, rows or columns that are not all zero.
ordered_json step_range(const SafetensorsFile& file, const SafetensorsEntry& entry, const Codec& codec) {
  constexpr std::uint64_t kPiece = 1U << 16;
  std::vector<std::uint16_t> words;
  float smallest = 0, largest = 0;
  double sum = 0;
  std::int64_t count = 0, zero = 0;
  for (std::uint64_t first = 0; first < entry.bytes; first += kPiece) {
    words.resize(std::min(kPiece, entry.bytes - first) / 2);
    file.read(entry, first, std::as_writable_bytes(std::span(words)));
    for (std::int64_t i = 0; i < 16 * std::ssize(words) / codec.step_bits; ++i) {
      // The word of a block with a range has that beside the step.
      const float step =
          divides_first(codec)
              ? load_step(codec, words.data(), i)
              : scale_of(codec.format, map_table(codec.format), words[static_cast<std::size_t>(i)]).step;
      if (step == 0) {
        ++zero;
        continue;
      }
      smallest = count == 0 ? step : std::min(smallest, step);
      largest = std::max(largest, step);
      sum += step;
      ++count;
    }
  }
  return {{"blocks", count + zero},
          {"zero_blocks", zero},
          {"min", smallest},
          {"max", largest},
          {"mean", count == 0 ? 0.0 : sum / static_cast<double>(count)}};
}

void print_tensors(const ordered_json& answer) {
  fmt::print("{:<40} {:>16} {:>12} {:<24} {:>10} {:>10} {:>10}\n", "tensor", "shape", "bytes", "spec",
             "step min", "mean", "max");
  for (const ordered_json& tensor : answer["tensors"]) {
    std::string name = tensor["name"];
    std::string shape = fmt::format("{}", fmt::join(tensor["shape"].get<std::vector<std::int64_t>>(), "x"));
    std::string bytes = fmt::format("{}", tensor["bytes"].get<std::int64_t>());
    for (const auto& [role, spec] : tensor["specs"].items()) {
      fmt::print("{:<40} {:>16} {:>12} {:<24}", printable(name + "." + role), shape, bytes,
                 printable(spec.get<std::string>()));
      if (const auto steps = tensor["steps"].find(role); steps != tensor["steps"].end()) {
        fmt::print(" {:>10.3g} {:>10.3g} {:>10.3g}", (*steps)["min"].get<double>(),
                   (*steps)["mean"].get<double>(), (*steps)["max"].get<double>());
      }
      fmt::print("\n");
      bytes.clear();
    }
  }
}

int run_inspect(const InspectArguments& o) {
  const std::string path = find_checkpoint(o.path);
  const CheckpointInfo info = inspect_checkpoint(path);
  const SafetensorsFile file(path + "/" + kModelFile);
  ordered_json answer = {
      {"checkpoint", path}, {"model", info.model}, {"step", info.step}, {"updates", info.updates}};
  std::int64_t total = 0;
  for (const CheckpointTensor& tensor : info.tensors) {
    ordered_json row = {{"name", tensor.name}, {"shape", tensor.shape}, {"bytes", tensor.bytes}};
    row["specs"] = ordered_json::object();
    row["steps"] = ordered_json::object();
    for (const auto& [role, spec] : tensor.specs) {
      row["specs"][role] = spec;
      const SafetensorsEntry* steps = file.find(fmt::format("{}.{}.steps", tensor.name, role));
      if (steps != nullptr) row["steps"][role] = step_range(file, *steps, parse_spec(spec));
    }
    total += tensor.bytes;
    answer["tensors"].push_back(std::move(row));
  }
  answer["bytes"] = total;
  answer["state"] = read_json(path + "/" + kStateFile, std::uint64_t{1} << 26);
  if (o.json) {
    print_answer(answer, true);
    return kDone;
  }
  print_tensors(answer);
  answer.erase("tensors");
  print_answer(answer, false);
  return kDone;
}

}  // namespace

void add_inspect_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<InspectArguments>();
  CLI::App* command = program.add_subcommand("inspect", "Check a checkpoint and list what it holds");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Per tensor: shape, spec and bytes of every role, smallest, mean and largest step of its blocks;
then what state.json says.
Examples:
  lpmm inspect runs/r20
  lpmm inspect runs/r20/checkpoints/step_00003900 --json)");
  on_selected(*command, action, o, run_inspect);
}

}  // namespace lpmm
