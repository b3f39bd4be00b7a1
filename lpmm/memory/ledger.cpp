#include "lpmm/memory/ledger.h"

#include <numeric>

namespace lpmm {

std::int64_t Ledger::model_memory() const {
  return std::accumulate(role_codes.begin(), role_codes.end(), std::int64_t{0}) +
         std::accumulate(role_steps.begin(), role_steps.end(), std::int64_t{0}) + exempt + buffers;
}

double Ledger::bits_per_parameter() const {
  return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(model_memory()) / static_cast<double>(parameters);
}

}  // namespace lpmm
