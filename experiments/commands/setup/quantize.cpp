// `lpmm quantize`: a .npy array through a spec, chunk by chunk.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "experiments/commands/arguments.h"
#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/files/files.h"
#include "lpmm/files/npy.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace {

struct QuantizeArguments {
  std::string input, spec, codes, decoded;
  std::uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

// Elements held at a time; a multiple of every block and packing group.
constexpr std::int64_t kChunk = std::int64_t{1} << 20;

// Errors of what is stored against what came in, summed in the order of the elements.
struct ErrorSums {
  std::int64_t count = 0, nonzero = 0, zeroed = 0;
  double absolute = 0, relative = 0, largest = 0, difference = 0;

  void add(float before, float after) {
    const double error = static_cast<double>(after) - before;
    ++count;
    difference += error;
    absolute += std::abs(error);
    largest = std::max(largest, std::abs(error));
    if (before == 0.0F) return;
    ++nonzero;
    relative += std::abs(error / before);
    zeroed += after == 0.0F ? 1 : 0;
  }
};

const char* code_type(Format format) {
  if (format.map == Map::kFp32) return "<u4";
  if (format.map == Map::kBf16) return "<u2";
  return has_signed_codes(format.map) ? "<i2" : "|u1";
}

// One code per element, as the integer it stands for.
void write_codes(File& file, const kernels::RoleView& view) {
  const Format format = view.codec.format;
  const auto count = static_cast<std::size_t>(view.elements);
  if (!is_packed(format)) {
    file.write(std::as_bytes(std::span(view.codes, count * (format.bits / 8U))));
  } else if (has_signed_codes(format.map)) {
    std::vector<std::int16_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t code = load_code(view.codes, format, static_cast<std::int64_t>(i));
      codes[i] = static_cast<std::int16_t>(sign_extend(code, format.bits));
    }
    file.write(std::as_bytes(std::span(codes)));
  } else {
    std::vector<std::uint8_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) {
      codes[i] = static_cast<std::uint8_t>(load_code(view.codes, format, static_cast<std::int64_t>(i)));
    }
    file.write(std::as_bytes(std::span(codes)));
  }
}

void check_storable(const std::vector<float>& values, std::int64_t first, const QuantizeArguments& o,
                    const Spec& spec) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t element = first + static_cast<std::int64_t>(i);
    if (!is_storable(abs_bits(values[i]))) {
      throw RunError(
          fmt::format("{}: element {} is {}; NaN, infinities and magnitudes above 2^120 cannot be stored",
                      o.input, element, values[i]));
    }
    if (values[i] < 0.0F && !is_signed(spec.format.map)) {
      throw RunError(fmt::format("{}: element {} is {}; {} is unsigned, take {}", o.input, element, values[i],
                                 to_string(spec.format),
                                 map_choices([](const MapRow& m) { return m.is_signed; })));
    }
  }
}

void check_paths(const QuantizeArguments& o) {
  const auto place = [](const std::string& path) {
    std::error_code none;  // a pipe has no place
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path), none);
  };
  const auto same = [&](const std::string& a, const std::string& b) {
    return !place(a).empty() && place(a) == place(b);
  };
  for (const std::string& output : {o.codes, o.decoded}) {
    if (!output.empty() && same(output, o.input)) {
      throw UsageError(fmt::format("{} is the input and cannot be an output too", output));
    }
  }
  if (!o.codes.empty() && !o.decoded.empty() && same(o.codes, o.decoded))
    throw UsageError("--codes and --decoded name the same file");
}

int run_quantize(const QuantizeArguments& o) {
  const Spec spec = parse_spec(o.spec);
  check_paths(o);
  NpyReader reader(o.input);
  if (reader.elements() == 0) throw RunError(fmt::format("{}: holds no elements", o.input));
  if (reader.elements() > kMostElements) {
    throw RunError(fmt::format("{}: {} elements, but the noise counter holds {}", o.input, reader.elements(),
                               kMostElements));
  }
  CpuDevice device(o.threads);
  for (const std::string& output : {o.codes, o.decoded}) {
    if (!output.empty()) remove_leftovers(std::filesystem::path(output).parent_path().string());
  }
  std::optional<NewFile> codes, decoded;
  if (!o.codes.empty()) {
    write_npy_header(codes.emplace(o.codes).file(), code_type(spec.format), reader.shape());
  }
  if (!o.decoded.empty()) write_npy_header(decoded.emplace(o.decoded).file(), "<f4", reader.shape());

  const std::int64_t longest = std::min(kChunk, reader.elements());
  struct alignas(64) Line {
    std::uint8_t bytes[64];
  };
  std::vector<Line> storage(static_cast<std::size_t>(code_bytes(spec.format, longest) + 63) / 64);
  std::vector<std::uint16_t> steps(static_cast<std::size_t>(blocks_of(longest, spec.block)));
  std::vector<float> before, after;
  ErrorSums sums;
  for (std::int64_t first = 0; first < reader.elements(); first += kChunk) {
    const std::int64_t count = std::min(kChunk, reader.elements() - first);
    before.resize(static_cast<std::size_t>(count));
    after.resize(static_cast<std::size_t>(count));
    reader.read(before);
    check_storable(before, first, o, spec);
    std::fill(steps.begin(), steps.end(), std::uint16_t{0});
    const kernels::RoleView view = {spec, storage.data()->bytes, steps.data(), count};
    const Noise noise = {o.seed, 0, 0, noise_stream(Role::kParameter),
                         static_cast<std::uint32_t>(first / kGroup)};
    device.encode(view, 0, count, before.data(), noise);
    device.decode(view, 0, count, after.data());
    for (std::size_t i = 0; i < before.size(); ++i) sums.add(before[i], after[i]);
    if (codes) write_codes(codes->file(), view);
    if (decoded) decoded->file().write(std::as_bytes(std::span(after)));
  }
  if (codes) codes->keep();
  if (decoded) decoded->keep();

  const auto count = static_cast<double>(sums.count);
  const double nonzero = std::max(1.0, static_cast<double>(sums.nonzero));
  nlohmann::ordered_json answer;
  answer["spec"] = to_string(spec);
  answer["elements"] = sums.count;
  answer["bits_per_element"] = bits_per_element(spec, sums.count);
  answer["mean_abs_error"] = sums.absolute / count;
  answer["mean_rel_error"] = sums.relative / nonzero;
  answer["max_abs_error"] = sums.largest;
  answer["zeroed_share"] = static_cast<double>(sums.zeroed) / nonzero;
  answer["bias"] = sums.difference / count;
  print_answer(answer, o.json);
  return kDone;
}

}  // namespace

void add_quantize_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<QuantizeArguments>();
  CLI::App* command =
      program.add_subcommand("quantize", "Put a .npy array through a spec and measure the error");
  command->add_option("IN.npy", o->input, "array of '<f4', '<f2' or '<f8' in C order")->required();
  command
      ->add_option("--spec", o->spec,
                   "FORMAT[:blockN][:rn|sr|qr][:moving|sticky]; FORMAT is one of " + format_choices())
      ->required();
  command->add_option("--seed", o->seed, "seed of the rounding noise")
      ->check(kUnsigned)
      ->capture_default_str();
  command
      ->add_option("--codes", o->codes,
                   "write one unpacked code an element: int16 for int and soft, uint8 for other tables, "
                   "uint16 or uint32 "
                   "for bf16 and fp32")
      ->type_name("OUT.npy");
  command->add_option("--decoded", o->decoded, "write what is stored, as fp32")->type_name("OUT.npy");
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Prints bits_per_element (steps included), mean_abs_error, mean_rel_error (of non-zero inputs),
max_abs_error, zeroed_share (non-zero inputs stored as 0) and bias (mean of decoded - input).
Examples:
  lpmm quantize w.npy --spec int4:block64:sr --decoded w4.npy
  lpmm quantize v.npy --spec ude8:block256:rn --codes v_codes.npy --json)");
  on_selected(*command, action, o, run_quantize);
}

}  // namespace lpmm
