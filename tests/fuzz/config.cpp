// Configurations; what is taken is written and read again.
#include "lpmm/run/config.h"
#include "models/families.h"

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  const std::string text(lpmm::fuzz::text(bytes));
  const std::string written = lpmm::to_toml(lpmm::parse_config(text, "fuzz", lpmm::with_families()));
  lpmm::fuzz::must(lpmm::to_toml(lpmm::parse_config(written, "written", lpmm::with_families())) == written);
}
