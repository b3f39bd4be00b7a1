#include "lpmm/memory/packed_vector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "kernels/formats/codec.h"
#include "lpmm/base/error.h"

namespace lpmm {
namespace {

constexpr const char* kHistory = "gradient_history";

// Numbers with a space between them; none where it is anything else.
std::vector<float> floats_of(std::string_view text) {
  std::vector<float> out;
  for (const char *p = text.data(), *last = p + text.size(); p < last;) {
    const auto [end, error] = std::from_chars(p, last, out.emplace_back());
    if (error != std::errc() || (end != last && *end != ' ')) return {};
    p = end == last ? end : end + 1;
  }
  return out;
}

// What updates are made of besides the learning rate, of which each step has its own.
Metadata settings_of(const ModelMemory& memory) {
  const OptimizerConfig& optimizer = memory.optimizer();
  const TensorGroup group = group_of(optimizer, memory.info(0).name);
  Metadata out = {{"optimizer.rule", std::string(optimizer.rule.text())},
                  {"optimizer.weight_decay", fmt::format("{}", group.weight_decay)},
                  {"optimizer.clip_norm", fmt::format("{}", optimizer.clip_norm)},
                  {"optimizer.percentile_clip", fmt::format("{}", optimizer.percentile_clip)},
                  {"optimizer.group.learning_rate_scale", fmt::format("{}", group.learning_rate_scale)},
                  {"memory.error_feedback", fmt::format("{}", memory.policy().error_feedback)}};
  for (const SettingRow& s : rule_row(optimizer.rule).settings) {
    const double value = setting(optimizer, s.key);
    out[fmt::format("optimizer.{}", s.key.text())] =
        s.is_switch ? fmt::format("{}", value != 0) : fmt::format("{}", value);
  }
  return out;
}

}  // namespace

// Two dimensions, because 1-D tensors are exempt from packing.
PackedVector::PackedVector(std::span<const float> values, std::string_view preset,
                           const OptimizerConfig& optimizer, std::uint64_t seed, int threads)
    : device_(threads),
      memory_({{"weights", {1, static_cast<std::int64_t>(values.size())}}}, make_policy(preset, optimizer),
              optimizer, seed, 1, device_),
      seed_(seed) {
  memory_.initialize(0, 0, values);
}

PackedVector::operator std::vector<float>() const {
  std::vector<float> values(static_cast<std::size_t>(size()));
  memory_.decode(0, 0, values);
  return values;
}

void PackedVector::step(std::span<const float> gradient, double learning_rate) {
  if (static_cast<std::int64_t>(gradient.size()) != size()) {
    throw UsageError(fmt::format("a gradient of {} elements for {} weights", gradient.size(), size()));
  }
  check_rate(learning_rate);
  memory_.begin_step(++step_, false, false, learning_rate);
  memory_.fold(0, 0, gradient, 0);
  if (!memory_.commit(learning_rate).applied) {
    throw RunError(fmt::format("step {}: a gradient is NaN, infinite or above 2^120", step_));
  }
}

// A piece of memory as the file names it.
struct PackedVector::Part {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;
  Format format;
};

std::vector<PackedVector::Part> PackedVector::parts() const {
  const auto bytes = [](auto* first, std::int64_t count) {
    return std::span(reinterpret_cast<std::byte*>(first), static_cast<std::size_t>(count));
  };
  std::vector<Part> out;
  for (const Role role : kEveryRole) {
    const kernels::RoleView v = memory_.view(0, role);
    if (!is_saved(role) || v.codes == nullptr) continue;
    const std::string name(to_string(role));
    const std::int64_t codes = code_bytes(v.codec.format, v.elements);
    out.push_back({name + ".codes", "U8", {codes}, bytes(v.codes, codes), v.codec.format});
    if (!is_packed(v.codec.format)) continue;
    const std::int64_t steps = step_bytes(v.codec, v.elements);
    out.push_back({name + ".steps",
                   v.codec.step_bits == 16 ? "BF16" : "F32",
                   {steps_of(v.codec, v.elements)},
                   bytes(v.steps, steps),
                   v.codec.format});
  }
  return out;
}

Metadata PackedVector::metadata() const {
  Metadata out = {{"format", "lpmm packed vector"},        {"version", "1"},
                  {"elements", fmt::format("{}", size())}, {"seed", fmt::format("{}", seed_)},
                  {"step", fmt::format("{}", step_)},      {"updates", fmt::format("{}", memory_.updates())}};
  if (const double rate = memory_.last_learning_rate(); std::isfinite(rate)) {
    out["learning_rate"] = fmt::format("{}", rate);
  }
  for (const Role role : kEveryRole) {
    const kernels::RoleView v = memory_.view(0, role);
    if (v.codes != nullptr) out[std::string(to_string(role))] = to_string(v.codec);
  }
  out.merge(settings_of(memory_));
  if (const GradientHistory* history = memory_.gradient_history(0)) {
    out[kHistory] = fmt::format("{}", fmt::join(history->squares(), " "));
  }
  return out;
}

void PackedVector::save(const std::string& path) const {
  std::vector<SafetensorsSource> sources;
  for (const Part& part : parts()) {
    sources.push_back(
        {part.name, part.dtype, part.shape, [bytes = part.bytes](const auto& sink) { sink(bytes); }});
  }
  write_safetensors(path, metadata(), sources);
}

void PackedVector::load(const std::string& path) {
  const SafetensorsFile file(path);
  const auto refuse = [&](const std::string& what) { return RunError(fmt::format("{}: {}", path, what)); };
  const Metadata expected = metadata();
  for (const auto& [key, value] : expected) {
    if (key == "step" || key == "updates" || key == "learning_rate" || key == kHistory) continue;
    const auto saved = file.metadata().find(key);
    if (saved == file.metadata().end()) {
      if (key.find('.') != std::string::npos) continue;  // a setting, which earlier files do not say
      throw refuse(fmt::format("says nothing of its {}", key));
    }
    if (saved->second != value) {
      throw refuse(fmt::format("has the {} {}, the vector that loads it {}", key, saved->second, value));
    }
  }
  const std::vector<Part> mine = parts();
  if (file.entries().size() != mine.size()) throw refuse("has other tensors than the vector that loads it");
  std::vector<std::vector<std::byte>> read;  // whole, before anything changes
  for (const Part& part : mine) {
    const SafetensorsEntry* entry = file.find(part.name);
    if (entry == nullptr || entry->dtype != part.dtype || entry->shape != part.shape) {
      throw refuse(fmt::format("has no {} of {} {}", part.name, part.shape[0], part.dtype));
    }
    file.read(*entry, 0, read.emplace_back(part.bytes.size()));
    if (!part.name.ends_with(".steps")) continue;
    std::vector<std::uint16_t> halves(read.back().size() / 2);
    std::memcpy(halves.data(), read.back().data(), read.back().size());
    const std::size_t width = part.dtype == "F32" ? 2 : 1;  // the upper half of fp32 tells as much as bf16
    for (std::size_t i = width - 1; i < halves.size(); i += width) {
      if (!is_step(part.format, halves[i])) throw refuse(fmt::format("{} holds what is no step", part.name));
    }
  }
  restore_progress(file.metadata(), path);
  for (std::size_t i = 0; i < mine.size(); ++i)
    std::copy(read[i].begin(), read[i].end(), mine[i].bytes.begin());
}

void PackedVector::restore_progress(const Metadata& saved, const std::string& path) {
  const auto number = [&](const char* key, auto value, auto usual) {
    const auto found = saved.find(key);
    if (found == saved.end()) return usual;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) {
      throw RunError(fmt::format("{}: its {} is {}, which is no such number", path, key, text));
    }
    return value;
  };
  const auto step = number("step", std::uint32_t{}, std::uint32_t{});
  const auto updates = number("updates", std::int64_t{}, std::int64_t{});
  const double rate = number("learning_rate", 0.0, kNoLearningRate);
  if (GradientHistory* history = memory_.gradient_history(0)) {
    const auto text = saved.find(kHistory);
    const std::vector<float> squares = floats_of(text == saved.end() ? "" : text->second);
    if (!GradientHistory::can_be(squares)) {
      throw RunError(fmt::format("{}: its {} is not what percentile_clip keeps", path, kHistory));
    }
    history->set(squares);
  }
  memory_.set_progress(step, updates, rate);
  step_ = step;
}

}  // namespace lpmm
