#include "experiments/ablation/part.h"

#include <fmt/format.h>

#include <filesystem>

#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;

const char* colour_of(int bits) {
  return kRunColours[static_cast<std::size_t>((bits - 4) / 2)];
}

void say_of_part(const std::string& text) {
  tell(fmt::format("ablation: {}\n", text));
}

void write_part(const AblationOptions& options, const std::string& name, const std::string& csv,
                std::vector<Chart> charts) {
  const std::string prefix = (fs::path(options.out) / name).string();
  write_text(prefix + ".csv", csv);
  say_of_part(fmt::format("wrote {}.csv", prefix));
  draw_picture({std::move(charts)}, prefix, options.svg);
}

}  // namespace lpmm
