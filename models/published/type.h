// The type that exported weights are of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lpmm/files/safetensors.h"
#include "lpmm/program/published_facts.h"

namespace lpmm {

// The names of a type in lpmm, safetensors and config.json, and the bytes of a number.
struct StoredType {
  std::string_view name, stored, theirs;
  std::int64_t bytes;
};
const StoredType& full_type();  // fp32
// Finds a type by any of its names, or PyTorch's ("torch.float16"); null: none of these.
const StoredType* find_type(std::string_view name);
// The type that is asked for, else the one that the kept config.json says, else fp32.
const StoredType& exported_type(const PublishedFacts& facts);
// The types of exported tensors. If none is asked for, those that were published in another type than most
// have their own.
class ExportedTypes {
 public:
  // Throws RunError for a kept file that cannot be read.
  explicit ExportedTypes(const PublishedFacts& facts);
  const StoredType& of(const std::string& name) const;  // `name` is the publisher's

 private:
  const StoredType* most_;
  std::map<std::string, const StoredType*> others_;
};
// Keeps the names of types of tensors for ExportedTypes in the folder `to`.
void keep_types(const std::map<std::string, std::string>& others, const std::string& to);
// Takes fp32 values of the tensor `name`, and gives them on in that type. Throws RunError for a value that is
// too large for fp16.
SafetensorsSource::Sink narrowed(const SafetensorsSource::Sink& sink, const StoredType& type,
                                 const std::string& name);

}  // namespace lpmm
