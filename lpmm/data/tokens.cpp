#include "lpmm/data/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/data/corpus/kept_files.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::string_view kMagic = "lpmmtok\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kLongestDescription = 1 << 24;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPiece = 1 << 22;  // bytes of text

struct TokenHeader {
  char magic[8] = {};
  std::uint32_t version = kVersion, description_bytes = 0;
  std::uint64_t vocabulary = 0, count = 0;
};
static_assert(sizeof(TokenHeader) == 32);

std::size_t id_bytes(std::uint64_t vocabulary) {
  return vocabulary <= 65536 ? 2 : 4;
}

std::size_t ids_start(std::size_t description_bytes) {
  return (sizeof(TokenHeader) + description_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A flat object of a few members, so that a hostile one costs neither stack nor time.
Json parse_description(const std::string& text) {
  int names = 0;
  const auto watch = [&](int depth, Json::parse_event_t event, Json&) {
    if (event == Json::parse_event_t::key) ++names;
    if (depth > 1 || names > 16) throw RunError("has more in it than a tokenizer needs");
    return true;
  };
  try {
    // The parser takes a zero byte for the end.
    if (text.find('\0') != std::string::npos) throw RunError("is no JSON");
    Json description = Json::parse(text, watch);
    if (!description.is_object()) throw RunError("is no JSON object");
    return description;
  } catch (const Json::exception&) {
    throw RunError("is no JSON");
  }
}

template <class Id>
void append_ids(File& file, std::span<const std::int32_t> ids) {
  const std::vector<Id> narrow(ids.begin(), ids.end());
  file.write(std::as_bytes(std::span(narrow)));
}

}  // namespace

struct TokenWriter::State {
  NewFile out;
  const Tokenizer& tokenizer;
  TokenHeader header;
  std::vector<std::int32_t> ids;

  void write_ids() {
    if (id_bytes(header.vocabulary) == 2) {
      append_ids<std::uint16_t>(out.file(), ids);
    } else {
      append_ids<std::uint32_t>(out.file(), ids);
    }
    header.count += ids.size();
    ids.clear();
  }
};

// The number of ids is known at the end.
TokenWriter::TokenWriter(const std::string& path, const Tokenizer& tokenizer, const std::string& made_of)
    : state_(new State{NewFile(path), tokenizer, {}, {}}) {
  if (state_->out.in_place()) {
    throw UsageError(fmt::format("{}: tokens can only be written to an ordinary file", path));
  }
  Json described = tokenizer.describe();
  if (!made_of.empty()) described[kMadeOf] = made_of;
  std::string description = described.dump();
  TokenHeader& header = state_->header;
  std::copy(kMagic.begin(), kMagic.end(), header.magic);
  header.description_bytes = static_cast<std::uint32_t>(description.size());
  header.vocabulary = static_cast<std::uint64_t>(tokenizer.vocabulary());
  description.resize(ids_start(description.size()) - sizeof header);
  state_->out.file().write(std::as_bytes(std::span(&header, 1)));
  state_->out.file().write(std::as_bytes(std::span(description)));
}
TokenWriter::~TokenWriter() = default;

void TokenWriter::add(std::string_view text, const ProgressCall& progress) {
  for (std::size_t at = 0; at < text.size();) {
    at = state_->tokenizer.encode_from(text, at, at + std::min(kPiece, text.size() - at), state_->ids);
    state_->write_ids();
    if (progress) progress(static_cast<std::int64_t>(at), static_cast<std::int64_t>(text.size()));
  }
}

void TokenWriter::add(std::int32_t id) {
  state_->ids.push_back(id);
  state_->write_ids();
}

std::int64_t TokenWriter::count() const {
  return static_cast<std::int64_t>(state_->header.count);
}

void TokenWriter::keep() {
  state_->out.file().overwrite(offsetof(TokenHeader, count),
                               std::as_bytes(std::span(&state_->header.count, 1)));
  state_->out.keep();
}

std::int64_t write_tokens(const std::string& path, const Tokenizer& tokenizer, std::string_view text,
                          const ProgressCall& progress) {
  if (text.empty()) throw UsageError(kEmptyText);
  remove_leftovers(std::filesystem::path(path).parent_path().string());
  TokenWriter writer(path, tokenizer);
  writer.add(text, progress);
  writer.keep();
  return writer.count();
}

TokenFile::TokenFile(const std::string& path) : map_(path) {
  const auto refuse = [&](const std::string& what) { return RunError(fmt::format("{}: {}", path, what)); };
  const std::span<const std::byte> all = map_.bytes();
  const std::size_t bytes = all.size();
  if (bytes < sizeof(TokenHeader)) {
    throw refuse(
        fmt::format("is no token file: {} bytes, at least {} were expected", bytes, sizeof(TokenHeader)));
  }
  TokenHeader header;
  std::memcpy(&header, all.data(), sizeof header);
  if (std::string_view(header.magic, sizeof header.magic) != kMagic) {
    throw refuse("is no token file: it does not start with lpmmtok");
  }
  if (header.version != kVersion) {
    throw refuse(fmt::format("is a token file of version {}; version {} is read: make it again from its text",
                             header.version, kVersion));
  }
  if (header.vocabulary < 1 || header.vocabulary > std::numeric_limits<std::int32_t>::max()) {
    throw refuse(fmt::format("claims a vocabulary of {}; 1 to {} were expected", header.vocabulary,
                             std::numeric_limits<std::int32_t>::max()));
  }
  const std::size_t start = ids_start(header.description_bytes);
  if (header.description_bytes > kLongestDescription || start > bytes) {
    throw refuse(
        fmt::format("claims a tokenizer's description of {} bytes; the file has {} bytes and at most {} "
                    "are read",
                    header.description_bytes, bytes, kLongestDescription));
  }
  const std::size_t each = id_bytes(header.vocabulary);
  if (header.count < 1 || header.count > (bytes - start) / each || start + header.count * each != bytes) {
    throw refuse(
        fmt::format("claims {} ids of {} bytes after {} bytes of header; the file has {} bytes: it is "
                    "cut off or damaged",
                    header.count, each, start, bytes));
  }
  description_.assign(reinterpret_cast<const char*>(all.data()) + sizeof header, header.description_bytes);
  try {
    parse_description(description_);
  } catch (const RunError& e) {
    throw refuse(fmt::format("its description of the tokenizer {}", e.what()));
  }
  ids_ = all.data() + start;
  size_ = static_cast<std::int64_t>(header.count);
  vocabulary_ = static_cast<std::int64_t>(header.vocabulary);
}

Json TokenFile::description() const {
  return parse_description(description_);
}

template <class Id>
void TokenFile::read_as(std::int64_t first, std::span<std::int32_t> out) const {
  const auto* ids = reinterpret_cast<const Id*>(ids_) + first;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Id id = ids[i];
    if (id >= vocabulary_) {
      throw RunError(
          fmt::format("{}: the id at position {} is {}, past the vocabulary of {}: the file is damaged; "
                      "make it again from its text",
                      path(), first + static_cast<std::int64_t>(i), id, vocabulary_));
    }
    out[i] = static_cast<std::int32_t>(id);
  }
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> out) const {
  if (first < 0 || first > size_ || out.size() > static_cast<std::size_t>(size_ - first)) {
    throw RunError(
        fmt::format("{}: has {} ids; {} from position {} were asked for", path(), size_, out.size(), first));
  }
  const std::size_t each = id_bytes(static_cast<std::uint64_t>(vocabulary_));
  if (each == 2) {
    read_as<std::uint16_t>(first, out);
  } else {
    read_as<std::uint32_t>(first, out);
  }
  map_.forget(ids_ + static_cast<std::size_t>(first) * each, out.size() * each);
}

}  // namespace lpmm
