#include "lpmm/run/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/base/process.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/roles.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/run/checkpoint_files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kSpaceForRest = 1 << 20;                           // headers, state.json, the log
constexpr std::int64_t kSpaceForState = 16 << 10;                         // of a save, which may be the last
constexpr std::int64_t kSpaceForHistory = 24 * GradientHistory::kLength;  // of a tensor, as text

// The parts of what every rank has some elements of: `parts` as a whole, and of this rank's.
std::vector<StoredPart> shared_parts(const ModelMemory& memory, int tensor, const kernels::RoleView& whole,
                                     std::vector<StoredPart> parts, const std::vector<StoredPart>& own) {
  const TensorInfo& info = memory.info(tensor);
  std::int64_t before = 0;
  for (const std::int64_t end : memory.owned_ends(tensor)) {
    // Values of rows belong to who has the tensor.
    const bool is_all = end == info.elements() && before == 0, is_none = end == before;
    const std::int64_t first = is_all || is_none ? 0 : before;
    const std::int64_t last = is_all ? whole.elements : is_none ? 0 : end;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto bytes_to = [&](std::int64_t element) {
        return static_cast<std::uint64_t>(i == 0 ? code_bytes(whole.codec.format, element)
                                                 : step_bytes(whole.codec, element));
      };
      auto& ends = parts[i].ends;
      const std::uint64_t earlier = ends.empty() ? 0 : ends.back();
      if (std::ssize(ends) == memory.sharding().rank) {
        parts[i].first = earlier;
        parts[i].bytes = own[i].bytes;
      }
      ends.push_back(earlier + (is_none ? 0 : bytes_to(last) - bytes_to(first)));
    }
    before = end;
  }
  return parts;
}

std::vector<StoredPart> parts_of(const ModelMemory& memory, Buffers& buffers) {
  std::vector<StoredPart> parts;
  const bool is_shared = memory.sharding().ranks > 1;
  const auto add = [&](std::vector<StoredPart> some) {
    for (StoredPart& part : some) parts.push_back(std::move(part));
  };
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    const TensorPlan whole = plan_tensor(memory.policy(), memory.optimizer(), info);
    for (const Role role : kEveryRole) {
      if (!is_saved(role) || !whole[role]) continue;
      const kernels::RoleView own = memory.view(i, role);
      if (role == Role::kParameter && memory.policy().averaged.contains(info.name)) {
        add(average_parts(info.name, info.shape, own));
      } else if (!is_shared || (role == Role::kParameter && !memory.divides_parameter(i))) {
        add(role_parts(info.name, info.shape, role, own));
      } else {
        add(shared_parts(memory, i, *whole[role], role_parts(info.name, info.shape, role, *whole[role]),
                         role_parts(info.name, info.shape, role, own)));
      }
    }
    if (const auto average = plan_average(memory.policy(), memory.optimizer(), info)) {
      const auto own = average_parts(info.name, info.shape, memory.average(i));
      add(is_shared ? shared_parts(memory, i, *average, average_parts(info.name, info.shape, *average), own)
                    : own);
    }
    if (const std::span<std::uint8_t> peaks = memory.peaks(i); !peaks.empty()) {
      parts.push_back(
          {peaks_name(memory.info(i).name), "U8", {std::ssize(peaks)}, std::as_writable_bytes(peaks), true});
    }
  }
  for (int i = 0; i < static_cast<int>(buffers.infos().size()); ++i) {
    const BufferInfo& b = buffers.infos()[static_cast<std::size_t>(i)];
    parts.push_back({b.name + ".buffer", "F32", b.shape, std::as_writable_bytes(buffers.value(i))});
  }
  return parts;
}

// Names of entries that a file may hold besides: peaks, and states of tensors that are only looked at.
std::set<std::string> left_out(const ModelMemory& memory) {
  std::set<std::string> names;
  for (int i = 0; i < memory.tensors(); ++i) names.insert(peaks_name(memory.info(i).name));
  if (!memory.optimizer().frozen) return names;
  const auto add = [&](const std::string& name) { names.insert({name, name + ".codes", name + ".steps"}); };
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : kEveryRole) {
      if (is_saved(role)) add(role_name(memory.info(i).name, role));
    }
    add(average_name(memory.info(i).name));
  }
  return names;
}

Metadata metadata_of(const std::string& model, const ModelMemory& memory) {
  Metadata m = format_metadata(model);
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    m[info.name + ".shape"] = fmt::format("{}", fmt::join(info.shape, ","));
    const TensorPlan stored = plan_tensor(memory.policy(), memory.optimizer(), info);
    for (const Role role : kEveryRole) {
      if (!is_saved(role) || !stored[role]) continue;
      const bool is_average = role == Role::kParameter && memory.policy().averaged.contains(info.name);
      m[is_average ? average_name(info.name) : role_name(info.name, role)] = to_string(stored[role]->codec);
    }
    if (const auto average = plan_average(memory.policy(), memory.optimizer(), info)) {
      m[average_name(info.name)] = to_string(average->codec);
    }
  }
  return m;
}

// A part that ranks share, as the first one writes it: piece by piece from who has it. The others hand over
// what they have, and their sinks take all bytes for none.
void emit_shared(const StoredPart& part, const ModelMemory& memory, const ByteSink& sink) {
  constexpr std::uint64_t kMost = 4 << 20;
  Ranks& ranks = memory.ranks();
  const auto n = static_cast<std::size_t>(ranks.size()), me = static_cast<std::size_t>(ranks.rank());
  std::vector<std::byte> piece;
  std::uint64_t first = 0;
  for (std::size_t rank = 0; rank < n; first = part.ends[rank++]) {
    for (std::uint64_t at = first; at < part.ends[rank]; at += piece.size()) {
      piece.resize(std::min(kMost, part.ends[rank] - at));
      if (rank == me) {
        memory.device().download(piece.data(), part.bytes.data() + (at - first), std::ssize(piece));
      }
      std::vector<std::span<const std::byte>> send(n);
      std::vector<std::span<std::byte>> receive(n);
      if (rank == me) send[0] = piece;
      if (me == 0) receive[rank] = piece;
      ranks.swap(send, receive);
      sink(piece);
    }
  }
}

std::vector<SafetensorsSource> sources_of(const std::vector<StoredPart>& parts, const ModelMemory& memory) {
  std::vector<SafetensorsSource> sources;
  for (const StoredPart& part : parts) {
    sources.push_back({part.name, part.dtype, part.shape, [&part, &memory](const auto& sink) {
                         if (!part.ends.empty()) return emit_shared(part, memory, sink);
                         download_pieces(memory.device(), part.bytes, sink);
                       }});
  }
  return sources;
}

// (step, path) of the checkpoints below a folder, newest first.
std::vector<std::pair<std::int64_t, std::string>> list_checkpoints(const std::string& folder) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (const auto step = step_of_name(item.path())) found.emplace_back(*step, item.path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void check_disk(const std::string& folder, std::int64_t model_bytes, const ModelMemory& memory,
                std::int64_t rest) {
  if (memory.optimizer().percentile_clip > 0) rest += kSpaceForHistory * memory.tensors();
  const std::int64_t space = free_space(folder), needed = model_bytes + rest;
  if (space >= needed) return;
  throw RunError(fmt::format(
      "{}: the disk has {} bytes left, a checkpoint needs {}: {} for the model and {} to spare; make room",
      folder, space, needed, model_bytes, rest));
}

// Removes a checkpoint; it never looks whole while it goes. Failing only costs space, so it is not an error.
void remove_checkpoint(const fs::path& path) {
  const fs::path away = path.parent_path() / fmt::format(".{}.old", path.filename().string());
  std::error_code error;
  fs::remove_all(away, error);  // of a process that was killed here
  fs::rename(path, away, error);
  fs::remove_all(error ? path : away, error);
}

void write_checkpoint(const std::string& folder, const std::string& name, std::int64_t step,
                      const std::string& model, const ModelMemory& memory, const Buffers& buffers,
                      const Json& run) {
  // Parts serve loading too and so point to writable memory; nothing is written through them here.
  const std::vector<StoredPart> parts = parts_of(memory, const_cast<Buffers&>(buffers));
  const std::vector<SafetensorsSource> sources = sources_of(parts, memory);
  const Metadata metadata = metadata_of(model, memory);
  make_folder(folder);
  check_disk(folder, static_cast<std::int64_t>(safetensors_bytes(metadata, sources)), memory, kSpaceForState);
  const fs::path temporary = fs::path(folder) / fmt::format(".{}.tmp", name);
  fs::remove_all(temporary);
  fs::create_directory(temporary);
  try {
    const WrittenFile written = write_safetensors(temporary / kModelFile, metadata, sources);
    Json state = {{"model", model}, {"step", step}, {"updates", memory.updates()}};
    if (const double rate = memory.last_learning_rate(); std::isfinite(rate)) state["learning_rate"] = rate;
    if (Json histories = histories_json(memory); !histories.is_null()) state["gradient_history"] = histories;
    for (int i = 0; i < memory.tensors(); ++i) state["ordinals"].push_back(memory.info(i).name);
    state["files"][kModelFile] = {{"bytes", written.bytes}, {"crc32", checksum_text(written.crc32)}};
    state["run"] = run;
    const std::string text = seal_state(state);
    File file(temporary / kStateFile, File::Mode::kCreate);
    file.write(std::as_bytes(std::span(text)));
    file.sync();
    sync_folder(temporary);
    inspect_checkpoint(temporary);  // files that no reader would take must not become a checkpoint
    fs::rename(temporary, fs::path(folder) / name);
    sync_folder(folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
}

// Compares the file with the memory it is to fill; tensors called `names` may be there besides.
void check_tensors(const SafetensorsFile& file, const Metadata& expected,
                   const std::vector<StoredPart>& parts, std::set<std::string> names) {
  const auto refuse = [&](const std::string& what) {
    throw RunError(fmt::format("{}: {}", file.path(), what));
  };
  for (const auto& [key, value] : expected) {
    const auto at = file.metadata().find(key);
    const std::string found = at == file.metadata().end() ? "missing" : at->second;
    if (found != value) refuse(fmt::format("{} is {}, this run expects {}", key, found, value));
  }
  for (const StoredPart& part : parts) {
    names.insert(part.name);
    const SafetensorsEntry* entry = file.find(part.name);
    if (entry == nullptr && part.is_optional) continue;
    if (entry == nullptr) refuse(fmt::format("tensor {} is missing", part.name));
    if (entry->dtype != part.dtype || entry->shape != part.shape) {
      const bool is_of_rows = part.name.ends_with(kRoleRows[Role::kRowVariance].name);
      refuse(fmt::format("tensor {} is {} [{}], this run expects {} [{}]{}", part.name, entry->dtype,
                         fmt::join(entry->shape, ", "), part.dtype, fmt::join(part.shape, ", "),
                         is_of_rows
                             ? "; programs of November 2026 and earlier took a leading dimension of 1 for "
                               "a row: begin a new run from these weights with train.init"
                             : ""));
    }
  }
  for (const SafetensorsEntry& e : file.entries()) {
    if (!names.contains(e.name))
      refuse(fmt::format("tensor {} is extra: this run has no such tensor", e.name));
    check_values(file, e);
  }
}

}  // namespace

void check_disk(const std::string& folder, const ModelMemory& memory, const Buffers& buffers,
                std::int64_t besides) {
  std::int64_t bytes = 0;
  for (const StoredPart& part : parts_of(memory, const_cast<Buffers&>(buffers))) {
    bytes += static_cast<std::int64_t>(part.ends.empty() ? part.bytes.size() : part.ends.back());
  }
  check_disk(folder, bytes, memory, kSpaceForRest + besides);
}

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("step_{:08}", step);
}

std::string save_checkpoint(const std::string& folder, std::int64_t step, const std::string& model,
                            const ModelMemory& memory, const Buffers& buffers, const Json& run, int keep,
                            std::span<const std::int64_t> also_kept) {
  const std::string name = checkpoint_name(step);
  memory.ranks().now_in(step, "checkpoint");
  if (!memory.ranks().is_first()) {
    const std::vector<StoredPart> parts = parts_of(memory, const_cast<Buffers&>(buffers));
    std::vector<SafetensorsSource> shared = sources_of(parts, memory);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].ends.empty()) continue;
      shared[i].emit = [&part = parts[i]](const auto& sink) { sink(part.bytes); };  // the first one has it
    }
    emit_tensors(shared, [](auto) {});
    return (fs::path(folder) / name).string();
  }
  try {
    write_checkpoint(folder, name, step, model, memory, buffers, run);
  } catch (const RankLost&) {
    throw;
  } catch (const std::exception& e) {
    const std::string last = newest_checkpoint(folder);
    throw RunError(
        fmt::format("the checkpoint of step {} could not be saved: {}. {}", step, error_text(e),
                    last.empty() ? "There is no earlier one."
                                 : fmt::format("The last good one is {}; --resume goes on from it.", last)));
  }
  if (keep > 0) {
    const auto all = list_checkpoints(folder);
    for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) {
      const bool is_kept = std::find(also_kept.begin(), also_kept.end(), all[i].first) != also_kept.end();
      if (!is_kept) remove_checkpoint(all[i].second);
    }
  }
  return (fs::path(folder) / name).string();
}

Json load_checkpoint(const std::string& path, const std::string& model, ModelMemory& memory,
                     Buffers& buffers) {
  const OpenedCheckpoint opened = open_checkpoint(path);
  try {
    if (const auto saved = opened.state.at("model").get<std::string>(); saved != model) {
      throw RunError(
          fmt::format("{}: is a checkpoint of model {}, this run's model is {}", path, saved, model));
    }
    const std::vector<StoredPart> parts = parts_of(memory, buffers);
    check_tensors(opened.file, metadata_of(model, memory), parts, left_out(memory));
    const Json& ordinals = opened.state.at("ordinals");
    for (int i = 0; i < memory.tensors(); ++i) {
      if (ordinals.at(static_cast<std::size_t>(i)) != memory.info(i).name) {
        throw RunError(
            fmt::format("{}/{}: tensor {} has another ordinal", path, kStateFile, memory.info(i).name));
      }
    }
    const SavedProgress saved = progress_of(opened.state, path);
    const auto histories = histories_of(opened.state, memory, path);
    Json run = opened.state.at("run");
    for (const StoredPart& part : parts) {
      const SafetensorsEntry* entry = opened.file.find(part.name);
      if (entry == nullptr) continue;  // an optional one
      upload_pieces(memory.device(), part.bytes,
                    [&](std::uint64_t at, auto piece) { opened.file.read(*entry, part.first + at, piece); });
    }
    for (int i = 0; i < memory.tensors(); ++i) {
      if (const auto& history = histories[static_cast<std::size_t>(i)])
        *memory.gradient_history(i) = *history;
    }
    memory.set_progress(static_cast<std::uint32_t>(saved.step), saved.updates, saved.rate);
    return run;
  } catch (const Json::exception& e) {
    throw RunError(fmt::format("{}/{}: is not what was saved: {}", path, kStateFile, error_text(e)));
  }
}

void take_averages(Policy& policy, const std::string& checkpoint) {
  const CheckpointInfo info = inspect_checkpoint(checkpoint);
  check_averages(info, checkpoint);
  for (const CheckpointTensor& t : info.tensors) {
    const std::string* spec = spec_of(t, kAverageName);
    if (spec == nullptr) continue;
    PolicyOverride averaged{.pattern = t.name, .specs = {}};
    averaged.specs[Role::kParameter] = parse_spec(*spec);
    averaged.specs[Role::kCompensation] = Spec{};
    policy.overrides.push_back(std::move(averaged));
    policy.averaged.insert(t.name);
  }
}

void check_averages(const CheckpointInfo& info, const std::string& path) {
  const bool has_some = std::ranges::any_of(
      info.tensors, [](const CheckpointTensor& t) { return spec_of(t, kAverageName) != nullptr; });
  if (has_some && info.updates > 0) return;
  throw UsageError(fmt::format("{}: {}", path,
                               has_some ? "made no update yet, and so has no average of weights"
                                        : "holds no average of weights, which runs with train.average keep"));
}

const std::string* spec_of(const CheckpointTensor& tensor, std::string_view role) {
  const auto found = std::ranges::find_if(tensor.specs, [&](const auto& spec) { return spec.first == role; });
  return found == tensor.specs.end() ? nullptr : &found->second;
}

Json checkpoint_run(const std::string& path) {
  const Json state = open_state(path);
  const auto run = state.find("run");
  if (run == state.end() || !run->is_object()) {
    throw RunError(fmt::format("{}/{}: is not what was saved: it tells of no run", path, kStateFile));
  }
  return *run;
}

std::vector<std::int64_t> saved_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& [step, path] : list_checkpoints(folder)) steps.push_back(step);
  return steps;
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

std::string earlier_checkpoint(const std::string& path) {
  const auto step = step_of_name(path);
  for (const auto& [other, found] : list_checkpoints(fs::path(path).parent_path().string())) {
    if (!step || other >= *step) continue;
    try {
      inspect_checkpoint(found);
    } catch (const RunError&) {
      continue;
    }
    return fmt::format("{} is earlier and whole: remove the later ones and --resume goes on from there",
                       found);
  }
  return "there is no earlier one that can be read";
}

std::string find_checkpoint(const std::string& path) {
  std::error_code error;
  fs::path given(path);
  if (!given.has_filename()) given = given.parent_path();  // a slash at the end
  if (given.empty() || given.filename() == "." || given.filename() == "..") {
    given = fs::absolute(path, error).lexically_normal();
    if (!given.has_filename()) given = given.parent_path();
  }
  if (fs::exists(given / kStateFile, error)) return given.string();
  for (const fs::path& folder : {given / "checkpoints", given}) {
    if (std::string found = newest_checkpoint(folder.string()); !found.empty()) return found;
  }
  const fs::path ending = given.extension();
  const bool is_published =
      fs::exists(given / "config.json", error) ||
      (fs::is_regular_file(given, error) && (ending == ".safetensors" || ending == ".gguf") &&
       !fs::exists(given.parent_path() / "state.json", error));
  throw UsageError(
      is_published
          ? fmt::format("{}: is a published model, no run: make one of it by lpmm import {} --out RUN, and "
                        "name RUN here",
                        path, path_argument(path))
          : fmt::format("{}: holds no checkpoint; name a run's folder or a folder step_NNNNNNNN", path));
}

CheckpointInfo inspect_checkpoint(const std::string& path) {
  return info_of(open_checkpoint(path), path);
}

}  // namespace lpmm
