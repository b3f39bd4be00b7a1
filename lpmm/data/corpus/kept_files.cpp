#include "lpmm/data/corpus/kept_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/images.h"
#include "lpmm/files/files.h"
#include "lpmm/files/locked_file.h"

namespace lpmm {
namespace fs = std::filesystem;

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

std::string kept_key(const Json& made_of) {
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
  if (is_there()) return;
  const std::string folder = fs::path(path).parent_path().string();
  make_folder(folder);
  LockedFile lock(path + ".lock", path,
                  [&] { tell(fmt::format("{}: another process makes it; waiting for that\n", path)); });
  if (!is_there()) {
    remove_leftovers(folder);
    make();
  }
  lock.remove();
}

}  // namespace lpmm
