// Charts of a grid's rows.
#include "experiments/sweep/grid_charts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace lpmm {
namespace {

// A row for each of these bits in each of so many lines.
std::vector<GridRow> rows_of_lines(int lines, const std::vector<std::string>& bits,
                                   const std::vector<double>& seeds) {
  std::vector<GridRow> rows;
  for (int line = 0; line < lines; ++line) {
    for (const std::string& bit : bits) {
      GridRow row{fmt::format("{} {}", line, bit), {{"preset", std::to_string(line)}, {"bits", bit}}, {}, {}};
      row.values["loss"] = {2, 1, 3, true, seeds};
      rows.push_back(row);
    }
  }
  return rows;
}

Chart chart_of(const std::vector<GridRow>& rows, bool front = false) {
  ChartRequest request;
  request.rows.y = "loss";
  request.x = "bits";
  request.lines = {"preset"};
  request.front = front;
  return charts_of(rows, request, "").at(0);
}

TEST(GridCharts, NoTwoLinesLookAlike) {
  std::set<std::string> styles;
  for (const ChartSeries& s : chart_of(rows_of_lines(30, {"4", "8"}, {2})).series) {
    if (!s.title.empty()) styles.insert(s.style);
  }
  EXPECT_EQ(styles.size(), 30U);
}

TEST(GridCharts, MarksAreAtTheValuesThatWereVaried) {
  EXPECT_EQ(chart_of(rows_of_lines(1, {"8", "4", "5", "6"}, {2})).scales,
            "set xtics ('4' 4, '5' 5, '6' 6, '8' 8)\n");
  EXPECT_EQ(chart_of(rows_of_lines(1, {"sr", "qr"}, {2})).scales, "set xtics ('sr' 0, 'qr' 1) noenhanced\n");
  std::vector<std::string> many;
  for (int i = 0; i < 11; ++i) many.push_back(std::to_string(i));
  EXPECT_EQ(chart_of(rows_of_lines(1, many, {2})).scales, "");
}

TEST(GridCharts, EverySeedIsADotWhereThereAreFew) {
  const auto dots = [](const std::vector<double>& seeds, bool front) {
    std::vector<std::pair<double, double>> found;
    for (const ChartSeries& s : chart_of(rows_of_lines(1, {"4"}, seeds), front).series) {
      if (s.title.empty()) found.insert(found.end(), s.points.begin(), s.points.end());
    }
    return found;
  };
  EXPECT_EQ(dots({1.5, 2.5}, false), (std::vector<std::pair<double, double>>{{4, 1.5}, {4, 2.5}}));
  EXPECT_TRUE(dots({2}, false).empty());
  EXPECT_TRUE(dots(std::vector<double>(9, 2.0), false).empty());
  EXPECT_TRUE(dots({1.5, 2.5}, true).empty());
}

}  // namespace
}  // namespace lpmm
