#include "experiments/ablation/ablation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/ablation/part.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr AblationPart kParts[] = {{"quadratic", run_quadratic_floors}, {"momentum", run_momentum_floors},
                                   {"logistic", run_logistic_floors},   {"steps", run_step_constants},
                                   {"variance", run_variance_steps},    {"quantiles", run_quantiles},
                                   {"update_error", run_update_errors}, {"lion_signs", run_lion_signs}};

const AblationPart& find_part(const std::string& name) {
  const auto part =
      std::find_if(std::begin(kParts), std::end(kParts), [&](const auto& p) { return p.name == name; });
  if (part != std::end(kParts)) return *part;
  const auto names = ablation_parts();
  const std::vector<std::string_view> views(names.begin(), names.end());
  throw UsageError(fmt::format("unknown part '{}'; there are {}", name, join(views)));
}

}  // namespace

std::vector<std::string> ablation_parts() {
  std::vector<std::string> names;
  for (const AblationPart& part : kParts) names.emplace_back(part.name);
  return names;
}

int run_ablation(const AblationOptions& options) {
  std::vector<const AblationPart*> parts;  // all are known before the first is run
  for (const std::string& name : options.parts) parts.push_back(&find_part(name));
  make_folder(options.out);
  for (const AblationPart* part : parts) part->run(options);
  return kDone;
}

}  // namespace lpmm
