// safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes without gaps.
// https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lpmm/files/files.h"

namespace lpmm {

using Metadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "U8", "BF16", "F32", ...
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0, bytes = 0;  // in the file
};

// Named tensors in a file, whatever its form.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::string& path() const = 0;
  virtual const std::vector<SafetensorsEntry>& entries() const = 0;         // in the order of the bytes
  virtual const SafetensorsEntry* find(const std::string& name) const = 0;  // null where there is none
  // Bytes [first, first + out.size()) of a tensor.
  virtual void read(const SafetensorsEntry& entry, std::uint64_t first, std::span<std::byte> out) const = 0;
};

// Opens a file and checks its header against it before anything is used: header length, types, shapes that
// do not overflow, offsets in range, in order and without gap or overlap, no name twice. Throws RunError.
class SafetensorsFile final : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  const std::string& path() const override { return file_.path(); }
  const Metadata& metadata() const { return metadata_; }
  const std::vector<SafetensorsEntry>& entries() const override { return entries_; }
  const SafetensorsEntry* find(const std::string& name) const override;
  void read(const SafetensorsEntry& entry, std::uint64_t first, std::span<std::byte> out) const override;

 private:
  File file_;
  Metadata metadata_;
  std::vector<SafetensorsEntry> entries_;
  std::vector<std::size_t> by_name_;  // places in entries_, in the order of their names
};

// A tensor to write. `emit` hands its bytes to the sink, in order, in pieces of any size.
struct SafetensorsSource {
  using Sink = std::function<void(std::span<const std::byte>)>;
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::function<void(const Sink&)> emit;
};

struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
};

// Hands over the bytes of all tensors, in the order of the file.
void emit_tensors(std::span<const SafetensorsSource> tensors, const SafetensorsSource::Sink& sink);
// Bytes the file will have.
std::uint64_t safetensors_bytes(const Metadata& metadata, std::span<const SafetensorsSource> tensors);
// Writes the file through NewFile and syncs it. Wider types come first, so that every tensor is aligned to
// its type.
WrittenFile write_safetensors(const std::string& path, const Metadata& metadata,
                              std::span<const SafetensorsSource> tensors);

}  // namespace lpmm
