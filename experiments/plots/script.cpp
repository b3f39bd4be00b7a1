// Checks the lines of a script that is to be drawn again: only some are allowed.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "experiments/plots/chart.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

// The lines that choose the file and its type. Between the last two the file's name stands, for those who
// draw without us.
constexpr std::string_view kHead[] = {"type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : 'png'",
                                      "if (type eq 'svg') {",
                                      "} else {",
                                      "}",
                                      "set output file",
                                      "set output"};
constexpr std::string_view kFile = "file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : ",
                           kEnding = " . '.' . type";
constexpr std::string_view kWords =
    " set unset plot NaN using with title notitle noenhanced enhanced lines points linespoints yerrorlines "
    "yerrorbars "
    "boxxyerror filledcurves boxes labels lc rgb lw lt pt ps dt fs solid transparent noborder border "
    "variable left "
    "right center below inside vertical horizontal Left reverse bmargin lmargin rmargin tmargin maxrows "
    "maxcols "
    "samplen width spacing key at screen multiplot layout terminal svg pngcairo font size dynamic background "
    "encoding "
    "utf8 logscale x y xy autoscale format xtics ytics tics auto norotate rotate by nomirror out scale "
    "offset xlabel "
    "ylabel xrange yrange grid origin boxwidth ";
// Behind these a string names no file to read; gnuplot reads from a program where the name begins with <.
constexpr std::string_view kBeforeText = " title xlabel ylabel lc rgb font background format x y ( , ";

bool is_one_of(std::string_view words, std::string_view word) {
  return words.find(fmt::format(" {} ", word)) != words.npos;
}

// The end of the string that begins a text; npos where it is none that quoted() makes: it writes what gnuplot
// could take for more than text as \ and three digits.
std::size_t string_end(std::string_view text) {
  const std::size_t end = text.find(text[0], 1);
  const std::string_view inner = text.substr(1, end == text.npos ? end : end - 1);
  bool plain = end != text.npos && inner.find_first_of("`@$\r") == inner.npos;
  for (std::size_t at = 0; plain && (at = inner.find('\\', at)) != inner.npos; at += 4) {
    const std::string_view digits = inner.substr(at + 1, 3);
    plain = text[0] == '"' && digits.size() == 3 && digits.find_first_not_of("01234567") == digits.npos;
  }
  return plain ? end + 1 : text.npos;
}

// The words, numbers and signs of a line, with @ for a string and $ for a block of data; nothing where there
// is anything else.
std::vector<std::string> tokens_of(std::string_view line) {
  std::vector<std::string> tokens;
  while (!line.empty()) {
    const auto first = static_cast<unsigned char>(line[0]);
    std::size_t end = 1;
    if (first == '\'' || first == '"') {
      end = string_end(line);
      if (end == line.npos) return {};
      tokens.emplace_back("@");
    } else if (first == '$' || std::isalnum(first) != 0) {
      while (end < line.size() && std::isalnum(static_cast<unsigned char>(line[end])) != 0) ++end;
      tokens.emplace_back(first == '$' ? "$" : line.substr(0, end));
    } else if (std::string_view(",:()[]*.-+").find(line[0]) != std::string_view::npos) {
      tokens.emplace_back(line.substr(0, 1));
    } else if (first != ' ') {
      return {};
    }
    line.remove_prefix(end);
  }
  return tokens;
}

bool is_head(std::string_view line) {
  if (!line.starts_with(kFile) || !line.ends_with(kEnding))
    return std::ranges::find(kHead, line) != std::end(kHead);
  const std::string_view name = line.substr(kFile.size(), line.size() - kFile.size() - kEnding.size());
  const bool is_text = name.starts_with('\'') || name.starts_with('"');
  return is_text && string_end(name) == name.size() && name[1] != '|' && !name.substr(1).starts_with("\\174");
}

bool is_command(const std::string& line) {
  const std::vector<std::string> tokens = tokens_of(line);
  if (tokens.empty() || (tokens[0] != "set" && tokens[0] != "unset" && tokens[0] != "plot")) return false;
  const bool plots = tokens[0] == "plot";
  int open = 0;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const std::string& token = tokens[i];
    open += token == "(" ? 1 : token == ")" ? -1 : 0;
    const bool is_word = std::isalpha(static_cast<unsigned char>(token[0])) != 0;
    if (is_word && (!is_one_of(kWords, token) || (i > 1 && (token == "set" || token == "plot"))))
      return false;
    if (token == "$" && tokens[i - 1] != "plot" && tokens[i - 1] != ",") return false;
    if (token != "@" || (tokens[i - 1] == "@" && !plots)) continue;  // 'it''s'
    const bool in_list = tokens[i - 1] == "(" || tokens[i - 1] == ",";
    if (!is_one_of(kBeforeText, tokens[i - 1]) || (in_list && (plots || open < 1))) return false;
  }
  return true;
}

}  // namespace

void check_script(const std::string& script, const std::string& path) {
  bool in_data = false;
  std::size_t number = 0;
  for (std::size_t at = 0; at < script.size();) {
    const std::size_t end = std::min(script.find('\n', at), script.size());
    std::string line = script.substr(at, end - at);
    at = end + 1;
    ++number;
    if (in_data && line == "EOD") {
      in_data = false;
    } else if (in_data) {
      if (line.empty() || line[0] == 'E' || line.find_first_not_of("0123456789+-.eEinfa ") != line.npos)
        break;
    } else if (line.starts_with("$d") && line.ends_with(" << EOD") &&
               tokens_of(line.substr(0, line.size() - 7)).size() == 1) {
      in_data = true;
    } else {
      line.erase(0, line.find_first_not_of(' '));
      while (line.ends_with(' ')) line.pop_back();
      if (!line.empty() && !is_head(line) && !is_command(line)) break;
    }
    if (at >= script.size()) return;
  }
  throw RunError(
      fmt::format("{}:{}: is no line of a script of lpmm's own, and a script can run programs; draw it "
                  "with gnuplot itself where you trust it",
                  path, number));
}

}  // namespace lpmm
