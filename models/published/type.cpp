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
constexpr std::uint64_t kLongest = 64 << 20;

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

ExportedTypes::ExportedTypes(const PublishedFacts& facts) {
  std::string asked = facts.type;
  const fs::path kept = facts.files;
  std::error_code error;
  if (asked.empty() && !kept.empty() && fs::exists(kept / "config.json", error)) {
    const PublishedConfig said((kept / "config.json").string());
    asked = said.text(said.has("dtype") ? "dtype" : "torch_dtype");
    if (fs::exists(kept / kTypesFile, error)) {
      const Json types = read_json((kept / kTypesFile).string(), kLongest);
      for (const auto& [name, type] : types.items())
        others_[name] = type.is_string() ? type.get<std::string>() : "";
    }
  }
  const StoredType* found = find_type(asked);
  most_ = found == nullptr ? &full_type() : found;
}

const StoredType& ExportedTypes::of(const std::string& name) const {
  const auto at = others_.find(name);
  const StoredType* found = at == others_.end() ? most_ : find_type(at->second);
  return found == nullptr ? *most_ : *found;
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
