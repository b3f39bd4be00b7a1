#include "experiments/plots/gnuplot.h"

#include <fmt/format.h>

#include <filesystem>

#include "lpmm/base/error.h"
#include "lpmm/base/process.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/files/temporary_folder.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 28;

// gnuplot does not say that it could not write all.
std::string whole_picture(const std::string& path, std::string_view end) {
  std::error_code none;
  std::string bytes = fs::exists(path, none) ? read_text(path, kMostBytes) : "";
  const std::size_t last = bytes.rfind(end);
  if (last == bytes.npos || bytes.size() - last > end.size() + 8) {
    throw RunError(fmt::format("gnuplot did not write all of {}: is the disk full?", path));
  }
  return bytes;
}

}  // namespace

std::string gnuplot_picture(const std::string& script, const std::string& type) {
  const TemporaryFolder folder("plot");
  write_text(folder / "script.gp", script);
  const std::string output = folder / "output.txt", name = "plot." + type;
  int code = 0;
  try {
    code = wait_process(start_process({"gnuplot", "--default-settings", "-c", "script.gp", type, name},
                                      {output, folder.string()}));
  } catch (const RunError& error) {
    throw RunError(fmt::format("{}; plots need gnuplot (Debian: apt-get install gnuplot-nox)", error.what()));
  }
  if (code != 0)
    throw RunError(
        fmt::format("gnuplot ended with {}:\n  {}", code, indented(read_text(output, kMostBytes))));
  return whole_picture(folder / name, type == "svg" ? "</svg>" : "IEND");
}

}  // namespace lpmm
