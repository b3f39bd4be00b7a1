#include "lpmm/run/stored_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "kernels/formats/compensation.h"
#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/family.h"
#include "lpmm/program/ops/sequence/grid_positions.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint_files.h"

namespace lpmm {
namespace fs = std::filesystem;

struct StoredWeights::State {
  explicit State(const std::string& path) : opened(open_checkpoint(path)) {}
  OpenedCheckpoint opened;
};

namespace {

// What is stored of a tensor as a role or as the average, read whole.
struct StoredRole {
  DeviceMemory codes;
  std::vector<std::uint16_t> steps;
  kernels::RoleView view;

  // Nothing for a role: the average.
  StoredRole(const SafetensorsFile& file, const CheckpointTensor& t, std::optional<Role> role,
             PackedDevice& device) {
    const std::string& spec = *spec_of(t, role ? to_string(*role) : kAverageName);
    const Spec codec = fit_spec(parse_spec(spec), TensorInfo{t.name, t.shape}.traits());
    const std::int64_t elements = TensorInfo{t.name, t.shape}.elements();
    codes = allocate(device, code_bytes(codec.format, elements), fmt::format("tensor {}", t.name),
                     "a machine with more");
    steps.resize(static_cast<std::size_t>(step_bytes(codec, elements) / 2));
    view = {codec, reinterpret_cast<std::uint8_t*>(codes.get()), steps.data(), elements};
    for (const StoredPart& part :
         role ? role_parts(t.name, t.shape, *role, view) : average_parts(t.name, t.shape, view)) {
      file.read(*file.find(part.name), 0, part.bytes);
    }
  }
};

}  // namespace

StoredWeights::StoredWeights(const std::string& path, std::string type, bool averages)
    : path_(path),
      type_(std::move(type)),
      averages_(averages),
      state_(std::make_unique<State>(path)),
      info_(info_of(state_->opened, path)) {
  if (averages) check_averages(info_, path);
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

std::vector<TensorInfo> StoredWeights::infos() const {
  std::vector<TensorInfo> out;
  for (const CheckpointTensor& t : tensors()) out.push_back({t.name, t.shape});
  return out;
}

PublishedFacts StoredWeights::facts() const {
  const auto run = state_->opened.state.find("run");
  PublishedFacts facts = run == state_->opened.state.end() ? PublishedFacts{} : stored_facts(*run);
  facts.files = model_files_of(path_);
  facts.type = type_;
  return facts;
}

void StoredWeights::read(std::size_t tensor, PackedDevice& device, const PanelBody& body) const {
  read(tensors()[tensor], device, body);
}

void StoredWeights::read(const CheckpointTensor& t, PackedDevice& device, const PanelBody& body) const {
  constexpr std::int64_t kPanel = 16 * kernels::kTile;
  const SafetensorsFile& file = state_->opened.file;
  const std::string& role = t.specs.front().first;
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
  const bool is_average = averages_ && spec_of(t, kAverageName) != nullptr;
  const StoredRole parameter(file, t, is_average ? std::nullopt : std::optional(Role::kParameter), device);
  std::optional<StoredRole> compensation;
  if (!is_average && spec_of(t, to_string(Role::kCompensation)) != nullptr)
    compensation.emplace(file, t, Role::kCompensation, device);
  std::vector<float> rest(compensation ? values.size() : 0);
  for (std::int64_t at = 0; at < elements; at += kPanel) {
    const std::int64_t n = std::min(kPanel, elements - at);
    device.decode(parameter.view, at, n, values.data());
    if (compensation) device.decode(compensation->view, at, n, rest.data());
    device.synchronize();
    const auto panel = std::span(values).first(static_cast<std::size_t>(n));
    for (std::size_t i = 0; compensation && i < panel.size(); ++i) {
      panel[i] = TwoTerms{parameter.view.codec, compensation->view.codec}.sum(panel[i], rest[i]);
    }
    body(at, panel);
  }
}

void StoredWeights::write(const std::string& output, const Metadata& metadata,
                          std::span<const SafetensorsSource> sources) const {
  std::error_code ignored;
  const fs::path target = fs::weakly_canonical(fs::absolute(output));
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    throw UsageError(fmt::format("{}: is no ordinary file; name a new one (--out)", output));
  }
  if (fs::equivalent(target.parent_path(), path_, ignored)) {
    throw UsageError(fmt::format("{}: lies in the checkpoint that is read; write elsewhere (--out)", output));
  }
  try {
    remove_leftovers(target.parent_path().string());
    write_safetensors(output, metadata, sources);
  } catch (const std::exception& e) {
    throw RunError(fmt::format("the export could not be written: {}", error_text(e)));
  }
}

namespace {

bool is_of_head(std::string_view name, std::string_view head) {
  return !head.empty() && name.find(head) != std::string_view::npos;
}

// Positions of patches, for pictures of another size; whether the tensor has them.
bool load_resampled(const StoredWeights& weights, const CheckpointTensor& stored, int tensor,
                    ModelMemory& memory) {
  const auto grid = resampled_grid(stored.shape, memory.info(tensor).shape);
  if (!grid) return false;
  std::vector<float> table;
  weights.read(stored, memory.device().host(), [&](std::int64_t, std::span<const float> values) {
    table.insert(table.end(), values.begin(), values.end());
  });
  memory.initialize(tensor, 0, resample_positions(*grid, table));
  tell(fmt::format("{}: {} has positions of {} x {} patches, which are resampled for {} x {}\n",
                   weights.path(), printable(stored.name), grid->from, grid->from, grid->to, grid->to));
  return true;
}

// The tensors of a head that the weights lack, or have in another shape; `all`: all of it. Those of `other`
// only where they lack them.
std::vector<std::string> drawn_head(const StoredWeights& weights, const ModelMemory& memory,
                                    std::string_view head, std::string_view other, bool all) {
  std::vector<std::string> names;
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    const CheckpointTensor* stored = weights.find(info.name);
    const bool is_other = all || stored == nullptr || stored->shape != info.shape;
    if ((is_other && is_of_head(info.name, head)) || (stored == nullptr && is_of_head(info.name, other)))
      names.push_back(info.name);
  }
  return names;
}

}  // namespace

int stored_classes(const StoredWeights& weights, const ModelConfig& model) {
  int classes = 0;
  for (const CheckpointTensor& t : weights.tensors()) {
    if (is_of_head(t.name, model.family->head) && t.shape.size() == 2) {
      classes = static_cast<int>(t.shape[0]);
    }
  }
  return classes;
}

std::vector<std::string> stored_class_names(const Json& run) {
  std::vector<std::string> names;
  const auto saved = run.find(kClasses);
  if (saved == run.end() || !saved->is_array()) return names;
  for (const Json& name : *saved) names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  return names;
}

PublishedFacts stored_facts(const Json& run) {
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
  const auto tokens = run.find(kSpecialTokens);
  return {tokens == run.end() ? SpecialTokens{} : parse_special_tokens(*tokens, kMostTokens),
          stored_class_names(run)};
}

Json special_tokens_of(const Json& run, const ModelConfig& model, const Tokenizer* tokenizer) {
  if (const auto said = run.find(kSpecialTokens); said != run.end()) return *said;
  if (tokenizer == nullptr || !task_of(model).continues) return nullptr;
  SpecialTokens tokens;
  if (const std::vector<std::int32_t> before = tokenizer->before_text(); before.size() == 1) {
    tokens.emplace_back(kBeginToken, before);
  }
  if (const auto end = tokenizer->end_of_text()) tokens.push_back({kEndToken, {*end}});
  return tokens.empty() ? Json() : special_tokens_json(tokens);
}

bool numbers_classes(const Json& run, const std::vector<std::string>& names) {
  const std::vector<std::string> stored = stored_class_names(run);
  bool are_numbers = run.contains(kSource) || run.contains(kNumbered);
  are_numbers = are_numbers && stored.size() == names.size() && stored != names;
  for (std::size_t i = 0; i < names.size() && are_numbers; ++i) are_numbers = names[i] == std::to_string(i);
  return are_numbers;
}

bool has_other_classes(const Json& run, const std::vector<std::string>& names) {
  const std::vector<std::string> stored = stored_class_names(run);
  return !stored.empty() && !names.empty() && stored != names && !numbers_classes(run, names);
}

std::string compare_classes(const Json& run, int told, const RunConfig& config,
                            const std::vector<std::string>& names) {
  static constexpr std::ptrdiff_t kMostShown = 8;
  const std::vector<std::string> stored = stored_class_names(run);
  const auto text = [](int count, const std::vector<std::string>& of) {
    if (count < 2 && of.empty()) return std::string(count == 1 ? "a number" : "no classes");
    if (of.empty()) return fmt::format("{} classes", count);
    const auto end = of.begin() + std::min(std::ssize(of), kMostShown);
    return printable(fmt::format("{} class{} ({}{})", count, count == 1 ? "" : "es",
                                 fmt::join(of.begin(), end, ", "), end == of.end() ? "" : ", ..."));
  };
  std::string first;
  const auto [a, b] = std::ranges::mismatch(stored, names);
  if (a != stored.end() && b != names.end() && a - stored.begin() >= kMostShown) {
    first = printable(fmt::format("; class {} is {} there, {} here", a - stored.begin(), *a, *b));
  }
  const std::string& data = config.data.text.path.empty() ? config.data.set : config.data.text.path;
  return fmt::format("the model tells {}, {} has {}{}",
                     text(told, told == 1 ? std::vector<std::string>() : stored), data,
                     text(config.model.classes, names), first);
}

std::vector<std::string> load_parameters(const StoredWeights& weights, ModelMemory& memory,
                                         std::string_view head, bool leaves_head,
                                         std::string_view other_head) {
  const std::string& path = weights.path();
  for (const CheckpointTensor& t : weights.tensors()) {
    const bool is_of_some = is_of_head(t.name, head) || is_of_head(t.name, other_head);
    if (t.specs.front().first != "buffer" && memory.find(t.name) < 0 && !is_of_some) {
      throw RunError(fmt::format("{}: holds the tensor {}, which this model has not", path, t.name));
    }
  }
  std::vector<std::string> left = drawn_head(weights, memory, head, other_head, leaves_head);
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    if (std::ranges::find(left, info.name) != left.end()) continue;
    const CheckpointTensor* stored = weights.find(info.name);
    if (stored == nullptr) throw RunError(fmt::format("{}: has no tensor {}", path, info.name));
    if (stored->shape != info.shape && load_resampled(weights, *stored, i, memory)) continue;
    if (stored->shape != info.shape) {
      throw RunError(fmt::format("{}: {} is {}, but this model's is {}", path, info.name,
                                 fmt::join(stored->shape, " x "), fmt::join(info.shape, " x ")));
    }
    weights.read(*stored, memory.device().host(), [&](std::int64_t first, std::span<const float> values) {
      memory.initialize(i, first, values);
    });
  }
  return left;
}

InitialParameters set_initial_parameters(const RunConfig& config, const Model& model, ModelMemory& memory,
                                         Buffers& buffers, const std::vector<std::string>& class_names,
                                         const ProgressCall& progress) {
  if (config.train.init.empty()) {
    model.initialize(memory, config.train.seed, progress);
    return {};
  }
  const std::string checkpoint = find_checkpoint(config.train.init);
  const StoredWeights weights(checkpoint);
  const Family& family = *config.model.family;
  if (family.check_start != nullptr) family.check_start(config.model, weights);
  Json run = checkpoint_run(checkpoint);
  const bool has_others = has_other_classes(run, class_names);
  if (!drawn_head(weights, memory, family.head, family.other_head, has_others).empty()) {
    model.initialize(memory, config.train.seed, progress);
  }
  std::vector<std::string> drawn;
  try {
    drawn = load_parameters(weights, memory, family.head, has_others, family.other_head);
  } catch (const RunError& e) {
    const Family& other = config.families->find(weights.model());
    if (other.name == family.name) throw;
    throw RunError(
        fmt::format("{}. The run has a model of the family {}, the configuration one of {}: "
                    "--init RUN without a CONFIG takes the run's model, and so do recipes that "
                    "name none, as tune_text",
                    e.what(), other.name, family.name));
  }
  load_buffers(weights, buffers);
  std::string reason;
  if (has_others) reason = compare_classes(run, stored_classes(weights, config.model), config, class_names);
  return {checkpoint, std::move(drawn), std::move(reason), std::move(run)};
}

void load_buffers(const StoredWeights& weights, Buffers& buffers) {
  for (std::size_t b = 0; b < buffers.infos().size(); ++b) {
    const BufferInfo& info = buffers.infos()[b];
    const CheckpointTensor* stored = weights.find(info.name);
    if (stored == nullptr || stored->shape != info.shape) continue;
    float* to = buffers.value(static_cast<int>(b)).data();
    weights.read(*stored, buffers.device().host(), [&](std::int64_t first, std::span<const float> values) {
      buffers.device().upload(to + first, values.data(), 4 * std::ssize(values));
    });
  }
}

void export_checkpoint(const std::string& path, const std::string& output, ValueType type,
                       PackedDevice& device, bool averages) {
  const StoredWeights weights(path, {}, averages);
  std::vector<SafetensorsSource> sources;
  for (const CheckpointTensor& t : weights.tensors()) {
    const bool bf16 =
        type == ValueType::kBf16 && t.specs.front().first != "buffer";  // statistics stay in fp32
    sources.push_back(
        {t.name, bf16 ? "BF16" : "F32", t.shape, [&weights, &device, &t, bf16](const auto& sink) {
           weights.read(t, device, [&](std::int64_t, std::span<const float> values) {
             if (!bf16) return sink(std::as_bytes(values));
             std::vector<std::uint16_t> narrow(values.size());
             std::transform(values.begin(), values.end(), narrow.begin(),
                            [](float x) { return float_to_bf16(x); });
             sink(std::as_bytes(std::span(narrow)));
           });
         }});
  }
  weights.write(output, {{"format", "pt"}, {"model", weights.model()}}, sources);
}

}  // namespace lpmm
