#include "lpmm/files/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

using Members = Json::object_t;

// Builds a document from the parser's calls; members are appended, and looked at for the same names when
// their object is complete.
class JsonBuilder {
 public:
  JsonBuilder(std::size_t deepest, SameNames same) : deepest_(deepest), same_(same) {}
  Json take() { return std::move(root_); }

  bool null() { return add({}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON has none
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool end_object() {
    settle(open_.back()->get_ref<Members&>());
    return close();
  }
  bool key(std::string& name) {
    open_.back()->get_ref<Members&>().emplace_back(std::move(name), nullptr);
    return true;
  }
  template <class Error>
  bool parse_error(std::size_t, const std::string&, const Error& error) {
    throw error;
  }

 private:
  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return open_.back()->get_ref<Members&>().back().second = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= deepest_) throw RunError("is nested too deeply");
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  void settle(Members& members) const {
    std::unordered_map<std::string_view, std::size_t> places;
    for (const auto& [name, value] : members) {
      if (places.emplace(name, places.size()).second) continue;
      if (same_ == SameNames::kRefused) throw RunError(fmt::format("names {} twice", Json(name).dump()));
    }
    if (places.size() == members.size()) return;
    Members all;
    all.reserve(places.size());
    for (auto& [name, value] : members) {
      const std::size_t at = places.at(name);
      if (at == all.size()) {
        all.emplace_back(name, std::move(value));
      } else {
        all.begin()[static_cast<std::ptrdiff_t>(at)].second = std::move(value);
      }
    }
    members.swap(all);
  }

  std::size_t deepest_;
  SameNames same_;
  Json root_;
  std::vector<Json*> open_;
};

}  // namespace

Json parse_json(const std::string& text, std::size_t deepest, SameNames same) {
  // The parser takes a zero byte for the end.
  if (text.find('\0') != std::string::npos) throw RunError("holds a zero byte, which JSON does not");
  JsonBuilder builder(deepest, same);
  Json::sax_parse(text, &builder);
  return builder.take();
}

std::string with_named_numbers(std::string text) {
  constexpr std::string_view kNames[] = {"NaN", "-Infinity", "Infinity"};
  if (std::ranges::none_of(kNames, [&](auto name) { return text.find(name) != text.npos; })) return text;
  std::string out;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const auto* name = std::ranges::find_if(kNames, [&](auto n) { return !quoted && rest.starts_with(n); });
    if (rest[0] == '"') quoted = !quoted;
    const bool named = name != std::end(kNames);
    const std::size_t bytes = named ? name->size() : quoted && rest[0] == '\\' ? 2 : 1;
    out.append(named ? "\"" : "").append(rest.substr(0, bytes)).append(named ? "\"" : "");
    at += bytes;
  }
  return out;
}

Json read_json(const std::string& path, std::uint64_t limit) {
  const std::string text = read_text(path, limit);
  try {
    return parse_json(with_named_numbers(text));
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}: {}", path, error_text(e)));
  }
}

std::int64_t to_count(const Json& value, const std::string& what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMost) {
    throw RunError(fmt::format("{} is {}", what, value.dump()));
  }
  return value.get<std::int64_t>();
}

}  // namespace lpmm
