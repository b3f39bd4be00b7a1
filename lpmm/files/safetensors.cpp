#include "lpmm/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lpmm/base/error.h"
#include "lpmm/files/json.h"

namespace lpmm {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the reference reader
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
constexpr std::size_t kDeepest = 4;  // header, tensor, its arrays; anything deeper is no safetensors

constexpr std::pair<std::string_view, std::uint64_t> kTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
    {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8}};

std::uint64_t type_bytes(std::string_view dtype) {  // 0: unknown
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

// Bytes of a tensor; throws where the shape is negative or the product too large.
std::uint64_t tensor_bytes(std::string_view dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = type_bytes(dtype);
  if (bytes == 0) throw RunError(fmt::format("has the unknown type \"{}\"", dtype));
  for (const std::int64_t extent : shape) {
    const auto e = static_cast<std::uint64_t>(extent);
    if (extent < 0 || (e > 0 && bytes > kMostBytes / e)) throw RunError("has a shape that is too large");
    bytes *= e;
  }
  return bytes;
}

// A JSON number that is a non-negative integer below 2^62.
std::int64_t whole(const Json& j) {
  if (!j.is_number_unsigned() || j.get<std::uint64_t>() >= kMostBytes) {
    throw RunError("has a number where an integer from 0 was expected");
  }
  return j.get<std::int64_t>();
}

Json parse_header(const std::string& text) {
  try {
    return parse_json(text, kDeepest, SameNames::kRefused);
  } catch (const Json::exception&) {
    throw RunError("its header is no JSON");
  } catch (const RunError& e) {
    throw RunError(fmt::format("its header {}", e.what()));
  }
}

SafetensorsEntry parse_entry(const std::string& name, const Json& j, std::uint64_t data, std::uint64_t size) {
  if (!j.is_object() || j.size() != 3 || !j.contains("dtype") || !j.contains("shape") ||
      !j.contains("data_offsets")) {
    throw RunError("is not described by dtype, shape and data_offsets");
  }
  const Json &dtype = j["dtype"], &shape = j["shape"], &offsets = j["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    throw RunError("has a dtype, shape or data_offsets of the wrong type");
  }
  SafetensorsEntry e{name, dtype.get<std::string>(), {}, 0, 0};
  for (const Json& extent : shape) e.shape.push_back(whole(extent));
  const auto begin = static_cast<std::uint64_t>(whole(offsets[0]));
  const auto end = static_cast<std::uint64_t>(whole(offsets[1]));
  e.bytes = tensor_bytes(e.dtype, e.shape);
  if (begin > end || end > size - data) {
    throw RunError(
        fmt::format("lies at bytes {} to {}, the file has {} bytes of data", begin, end, size - data));
  }
  if (end - begin != e.bytes) {
    throw RunError(fmt::format("takes {} bytes, its type and shape need {}", end - begin, e.bytes));
  }
  e.offset = data + begin;
  return e;
}

// Indices of the tensors in the order they are laid out.
std::vector<std::size_t> layout(std::span<const SafetensorsSource> tensors) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return type_bytes(tensors[a].dtype) > type_bytes(tensors[b].dtype);
  });
  return order;
}

// The header with its length in front, padded so that the data starts at a multiple of 8.
std::string header_of(const Metadata& metadata, std::span<const SafetensorsSource> tensors,
                      std::uint64_t* data_bytes) {
  Json header = Json::object();
  auto& members = header.get_ref<Json::object_t&>();  // its [] would look through all of them
  if (!metadata.empty()) members.emplace_back("__metadata__", metadata);
  std::uint64_t offset = 0;
  for (const std::size_t i : layout(tensors)) {
    const SafetensorsSource& t = tensors[i];
    const std::uint64_t bytes = tensor_bytes(t.dtype, t.shape);
    members.emplace_back(
        t.name, Json{{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {offset, offset + bytes}}});
    offset += bytes;
  }
  *data_bytes = offset;
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::type_error&) {
    throw RunError("a name in a safetensors file is not UTF-8, which it must be: rename the tensor");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path, File::Mode::kRead) {
  const auto refuse = [&](const std::string& what) -> void {
    throw RunError(fmt::format("{}: {}", path, what));
  };
  const std::uint64_t size = file_.size();
  std::string begin(std::min<std::uint64_t>(size, 32), '\0');
  file_.read(0, std::as_writable_bytes(std::span(begin)));
  refuse_stand_in(path, begin);
  std::uint64_t length = 0;
  if (size < 8) refuse(fmt::format("is no safetensors file: {} bytes, at least 8 were expected", size));
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > size - 8 || length > kLongestHeader) {
    refuse(fmt::format("is no safetensors file or is truncated: a header of {} bytes in a file of {}", length,
                       size));
  }
  std::string text(length, '\0');
  file_.read(8, std::as_writable_bytes(std::span(text)));
  std::string name;
  try {
    const Json header = parse_header(text);
    if (!header.is_object()) throw RunError("its header is no JSON object");
    for (const auto& [key, item] : header.items()) {
      name = key;
      if (key != "__metadata__") {
        entries_.push_back(parse_entry(key, item, 8 + length, size));
        continue;
      }
      if (!item.is_object()) throw RunError("is no object of strings");
      for (const auto& [k, v] : item.items()) {
        if (!v.is_string()) throw RunError("is no object of strings");
        metadata_[k] = v.get<std::string>();
      }
    }
  } catch (const RunError& e) {
    refuse(name.empty() ? e.what() : fmt::format("tensor {} {}", name, e.what()));
  }
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
                   });
  std::uint64_t at = 8 + length;
  for (const SafetensorsEntry& e : entries_) {
    if (e.offset != at) {
      refuse(fmt::format("tensor {} starts at byte {}, {} was expected: tensors overlap or leave a gap",
                         e.name, e.offset, at));
    }
    at += e.bytes;
  }
  if (at != size) refuse(fmt::format("has {} bytes, its tensors end at {}", size, at));
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::sort(by_name_, {}, [&](std::size_t i) -> const std::string& { return entries_[i].name; });
}

const SafetensorsEntry* SafetensorsFile::find(const std::string& name) const {
  const auto at = std::ranges::lower_bound(
      by_name_, name, {}, [&](std::size_t i) -> const std::string& { return entries_[i].name; });
  return at == by_name_.end() || entries_[*at].name != name ? nullptr : &entries_[*at];
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::uint64_t first,
                           std::span<std::byte> out) const {
  if (first > entry.bytes || out.size() > entry.bytes - first) {
    throw RunError(fmt::format("{}: tensor {} has {} bytes, {} from {} were asked for", path(), entry.name,
                               entry.bytes, out.size(), first));
  }
  file_.read(entry.offset + first, out);
}

std::uint64_t safetensors_bytes(const Metadata& metadata, std::span<const SafetensorsSource> tensors) {
  std::uint64_t data = 0;
  const std::uint64_t header = header_of(metadata, tensors, &data).size();
  return header + data;
}

void emit_tensors(std::span<const SafetensorsSource> tensors, const SafetensorsSource::Sink& sink) {
  for (const std::size_t i : layout(tensors)) {
    std::uint64_t bytes = 0;
    tensors[i].emit([&](std::span<const std::byte> piece) {
      bytes += piece.size();
      sink(piece);
    });
    if (bytes != tensor_bytes(tensors[i].dtype, tensors[i].shape))
      throw std::logic_error("safetensors: a source wrote another length than its shape");
  }
}

WrittenFile write_safetensors(const std::string& path, const Metadata& metadata,
                              std::span<const SafetensorsSource> tensors) {
  NewFile file(path);
  WrittenFile out;
  const SafetensorsSource::Sink sink = [&](std::span<const std::byte> bytes) {
    file.file().write(bytes);
    out.crc32 = crc32(bytes, out.crc32);
    out.bytes += bytes.size();
  };
  std::uint64_t data = 0;
  const std::string header = header_of(metadata, tensors, &data);
  sink(std::as_bytes(std::span(header)));
  emit_tensors(tensors, sink);
  file.keep();
  return out;
}

}  // namespace lpmm
