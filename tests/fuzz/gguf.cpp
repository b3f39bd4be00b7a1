// GGUF files: the header, the model's settings and tokenizer, and the values of every tensor.
#include "models/gguf/file.h"

#include <vector>

#include "models/gguf/gguf.h"
#include "models/gguf/tensors.h"
#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  file.set(bytes);
  const lpmm::GgufFile opened(file.path());
  for (const lpmm::GgufTensor& tensor : opened.tensors()) {
    lpmm::fuzz::must(tensor.offset <= bytes.size() && tensor.bytes <= bytes.size() - tensor.offset);
  }
  lpmm::fuzz::read([&] { const lpmm::UnpackedGguf folder(file.path()); });
  const lpmm::GgufTensors tensors(file.path());
  for (const lpmm::SafetensorsEntry& entry : tensors.entries()) {
    lpmm::fuzz::must(entry.bytes <= 32 * bytes.size());  // 4 bytes of a weight that takes no bit less than 1
    lpmm::fuzz::must(entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16");
    std::vector<std::byte> values(entry.bytes);
    tensors.read(entry, 0, values);
  }
}
