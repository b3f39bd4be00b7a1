#include "models/published/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "kernels/formats/codec.h"
#include "lpmm/base/error.h"
#include "lpmm/files/half.h"
#include "models/published/config.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTypesFile = "weight_types.json";

constexpr StoredType kStoredTypes[] = {
    {"fp32", "F32", "float32", 4}, {"bf16", "BF16", "bfloat16", 2}, {"fp16", "F16", "float16", 2}};

}  // namespace

const StoredType& full_type() {
  return kStoredTypes[0];
}

const StoredType* find_type(std::string_view name) {
  constexpr std::string_view kTorch = "torch.";
  if (name.starts_with(kTorch)) name.remove_prefix(kTorch.size());
  const auto row = std::ranges::find_if(kStoredTypes, [&](const StoredType& type) {
    return name == type.name || name == type.stored || name == type.theirs;
  });
  return row == std::end(kStoredTypes) ? nullptr : &*row;
}

const StoredType& exported_type(const PublishedFacts& facts) {
  std::string asked = facts.type;
  const std::string beside = (fs::path(facts.files) / "config.json").string();
  std::error_code error;
  if (asked.empty() && !facts.files.empty() && fs::exists(beside, error)) {
    const PublishedConfig said(beside);
    asked = said.text(said.has("dtype") ? "dtype" : "torch_dtype");
  }
  const StoredType* found = find_type(asked);
  return found == nullptr ? full_type() : *found;
}

ExportedTypes::ExportedTypes(const PublishedFacts& facts) : most_(&exported_type(facts)) {
  const fs::path kept = fs::path(facts.files) / kTypesFile;
  std::error_code error;
  if (!facts.type.empty() || facts.files.empty() || !fs::exists(kept, error)) return;
  const PublishedConfig types(kept.string());
  for (const auto& [name, value] : types.json().items()) others_[name] = find_type(types.text(name));
}

const StoredType& ExportedTypes::of(const std::string& name) const {
  const auto at = others_.find(name);
  return at == others_.end() || at->second == nullptr ? *most_ : *at->second;
}

void keep_types(const std::map<std::string, std::string>& others, const std::string& to) {
  write_text((fs::path(to) / kTypesFile).string(), Json(others).dump(2) + "\n");
}

SafetensorsSource::Sink narrowed(const SafetensorsSource::Sink& sink, const StoredType& type,
                                 const std::string& name) {
  if (type.bytes == 4) return sink;
  return [sink, &type, name](std::span<const std::byte> bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(values)).begin());
    std::vector<std::uint16_t> narrow;
    narrow.reserve(values.size());
    for (const float x : values) {
      narrow.push_back(type.name == "bf16" ? float_to_bf16(x) : float_to_half(x));
      if (type.name == "fp16" && std::isinf(half_to_float(narrow.back()))) {
        throw RunError(
            fmt::format("{} holds {}, which is too large for fp16; export it as bf16 or fp32", name, x));
      }
    }
    sink(std::as_bytes(std::span(std::as_const(narrow))));
  };
}

}  // namespace lpmm
