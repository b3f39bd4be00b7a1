// Specs; what is taken is written and read again.
#include "lpmm/memory/spec.h"

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  const lpmm::Spec spec = lpmm::parse_spec(lpmm::fuzz::text(bytes));
  lpmm::fuzz::must(lpmm::parse_spec(lpmm::to_string(spec)) == spec);
}
