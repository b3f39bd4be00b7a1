#include "lpmm/data/conversations/kept_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/conversations/conversation_data.h"
#include "lpmm/data/corpus/kept_files.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::string_view kMagic = "lpmmdoc\n";
constexpr std::uint32_t kVersion = 1, kLongestDescription = 1 << 24;
constexpr std::uint64_t kAlignment = 64, kMostOfAll = std::uint64_t{1} << 60;
// Ids of more bytes are not compared with their checksum: they would all be read, into this process's memory.
constexpr std::uint64_t kMostCompared = std::uint64_t{4} << 20;

struct Header {
  char magic[8] = {};
  std::uint32_t version = kVersion, description_bytes = 0;
};
static_assert(sizeof(Header) == 16 && sizeof(PackedPiece) == 16);

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// ---- writing ---------------------------------------------------------------------------------------------

// The documents of one part, and the pieces that they were cut into.
struct PartToKeep {
  std::vector<PackedPiece> pieces;
  PackingCounts counts;
};

struct DocumentsRead {
  std::vector<std::pair<PackedPiece, std::int32_t>> pieces;  // and the document, counted in its part
  std::vector<PackingCounts> counts;                         // of each document
  std::int64_t trained = 0;                                  // documents of the first part
};

// Writes the ids of all pieces, with their marks, and checks them in.
class IdWriter {
 public:
  explicit IdWriter(File& file) : file_(file) {}
  void add(const Document& document, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      held_.push_back(marked_id(document.ids[i], document.learnt[i] != 0));
    }
    count_ += static_cast<std::int64_t>(count);
    if (held_.size() > (1 << 18)) write();
  }
  void write() {
    const auto bytes = std::as_bytes(std::span(held_));
    file_.write(bytes);
    checksum_ = crc32(bytes, checksum_);
    held_.clear();
  }
  std::int64_t count() const { return count_; }
  std::uint32_t checksum() const { return checksum_; }

 private:
  File& file_;
  std::vector<std::int32_t> held_;
  std::int64_t count_ = 0;
  std::uint32_t checksum_ = 0;
};

DocumentsRead read_all(const DocumentsToKeep& what, IdWriter& ids) {
  DocumentsRead read;
  const auto take = [&](const Document& document) {
    read.counts.emplace_back();
    cut_group({&document, 1}, static_cast<std::size_t>(what.length), what.too_long, read.counts.back(),
              [&](const Document&, std::size_t first, std::size_t slots, std::int32_t learnt) {
                const PackedPiece piece{ids.count(), static_cast<std::int32_t>(slots), learnt};
                read.pieces.emplace_back(piece, static_cast<std::int32_t>(read.counts.size() - 1));
                ids.add(document, first, slots + 1);
              });
  };
  what.read(take, false);
  read.trained = std::ssize(read.counts);
  if (what.has_test) what.read(take, true);
  return read;
}

std::pair<PartToKeep, PartToKeep> divided(const DocumentsToKeep& what, const DocumentsRead& read) {
  const std::vector<bool> is_drawn = drawn_share(read.trained, what.has_test ? 0 : what.share);
  const auto is_test = [&](std::int64_t document) {
    return document >= read.trained || is_drawn[static_cast<std::size_t>(document)];
  };
  std::pair<PartToKeep, PartToKeep> parts;
  for (std::int64_t i = 0; i < std::ssize(read.counts); ++i) {
    PackingCounts& sum = (is_test(i) ? parts.second : parts.first).counts;
    const PackingCounts& one = read.counts[static_cast<std::size_t>(i)];
    sum.documents += one.documents;
    sum.too_long += one.too_long;
    sum.unlearnt += one.unlearnt;
  }
  for (const auto& [piece, document] : read.pieces) {
    (is_test(document) ? parts.second : parts.first).pieces.push_back(piece);
  }
  return parts;
}

void pad(File& file) {
  const std::vector<std::byte> zeros(aligned(file.size()) - file.size());
  file.write(zeros);
}

Json counts_json(const PackingCounts& c, const PackedOrder& order) {
  return {{"documents", c.documents},
          {"too_long", c.too_long},
          {"unlearnt", c.unlearnt},
          {"slots", c.slots},
          {"learnt", c.learnt},
          {"pieces", std::ssize(order.pieces)},
          {"sequences", std::ssize(order.learnt)}};
}

// What is only known at the end gets its room at the beginning.
std::string padded(const Json& description, std::size_t bytes) {
  std::string text = description.dump();
  text.resize(std::max(text.size(), bytes), ' ');
  return text;
}

void make(const std::string& path, const DocumentsToKeep& what) {
  constexpr std::size_t kRoomForCounts = 2048;
  NewFile all(path);
  File& file = all.file();
  Json description = {{kMadeOf, what.key}, {"vocabulary", what.vocabulary}};
  const std::size_t room = description.dump().size() + kRoomForCounts;
  const std::string begin = padded(description, room);
  Header header;
  std::copy(kMagic.begin(), kMagic.end(), header.magic);
  header.description_bytes = static_cast<std::uint32_t>(room);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(std::as_bytes(std::span(begin)));
  pad(file);
  IdWriter ids(file);
  const DocumentsRead read = read_all(what, ids);
  ids.write();
  auto [train, test] = divided(what, read);
  const PackedOrder of_train = order_pieces(train.pieces, what.length, train.counts),
                    of_test = order_pieces(test.pieces, what.length, test.counts);
  for (const PackedOrder* order : {&of_train, &of_test}) {
    pad(file);
    file.write(std::as_bytes(std::span(order->pieces)));
    pad(file);
    file.write(std::as_bytes(std::span(order->first)));
    pad(file);
    file.write(std::as_bytes(std::span(order->learnt)));
  }
  description["tokens"] = ids.count();
  description["train"] = counts_json(train.counts, of_train);
  description["test"] = counts_json(test.counts, of_test);
  description["crc32"] = ids.checksum();
  const std::string text = padded(description, room);
  if (text.size() != room) throw std::logic_error("kept documents: counts need more room");
  file.overwrite(sizeof header, std::as_bytes(std::span(text)));
  all.keep();
}

// ---- reading ---------------------------------------------------------------------------------------------

// Sections of a file, each checked to lie within it.
class Sections {
 public:
  Sections(const MappedFile& file, std::uint64_t first) : file_(file), at_(first) {}
  template <class T>
  std::span<const T> next(std::int64_t count) {
    at_ = aligned(at_);
    const std::uint64_t size = file_.bytes().size();
    if (count < 0 || at_ > size || static_cast<std::uint64_t>(count) > (size - at_) / sizeof(T)) {
      throw RunError("is shorter than it says: it is cut off or damaged");
    }
    const auto* first = reinterpret_cast<const T*>(file_.bytes().data() + at_);
    at_ += static_cast<std::uint64_t>(count) * sizeof(T);
    return {first, static_cast<std::size_t>(count)};
  }
  bool is_end() const { return at_ == file_.bytes().size(); }

 private:
  const MappedFile& file_;
  std::uint64_t at_;
};

std::int64_t count_in(const Json& object, const char* name) {
  const Json& value = object.at(name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMostOfAll) {
    throw RunError(fmt::format("has no number as {}", name));
  }
  return value.get<std::int64_t>();
}

PackedArrays part_of(PackedArrays shared, const Json& said, Sections& sections) {
  PackingCounts& c = shared.counts;
  c = {count_in(said, "documents"), count_in(said, "too_long"), count_in(said, "unlearnt"),
       count_in(said, "slots"), count_in(said, "learnt")};
  const std::int64_t sequences = count_in(said, "sequences");
  shared.pieces = sections.next<PackedPiece>(count_in(said, "pieces"));
  shared.first = sections.next<std::int64_t>(sequences + 1);
  shared.learnt_of = sections.next<std::int32_t>(sequences);
  return shared;
}

// Nothing: it was made of something else.
std::optional<PackedParts> open(const std::string& path, const DocumentsToKeep& what) {
  const auto file = std::make_shared<const MappedFile>(path);
  Header header;
  const std::span<const std::byte> all = file->bytes();
  if (all.size() < sizeof header) throw RunError("is shorter than its header");
  std::memcpy(&header, all.data(), sizeof header);
  if (std::string_view(header.magic, sizeof header.magic) != kMagic || header.version != kVersion) {
    throw RunError("holds no packed documents, or those of another version");
  }
  if (header.description_bytes > std::min<std::uint64_t>(kLongestDescription, all.size() - sizeof header)) {
    throw RunError("claims a description that is longer than it");
  }
  const Json said = parse_json(
      std::string(reinterpret_cast<const char*>(all.data()) + sizeof header, header.description_bytes));
  if (said.at(kMadeOf) != what.key) return {};
  PackedArrays shared;
  shared.file = file;
  shared.vocabulary = std::min(what.vocabulary, count_in(said, "vocabulary"));
  const std::int64_t tokens = count_in(said, "tokens");
  Sections sections(*file, sizeof header + header.description_bytes);
  shared.ids = sections.next<std::int32_t>(tokens);
  const PackedArrays train = part_of(shared, said.at("train"), sections),
                     test = part_of(shared, said.at("test"), sections);
  if (!sections.is_end()) throw RunError("is longer than it says: it is damaged");
  PackedParts parts;
  parts.file_checksum = static_cast<std::uint32_t>(count_in(said, "crc32"));
  const auto ids = std::as_bytes(shared.ids);
  if (ids.size() <= kMostCompared && crc32(ids) != parts.file_checksum)
    throw RunError("holds other tokens than were written: it is damaged");
  parts.train = PackedDocuments(train, what.length), parts.test = PackedDocuments(test, what.length);
  parts.length = what.length, parts.too_long = what.too_long;
  return parts;
}

std::optional<PackedParts> open_whole(const std::string& path, const DocumentsToKeep& what) {
  try {
    return open(path, what);
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}: {}", path, error_text(e)));
  }
}

}  // namespace

PackedParts kept_documents(const DocumentsToKeep& what) {
  const std::string path = kept_path(what.key, ".packed");
  std::optional<PackedParts> found;
  const auto is_there = [&] {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) return false;
    found = open_whole(path, what);
    return found.has_value();
  };
  make_once(path, is_there, [&] {
    make(path, what);
    found = open_whole(path, what);
    tell(fmt::format("tokens are kept in {}\n", path));
  });
  return *std::move(found);
}

}  // namespace lpmm
