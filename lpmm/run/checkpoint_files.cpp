#include "lpmm/run/checkpoint_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/memory_file.h"
#include "lpmm/memory/roles.h"

namespace lpmm {
namespace {

constexpr const char* kFormat = "lpmm-checkpoint";
constexpr int kVersion = 1;
constexpr const char* kHistories = "gradient_history";
constexpr std::uint64_t kLongestState = 64 << 20;
constexpr std::string_view kOwnCrc = "\"crc32\": \"";  // the last key of state.json
constexpr std::size_t kCrcDigits = 8;

std::span<std::byte> bytes_of(void* data, std::int64_t size) {
  return {static_cast<std::byte*>(data), static_cast<std::size_t>(size)};
}

void check_present(const std::string& path) {
  std::error_code unknown;  // opening it says more
  if (!std::filesystem::exists(path, unknown) && !unknown) {
    throw DamagedCheckpoint(fmt::format("{}: is missing", path));
  }
}

// The checksum is of the text with zeros in its place.
Json unseal(const std::string& path) {
  check_present(path);
  std::string text = read_text(path, kLongestState);
  const std::size_t key = text.rfind(kOwnCrc), at = key + kOwnCrc.size();
  if (key == std::string::npos || text.size() - at < kCrcDigits) {
    throw DamagedCheckpoint(fmt::format("{}: is truncated or damaged: it has no checksum", path));
  }
  const std::string stored = text.substr(at, kCrcDigits);
  text.replace(at, kCrcDigits, kCrcDigits, '0');
  if (const std::string found = checksum_text(crc32(text)); found != stored) {
    throw DamagedCheckpoint(
        fmt::format("{}: is damaged: its checksum is {}, {} was saved", path, found, stored));
  }
  return parse_json(text);
}

// The safetensors dtype of a format without blocks.
const char* dtype_of(Format format) {
  return format.bits == 8 ? "I8" : format.bits == 16 ? "BF16" : "F32";
}

RunError refusal(const SafetensorsFile& file, const std::string& what) {
  return RunError(fmt::format("{}: {}", file.path(), what));
}

std::string metadata_text(const SafetensorsFile& file, const std::string& key) {
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) throw refusal(file, fmt::format("its metadata has no {}", key));
  return at->second;
}

std::vector<std::int64_t> shape_of(const SafetensorsFile& file, const std::string& tensor) {
  const std::string text = metadata_text(file, tensor + ".shape");
  std::vector<std::int64_t> shape;
  for (const char *p = text.data(), *last = p + text.size(); p < last;) {
    std::int64_t extent = 0;
    const auto [end, error] = std::from_chars(p, last, extent);
    if (error != std::errc())
      throw refusal(file, fmt::format("tensor {} has the shape \"{}\"", tensor, text));
    shape.push_back(extent);
    p = end + 1;
  }
  return shape;
}

// Returns the number of values of a role. For rows and columns only the file knows it: rows may share them,
// and a leading dimension of 1 was a row once.
std::int64_t values_in(const SafetensorsFile& file, const CheckpointTensor& tensor, Role role) {
  const TensorInfo info{tensor.name, tensor.shape};
  const SafetensorsEntry* entry = file.find(role_name(tensor.name, role));
  const bool is_list = !is_per_element(role) && entry != nullptr && entry->shape.size() == 1;
  return is_list && entry->shape[0] > 0 ? std::min(entry->shape[0], info.elements()) : info.values(role);
}

// What is stored under that name; `shape` is that of its values.
std::vector<StoredPart> parts_called(const std::string& name, const std::vector<std::int64_t>& shape,
                                     const kernels::RoleView& v) {
  const std::int64_t codes = code_bytes(v.codec.format, v.elements);
  if (!is_packed(v.codec.format)) {
    return {{name, dtype_of(v.codec.format), shape, bytes_of(v.codes, codes)}};
  }
  return {{name + ".codes", "U8", {codes}, bytes_of(v.codes, codes)},
          {name + ".steps",
           v.codec.step_bits == 16 ? "BF16" : "F32",
           {steps_of(v.codec, v.elements)},
           bytes_of(v.steps, step_bytes(v.codec, v.elements))}};
}

// The view without addresses of so many values of a tensor, which the file says the spec of.
kernels::RoleView view_in(const SafetensorsFile& file, const CheckpointTensor& tensor,
                          const std::string& spec, std::int64_t values) {
  try {
    return {fit_spec(parse_spec(spec), TensorInfo{tensor.name, tensor.shape}.traits()), nullptr, nullptr,
            values};
  } catch (const UsageError& e) {
    throw refusal(file, e.what());
  }
}

// Adds what is stored of a tensor as a role, whose parts the file must have; their names go to `seen`.
void add_stored(const SafetensorsFile& file, std::string_view role, const std::string& spec,
                const std::vector<StoredPart>& parts, CheckpointTensor& tensor, std::set<std::string>& seen) {
  for (const StoredPart& part : parts) {
    const SafetensorsEntry* entry = file.find(part.name);
    if (entry == nullptr) throw refusal(file, fmt::format("tensor {} is missing", part.name));
    if (entry->dtype != part.dtype || entry->shape != part.shape) {
      throw refusal(file,
                    fmt::format("tensor {} is {} [{}], {} [{}] was expected", part.name, entry->dtype,
                                fmt::join(entry->shape, ", "), part.dtype, fmt::join(part.shape, ", ")));
    }
    seen.insert(part.name);
    tensor.bytes += static_cast<std::int64_t>(entry->bytes);
  }
  tensor.specs.emplace_back(role, spec);
}

void add_role(const SafetensorsFile& file, Role role, CheckpointTensor& tensor, std::set<std::string>& seen) {
  const std::string spec = metadata_text(file, role_name(tensor.name, role));
  const kernels::RoleView view = view_in(file, tensor, spec, values_in(file, tensor, role));
  add_stored(file, to_string(role), spec, role_parts(tensor.name, tensor.shape, role, view), tensor, seen);
}

void add_average(const SafetensorsFile& file, CheckpointTensor& tensor, std::set<std::string>& seen) {
  const std::string spec = metadata_text(file, average_name(tensor.name));
  const kernels::RoleView view =
      view_in(file, tensor, spec, TensorInfo{tensor.name, tensor.shape}.elements());
  add_stored(file, kAverageName, spec, average_parts(tensor.name, tensor.shape, view), tensor, seen);
}

// The same of what the watch keeps of its elements.
void add_peaks(const SafetensorsFile& file, CheckpointTensor& tensor, std::set<std::string>& seen) {
  const SafetensorsEntry& entry = *file.find(peaks_name(tensor.name));
  const auto one = static_cast<std::uint64_t>(peak_bytes({tensor.name, tensor.shape}));
  if (entry.dtype != "U8" || (entry.bytes != one && entry.bytes != kPeaks * one)) {
    throw refusal(file, fmt::format("tensor {} is {} [{}], {} or {} bytes were expected", entry.name,
                                    entry.dtype, fmt::join(entry.shape, ", "), one, kPeaks * one));
  }
  seen.insert(entry.name);
  tensor.bytes += static_cast<std::int64_t>(entry.bytes);
  tensor.specs.emplace_back("peaks", fmt::format("{} x 4 bits", one == 0 ? 0 : entry.bytes / one));
}

// Reads the metadata of an opened checkpoint and checks each part against the file.
std::vector<CheckpointTensor> tensors_of(const OpenedCheckpoint& opened) {
  const SafetensorsFile& file = opened.file;
  std::vector<CheckpointTensor> tensors;
  std::set<std::string> seen;
  for (const Json& ordinal : opened.state.at("ordinals")) {
    CheckpointTensor t;
    t.name = ordinal.get<std::string>();
    t.shape = shape_of(file, t.name);
    for (const Role role : kEveryRole) {
      if (is_saved(role) && file.metadata().contains(role_name(t.name, role))) add_role(file, role, t, seen);
    }
    if (file.metadata().contains(average_name(t.name))) add_average(file, t, seen);
    if (file.find(peaks_name(t.name)) != nullptr) add_peaks(file, t, seen);
    tensors.push_back(std::move(t));
  }
  for (const SafetensorsEntry& e : file.entries()) {
    check_values(file, e);
    if (seen.contains(e.name)) continue;
    if (!e.name.ends_with(".buffer") || e.dtype != "F32")
      throw refusal(file, fmt::format("tensor {} is extra", e.name));
    tensors.push_back({e.name.substr(0, e.name.rfind('.')),
                       e.shape,
                       {{"buffer", "fp32"}},
                       static_cast<std::int64_t>(e.bytes)});
  }
  return tensors;
}

}  // namespace

std::string role_name(const std::string& tensor, Role role) {
  return fmt::format("{}.{}", tensor, to_string(role));
}

std::string average_name(const std::string& tensor) {
  return fmt::format("{}.{}", tensor, kAverageName);
}

std::string peaks_name(const std::string& tensor) {
  return tensor + ".peaks";
}

std::vector<StoredPart> role_parts(const std::string& tensor, const std::vector<std::int64_t>& shape,
                                   Role role, const kernels::RoleView& v) {
  return parts_called(role_name(tensor, role), is_per_element(role) ? shape : std::vector{v.elements}, v);
}

std::vector<StoredPart> average_parts(const std::string& tensor, const std::vector<std::int64_t>& shape,
                                      const kernels::RoleView& v) {
  return parts_called(average_name(tensor), shape, v);
}

Metadata format_metadata(const std::string& model) {
  return {{"format", kFormat}, {"version", std::to_string(kVersion)}, {"model", model}};
}

std::string checksum_text(std::uint32_t crc) {
  return fmt::format("{:08x}", crc);
}

std::string seal_state(const Json& state) {
  Json all = {{"format", kFormat}, {"version", kVersion}};
  all.update(state);
  std::string text = all.dump(1);
  text.resize(text.size() - 2);  // "\n}"
  text += fmt::format(",\n {}{}\"\n}}\n", kOwnCrc, std::string(kCrcDigits, '0'));
  const std::size_t at = text.rfind(kOwnCrc) + kOwnCrc.size();
  return text.replace(at, kCrcDigits, checksum_text(crc32(text)));
}

Json open_state(const std::string& path) {
  const std::string state_path = path + "/" + kStateFile;
  try {
    Json state = unseal(state_path);
    if (state.at("format") != kFormat || state.at("version") != kVersion) {
      throw RunError(fmt::format("{}: is {} version {}; this program reads {} version {}", state_path,
                                 state.at("format").dump(), state.at("version").dump(), kFormat, kVersion));
    }
    return state;
  } catch (const Json::exception& e) {
    throw DamagedCheckpoint(fmt::format("{}: is not what was saved: {}", state_path, error_text(e)));
  }
}

OpenedCheckpoint open_checkpoint(const std::string& path) {
  const std::string model_path = path + "/" + kModelFile;
  Json state = open_state(path);
  check_present(model_path);
  try {
    const Json& file = state.at("files").at(kModelFile);
    const auto size = static_cast<std::uint64_t>(
        to_count(file.at("bytes"), fmt::format("{}/{}: is not what was saved: bytes", path, kStateFile)));
    if (const std::uint64_t found = File(model_path, File::Mode::kRead).size(); found != size) {
      throw DamagedCheckpoint(fmt::format("{}: has {} bytes, {} were saved; it is truncated or was changed",
                                          model_path, found, size));
    }
    const auto crc = file.at("crc32").get<std::string>();
    if (const std::string found = checksum_text(file_crc32(model_path)); found != crc) {
      throw DamagedCheckpoint(
          fmt::format("{}: is damaged: its checksum is {}, {} was saved", model_path, found, crc));
    }
  } catch (const Json::exception& e) {
    throw DamagedCheckpoint(fmt::format("{}/{}: is not what was saved: {}", path, kStateFile, error_text(e)));
  }
  return {std::move(state), SafetensorsFile(model_path)};
}

// Values and steps that are fp32 or bf16; the rest are codes. The metadata of a role says the format of its
// steps.
void check_values(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  if (entry.dtype != "F32" && entry.dtype != "BF16") return;
  std::optional<Format> steps;
  if (entry.name.ends_with(".steps")) {
    const auto spec = file.metadata().find(entry.name.substr(0, entry.name.rfind('.')));
    steps = spec == file.metadata().end() ? Format{Map::kLinear, 8} : parse_spec(spec->second).format;
  }
  check_values(file, entry, entry.dtype == "F32" ? 4 : 2, steps);
}

std::optional<std::int64_t> step_of_name(const std::string& path) {
  constexpr std::string_view kPrefix = "step_";
  const std::string name = std::filesystem::path(path).filename().string();
  std::int64_t step = 0;
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + 8) return {};
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return {};
  return step;
}

SavedProgress progress_of(const Json& state, const std::string& path) {
  // Programs before error feedback was in presets did not save the rate.
  const std::string file = fmt::format("{}/{}: is not what was saved: ", path, kStateFile);
  const SavedProgress p{to_count(state.at("step"), file + "step"),
                        to_count(state.at("updates"), file + "updates"),
                        state.value("learning_rate", kNoLearningRate)};
  if (p.step >= std::int64_t{1} << 32 || p.updates > p.step || !(p.rate >= 0)) {
    throw RunError(fmt::format("{}step {}, {} updates, learning rate {}", file, p.step, p.updates, p.rate));
  }
  if (const auto named = step_of_name(path); named && *named != p.step) {
    throw RunError(fmt::format("{}step {}, but its folder is called so for step {}", file, p.step, *named));
  }
  return p;
}

Json histories_json(const ModelMemory& memory) {
  Json all;
  for (int i = 0; i < memory.tensors(); ++i) {
    const GradientHistory* history = memory.gradient_history(i);
    if (history != nullptr) all[memory.info(i).name] = history->squares();
  }
  return all;
}

std::vector<std::optional<GradientHistory>> histories_of(const Json& state, const ModelMemory& memory,
                                                         const std::string& path) {
  std::vector<std::optional<GradientHistory>> all(static_cast<std::size_t>(memory.tensors()));
  for (int i = 0; i < memory.tensors(); ++i) {
    if (memory.gradient_history(i) == nullptr) continue;
    const std::string& name = memory.info(i).name;
    const auto saved = state.find(kHistories);
    std::vector<float> squares;
    if (saved != state.end() && saved->is_object() && saved->contains(name)) {
      // Others than numbers are none of a history, and neither is a number beyond fp32.
      for (const Json& x : saved->at(name)) squares.push_back(x.is_number() ? x.get<float>() : -1);
    }
    if (!GradientHistory::can_be(squares)) {
      throw RunError(
          fmt::format("{}/{}: {} of tensor {} is not the {} square sums, finite and not negative, "
                      "that optimizer.percentile_clip keeps",
                      path, kStateFile, kHistories, name, GradientHistory::kLength));
    }
    all[static_cast<std::size_t>(i)].emplace().set(squares);
  }
  return all;
}

CheckpointInfo info_of(const OpenedCheckpoint& opened, const std::string& path) {
  try {
    const SavedProgress saved = progress_of(opened.state, path);
    return {opened.state.at("model").get<std::string>(), saved.step, saved.updates, tensors_of(opened)};
  } catch (const Json::exception& e) {
    throw RunError(fmt::format("{}/{}: is not what was saved: {}", path, kStateFile, error_text(e)));
  }
}

}  // namespace lpmm
