// `lpmm quantize`: a .npy array through specs and code books, chunk by chunk.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/quantiles/code_book.h"
#include "experiments/quantiles/error_sums.h"
#include "experiments/quantiles/stored.h"
#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/files/files.h"
#include "lpmm/files/npy.h"
#include "lpmm/memory/spec.h"

namespace lpmm {
namespace {

struct QuantizeArguments {
  std::string input, codes, decoded;
  std::vector<std::string> specs;
  std::uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

void check_storable(std::span<const float> values, std::int64_t first, const std::string& input) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_storable(abs_bits(values[i]))) continue;
    throw RunError(
        fmt::format("{}: element {} is {}; NaN, infinities and magnitudes above 2^120 cannot be stored",
                    input, first + static_cast<std::int64_t>(i), values[i]));
  }
}
void check_sign(std::span<const float> values, std::int64_t first, const QuantizeArguments& o) {
  const auto unsigned_spec = std::find_if(o.specs.begin(), o.specs.end(), [](const std::string& spec) {
    return names_code_book(spec) ? !parse_code_book(spec).is_signed : !is_signed(parse_spec(spec).format.map);
  });
  if (unsigned_spec == o.specs.end()) return;
  const auto negative = std::find_if(values.begin(), values.end(), [](float v) { return v < 0.0F; });
  if (negative == values.end()) return;
  throw RunError(fmt::format("{}: element {} is {}; {} is unsigned, take {}, or a code book quantileN",
                             o.input, first + (negative - values.begin()), *negative,
                             unsigned_spec->substr(0, unsigned_spec->find(':')),
                             map_choices([](const MapRow& m) { return m.is_signed && m.map != Map::kUlp; })));
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
  if (o.specs.size() > 1 && !(o.codes.empty() && o.decoded.empty()))
    throw UsageError("--codes and --decoded are of one --spec; there are several");
}

// The array, each time it is asked for read anew.
ChunkSource chunks_of(const std::string& path, const std::vector<std::int64_t>& shape) {
  return [=](const ChunkVisitor& visit) {
    NpyReader reader(path);
    if (reader.shape() != shape) throw RunError(fmt::format("{}: changed while it was read", path));
    std::vector<float> values;
    for (std::int64_t first = 0; first < reader.elements(); first += kStoredChunk) {
      values.resize(static_cast<std::size_t>(std::min(kStoredChunk, reader.elements() - first)));
      reader.read(values);
      visit(first, values);
    }
  };
}

nlohmann::ordered_json answer_of(const Stored& stored, const ErrorSums& sums) {
  const auto count = static_cast<double>(sums.count);
  const double nonzero = std::max(1.0, static_cast<double>(sums.nonzero));
  return {{"spec", stored.name()},
          {"elements", sums.count},
          {"bits_per_element", stored.bits_per_element(sums.count)},
          {"mean_abs_error", sums.absolute / count},
          {"mean_rel_error", sums.relative / nonzero},
          {"max_abs_error", sums.largest},
          {"tail_abs_error", sums.tail_mean()},
          {"tail_share", static_cast<double>(sums.in_tail) / count},
          {"zeroed_share", static_cast<double>(sums.zeroed) / nonzero},
          {"bias", sums.difference / count}};
}

void print_table(const nlohmann::ordered_json& rows) {
  constexpr const char* kColumns[] = {"bits_per_element", "mean_abs_error", "tail_abs_error",
                                      "max_abs_error",    "zeroed_share",   "bias"};
  fmt::print("{:<28}", "spec");
  for (const char* column : kColumns) fmt::print(" {:>16}", column);
  fmt::print("\n");
  for (const nlohmann::ordered_json& row : rows) {
    fmt::print("{:<28}", row["spec"].get<std::string>());
    for (const char* column : kColumns) fmt::print(" {:>16.5g}", row[column].get<double>());
    fmt::print("\n");
  }
  fmt::print("tail: {:.3g} of {} elements\n", rows[0]["tail_share"].get<double>(),
             rows[0]["elements"].get<std::int64_t>());
}

// Files of codes and values, which are there once all is written.
struct Outputs {
  std::optional<NewFile> codes, decoded;

  Outputs(const QuantizeArguments& o, const Stored& stored, const std::vector<std::int64_t>& shape) {
    for (const std::string& output : {o.codes, o.decoded}) {
      if (!output.empty()) remove_leftovers(std::filesystem::path(output).parent_path().string());
    }
    if (!o.codes.empty()) write_npy_header(codes.emplace(o.codes).file(), stored.code_type(), shape);
    if (!o.decoded.empty()) write_npy_header(decoded.emplace(o.decoded).file(), "<f4", shape);
  }
  void write(const Stored& stored, std::span<const float> after) {
    if (codes) stored.write_codes(codes->file());
    if (decoded) decoded->file().write(std::as_bytes(after));
  }
  void keep() {
    if (codes) codes->keep();
    if (decoded) decoded->keep();
  }
};

std::vector<std::int64_t> checked_shape(const QuantizeArguments& o) {
  const NpyReader reader(o.input);
  if (reader.elements() == 0) throw RunError(fmt::format("{}: holds no elements", o.input));
  if (reader.elements() > kMostElements) {
    throw RunError(fmt::format("{}: {} elements, but the noise counter holds {}", o.input, reader.elements(),
                               kMostElements));
  }
  return reader.shape();
}

int run_quantize(const QuantizeArguments& o) {
  for (const std::string& spec : o.specs) {  // all are known before the array is read
    if (names_code_book(spec)) {
      (void)parse_code_book(spec);
    } else if (parse_spec(spec).format.map == Map::kUlp) {
      throw UsageError(
          fmt::format("{} is a share of what rounding a parameter can take, and an array has none; "
                      "name another --spec",
                      spec));
    }
  }
  check_paths(o);
  const std::vector<std::int64_t> shape = checked_shape(o);
  const ChunkSource chunks = chunks_of(o.input, shape);
  Moments moments;
  chunks([&](std::int64_t first, std::span<const float> values) {
    check_storable(values, first, o.input);
    check_sign(values, first, o);
    moments.add(values);
  });
  CpuDevice device(o.threads);
  std::vector<std::unique_ptr<Stored>> all;
  for (const std::string& spec : o.specs) {
    all.push_back(make_stored(spec, device, shape, o.seed, chunks));
  }
  std::vector<ErrorSums> sums(all.size(), {.tail = kTailDeviations * moments.deviation()});
  Outputs outputs(o, *all.front(), shape);
  std::vector<float> after;
  chunks([&](std::int64_t first, std::span<const float> before) {
    after.resize(before.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      all[k]->store(first, before, after);
      for (std::size_t i = 0; i < before.size(); ++i) sums[k].add(before[i], after[i]);
      outputs.write(*all[k], after);
    }
  });
  outputs.keep();

  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t k = 0; k < all.size(); ++k) rows.push_back(answer_of(*all[k], sums[k]));
  if (rows.size() == 1) {
    print_answer(rows[0], o.json);
  } else if (o.json) {
    print_answer({{"rows", rows}}, true);
  } else {
    print_table(rows);
  }
  return kDone;
}

}  // namespace

void add_quantize_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<QuantizeArguments>();
  CLI::App* command = program.add_subcommand(
      "quantize", "Put a .npy array through specs or code books and measure the errors");
  command->add_option("IN.npy", o->input, "array of '<f4', '<f2' or '<f8' in C order")->required();
  command
      ->add_option(
          "--spec", o->specs,
          "FORMAT[:blockN|row|rank1][:step32][:rn|sr|qr|ur|ar][:moving|sticky|floored], may be repeated; "
          "FORMAT is one of " +
              format_choices() +
              ", or a code book made from the array's quantiles: quantileN or uquantileN (no sign), "
              "N = 2 to 8, rn only")
      ->allow_extra_args(false)
      ->required();
  command->add_option("--seed", o->seed, "seed of the rounding noise")
      ->check(kUnsigned)
      ->capture_default_str();
  command
      ->add_option("--codes", o->codes,
                   "write one unpacked code an element: int16 for int and soft, uint8 for other tables, "
                   "uint16 or uint32 "
                   "for bf16 and fp32")
      ->check(kOutput)
      ->type_name("OUT.npy");
  command->add_option("--decoded", o->decoded, "write what is stored, as fp32")
      ->check(kOutput)
      ->type_name("OUT.npy");
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Prints bits_per_element (steps included), mean_abs_error, mean_rel_error (of non-zero inputs),
max_abs_error, tail_abs_error (mean of the inputs farther from 0 than 3 standard deviations), tail_share
(those of all), zeroed_share (non-zero inputs stored as 0) and bias (mean of decoded - input); of several
specs a table. quantileN: codes that are used equally often, but for those of 1 and -1, which are the
largest of a block. It is a study: packed memory has no such format.
Examples:
  lpmm quantize w.npy --spec int4:block64:sr --decoded w4.npy
  lpmm quantize v.npy --spec ude8:block256:rn --codes v_codes.npy --json
  lpmm quantize w.npy --spec quantile8:block2048 --spec de8:block2048:rn --spec soft8:block2048:rn)");
  on_selected(*command, action, o, run_quantize);
}

}  // namespace lpmm
