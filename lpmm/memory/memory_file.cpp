// ModelMemory::save() and load(): one safetensors file of codes, steps and what updates go on from.
#include "lpmm/memory/memory_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "kernels/formats/codec.h"
#include "lpmm/base/error.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

constexpr std::string_view kHistory = "gradient_history";

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

// Names of what belongs to a tensor.
std::string key_of(const ModelMemory& memory, const MemoryFile& kind, int tensor, std::string_view what) {
  return kind.names_tensors ? fmt::format("{}:{}", memory.info(tensor).name, what) : std::string(what);
}

// The settings that decide updates. The learning rate is not among them: each step has its own.
Metadata settings_of(const ModelMemory& memory, const MemoryFile& kind) {
  const OptimizerConfig& optimizer = memory.optimizer();
  Metadata out = {
      {"format", std::string(kind.format)},
      {"version", "1"},
      {"seed", fmt::format("{}", memory.seed())},
      {"optimizer.rule", std::string(optimizer.rule.text())},
      {"optimizer.clip_norm", fmt::format("{}", optimizer.clip_norm)},
      {"optimizer.percentile_clip", fmt::format("{}", optimizer.percentile_clip)},
      {"memory.error_feedback", fmt::format("{}", memory.policy().error_feedback)},
      {"memory.accumulate_in_momentum", fmt::format("{}", memory.policy().accumulate_in_momentum)},
      {"memory.apply_at_once", fmt::format("{}", memory.policy().apply_at_once)},
      {"train.microbatches", fmt::format("{}", memory.microbatches())}};
  for (const SettingRow& s : rule_row(optimizer.rule).settings) {
    const double value = setting(optimizer, s.key);
    out[fmt::format("optimizer.{}", s.key.text())] =
        s.is_switch ? fmt::format("{}", value != 0) : fmt::format("{}", value);
  }
  if (memory.policy().average > 0) out["train.average"] = fmt::format("{}", memory.policy().average);
  for (int t = 0; t < memory.tensors(); ++t) {
    const auto key = [&](std::string_view what) { return key_of(memory, kind, t, what); };
    const TensorGroup group = group_of(optimizer, memory.info(t));
    out[key("elements")] = fmt::format("{}", memory.info(t).elements());
    if (kind.names_tensors) out[key("shape")] = fmt::format("{}", fmt::join(memory.info(t).shape, " x "));
    out[key("tensor.kind")] = fmt::format("{}", static_cast<int>(memory.info(t).kind));
    out[key("tensor.parts")] = fmt::format("{}", memory.info(t).parts);
    out[key("tensor.is_shared")] = fmt::format("{}", memory.info(t).is_shared);
    out[key("tensor.is_frozen")] = fmt::format("{}", memory.is_frozen(t));
    out[key("optimizer.weight_decay")] = fmt::format("{}", group.weight_decay);
    out[key("optimizer.group.learning_rate_scale")] = fmt::format("{}", group.learning_rate_scale);
    for (const Role role : kEveryRole) {
      const kernels::RoleView v = memory.view(t, role);
      if (v.codes != nullptr) out[key(to_string(role))] = to_string(v.codec);
    }
    if (const kernels::RoleView v = memory.average(t); v.codes != nullptr) {
      out[key(kAverageName)] = to_string(v.codec);
    }
  }
  return out;
}

Metadata progress_of(const ModelMemory& memory, const MemoryFile& kind) {
  Metadata out = {{"step", fmt::format("{}", memory.last_step())},
                  {"updates", fmt::format("{}", memory.updates())}};
  if (const double rate = memory.last_learning_rate(); std::isfinite(rate)) {
    out["learning_rate"] = fmt::format("{}", rate);
  }
  for (int t = 0; t < memory.tensors(); ++t) {
    if (const GradientHistory* history = memory.gradient_history(t)) {
      out[key_of(memory, kind, t, kHistory)] = fmt::format("{}", fmt::join(history->squares(), " "));
    }
  }
  return out;
}

// A piece of memory as the file names it.
struct Part {
  std::string name, dtype;
  std::int64_t count = 0;
  std::span<std::byte> bytes;  // of the device
  Format format;
  bool holds_steps = false;
  // The bytes of a step, or of a value that is not packed; 0: codes.
  int width() const {
    if (holds_steps) return dtype == "F32" ? 4 : 2;
    return format.map == Map::kFp32 ? 4 : format.map == Map::kBf16 ? 2 : 0;
  }
};

std::vector<Part> parts_of(const ModelMemory& memory, const MemoryFile& kind) {
  const auto bytes = [](auto* first, std::int64_t count) {
    return std::span(reinterpret_cast<std::byte*>(first), static_cast<std::size_t>(count));
  };
  std::vector<Part> out;
  const auto add = [&](const std::string& name, const kernels::RoleView& v) {
    const Format f = v.codec.format;
    const std::int64_t codes = code_bytes(f, v.elements);
    out.push_back({name + ".codes", "U8", codes, bytes(v.codes, codes), f});
    if (!is_packed(f)) return;
    out.push_back({name + ".steps", v.codec.step_bits == 16 ? "BF16" : "F32", steps_of(v.codec, v.elements),
                   bytes(v.steps, step_bytes(v.codec, v.elements)), f, true});
  };
  for (int t = 0; t < memory.tensors(); ++t) {
    for (const Role role : kEveryRole) {
      const kernels::RoleView v = memory.view(t, role);
      if (is_saved(role) && v.codes != nullptr) add(key_of(memory, kind, t, to_string(role)), v);
    }
    if (const kernels::RoleView v = memory.average(t); v.codes != nullptr) {
      add(key_of(memory, kind, t, kAverageName), v);
    }
  }
  return out;
}

class Loading {
 public:
  Loading(const std::string& path, const MemoryFile& kind) : file_(path), kind_(kind) {}

  void check_settings(const Metadata& expected) const {
    for (const auto& [key, value] : expected) {
      const auto saved = file_.metadata().find(key);
      if (saved == file_.metadata().end()) {
        if (!kind_.names_tensors && key.find('.') != std::string::npos) continue;  // earlier vectors
        throw refused(fmt::format("says nothing of its {}", key));
      }
      if (saved->second != value) {
        throw refused(
            fmt::format("has the {} {}, the {} that loads it {}", key, saved->second, kind_.noun, value));
      }
    }
  }
  // Refuses metadata that loading would silently drop.
  void check_known(const Metadata& settings, const Metadata& progress) const {
    for (const auto& [key, value] : file_.metadata()) {
      if (!settings.contains(key) && !progress.contains(key) && key != "learning_rate") {
        throw refused(fmt::format("has the {} {}, which the {} that loads it lacks", key, value, kind_.noun));
      }
    }
  }
  void check(const std::vector<Part>& parts) const {
    if (file_.entries().size() != parts.size()) {
      throw refused(fmt::format("has other tensors than the {} that loads it", kind_.noun));
    }
    for (const Part& part : parts) {
      const SafetensorsEntry* entry = file_.find(part.name);
      if (entry == nullptr || entry->dtype != part.dtype || entry->shape != std::vector{part.count}) {
        throw refused(fmt::format("has no {} of {} {}", part.name, part.count, part.dtype));
      }
      if (part.width() == 0) continue;
      check_values(file_, *entry, part.width(), part.holds_steps ? std::optional(part.format) : std::nullopt);
    }
  }
  template <class T>
  T number(const char* key, T usual) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end()) return usual;
    const std::string& text = found->second;
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) {
      throw refused(fmt::format("its {} is {}, which is no such number", key, text));
    }
    return value;
  }
  std::vector<float> history(const std::string& key) const {
    const auto text = file_.metadata().find(key);
    std::vector<float> squares = floats_of(text == file_.metadata().end() ? "" : text->second);
    if (!GradientHistory::can_be(squares)) {
      throw refused(fmt::format("its {} is not what percentile_clip keeps", key));
    }
    return squares;
  }
  void read(const Part& part, PackedDevice& device) const {
    upload_pieces(device, part.bytes, [&](std::uint64_t first, std::span<std::byte> out) {
      file_.read(*file_.find(part.name), first, out);
    });
  }

 private:
  RunError refused(const std::string& what) const {
    return RunError(fmt::format("{}: {}", file_.path(), what));
  }

  SafetensorsFile file_;
  const MemoryFile& kind_;
};

void check_kind(const ModelMemory& memory, const MemoryFile& kind) {
  if (!kind.names_tensors && memory.tensors() != 1) {
    throw UsageError(
        fmt::format("a {} of {} tensors: its file has no names for them", kind.noun, memory.tensors()));
  }
  if (const int ranks = memory.sharding().ranks; ranks > 1) {
    throw UsageError(fmt::format(
        "a {} that {} ranks share is no file of one; a run keeps it in checkpoints (lpmm/run/checkpoint.h)",
        kind.noun, ranks));
  }
}
}  // namespace

// The upper half of an fp32 number tells as much as bf16 does.
void check_values(const SafetensorsFile& file, const SafetensorsEntry& entry, int width,
                  std::optional<Format> steps) {
  std::vector<std::byte> piece(1 << 18);
  for (std::uint64_t at = 0; at < entry.bytes; at += piece.size()) {
    const auto now = std::span(piece).first(std::min<std::uint64_t>(piece.size(), entry.bytes - at));
    file.read(entry, at, now);
    for (std::size_t i = static_cast<std::size_t>(width) - 2; i < now.size();
         i += static_cast<std::size_t>(width)) {
      std::uint16_t half = 0;
      std::memcpy(&half, now.data() + i, 2);
      if ((half & 0x7F80U) != 0x7F80U && (!steps || is_step(*steps, half))) continue;
      throw RunError(fmt::format("{}: tensor {} holds {} at byte {}", file.path(), entry.name,
                                 steps ? "what is no step" : "a value that is not finite", at + i));
    }
  }
}

void ModelMemory::save(const std::string& path, const MemoryFile& kind) const {
  check_kind(*this, kind);
  state_->check_no_step("memory is saved");
  if (state_->broken) throw UsageError("memory is saved, but the update of its last step failed");
  Metadata metadata = settings_of(*this, kind);
  metadata.merge(progress_of(*this, kind));
  std::vector<SafetensorsSource> sources;
  for (const Part& part : parts_of(*this, kind)) {
    sources.push_back({part.name, part.dtype, {part.count}, [this, bytes = part.bytes](const auto& sink) {
                         download_pieces(device(), bytes, sink);
                       }});
  }
  write_safetensors(path, metadata, sources);
}

// All is looked at before anything changes. A read that fails then, as on a bad disk, leaves memory that no
// step begins with.
void ModelMemory::load(const std::string& path, const MemoryFile& kind) {
  check_kind(*this, kind);
  state_->check_no_step("memory is loaded");
  const Loading loading(path, kind);
  const std::vector<Part> parts = parts_of(*this, kind);
  const Metadata settings = settings_of(*this, kind);
  loading.check_settings(settings);
  loading.check_known(settings, progress_of(*this, kind));
  loading.check(parts);
  const auto step = loading.number("step", std::uint32_t{});
  const auto updates = loading.number("updates", std::int64_t{});
  const auto rate = loading.number("learning_rate", kNoLearningRate);
  if (updates > step) throw RunError(fmt::format("{}: says step {}, {} updates", path, step, updates));
  std::vector<std::vector<float>> histories(static_cast<std::size_t>(tensors()));
  for (int t = 0; t < tensors(); ++t) {
    if (gradient_history(t) == nullptr) continue;
    histories[static_cast<std::size_t>(t)] = loading.history(key_of(*this, kind, t, kHistory));
  }
  state_->broken = true;
  for (const Part& part : parts) loading.read(part, device());
  for (int t = 0; t < tensors(); ++t) {
    if (!peaks(t).empty()) device().fill_with_zeros(peaks(t).data(), std::ssize(peaks(t)));
  }
  for (int t = 0; t < tensors(); ++t) {
    if (gradient_history(t) != nullptr) gradient_history(t)->set(histories[static_cast<std::size_t>(t)]);
  }
  set_progress(step, updates, rate);
}

}  // namespace lpmm
