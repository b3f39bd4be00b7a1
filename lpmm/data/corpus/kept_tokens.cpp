#include "lpmm/data/corpus/kept_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/corpus/kept_files.h"
#include "lpmm/data/tokens.h"
#include "lpmm/files/files.h"
#include "lpmm/files/mapped_file.h"

namespace lpmm {
namespace {

bool holds(const std::string& path, const std::string& key) {
  std::error_code error;
  return std::filesystem::exists(path, error) && TokenFile(path).description().value(kMadeOf, "") == key;
}

void make(const std::string& path, std::span<const std::string> files, const Tokenizer& tokenizer,
          const std::string& key, const ProgressCall& progress) {
  TokenWriter writer(path, tokenizer, key);
  std::int64_t all = 0, done = 0;
  for (const std::string& file : files) all += static_cast<std::int64_t>(std::filesystem::file_size(file));
  const auto ends = tokenizer.end_of_text();
  const auto texts =
      std::ranges::count_if(files, [](const auto& f) { return std::filesystem::file_size(f) > 0; });
  for (const std::string& file : files) {
    const MappedFile map(file);
    const std::string_view text(reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size());
    if (text.empty()) continue;
    refuse_stand_in(file, text.substr(0, 512));
    writer.add(text, [&, before = std::size_t{0}](std::int64_t bytes, std::int64_t) mutable {
      map.forget(text.data() + before, static_cast<std::size_t>(bytes) - before);
      before = static_cast<std::size_t>(bytes);
      if (progress) progress(done + bytes, all);
    });
    done += std::ssize(text);
    if (texts > 1 && ends) writer.add(*ends);
  }
  if (writer.count() == 0) throw UsageError(kEmptyText);
  writer.keep();
}

}  // namespace

std::string kept_tokens(std::span<const std::string> files, const Tokenizer& tokenizer,
                        const ProgressCall& progress) {
  const std::string key = kept_key({{"files", identity_of_files(files)}}, tokenizer);
  std::string path = kept_path(key, ".tokens");
  make_once(
      path, [&] { return holds(path, key); },
      [&] {
        make(path, files, tokenizer, key, progress);
        tell(fmt::format("tokens of {}{} are kept in {}\n", files[0], files.size() > 1 ? " and others" : "",
                         path));
      });
  return path;
}

}  // namespace lpmm
