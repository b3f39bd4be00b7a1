#include "models/gguf/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"

namespace lpmm {
namespace {

static_assert(std::endian::native == std::endian::little, "a GGUF is little-endian here");

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kMostKeys = 4096, kMostValues = 1 << 22, kMostTensors = 1 << 17, kMostDimensions = 4,
                        kMostElements = std::uint64_t{1} << 48, kUsualAlignment = 32,
                        kMostAlignment = 1 << 16;
constexpr const char* kAlignment = "general.alignment";

// The types of stored values, with the numbers that the format gives them.
enum Kind : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kList, kU64, kI64, kF64 };

std::uint64_t aligned(std::uint64_t at, std::uint64_t alignment) {
  return (at + alignment - 1) / alignment * alignment;
}

// Reads a file from its beginning, in large pieces.
class Cursor {
 public:
  explicit Cursor(const File& file) : file_(file), size_(file.size()) {}

  std::uint64_t at() const { return at_; }
  RunError refusal(const std::string& what) const {
    return RunError(fmt::format("{}: is a damaged GGUF: {}", file_.path(), what));
  }
  template <class T>
  T number() {
    T value{};
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::string text() {
    const auto bytes = number<std::uint64_t>();
    expect_left(bytes);
    std::string value(bytes, '\0');
    take(std::as_writable_bytes(std::span(value)));
    return value;
  }
  void expect_left(std::uint64_t bytes) const {
    if (bytes > size_ - at_) throw refusal("it ends within its header");
  }
  Json value(const std::string& key, std::uint32_t kind, bool may_be_list);

 private:
  void take(std::span<std::byte> out) {
    expect_left(out.size());
    constexpr std::uint64_t kPiece = 1 << 20;
    for (std::size_t done = 0; done < out.size();) {
      if (at_ < begin_ || at_ >= begin_ + piece_.size()) {
        begin_ = at_;
        piece_.resize(std::min(kPiece, size_ - at_));
        file_.read(begin_, piece_);
      }
      const std::size_t from = at_ - begin_, bytes = std::min(out.size() - done, piece_.size() - from);
      std::memcpy(out.data() + done, piece_.data() + from, bytes);
      done += bytes;
      at_ += bytes;
    }
  }

  Json finite(const std::string& key, double value) const {
    if (std::isfinite(value)) return value;
    throw refusal(fmt::format("{} has a number that is not finite", printable(key)));
  }

  const File& file_;
  std::uint64_t size_, at_ = 0, begin_ = 0, values_ = 0;
  std::vector<std::byte> piece_;
};

// The fp64 that prints as the fp32 does, so that 1e-5 stays 1e-5.
double as_printed(float value) {
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

Json Cursor::value(const std::string& key, std::uint32_t kind, bool may_be_list) {
  if (++values_ > kMostValues) throw refusal("it has too many values");
  switch (kind) {
    case kU8:
      return number<std::uint8_t>();
    case kI8:
      return number<std::int8_t>();
    case kU16:
      return number<std::uint16_t>();
    case kI16:
      return number<std::int16_t>();
    case kU32:
      return number<std::uint32_t>();
    case kI32:
      return number<std::int32_t>();
    case kF32:
      return finite(key, as_printed(number<float>()));
    case kBool:
      return number<std::uint8_t>() != 0;
    case kText:
      return text();
    case kU64:
      return number<std::uint64_t>();
    case kI64:
      return number<std::int64_t>();
    case kF64:
      return finite(key, number<double>());
    default:
      break;
  }
  if (kind != kList || !may_be_list)
    throw refusal(fmt::format("{} is of the unknown type {}", printable(key), kind));
  const auto of = number<std::uint32_t>();
  const auto count = number<std::uint64_t>();
  expect_left(count);
  Json list = Json::array();
  for (std::uint64_t i = 0; i < count; ++i) list.push_back(value(key, of, false));
  return list;
}

Json read_keys(Cursor& from, std::uint64_t count) {
  if (count > kMostKeys) throw from.refusal(fmt::format("it has {} keys", count));
  Json keys = Json::object();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = from.text();
    const auto kind = from.number<std::uint32_t>();
    if (keys.contains(name)) throw from.refusal(fmt::format("it has {} twice", printable(name)));
    keys[name] = from.value(name, kind, true);
  }
  return keys;
}

GgufTensor read_tensor(Cursor& from) {
  GgufTensor tensor;
  tensor.name = from.text();
  const auto refuse = [&](const std::string& what) {
    throw from.refusal(fmt::format("{} {}", printable(tensor.name), what));
  };
  const auto dimensions = from.number<std::uint32_t>();
  if (dimensions < 1 || dimensions > kMostDimensions) refuse(fmt::format("has {} dimensions", dimensions));
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = from.number<std::uint64_t>();
    if (extent < 1 || extent > kMostElements / elements) refuse("has a shape that is empty or too large");
    elements *= extent;
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(extent));
  }
  const auto type = from.number<std::uint32_t>();
  tensor.type = find_gguf_type(type);
  if (tensor.type == nullptr) {
    throw RunError(
        fmt::format("{} is of ggml's type {}, which is not read; there are {}: take another file of "
                    "the same model, best one of bf16 or f16",
                    printable(tensor.name), type, gguf_type_names()));
  }
  if (tensor.columns() % tensor.type->elements != 0) refuse("has rows that are no whole blocks");
  tensor.bytes = elements / static_cast<std::uint64_t>(tensor.type->elements) *
                 static_cast<std::uint64_t>(tensor.type->bytes);
  tensor.offset = from.number<std::uint64_t>();
  return tensor;
}

std::uint64_t alignment_of(const Json& keys) {
  const auto at = keys.find(kAlignment);
  if (at == keys.end() || !at->is_number_unsigned()) return kUsualAlignment;
  return std::clamp<std::uint64_t>(at->get<std::uint64_t>(), 1, kMostAlignment);
}

// ---- writing -------------------------------------------------------------------------------------------------
template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, const std::string& text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

Kind kind_of(const Json& value) {
  if (value.is_boolean()) return kBool;
  if (value.is_string()) return kText;
  if (value.is_number_float()) return kF32;
  if (value.is_array()) return kList;
  const auto whole = value.get<std::int64_t>();
  if (whole >= 0 && whole <= UINT32_MAX) return kU32;
  return whole >= INT32_MIN && whole < 0 ? kI32 : kI64;
}

void put_value(std::string& out, const Json& value, Kind kind) {
  if (kind == kBool) return put<std::uint8_t>(out, value.get<bool>() ? 1 : 0);
  if (kind == kText) return put_text(out, value.get<std::string>());
  if (kind == kF32) return put(out, value.get<float>());
  if (kind == kU32) return put(out, value.get<std::uint32_t>());
  if (kind == kI32) return put(out, value.get<std::int32_t>());
  if (kind == kI64) return put(out, value.get<std::int64_t>());
  // Numbers of a list are of one kind: i32, as llama.cpp wants those of its tokens.
  Kind of = value.empty() ? kI32 : kind_of(value[0]);
  if (of == kU32) of = kI32;
  put<std::uint32_t>(out, of);
  put<std::uint64_t>(out, value.size());
  for (const Json& one : value) put_value(out, one, of);
}

std::uint64_t bytes_of(const GgufSource& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : tensor.shape) elements *= extent;
  return static_cast<std::uint64_t>(elements / tensor.type->elements * tensor.type->bytes);
}

// Its values in blocks, whatever pieces they come in.
std::uint64_t put_tensor(File& file, const GgufSource& tensor) {
  const auto block = static_cast<std::size_t>(tensor.type->elements);
  std::vector<float> waiting;
  std::vector<std::byte> encoded;
  std::uint64_t bytes = 0;
  const auto encode = [&](std::span<const float> values) {
    encoded.resize(values.size() / block * static_cast<std::size_t>(tensor.type->bytes));
    for (std::size_t i = 0; i < values.size() / block; ++i) {
      tensor.type->encode(&values[i * block], &encoded[i * static_cast<std::size_t>(tensor.type->bytes)]);
    }
    file.write(encoded);
    bytes += encoded.size();
  };
  tensor.emit([&](std::span<const float> values) {
    while (!values.empty()) {
      const bool is_whole = waiting.empty() && values.size() >= block;
      const std::size_t count =
          is_whole ? values.size() / block * block : std::min(block - waiting.size(), values.size());
      if (is_whole) {
        encode(values.first(count));
      } else {
        waiting.insert(waiting.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
        if (waiting.size() == block) {
          encode(waiting);
          waiting.clear();
        }
      }
      values = values.subspan(count);
    }
  });
  return bytes;
}

}  // namespace

std::int64_t GgufTensor::rows() const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
  return count;
}

GgufFile::GgufFile(const std::string& path) : file_(path, File::Mode::kRead) {
  Cursor from(file_);
  if (from.number<std::uint32_t>() != std::uint32_t{0x46554747}) {
    throw RunError(fmt::format("{}: is no GGUF", path));
  }
  const auto version = from.number<std::uint32_t>();
  if (version != 2 && version != kVersion) {
    throw RunError(fmt::format("{}: is a GGUF of version {}; 2 and 3 are read", path, version));
  }
  const auto count = from.number<std::uint64_t>(), keys = from.number<std::uint64_t>();
  if (count > kMostTensors) throw from.refusal(fmt::format("it has {} tensors", count));
  keys_ = read_keys(from, keys);
  for (std::uint64_t i = 0; i < count; ++i) tensors_.push_back(read_tensor(from));
  const std::uint64_t alignment = alignment_of(keys_), begin = aligned(from.at(), alignment),
                      size = file_.size();
  std::set<std::string> names;
  std::vector<const GgufTensor*> places;
  for (GgufTensor& tensor : tensors_) {
    if (!names.insert(tensor.name).second) {
      throw from.refusal(fmt::format("it has {} twice", printable(tensor.name)));
    }
    if (begin > size || tensor.offset > size - begin || tensor.bytes > size - begin - tensor.offset) {
      throw from.refusal(
          fmt::format("it ends before the end of {}: was it downloaded whole?", printable(tensor.name)));
    }
    if (tensor.offset % alignment != 0) {
      throw from.refusal(fmt::format("{} begins at byte {}, no multiple of {}", printable(tensor.name),
                                     tensor.offset, alignment));
    }
    tensor.offset += begin;
    places.push_back(&tensor);
  }
  std::ranges::sort(places, {}, &GgufTensor::offset);
  const auto at = std::ranges::adjacent_find(places, [](const GgufTensor* one, const GgufTensor* next) {
    return one->offset + one->bytes > next->offset;
  });
  if (at != places.end())
    throw from.refusal(fmt::format("{} and {} overlap", printable(at[0]->name), printable(at[1]->name)));
}

const GgufTensor* GgufFile::find(const std::string& name) const {
  const auto at = std::ranges::find(tensors_, name, &GgufTensor::name);
  return at == tensors_.end() ? nullptr : &*at;
}

void GgufFile::read(const GgufTensor& tensor, std::uint64_t first, std::span<std::byte> out) const {
  file_.read(tensor.offset + first, out);
}

std::uint64_t write_gguf(const std::string& path, const Json& keys, std::span<const GgufSource> tensors) {
  std::string header(kMagic);
  put(header, kVersion);
  put<std::uint64_t>(header, tensors.size());
  put<std::uint64_t>(header, keys.size());
  for (const auto& [name, value] : keys.items()) {
    put_text(header, name);
    put<std::uint32_t>(header, kind_of(value));
    put_value(header, value, kind_of(value));
  }
  std::uint64_t offset = 0;
  for (const GgufSource& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto at = tensor.shape.rbegin(); at != tensor.shape.rend(); ++at) {
      put(header, static_cast<std::uint64_t>(*at));
    }
    put(header, tensor.type->id);
    put(header, offset);
    offset = aligned(offset + bytes_of(tensor), kUsualAlignment);
  }
  header.resize(aligned(header.size(), kUsualAlignment), '\0');
  NewFile file(path);
  file.file().write(std::as_bytes(std::span(header)));
  const std::vector<std::byte> zeros(kUsualAlignment);
  for (const GgufSource& tensor : tensors) {
    const std::uint64_t bytes = put_tensor(file.file(), tensor);
    file.file().write(std::span(zeros).first(aligned(bytes, kUsualAlignment) - bytes));
  }
  file.keep();
  return header.size() + offset;
}

}  // namespace lpmm
