// A part of a tokenizer.json with the place where it lies, so that every refusal names file and part.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/base/error.h"

namespace lpmm {

// Reads a file of at most 64 MB; members are found fast. Throws RunError naming the file.
nlohmann::json read_sorted_json(const std::string& path);

// The getters below throw RunError. A member that is null counts as one that is not there.
class Part {
 public:
  Part(const nlohmann::json& json, std::string file, std::string name);

  const nlohmann::json& json() const { return *json_; }
  const std::string& file() const { return file_; }
  RunError refusal(std::string_view what) const;  // FILE: NAME: what
  bool has(const char* key) const;
  bool is_text(const char* key) const;
  Part at(const char* key) const;
  std::vector<Part> list(const char* key) const;
  std::string text(const char* key) const;
  std::string text(const char* key, const char* otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const;
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high, std::int64_t otherwise) const;

  double number(const char* key, double otherwise) const;
  std::vector<std::int32_t> ids(const char* key) const;  // a list, not empty, of ids below 2^24
  std::int32_t named_id(const char* key) const;          // ["[SEP]", 102]

 private:
  const nlohmann::json& member(const char* key) const;
  std::int32_t id(const nlohmann::json& value) const;

  const nlohmann::json* json_;  // of a document that outlives this
  std::string file_, name_;
};

RunError unsupported(const Part& part, std::string_view kind, const std::string& type,
                     std::span<const std::string_view> known);

// Calls the .make of the row whose .name is the part's "type".
template <class Rows>
auto make_by_type(const Part& part, std::string_view kind, const Rows& rows) {
  const std::string type = part.text("type");
  std::vector<std::string_view> known;
  for (const auto& row : rows) {
    if (row.name == type) return row.make(part);
    known.push_back(row.name);
  }
  throw unsupported(part, kind, type, known);
}

}  // namespace lpmm
