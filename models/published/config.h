// config.json, and what else a publisher says beside weights.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/files/json.h"

namespace lpmm {

// The folder that holds published weights: the path, or that of a file.
std::string published_folder(const std::string& path);

// Throws RunError where nothing is at the path, or only a LoRA adapter without its model, and says what to
// do.
void refuse_no_model(const std::string& path);

// config.json beside published weights. Errors name file and key.
class PublishedConfig {
 public:
  // Absent keys have the defaults of the model's library. Throws RunError where it cannot be read, or is
  // none.
  explicit PublishedConfig(const std::string& path);
  // A part of one, which messages call `name`.
  PublishedConfig(std::string name, Json json);
  // Returns true if there is one for weights at `path`.
  static bool is_beside(const std::string& path);
  static std::string beside(const std::string& path);

  const std::string& path() const { return path_; }
  const Json& json() const { return json_; }
  bool has(std::string_view key) const;  // and not null
  // Model sizes: 1 to 2^24.
  std::int64_t size(std::string_view key) const;
  double number(std::string_view key, double otherwise) const;    // finite
  double positive(std::string_view key, double otherwise) const;  // and above 0
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;  // empty where there is none
  // The first of the architectures, "BertForMaskedLM"; empty: none is said.
  std::string architecture() const;
  // Throws for another pooling in front of the head than these, and for a key inside model_args, with
  // which timm changes a model, that no row of its table names.
  void expect_timm(std::string_view type, std::vector<Json> pooling) const;
  // Throws where the key is there with another value: what this program's model does not have.
  void expect(std::string_view key, const std::vector<Json>& known) const;

 private:
  const Json& at(std::string_view key) const;
  std::string path_;
  Json json_;
};

}  // namespace lpmm
