#include "models/gguf/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "models/gguf/rotary.h"

namespace lpmm {
namespace {

// Bytes of an element as this hands it out.
std::int64_t element_bytes(const GgufType& type) {
  return type.stored.empty() ? static_cast<std::int64_t>(sizeof(float)) : type.bytes;
}

}  // namespace

GgufTensors::GgufTensors(const std::string& path)
    : file_(path), model_(gguf_model(file_)), config_(config_of(file_, model_)) {
  for (const GgufTensor& tensor : file_.tensors()) {
    if (!is_rotary_tensor(model_, tensor.name)) add(tensor);  // config_of() reads those
  }
}

void GgufTensors::add(const GgufTensor& tensor) {
  SafetensorsEntry entry{
      .name = transformers_name(model_, tensor.name), .dtype = "F32", .shape = tensor.shape};
  if (entry.name.empty()) {
    throw RunError(fmt::format("{}: holds the tensor {}, which a {} has not", path(), printable(tensor.name),
                               model_.type));
  }
  if (!tensor.type->stored.empty()) entry.dtype = tensor.type->stored;
  const bool turned = is_turned(model_, tensor.name) && tensor.shape.size() == 2;
  if (turned) std::swap(entry.shape[0], entry.shape[1]);
  entry.bytes = static_cast<std::uint64_t>(tensor.rows() * tensor.columns() * element_bytes(*tensor.type));
  // A vector is so many rows of one.
  const std::int64_t rows = tensor.shape.size() == 1 ? tensor.columns() : tensor.rows();
  const float shift = shift_of(model_, tensor.name);
  if (shift != 0 && entry.dtype != "F32") {
    throw RunError(fmt::format("{}: {} is {}, expected F32", path(), printable(tensor.name), entry.dtype));
  }
  places_.push_back({&tensor, row_order(model_, config_, tensor.name, rows), turned, shift});
  entries_.push_back(std::move(entry));
}

const SafetensorsEntry* GgufTensors::find(const std::string& name) const {
  const auto at = std::ranges::find(entries_, name, &SafetensorsEntry::name);
  return at == entries_.end() ? nullptr : &*at;
}

void GgufTensors::read_run(const GgufTensor& tensor, std::int64_t first, std::int64_t count,
                           std::byte* out) const {
  const GgufType& type = *tensor.type;
  if (!type.stored.empty()) {
    return file_.read(tensor, static_cast<std::uint64_t>(first * type.bytes),
                      {out, static_cast<std::size_t>(count * type.bytes)});
  }
  constexpr std::int64_t kBlocksAtOnce = 1024;
  std::vector<std::byte> blocks;
  std::vector<float> values(static_cast<std::size_t>(type.elements));
  while (count > 0) {
    const std::int64_t block = first / type.elements, skip = first % type.elements;
    const std::int64_t many = std::min(kBlocksAtOnce, (skip + count + type.elements - 1) / type.elements);
    blocks.resize(static_cast<std::size_t>(many * type.bytes));
    file_.read(tensor, static_cast<std::uint64_t>(block * type.bytes), blocks);
    for (std::int64_t i = 0; i < many; ++i) {
      type.decode(blocks.data() + i * type.bytes, values.data());
      const std::int64_t from = i == 0 ? skip : 0, taken = std::min(type.elements - from, count);
      std::memcpy(out, values.data() + from, static_cast<std::size_t>(taken) * sizeof(float));
      out += taken * static_cast<std::int64_t>(sizeof(float));
      first += taken;
      count -= taken;
    }
  }
}

void GgufTensors::read_shifted(const GgufTensor& tensor, std::int64_t first, float shift,
                               std::span<std::byte> out) const {
  std::vector<float> values(out.size() / sizeof(float));
  read_run(tensor, first, std::ssize(values), std::as_writable_bytes(std::span(values)).data());
  for (float& v : values) v -= shift;
  std::memcpy(out.data(), values.data(), out.size());
}

void GgufTensors::read(const SafetensorsEntry& entry, std::uint64_t first, std::span<std::byte> out) const {
  const Place& place = places_[static_cast<std::size_t>(&entry - entries_.data())];
  const GgufTensor& tensor = *place.tensor;
  const std::int64_t bytes = element_bytes(*tensor.type);
  const auto begin = static_cast<std::int64_t>(first) / bytes;
  const std::int64_t count = std::ssize(out) / bytes;
  if (place.shift != 0) return read_shifted(tensor, begin, place.shift, out);
  if (place.is_turned) {  // one of a layer, small enough to be held as a whole
    std::vector<std::byte> all(entry.bytes);
    read_run(tensor, 0, tensor.rows() * tensor.columns(), all.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = (begin + i) / tensor.rows(), column = (begin + i) % tensor.rows();
      std::memcpy(out.data() + i * bytes, all.data() + (column * tensor.columns() + row) * bytes,
                  static_cast<std::size_t>(bytes));
    }
    return;
  }
  const std::int64_t columns = tensor.shape.size() == 1 ? 1 : tensor.columns();
  if (place.order.head_rows == 0) return read_run(tensor, begin, count, out.data());
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (begin + done) / columns, column = (begin + done) % columns,
                       taken = std::min(columns - column, count - done);
    read_run(tensor, place.order.in_gguf(row) * columns + column, taken, out.data() + done * bytes);
    done += taken;
  }
}

}  // namespace lpmm
