// Values of a log's records, which come from outside: what has another type than asked for counts as absent.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/run/log.h"

namespace lpmm {

// A number that can be shown: finite, and below 1e30 in size.
std::optional<double> number_in(const Json& record, std::string_view key);
std::string text_in(const Json& record, std::string_view key);    // empty where there is none
const Json& object_in(const Json& record, std::string_view key);  // an empty one where there is none

// A score of the test in an eval or summary record, first the one that the task is judged by: the task's own
// scores, else the accuracy. A score without a value was not a number.
struct NamedScore {
  std::string name;
  std::optional<double> value;
};
std::vector<NamedScore> scores_in(const Json& record);
// The names of all that some record has, in the order in which they come.
std::vector<std::string> score_names(std::span<const Json> records);
// The one of that name.
std::optional<double> score_in(const Json& record, std::string_view name);

// A number that a log says at a step.
struct Scalar {
  // train/KEY of step records, test/KEY of eval records; underflow/ROLE and saturated/ROLE (shares, 0...1),
  // relative_error/ROLE (of the stored against the true change), update_to_step/ROLE (mean size of a change,
  // in gaps between codes).
  std::string tag;
  std::int64_t step = 0;
  double seconds = 0;  // trained until then
  double value = 0;
};
std::vector<Scalar> scalars_of(std::span<const Json> records);
std::vector<std::string> known_tags();  // the tags that this version can log

}  // namespace lpmm
