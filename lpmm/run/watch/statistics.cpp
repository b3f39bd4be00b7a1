#include "lpmm/run/watch/statistics.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

// The columns of a record: an array with a number for each tensor.
struct NumberColumn {
  const char* name;
  float UpdateStatistics::Tensor::*member;
};
constexpr NumberColumn kNumberColumns[] = {{"update", &UpdateStatistics::Tensor::update},
                                           {"rms", &UpdateStatistics::Tensor::rms},
                                           {"update_norm", &UpdateStatistics::Tensor::update_norm},
                                           {"gradient_norm", &UpdateStatistics::Tensor::gradient_norm},
                                           {"largest_update", &UpdateStatistics::Tensor::largest_update},
                                           {"largest_ratio", &UpdateStatistics::Tensor::largest_ratio},
                                           {"momentum_bias", &UpdateStatistics::Tensor::momentum_bias},
                                           {"variance_bias", &UpdateStatistics::Tensor::variance_bias}};
struct PlaceColumn {
  const char* name;
  std::int64_t UpdateStatistics::Tensor::*member;
};
constexpr PlaceColumn kPlaceColumns[] = {{"largest_update_at", &UpdateStatistics::Tensor::largest_update_at},
                                         {"largest_ratio_at", &UpdateStatistics::Tensor::largest_ratio_at}};

// Six digits are enough to look at. NaN is null in JSON.
Json short_number(float x) {
  if (!std::isfinite(x)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", x).c_str(), nullptr);
}

const Json& column(const Json& record, const char* name, std::size_t tensors) {
  const Json& values = record.at(name);
  if (!values.is_array() || values.size() != tensors) {
    throw RunError(fmt::format("{} is not one number for each of {} tensors", name, tensors));
  }
  return values;
}

float root_of_sum(const kernels::WatchStats& stats, Watched term) {
  return static_cast<float>(std::sqrt(stats.squares[static_cast<std::size_t>(term)]));
}

float bias_of(const kernels::ChangeStats& stats) {
  return stats.wanted_squared > 0 ? static_cast<float>(stats.error_along_wanted / stats.wanted_squared)
                                  : 0.0F;
}

}  // namespace

UpdateStatistics measure_update(const ModelMemory& memory, std::int64_t step, double loss,
                                const std::string& failed) {
  UpdateStatistics statistics{step, loss, failed, {}};
  const std::span<const kernels::WatchStats> watched = memory.watched();
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const kernels::WatchStats& sums = watched[i];
    const auto elements = static_cast<double>(memory.info(static_cast<int>(i)).elements());
    const double p = sums.squares[static_cast<std::size_t>(Watched::kParameter)];
    UpdateStatistics::Tensor& t = statistics.tensors.emplace_back();
    t.update = p > 0 ? root_of_sum(sums, Watched::kUpdate) / root_of_sum(sums, Watched::kParameter) : 0.0F;
    t.rms =
        elements > 0 ? root_of_sum(sums, Watched::kRatio) / static_cast<float>(std::sqrt(elements)) : 0.0F;
    t.update_norm = root_of_sum(sums, Watched::kUpdate);
    t.gradient_norm = root_of_sum(sums, Watched::kGradient);
    t.largest_update = sums.update.size();
    t.largest_ratio = sums.ratio.size();
    t.largest_update_at = sums.update.element;
    t.largest_ratio_at = sums.ratio.element;
  }
  return statistics;
}

void add_bias(UpdateStatistics& statistics, std::span<const TensorStats> changes) {
  for (std::size_t i = 0; i < std::min(changes.size(), statistics.tensors.size()); ++i) {
    statistics.tensors[i].momentum_bias = bias_of(changes[i].role[Role::kMomentum]);
    statistics.tensors[i].variance_bias = bias_of(changes[i].role[Role::kVariance]);
  }
}

Json statistics_record(const UpdateStatistics& statistics) {
  Json record = {{"type", "watch"}, {"step", statistics.step}, {"loss", statistics.loss}};
  if (!statistics.failed.empty()) record["failed"] = statistics.failed;
  if (statistics.tensors.empty()) return record;
  for (const NumberColumn& n : kNumberColumns) {
    Json values = Json::array();
    bool is_known = false;
    for (const UpdateStatistics::Tensor& t : statistics.tensors) {
      values.push_back(short_number(t.*n.member));
      is_known = is_known || !values.back().is_null();
    }
    if (is_known) record[n.name] = std::move(values);
  }
  for (const PlaceColumn& p : kPlaceColumns) {
    Json values = Json::array();
    for (const UpdateStatistics::Tensor& t : statistics.tensors) values.push_back(t.*p.member);
    record[p.name] = std::move(values);
  }
  return record;
}

UpdateStatistics parse_statistics(const Json& record, std::size_t tensors) {
  try {
    UpdateStatistics statistics;
    statistics.step = to_count(record.at("step"), "step");
    if (const Json& loss = record.at("loss"); !loss.is_null()) statistics.loss = loss.get<double>();
    statistics.failed = record.value("failed", "");
    if (!record.contains(kPlaceColumns[0].name)) return statistics;
    statistics.tensors.resize(tensors);
    for (const NumberColumn& n : kNumberColumns) {
      if (!record.contains(n.name)) continue;
      const Json& values = column(record, n.name, tensors);
      for (std::size_t i = 0; i < tensors; ++i) {
        statistics.tensors[i].*n.member = values[i].is_null() ? std::nanf("") : values[i].get<float>();
      }
    }
    for (const PlaceColumn& p : kPlaceColumns) {
      const Json& values = column(record, p.name, tensors);
      for (std::size_t i = 0; i < tensors; ++i) statistics.tensors[i].*p.member = to_count(values[i], p.name);
    }
    return statistics;
  } catch (const Json::exception& e) {
    throw RunError(fmt::format("a record of type watch is not what was written: {}", error_text(e)));
  }
}

}  // namespace lpmm
