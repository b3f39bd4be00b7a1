#include "experiments/plots/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/roles.h"
#include "lpmm/data/scores.h"
#include "lpmm/memory/spec.h"

namespace lpmm {

std::optional<double> number_in(const Json& record, std::string_view key) {
  const auto at = record.find(key);
  if (at == record.end() || !at->is_number()) return {};
  const double v = at->get<double>();
  return std::abs(v) < 1e30 ? std::optional(v) : std::nullopt;
}

std::string text_in(const Json& record, std::string_view key) {
  const auto at = record.find(key);
  return at != record.end() && at->is_string() ? at->get<std::string>() : "";
}

const Json& object_in(const Json& record, std::string_view key) {
  static const Json none = Json::object();
  const auto at = record.find(key);
  return at != record.end() && at->is_object() ? *at : none;
}

std::vector<NamedScore> scores_in(const Json& record) {
  std::vector<NamedScore> out;
  const Json& scores = object_in(record, "scores");
  for (const auto& [name, value] : scores.items()) out.push_back({name, number_in(scores, name)});
  if (!out.empty()) return out;
  // The record of a run that was never tested has neither.
  for (const char* key : {"test_accuracy", "accuracy"}) {
    if (record.contains(key)) out.push_back({"accuracy", number_in(record, key)});
  }
  return out;
}

std::vector<std::string> score_names(std::span<const Json> records) {
  std::vector<std::string> names;
  for (const Json& record : records) {
    for (NamedScore& score : scores_in(record)) {
      if (std::find(names.begin(), names.end(), score.name) == names.end()) {
        names.push_back(std::move(score.name));
      }
    }
  }
  return names;
}

std::optional<double> score_in(const Json& record, std::string_view name) {
  for (const NamedScore& score : scores_in(record)) {
    if (score.name == name) return score.value;
  }
  return {};
}

namespace {

// The values that underflow records hold for every role: the first part of the tag, and the key in the
// record.
constexpr std::pair<const char*, const char*> kRoleTags[] = {{"underflow", "share"},
                                                             {"saturated", "saturated"},
                                                             {"relative_error", "relative_error"},
                                                             {"update_to_step", "update_to_step"}};

std::string tag_of(const char* first, Role role) {
  return fmt::format("{}/{}", first, to_string(role));
}

}  // namespace

std::vector<Scalar> scalars_of(std::span<const Json> records) {
  std::vector<Scalar> out;
  double seconds = 0;
  for (const Json& record : records) {
    const std::string type = text_in(record, "type");
    const auto at = number_in(record, "step");
    if (!at || *at < 0 || *at > 0x1p53) continue;
    if (type == "step") seconds = number_in(record, "seconds").value_or(seconds);
    const auto put = [&](const std::string& tag, const Json& parent, std::string_view key) {
      if (const auto value = number_in(parent, key)) {
        out.push_back({tag, static_cast<std::int64_t>(*at), seconds, *value});
      }
    };
    if (type == "step" || type == "eval") {
      const Json& scores = object_in(record, "scores");
      for (const auto& [name, value] : scores.items()) put("test/" + name, scores, name);
      const Json& losses = object_in(record, "losses");  // of each file of several
      for (const auto& [name, value] : losses.items()) put("test/loss/" + name, losses, name);
      for (const auto& [key, value] : record.items()) {
        if (key == "step" || key == "seconds" || (key == "accuracy" && !scores.empty())) continue;
        put((type == "step" ? "train/" : "test/") + key, record, key);
      }
    } else if (type == "underflow") {
      for (const Role role : kEveryElementRole) {
        const Json& stored = object_in(object_in(record, "roles"), to_string(role));
        for (const auto& [first, key] : kRoleTags) put(tag_of(first, role), stored, key);
      }
    }
  }
  return out;
}

std::vector<std::string> known_tags() {
  std::vector<std::string> out;
  for (const char* key :
       {"epoch", "loss", "accuracy", "learning_rate", "gradient_norm", "clip_factor", "clipped_tensors",
        "margin", "pairs", "images_per_second", "tokens_per_second", "rss_bytes"}) {
    out.push_back(fmt::format("train/{}", key));
  }
  for (const char* key : {"epoch", "train_loss", "train_accuracy", "loss"})
    out.push_back(fmt::format("test/{}", key));
  for (const ScoreKind& kind : kScores) out.push_back(fmt::format("test/{}", kind.name));
  for (const Role role : kEveryElementRole) {
    for (const auto& [first, key] : kRoleTags) out.push_back(tag_of(first, role));
  }
  return out;
}

}  // namespace lpmm
