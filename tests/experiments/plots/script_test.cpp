// Scripts that `lpmm plot` draws again: those of its own, and none that does anything else.
#include <gtest/gtest.h>

#include "experiments/plots/chart.h"
#include "tests/lpmm/said.h"

namespace lpmm {
namespace {

std::string script_of_all() {
  const std::string hostile = "'; system(\"id\") # `id` @x $(id) \\\n<id |id";
  Chart lines{hostile, hostile, hostile, "set logscale xy\nset format y '%g'\nset xrange [-0.5:2]\n",
              {},      true};
  lines.series.push_back({hostile, "linespoints pt 7 lc rgb '#0072B2'", {{0, 1e-7}, {1, 1e30}}});
  lines.series.push_back(
      {"", "filledcurves fs transparent solid 0.2 noborder lc rgb '#0072B2'", {{0, 1}}, {{0, 2}}});
  lines.series.push_back({"a", "yerrorlines pt 7 dt 2 lc rgb '#0072B2'", {{0, 1}}, {{0, 2}}});
  Chart heat{
      "", "", "", "set xtics ('a' 0, \"b\\042\" 1) noenhanced rotate by 30 right\nset yrange [0:*]\n", {}};
  heat.series.push_back(
      {"", "boxxyerror fs solid noborder lc rgb variable", {{0, 1}}, {}, {{0.5, 0xFF0000}}});
  return picture_script({{lines, heat}, {}, {hostile, "b"}}, hostile) + picture_script({{lines}}, "a");
}

TEST(Scripts, ThoseOfLpmmAreDrawnAgain) {
  EXPECT_EQ(said([] { check_script(script_of_all(), "a.gp"); }), "no error");
}

TEST(Scripts, OthersAreRefusedWithTheirLine) {
  for (const char* line : {"system 'id'",
                           "!id",
                           "set output '|id'",
                           "plot '<id'",
                           "plot '< id' with lines",
                           "plot \"\\074id\"",
                           "plot $d0 using 1:2 with lines, '<id'",
                           "plot ('<id')",
                           "set title system('id')",
                           "set title \"`id`\"",
                           "set title `id`",
                           "load 'x'",
                           "call 'x'",
                           "eval 'x'",
                           "set print '|id'",
                           "set title 'a'; system 'id'",
                           "set xtics ('a' 0); !id",
                           "set loadpath '.'",
                           "set terminal x11",
                           "plot $d0 using (system('id')):2",
                           "file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : '|id' . '.' . type",
                           "file = exists('ARG2') && strlen(ARG2) > 0 ? ARG2 : \"\\174id\" . '.' . type",
                           "set title \"\\x41\"",
                           "file = exists('NO') && strlen(ARG2) > 0 ? ARG2 : 'a' . '.' . type",
                           "file = '|id'",
                           "type = exists('ARG1') && strlen(ARG1) > 0 ? ARG1 : system('id')",
                           "set macros",
                           "@x",
                           "set title '\\'",
                           "$d0 << END",
                           "$x << EOD",
                           "set title 'open",
                           "print 1",
                           "set xrange [0:system('id')]",
                           "\tshell",
                           "if (1) { system 'id' }",
                           "do for [i=1:1] { system 'id' }",
                           "set title 'a' \\",
                           "# comment"}) {
    const std::string script = "set encoding utf8\n" + std::string(line) + "\nset output\n";
    EXPECT_NE(said([&] { check_script(script, "a.gp"); }).find("a.gp:2: is no line"), std::string::npos)
        << line;
  }
  for (const char* data : {"EOD; system 'id'", "EODsystem", "1 2`id`", "", "x"}) {
    const std::string script = "$d0 << EOD\n1 2\n" + std::string(data) + "\nEOD\n";
    EXPECT_NE(said([&] { check_script(script, "a.gp"); }).find("a.gp:3: is no line"), std::string::npos)
        << data;
  }
}

}  // namespace
}  // namespace lpmm
