// The tensors of a GGUF as transformers has them: its names, shapes and order of rows, values as they are or,
// where they are in blocks, as the fp32 that these stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lpmm/files/safetensors.h"
#include "models/gguf/file.h"
#include "models/gguf/layout.h"

namespace lpmm {

class GgufTensors final : public TensorFile {
 public:
  // Throws RunError for a file that is damaged, or of a kind that is not here.
  explicit GgufTensors(const std::string& path);
  const std::string& path() const override { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const override { return entries_; }
  const SafetensorsEntry* find(const std::string& name) const override;
  void read(const SafetensorsEntry& entry, std::uint64_t first, std::span<std::byte> out) const override;

 private:
  // The tensor that an entry is read from, and its layout there.
  struct Place {
    const GgufTensor* tensor;
    RowOrder order;
    bool is_turned;
    float shift;  // shift_of()
  };
  void add(const GgufTensor& tensor);
  void read_shifted(const GgufTensor& tensor, std::int64_t first, float shift,
                    std::span<std::byte> out) const;
  // Elements [first, first + count) as they lie in the file.
  void read_run(const GgufTensor& tensor, std::int64_t first, std::int64_t count, std::byte* out) const;

  GgufFile file_;
  const GgufModel& model_;
  Json config_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<Place> places_;  // of the entries
};

}  // namespace lpmm
