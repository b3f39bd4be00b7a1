// The scores of runs, one in each row, for whatever logs, compares, draws or prints them. A task names some
// of them; the first is the one it is judged by.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace lpmm {

struct ScoreKind {
  std::string_view name;       // in records and files
  std::string_view title;      // in tables and charts
  double scale = 100;          // of what is printed
  std::string_view unit = {};  // behind it
  bool more_is_better = true;
};
// First those of Metric (lpmm/data/sentences/sentence_sets.h), in its order.
inline constexpr ScoreKind kScores[] = {{"accuracy", "accuracy", 100, " %"},
                                        {"matthews", "MCC"},
                                        {"f1", "F1"},
                                        {"pearson", "Pearson"},
                                        {"spearman", "Spearman"},
                                        {"micro_f1", "micro F1"},
                                        {"exact_match", "exact match", 100, " %"},
                                        {"entity_f1", "entity F1"},
                                        {"bleu", "BLEU", 1},
                                        {"margin", "margin", 1}};

// A name that no row has, as a log of another version may hold one, stands for itself.
inline ScoreKind score_kind(std::string_view name) {
  for (const ScoreKind& kind : kScores) {
    if (kind.name == name) return kind;
  }
  return {name, name, 1};
}

// "accuracy 91.23 %"
inline std::string score_text(std::string_view name, double value) {
  const ScoreKind kind = score_kind(name);
  return fmt::format("{} {:.2f}{}", kind.title, kind.scale * value, kind.unit);
}

}  // namespace lpmm
