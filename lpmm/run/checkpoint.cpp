#include "lpmm/run/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/memory/pages.h"
#include "lpmm/run/log.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFormat = "lpmm-checkpoint";
constexpr int kVersion = 1;
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr std::uint64_t kLongestState = 64 << 20;
constexpr std::int64_t kSpaceForRest = 1 << 20;        // headers, state.json, the log
constexpr std::string_view kOwnCrc = "\"crc32\": \"";  // the last key of state.json
constexpr std::size_t kCrcDigits = 8;
constexpr Role kSavedRoles[] = {Role::kParameter, Role::kMomentum, Role::kVariance};

// One tensor of the file and the memory it stands for.
struct Slot {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;
};

std::span<std::byte> bytes_of(void* data, std::int64_t size) {
  return {static_cast<std::byte*>(data), static_cast<std::size_t>(size)};
}

std::string role_name(const std::string& tensor, Role role) {
  return fmt::format("{}.{}", tensor, to_string(role));
}

// The parts one role of one tensor is stored in; views may be null where only names and shapes matter.
std::vector<Slot> role_slots(const std::string& tensor, const std::vector<std::int64_t>& shape, Role role,
                             const kernels::RoleView& v) {
  const std::string name = role_name(tensor, role);
  const std::int64_t codes = code_bytes(v.codec.format, v.elements);
  if (!is_packed(v.codec.format)) {
    return {{name, v.codec.format.map == Map::kBf16 ? "BF16" : "F32", shape, bytes_of(v.codes, codes)}};
  }
  return {{name + ".codes", "U8", {codes}, bytes_of(v.codes, codes)},
          {name + ".steps",
           "BF16",
           {blocks_of(v.elements, v.codec.block)},
           bytes_of(v.steps, step_bytes(v.codec, v.elements))}};
}

std::vector<Slot> slots_of(const ModelMemory& memory, Buffers& buffers) {
  std::vector<Slot> slots;
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : kSavedRoles) {
      const kernels::RoleView v = memory.view(i, role);
      if (v.codes == nullptr) continue;
      for (Slot& s : role_slots(memory.info(i).name, memory.info(i).shape, role, v))
        slots.push_back(std::move(s));
    }
  }
  for (int i = 0; i < static_cast<int>(buffers.infos().size()); ++i) {
    const BufferInfo& b = buffers.infos()[static_cast<std::size_t>(i)];
    slots.push_back({b.name + ".buffer", "F32", b.shape, std::as_writable_bytes(buffers.value(i))});
  }
  return slots;
}

// What a file may hold besides: states of tensors that are only looked at.
std::set<std::string> left_out(const ModelMemory& memory) {
  std::set<std::string> names;
  if (!memory.optimizer().frozen) return names;
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : {Role::kMomentum, Role::kVariance}) {
      const std::string name = role_name(memory.info(i).name, role);
      names.insert({name, name + ".codes", name + ".steps"});
    }
  }
  return names;
}

Metadata metadata_of(const std::string& model, const ModelMemory& memory) {
  Metadata m = {{"format", kFormat}, {"version", std::to_string(kVersion)}, {"model", model}};
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    m[info.name + ".shape"] = fmt::format("{}", fmt::join(info.shape, ","));
    for (const Role role : kSavedRoles) {
      const kernels::RoleView v = memory.view(i, role);
      if (v.codes != nullptr) m[role_name(info.name, role)] = to_string(v.codec);
    }
  }
  return m;
}

std::vector<SafetensorsSource> sources_of(const std::vector<Slot>& slots) {
  std::vector<SafetensorsSource> sources;
  for (const Slot& slot : slots) {
    sources.push_back(
        {slot.name, slot.dtype, slot.shape, [bytes = slot.bytes](const auto& sink) { sink(bytes); }});
  }
  return sources;
}

std::string hex(std::uint32_t crc) {
  return fmt::format("{:08x}", crc);
}

// state.json ends with the checksum of itself, taken with zeros in its place.
std::string seal(const Json& state) {
  std::string text = state.dump(1);
  text.resize(text.size() - 2);  // "\n}"
  text += fmt::format(",\n {}{}\"\n}}\n", kOwnCrc, std::string(kCrcDigits, '0'));
  const std::size_t at = text.rfind(kOwnCrc) + kOwnCrc.size();
  return text.replace(at, kCrcDigits, hex(crc32(std::as_bytes(std::span(text)))));
}

Json unseal(const std::string& path) {
  std::string text = read_text(path, kLongestState);
  const std::size_t key = text.rfind(kOwnCrc), at = key + kOwnCrc.size();
  if (key == std::string::npos || text.size() - at < kCrcDigits) {
    throw RunError(fmt::format("{}: is truncated or damaged: it has no checksum", path));
  }
  const std::string stored = text.substr(at, kCrcDigits);
  text.replace(at, kCrcDigits, kCrcDigits, '0');
  if (const std::string found = hex(crc32(std::as_bytes(std::span(text)))); found != stored) {
    throw RunError(fmt::format("{}: is damaged: its checksum is {}, {} was saved", path, found, stored));
  }
  return parse_json(text);
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
    throw RunError(fmt::format("{}: is not what was saved: {}", state_path, e.what()));
  }
}

struct Opened {
  Json state;
  SafetensorsFile file;
};

// Opens both files of a checkpoint and checks them as a whole.
Opened open_checkpoint(const std::string& path) {
  const std::string model_path = path + "/" + kModelFile;
  Json state = open_state(path);
  try {
    const Json& file = state.at("files").at(kModelFile);
    const auto size = static_cast<std::uint64_t>(
        to_count(file.at("bytes"), fmt::format("{}/{}: is not what was saved: bytes", path, kStateFile)));
    if (const std::uint64_t found = File(model_path, File::Mode::kRead).size(); found != size) {
      throw RunError(fmt::format("{}: has {} bytes, {} were saved; it is truncated or was changed",
                                 model_path, found, size));
    }
    const auto crc = file.at("crc32").get<std::string>();
    if (const std::string found = hex(file_crc32(model_path)); found != crc) {
      throw RunError(fmt::format("{}: is damaged: its checksum is {}, {} was saved", model_path, found, crc));
    }
  } catch (const Json::exception& e) {
    throw RunError(fmt::format("{}/{}: is not what was saved: {}", path, kStateFile, e.what()));
  }
  return {std::move(state), SafetensorsFile(model_path)};
}

// Steps must be finite and not negative, fp32 and bf16 values finite.
void check_values(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  const bool wide = entry.dtype == "F32";
  if (!wide && entry.dtype != "BF16") return;
  const bool is_step = entry.name.ends_with(".steps");
  std::vector<std::byte> piece(1 << 18);
  for (std::uint64_t at = 0; at < entry.bytes; at += piece.size()) {
    const auto now = std::span(piece).first(std::min<std::uint64_t>(piece.size(), entry.bytes - at));
    file.read(entry, at, now);
    for (std::size_t i = wide ? 2 : 0; i < now.size(); i += wide ? 4 : 2) {
      // The upper half of an fp32 number tells as much as bf16.
      const auto high = static_cast<std::uint32_t>(now[i]) | static_cast<std::uint32_t>(now[i + 1]) << 8;
      if ((high & 0x7F80U) == 0x7F80U || (is_step && (high & 0x8000U) != 0)) {
        throw RunError(fmt::format(
            "{}: tensor {} holds {} at byte {}", file.path(), entry.name,
            is_step ? "a step that is negative or not finite" : "a value that is not finite", at + i));
      }
    }
  }
}

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step_";
  std::int64_t step = 0;
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + 8) return {};
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return {};
  return step;
}

// (step, path) of the checkpoints below a folder, newest first.
std::vector<std::pair<std::int64_t, std::string>> list_checkpoints(const std::string& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (const auto step = step_of(item.path().filename().string()))
      found.emplace_back(*step, item.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

// Removes a checkpoint; it never looks whole while it goes. Failing only costs space, so it is not an error.
void remove_checkpoint(const fs::path& path) {
  const fs::path away = path.parent_path() / fmt::format(".{}.old", path.filename().string());
  std::error_code error;
  fs::rename(path, away, error);
  fs::remove_all(error ? path : away, error);
}

void write_checkpoint(const std::string& folder, const std::string& name, std::int64_t step,
                      const std::string& model, const ModelMemory& memory, const Buffers& buffers,
                      const Json& run) {
  // Slots serve loading too and so point to writable memory; nothing is written through them here.
  const std::vector<Slot> slots = slots_of(memory, const_cast<Buffers&>(buffers));
  const std::vector<SafetensorsSource> sources = sources_of(slots);
  const Metadata metadata = metadata_of(model, memory);
  make_folder(folder);
  const auto needed = static_cast<std::int64_t>(safetensors_bytes(metadata, sources)) + kSpaceForRest;
  if (const std::int64_t space = free_space(folder); space < needed) {
    throw RunError(
        fmt::format("{}: the disk has {} bytes left, a checkpoint takes {}", folder, space, needed));
  }
  const fs::path temporary = fs::path(folder) / fmt::format(".{}.tmp", name);
  fs::remove_all(temporary);
  fs::create_directory(temporary);
  try {
    const WrittenFile written = write_safetensors(temporary / kModelFile, metadata, sources);
    Json state = {{"format", kFormat},
                  {"version", kVersion},
                  {"model", model},
                  {"step", step},
                  {"updates", memory.updates()}};
    if (const double rate = memory.last_learning_rate(); std::isfinite(rate)) state["learning_rate"] = rate;
    for (int i = 0; i < memory.tensors(); ++i) state["ordinals"].push_back(memory.info(i).name);
    state["files"][kModelFile] = {{"bytes", written.bytes}, {"crc32", hex(written.crc32)}};
    state["run"] = run;
    const std::string text = seal(state);
    File file(temporary / kStateFile, File::Mode::kCreate);
    file.write(std::as_bytes(std::span(text)));
    file.sync();
    sync_folder(temporary);
    fs::rename(temporary, fs::path(folder) / name);
    sync_folder(folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

// What the metadata of an opened checkpoint says, each part checked against the file.
std::vector<CheckpointTensor> tensors_of(const Opened& opened) {
  const SafetensorsFile& file = opened.file;
  const auto refuse = [&](const std::string& what) -> RunError {
    return RunError(fmt::format("{}: {}", file.path(), what));
  };
  const auto text = [&](const std::string& key) {
    const auto at = file.metadata().find(key);
    if (at == file.metadata().end()) throw refuse(fmt::format("its metadata has no {}", key));
    return at->second;
  };
  std::vector<CheckpointTensor> tensors;
  std::set<std::string> seen;
  for (const Json& ordinal : opened.state.at("ordinals")) {
    CheckpointTensor t;
    t.name = ordinal.get<std::string>();
    const std::string shape = text(t.name + ".shape");
    for (const char* p = shape.data(); p < shape.data() + shape.size();) {
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(p, shape.data() + shape.size(), extent);
      if (error != std::errc()) throw refuse(fmt::format("tensor {} has the shape \"{}\"", t.name, shape));
      t.shape.push_back(extent);
      p = end + 1;
    }
    for (const Role role : kSavedRoles) {
      if (!file.metadata().contains(role_name(t.name, role))) continue;
      const std::string spec = text(role_name(t.name, role));
      kernels::RoleView view;
      try {
        view = {parse_spec(spec), nullptr, nullptr, TensorInfo{t.name, t.shape}.elements()};
      } catch (const UsageError& e) {
        throw refuse(e.what());
      }
      for (const Slot& slot : role_slots(t.name, t.shape, role, view)) {
        const SafetensorsEntry* entry = file.find(slot.name);
        if (entry == nullptr) throw refuse(fmt::format("tensor {} is missing", slot.name));
        if (entry->dtype != slot.dtype || entry->shape != slot.shape) {
          throw refuse(fmt::format("tensor {} is {} [{}], {} [{}] was expected", slot.name, entry->dtype,
                                   fmt::join(entry->shape, ", "), slot.dtype, fmt::join(slot.shape, ", ")));
        }
        seen.insert(slot.name);
        t.bytes += static_cast<std::int64_t>(entry->bytes);
      }
      t.specs.emplace_back(to_string(role), spec);
    }
    tensors.push_back(std::move(t));
  }
  for (const SafetensorsEntry& e : file.entries()) {
    check_values(file, e);
    if (seen.contains(e.name)) continue;
    if (!e.name.ends_with(".buffer") || e.dtype != "F32")
      throw refuse(fmt::format("tensor {} is extra", e.name));
    tensors.push_back({e.name.substr(0, e.name.rfind('.')),
                       e.shape,
                       {{"buffer", "fp32"}},
                       static_cast<std::int64_t>(e.bytes)});
  }
  return tensors;
}

struct SavedProgress {
  std::int64_t step, updates;
  double rate;
};

SavedProgress progress_of(const Json& state, const std::string& path) {
  // Programs before error feedback was in presets did not save the rate.
  const std::string file = fmt::format("{}/{}: is not what was saved: ", path, kStateFile);
  const SavedProgress p{to_count(state.at("step"), file + "step"),
                        to_count(state.at("updates"), file + "updates"),
                        state.value("learning_rate", kNoLearningRate)};
  if (p.step >= std::int64_t{1} << 32 || p.updates > p.step || !(p.rate >= 0)) {
    throw RunError(fmt::format("{}step {}, {} updates, learning rate {}", file, p.step, p.updates, p.rate));
  }
  return p;
}

CheckpointInfo info_of(const Opened& opened, const std::string& path) {
  try {
    const SavedProgress saved = progress_of(opened.state, path);
    return {opened.state.at("model").get<std::string>(), saved.step, saved.updates, tensors_of(opened)};
  } catch (const Json::exception& e) {
    throw RunError(fmt::format("{}/{}: is not what was saved: {}", path, kStateFile, e.what()));
  }
}

// Compares the file with the memory it is to fill; tensors called `names` may be there besides.
void check_tensors(const SafetensorsFile& file, const Metadata& expected, const std::vector<Slot>& slots,
                   std::set<std::string> names) {
  const auto refuse = [&](const std::string& what) {
    throw RunError(fmt::format("{}: {}", file.path(), what));
  };
  for (const auto& [key, value] : expected) {
    const auto at = file.metadata().find(key);
    const std::string found = at == file.metadata().end() ? "missing" : at->second;
    if (found != value) refuse(fmt::format("{} is {}, this run expects {}", key, found, value));
  }
  for (const Slot& slot : slots) {
    names.insert(slot.name);
    const SafetensorsEntry* entry = file.find(slot.name);
    if (entry == nullptr) refuse(fmt::format("tensor {} is missing", slot.name));
    if (entry->dtype != slot.dtype || entry->shape != slot.shape) {
      refuse(fmt::format("tensor {} is {} [{}], this run expects {} [{}]", slot.name, entry->dtype,
                         fmt::join(entry->shape, ", "), slot.dtype, fmt::join(slot.shape, ", ")));
    }
  }
  for (const SafetensorsEntry& e : file.entries()) {
    if (!names.contains(e.name))
      refuse(fmt::format("tensor {} is extra: this run has no such tensor", e.name));
    check_values(file, e);
  }
}

}  // namespace

std::int64_t checkpoint_bytes(const ModelMemory& memory, const Buffers& buffers) {
  std::int64_t bytes = kSpaceForRest;
  for (const Slot& slot : slots_of(memory, const_cast<Buffers&>(buffers))) {
    bytes += static_cast<std::int64_t>(slot.bytes.size());
  }
  return bytes;
}

std::int64_t to_count(const Json& value, const std::string& what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMost) {
    throw RunError(fmt::format("{} is {}", what, value.dump()));
  }
  return value.get<std::int64_t>();
}

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("step_{:08}", step);
}

std::string save_checkpoint(const std::string& folder, std::int64_t step, const std::string& model,
                            const ModelMemory& memory, const Buffers& buffers, const Json& run, int keep) {
  const std::string name = checkpoint_name(step);
  try {
    write_checkpoint(folder, name, step, model, memory, buffers, run);
  } catch (const std::exception& e) {
    const std::string last = newest_checkpoint(folder);
    throw RunError(
        fmt::format("the checkpoint of step {} could not be saved: {}. {}", step, e.what(),
                    last.empty() ? "There is no earlier one."
                                 : fmt::format("The last good one is {}; --resume goes on from it.", last)));
  }
  if (keep > 0) {
    const auto all = list_checkpoints(folder);
    for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i)
      remove_checkpoint(all[i].second);
  }
  return (fs::path(folder) / name).string();
}

Json load_checkpoint(const std::string& path, const std::string& model, ModelMemory& memory,
                     Buffers& buffers) {
  const Opened opened = open_checkpoint(path);
  try {
    if (const auto saved = opened.state.at("model").get<std::string>(); saved != model) {
      throw RunError(
          fmt::format("{}: is a checkpoint of model {}, this run's model is {}", path, saved, model));
    }
    const std::vector<Slot> slots = slots_of(memory, buffers);
    check_tensors(opened.file, metadata_of(model, memory), slots, left_out(memory));
    const Json& ordinals = opened.state.at("ordinals");
    for (int i = 0; i < memory.tensors(); ++i) {
      if (ordinals.at(static_cast<std::size_t>(i)) != memory.info(i).name) {
        throw RunError(
            fmt::format("{}/{}: tensor {} has another ordinal", path, kStateFile, memory.info(i).name));
      }
    }
    const SavedProgress saved = progress_of(opened.state, path);
    Json run = opened.state.at("run");
    for (const Slot& slot : slots) opened.file.read(*opened.file.find(slot.name), 0, slot.bytes);
    memory.set_progress(static_cast<std::uint32_t>(saved.step), saved.updates, saved.rate);
    return run;
  } catch (const Json::exception& e) {
    throw RunError(fmt::format("{}/{}: is not what was saved: {}", path, kStateFile, e.what()));
  }
}

Json checkpoint_run(const std::string& path) {
  const Json state = open_state(path);
  const auto run = state.find("run");
  if (run == state.end() || !run->is_object()) {
    throw RunError(fmt::format("{}/{}: is not what was saved: it tells of no run", path, kStateFile));
  }
  return *run;
}

std::string newest_checkpoint(const std::string& folder, bool clean) {
  if (clean) {
    std::vector<fs::path> leftovers;
    std::error_code error;
    for (const auto& item : fs::directory_iterator(folder, error)) {
      if (item.path().filename().string().starts_with(".step_")) leftovers.push_back(item.path());
    }
    for (const fs::path& path : leftovers) fs::remove_all(path, error);
  }
  const auto all = list_checkpoints(folder);
  return all.empty() ? "" : all.front().second;
}

std::string checkpoint_before(const std::string& path) {
  const auto step = step_of(fs::path(path).filename().string());
  for (const auto& [other, found] : list_checkpoints(fs::path(path).parent_path().string())) {
    if (step && other < *step) return found;
  }
  return "";
}

std::string find_checkpoint(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / kStateFile, error)) return path;
  for (const fs::path& folder : {fs::path(path) / "checkpoints", fs::path(path)}) {
    if (std::string found = newest_checkpoint(folder.string()); !found.empty()) return found;
  }
  throw UsageError(
      fmt::format("{}: holds no checkpoint; name a run's folder or a folder step_NNNNNNNN", path));
}

CheckpointInfo inspect_checkpoint(const std::string& path) {
  return info_of(open_checkpoint(path), path);
}

struct StoredWeights::State {
  explicit State(const std::string& path) : opened(open_checkpoint(path)) {}
  Opened opened;
};

StoredWeights::StoredWeights(const std::string& path)
    : path_(path), state_(std::make_unique<State>(path)), info_(info_of(state_->opened, path)) {
  std::set<std::string> names;
  for (const CheckpointTensor& t : info_.tensors) {
    const std::string role = t.specs.empty() ? "" : t.specs.front().first;
    if ((role != "buffer" && role != to_string(Role::kParameter)) || !names.insert(t.name).second) {
      throw RunError(fmt::format("{}/{}: {} has no parameter, or more than one", path, kModelFile, t.name));
    }
  }
}
StoredWeights::~StoredWeights() = default;

const CheckpointTensor* StoredWeights::find(const std::string& name) const {
  const auto at =
      std::find_if(tensors().begin(), tensors().end(), [&](const auto& t) { return t.name == name; });
  return at == tensors().end() ? nullptr : &*at;
}

void StoredWeights::read(const CheckpointTensor& t, Pool& pool,
                         const std::function<void(std::int64_t, std::span<const float>)>& body) const {
  constexpr std::int64_t kPanel = 16 * kernels::kTile;
  const SafetensorsFile& file = state_->opened.file;
  const auto& [role, spec] = t.specs.front();
  const std::int64_t elements = TensorInfo{t.name, t.shape}.elements();
  std::vector<float> values(static_cast<std::size_t>(std::min(kPanel, elements)));
  if (role == "buffer") {
    const SafetensorsEntry& entry = *file.find(t.name + ".buffer");
    for (std::int64_t at = 0; at < elements; at += kPanel) {
      const auto panel = std::span(values).first(static_cast<std::size_t>(std::min(kPanel, elements - at)));
      file.read(entry, static_cast<std::uint64_t>(4 * at), std::as_writable_bytes(panel));
      body(at, panel);
    }
    return;
  }
  const Spec codec = parse_spec(spec);
  Pages codes;
  codes.allocate(code_bytes(codec.format, elements), fmt::format("tensor {}", t.name), "a machine with more");
  std::vector<std::uint16_t> steps(static_cast<std::size_t>(blocks_of(elements, codec.block)));
  const kernels::RoleView view{codec, reinterpret_cast<std::uint8_t*>(codes.data()), steps.data(), elements};
  for (const Slot& slot : role_slots(t.name, t.shape, Role::kParameter, view)) {
    file.read(*file.find(slot.name), 0, slot.bytes);
  }
  for (std::int64_t at = 0; at < elements; at += kPanel) {
    const std::int64_t n = std::min(kPanel, elements - at);
    kernels::decode(pool, view, at, n, values.data());
    body(at, std::span(values).first(static_cast<std::size_t>(n)));
  }
}

void load_parameters(const std::string& path, ModelMemory& memory) {
  const StoredWeights weights(path);
  for (const CheckpointTensor& t : weights.tensors()) {
    if (t.specs.front().first != "buffer" && memory.find(t.name) < 0) {
      throw RunError(fmt::format("{}: holds the tensor {}, which this model has not", path, t.name));
    }
  }
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    const CheckpointTensor* stored = weights.find(info.name);
    if (stored == nullptr) throw RunError(fmt::format("{}: has no tensor {}", path, info.name));
    if (stored->shape != info.shape) {
      throw RunError(fmt::format("{}: {} is {}, but this model's is {}", path, info.name,
                                 fmt::join(stored->shape, " x "), fmt::join(info.shape, " x ")));
    }
    weights.read(*stored, memory.pool(), [&](std::int64_t first, std::span<const float> values) {
      memory.initialize(i, first, values);
    });
  }
}

void write_export(const StoredWeights& weights, const std::string& output, const Metadata& metadata,
                  std::span<const SafetensorsSource> sources) {
  std::error_code ignored;
  const fs::path target = fs::weakly_canonical(fs::absolute(output));
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    throw UsageError(fmt::format("{}: is no ordinary file; name a new one (--out)", output));
  }
  if (fs::equivalent(target.parent_path(), weights.path(), ignored)) {
    throw UsageError(fmt::format("{}: lies in the checkpoint that is read; write elsewhere (--out)", output));
  }
  try {
    write_safetensors(output, metadata, sources);
  } catch (const std::exception& e) {
    throw RunError(fmt::format("the export could not be written: {}", e.what()));
  }
}

void export_checkpoint(const std::string& path, const std::string& output, Compute type, Pool& pool) {
  const StoredWeights weights(path);
  std::vector<SafetensorsSource> sources;
  for (const CheckpointTensor& t : weights.tensors()) {
    const bool bf16 = type == Compute::kBf16 && t.specs.front().first != "buffer";  // statistics stay in fp32
    sources.push_back({t.name, bf16 ? "BF16" : "F32", t.shape, [&weights, &pool, &t, bf16](const auto& sink) {
                         weights.read(t, pool, [&](std::int64_t, std::span<const float> values) {
                           if (!bf16) return sink(std::as_bytes(values));
                           std::vector<std::uint16_t> narrow(values.size());
                           std::transform(values.begin(), values.end(), narrow.begin(),
                                          [](float x) { return float_to_bf16(x); });
                           sink(std::as_bytes(std::span(narrow)));
                         });
                       }});
  }
  write_export(weights, output, {{"format", "pt"}, {"model", weights.model()}}, sources);
}

}  // namespace lpmm
