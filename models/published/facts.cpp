#include "models/published/facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "models/published/config.h"
#include "models/published/layouts.h"
#include "models/published/published.h"
#include "models/published/unknown.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char *kById = "id2label", *kToId = "label2id", *kInOrder = "label_names";
constexpr const char *kProblem = "problem_type", *kSeveral = "multi_label_classification";
constexpr const char* kGeneration = "generation_config.json";
constexpr std::uint64_t kLongestConfig = 1 << 26;

// Returns true if the names are those that transformers makes up where nobody named the classes.
bool is_placeholder(const Json& names) {
  return std::ranges::all_of(names.items(), [](const auto& item) {
    return item.value().is_string() && item.value().template get<std::string>() == "LABEL_" + item.key();
  });
}

// The names as a list, in their order.
Json names_in_order(const PublishedConfig& config) {
  const auto expect = [&](const char* key, bool is_good, const char* what) {
    if (!is_good)
      throw RunError(
          fmt::format("{}: {} is {}, expected {}", config.path(), key, config.json()[key].dump(), what));
  };
  Json names = Json::array();
  if (config.has(kInOrder)) {
    expect(kInOrder, config.json()[kInOrder].is_array(), "a list of names");
    return config.json()[kInOrder];
  }
  if (!config.has(kById)) return names;
  expect(kById, config.json()[kById].is_object(), "an object with a name for each number");
  if (is_placeholder(config.json()[kById])) return names;
  const Json& by_id = config.json()[kById];
  for (std::size_t i = 0; i < by_id.size(); ++i) {
    const auto name = by_id.find(std::to_string(i));
    if (name == by_id.end()) throw RunError(fmt::format("{}: {} has no class {}", config.path(), kById, i));
    names.push_back(*name);
  }
  return names;
}

std::vector<std::string> class_names(const PublishedConfig& config, int classes) {
  if (classes < 2) return {};
  const Json names = names_in_order(config);
  const char* key = config.has(kInOrder) ? kInOrder : kById;
  if (names.empty()) return {};
  if (std::ssize(names) != classes) {
    throw RunError(fmt::format("{}: {} names {} classes, the weights have {}", config.path(), key,
                               names.size(), classes));
  }
  std::vector<std::string> out;
  for (const Json& name : names) {
    if (!name.is_string()) {
      throw RunError(fmt::format("{}: {} has {}, expected a name", config.path(), key, name.dump()));
    }
    out.push_back(name.get<std::string>());
  }
  return out;
}

}  // namespace

ReadFacts read_published_facts(const std::string& path, const ModelConfig& model) {
  ReadFacts facts;
  const std::int64_t vocabulary = task_of(model).has_tokens ? model.integer(kVocabulary) : 0;
  Json tokens = Json::object(), said = Json::object();
  if (PublishedConfig::is_beside(path)) {
    const PublishedConfig config(PublishedConfig::beside(path));
    // Names of classes that no weights tell are of no use; remark_on_image_head() says so.
    if (task_of(model).has_tokens || !lacks_image_head(path))
      facts.classes = class_names(config, model.classes);
    tokens = config.json();
    said = read_json(config.path(), kLongestConfig);
    for (const char* name : {kBeginToken, kEndToken, kPadToken}) {
      // The default of its library counts only if it is a token of this model.
      if (!said.contains(name) && tokens.contains(name) && tokens[name] >= vocabulary) tokens.erase(name);
    }
  }
  const fs::path generation = fs::path(published_folder(path)) / kGeneration;
  std::error_code error;
  if (task_of(model).has_tokens && fs::exists(generation, error)) {
    const PublishedConfig config(generation.string());
    for (const char* name : {kBeginToken, kEndToken, kPadToken}) {
      if (!config.has(name)) continue;
      tokens[name] = config.json()[name];
      if (!said.contains(name) || said[name] == tokens[name]) continue;
      facts.otherwise += fmt::format("{}{} is {}, not {}", facts.otherwise.empty() ? "" : ", ", name,
                                     tokens[name].dump(), said[name].dump());
    }
  }
  if (task_of(model).has_tokens) facts.tokens = parse_special_tokens(tokens, vocabulary, &facts.left_out);
  return facts;
}

bool lacks_image_head(const std::string& path) {
  const PublishedTensors tensors(path);
  constexpr const char* kHeads[] = {"head.weight", "fc.weight", "classifier.weight", "classifier.1.weight"};
  return std::ranges::all_of(kHeads, [&](const char* name) { return tensors.find(name).entry == nullptr; });
}

std::string remark_on_image_head(const std::string& path) {
  if (!lacks_image_head(path)) return "";
  const bool has_names =
      PublishedConfig::is_beside(path) && PublishedConfig(PublishedConfig::beside(path)).has(kById);
  return fmt::format("{}{}", kNoHead,
                     has_names ? fmt::format("; {} names classes of no head and is not used", kById) : "");
}

void read_head(const PublishedConfig& config, int classes, ModelConfig& model) {
  // Its tensors are those of a head that tells a number.
  if (classes > 0 && config.architecture().ends_with("ForMultipleChoice"))
    throw RunError(
        fmt::format("{}: its head chooses among texts{}", config.path(), head_not_here(config.path())));
  const bool is_number = classes == 1;
  std::vector<Json> known = {nullptr, "single_label_classification"};
  if (is_number) known.emplace_back("regression");
  if (!is_number) known.emplace_back(kSeveral);
  if (classes > 0) config.expect(kProblem, known);
  model.classes = classes;
  if (model.has(kMultiLabel)) model.set(kMultiLabel, classes > 0 && config.text(kProblem) == kSeveral);
}

void add_head(const PublishedFacts& facts, const ModelConfig& model, Json& config) {
  config["num_labels"] = model.classes;
  if (model.flag(kMultiLabel)) config[kProblem] = kSeveral;
  add_id2label(facts, model.classes, config);
}

void add_tokens(const PublishedFacts& facts, Json& config) {
  const Json tokens = special_tokens_json(facts.tokens);
  for (const auto& [name, ids] : tokens.items()) {
    const auto said = config.find(name);
    if (said == config.end() || said->is_null()) config[name] = ids;
  }
}

void add_id2label(const PublishedFacts& facts, std::int64_t classes, Json& config) {
  if (std::ssize(facts.classes) != classes) return;
  for (std::size_t i = 0; i < facts.classes.size(); ++i) {
    config[kById][std::to_string(i)] = facts.classes[i];
    config[kToId][facts.classes[i]] = i;
  }
}

void add_label_names(const PublishedFacts& facts, std::int64_t classes, Json& config) {
  if (std::ssize(facts.classes) == classes) config[kInOrder] = facts.classes;
}

}  // namespace lpmm
