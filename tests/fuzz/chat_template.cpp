// A chat template up to the first zero byte, and the values that it renders: JSON with messages, or none.
#include "lpmm/chat/template.h"

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  const auto [first, second] = lpmm::fuzz::split(bytes);
  lpmm::fuzz::read([&] {
    const lpmm::chat::Template one(std::string(lpmm::fuzz::text(first)), "T", {{"bos_token", "<s>"}});
    lpmm::Json values = lpmm::Json::parse(lpmm::fuzz::text(second), nullptr, false);
    if (!values.is_object()) values = {{"messages", {{{"role", "user"}, {"content", "a \"b\" é"}}}}};
    lpmm::chat::RenderOptions options;
    options.limits = {100'000, std::size_t{1} << 22};
    options.extra = values;
    const auto made = one.render(values.value("messages", lpmm::Json::array()), nullptr, options);
    for (const auto& [begin, end] : made.generated) lpmm::fuzz::must(begin <= end);
  });
}
