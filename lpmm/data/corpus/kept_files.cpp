#include "lpmm/data/corpus/kept_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/images.h"
#include "lpmm/files/files.h"
#include "lpmm/files/locked_file.h"
#include "lpmm/version.h"

namespace lpmm {
namespace fs = std::filesystem;

namespace {

// Contractions, runs of spaces and of digits, line ends, scripts with and without spaces, marks that combine
// and letters that are made of them, signs of two and more code points, and what looks like a special token.
constexpr std::string_view kProbe =
    "I'm sure they'LL say we've got 1234567 of 3.14, 2\u00b2 \u00bd  or   so.\n\n\tdef f(x_1): return x**2 "
    "  # ok\r\n\u00c9t\u00e9 E\u0301te\u0301 \ufb01n \uff21\uff22 Stra\u00dfe \u0130\u0131 "
    "\u041f\u0440\u0438\u0432\u0435\u0442 "
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 "
    "\u0645\u0631\u062d\u0628\u0627 \u0939\u093f \ud55c\uae00 \U0001f468\u200d\U0001f469\u200d\U0001f467 "
    "\U0001f1e9\U0001f1ea\u00a0\u2028\u3000<s> </s> <|im_start|>user\n<|endoftext|> [MASK] \u2581a\u2581 "
    "<0x0A> https://a.b/c?d=e&f ";

Json probe(const Tokenizer& tokenizer) {
  try {
    const std::vector<std::int32_t> ids = tokenizer.encode(kProbe);
    return crc32(std::as_bytes(std::span(ids)));
  } catch (const UsageError& e) {  // one that knows some characters only
    return e.what();
  }
}

}  // namespace

Json identity_of_files(std::span<const std::string> files) {
  Json all = Json::array();
  for (const std::string& file : files) {
    struct stat s {};
    if (::stat(file.c_str(), &s) != 0) throw RunError(fmt::format("{}: {}", file, std::strerror(errno)));
    const std::string path = fs::weakly_canonical(fs::absolute(file)).string();
    all.push_back({path, s.st_size, std::int64_t{s.st_mtim.tv_sec}, std::int64_t{s.st_mtim.tv_nsec}});
  }
  return all;
}

std::string kept_key(Json made_of, const Tokenizer& tokenizer) {
  made_of["program"] = LPMM_VERSION;
  made_of["tokenizer"] = crc32(tokenizer.describe().dump());
  made_of["vocabulary"] = tokenizer.vocabulary();
  made_of["probe"] = probe(tokenizer);
  return made_of.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string kept_path(std::string_view key, std::string_view ending) {
  const auto bytes = std::as_bytes(std::span(key));
  return (fs::path(data_folder()) / "tokens" /
          fmt::format("{:08x}{:08x}{}", crc32(bytes), crc32c(bytes), ending))
      .string();
}

void make_once(const std::string& path, const std::function<bool()>& is_there,
               const std::function<void()>& make) {
  // What is wrong with it is said when it is certain that this one makes it again.
  const auto is_whole = [&](bool tells) {
    try {
      return is_there();
    } catch (const std::exception& e) {
      if (tells) tell(fmt::format("{}; it is made again\n", error_text(e)));
      return false;
    }
  };
  if (is_whole(false)) return;
  const std::string folder = fs::path(path).parent_path().string();
  make_folder(folder);
  struct Lock {
    LockedFile file;
    ~Lock() { file.remove(); }
  } const lock{{path + ".lock", path,
                [&] { tell(fmt::format("{}: another process makes it; waiting for that\n", path)); }}};
  if (is_whole(true)) return;
  remove_leftovers(folder);
  make();
}

}  // namespace lpmm
