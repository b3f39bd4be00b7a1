#include "lpmm/run/watch/look.h"

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
  float TensorLook::*member;
};
constexpr NumberColumn kNumberColumns[] = {{"update", &TensorLook::update},
                                           {"rms", &TensorLook::rms},
                                           {"update_norm", &TensorLook::update_norm},
                                           {"gradient_norm", &TensorLook::gradient_norm},
                                           {"largest_update", &TensorLook::largest_update},
                                           {"largest_ratio", &TensorLook::largest_ratio},
                                           {"momentum_bias", &TensorLook::momentum_bias},
                                           {"variance_bias", &TensorLook::variance_bias}};
struct PlaceColumn {
  const char* name;
  std::int64_t TensorLook::*member;
};
constexpr PlaceColumn kPlaceColumns[] = {{"largest_update_at", &TensorLook::largest_update_at},
                                         {"largest_ratio_at", &TensorLook::largest_ratio_at}};

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

Look look_at(const ModelMemory& memory, std::int64_t step, double loss, const std::string& failed) {
  Look look{step, loss, failed, {}};
  const std::span<const kernels::WatchStats> watched = memory.watched();
  for (std::size_t i = 0; i < watched.size(); ++i) {
    const kernels::WatchStats& stats = watched[i];
    const auto elements = static_cast<double>(memory.info(static_cast<int>(i)).elements());
    const double p = stats.squares[static_cast<std::size_t>(Watched::kParameter)];
    TensorLook& t = look.tensors.emplace_back();
    t.update = p > 0 ? root_of_sum(stats, Watched::kUpdate) / root_of_sum(stats, Watched::kParameter) : 0.0F;
    t.rms =
        elements > 0 ? root_of_sum(stats, Watched::kRatio) / static_cast<float>(std::sqrt(elements)) : 0.0F;
    t.update_norm = root_of_sum(stats, Watched::kUpdate);
    t.gradient_norm = root_of_sum(stats, Watched::kGradient);
    t.largest_update = stats.update.size();
    t.largest_ratio = stats.ratio.size();
    t.largest_update_at = stats.update.element;
    t.largest_ratio_at = stats.ratio.element;
  }
  return look;
}

void add_bias(Look& look, std::span<const TensorStats> stats) {
  for (std::size_t i = 0; i < std::min(stats.size(), look.tensors.size()); ++i) {
    look.tensors[i].momentum_bias = bias_of(stats[i].role[Role::kMomentum]);
    look.tensors[i].variance_bias = bias_of(stats[i].role[Role::kVariance]);
  }
}

Json look_record(const Look& look) {
  Json record = {{"type", "watch"}, {"step", look.step}, {"loss", look.loss}};
  if (!look.failed.empty()) record["failed"] = look.failed;
  if (look.tensors.empty()) return record;
  for (const NumberColumn& n : kNumberColumns) {
    Json values = Json::array();
    bool is_known = false;
    for (const TensorLook& t : look.tensors) {
      values.push_back(short_number(t.*n.member));
      is_known = is_known || !values.back().is_null();
    }
    if (is_known) record[n.name] = std::move(values);
  }
  for (const PlaceColumn& p : kPlaceColumns) {
    Json values = Json::array();
    for (const TensorLook& t : look.tensors) values.push_back(t.*p.member);
    record[p.name] = std::move(values);
  }
  return record;
}

Look parse_look(const Json& record, std::size_t tensors) {
  try {
    Look look;
    look.step = to_count(record.at("step"), "step");
    if (const Json& loss = record.at("loss"); !loss.is_null()) look.loss = loss.get<double>();
    look.failed = record.value("failed", "");
    if (!record.contains(kPlaceColumns[0].name)) return look;
    look.tensors.resize(tensors);
    for (const NumberColumn& n : kNumberColumns) {
      if (!record.contains(n.name)) continue;
      const Json& values = column(record, n.name, tensors);
      for (std::size_t i = 0; i < tensors; ++i) {
        look.tensors[i].*n.member = values[i].is_null() ? std::nanf("") : values[i].get<float>();
      }
    }
    for (const PlaceColumn& p : kPlaceColumns) {
      const Json& values = column(record, p.name, tensors);
      for (std::size_t i = 0; i < tensors; ++i) look.tensors[i].*p.member = to_count(values[i], p.name);
    }
    return look;
  } catch (const Json::exception& e) {
    throw RunError(fmt::format("a record of type watch is not what was written: {}", error_text(e)));
  }
}

}  // namespace lpmm
