// Chat templates against what jinja2 makes of them, and templates that mean harm.
#include "lpmm/chat/template.h"

#include <gtest/gtest.h>

#include <random>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/said.h"

namespace lpmm {
namespace {

using chat::RenderOptions;
using chat::Template;

const Json& golden() {
  static const Json all =
      Json::parse(read_text(LPMM_SOURCE_DIR "/tests/golden/chat_templates.json", 1 << 20));
  return all;
}

RenderOptions with_values() {
  RenderOptions options;
  options.extra = golden()["values"];
  return options;
}

chat::Rendered rendered(const std::string& source, const RenderOptions& options = with_values()) {
  const Template one(source, "T", {{"bos_token", "<s>"}});
  return one.render(golden()["messages"], golden()["tools"], options);
}

// Returns the number of bytes of the first `count` characters.
std::size_t bytes_of(const std::string& text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && count-- == 0) break;
  }
  return at;
}

TEST(ChatTemplateTest, RendersAndRefusesWhatJinjaDoes) {
  for (const Json& one : golden()["cases"]) {
    const auto source = one["template"].get<std::string>();
    if (one["text"].is_null()) {
      const std::string why = said([&] { rendered(source); });
      EXPECT_TRUE(why.starts_with("T: line ")) << source << "\n" << why;
      continue;
    }
    const std::string why = said([&] {
      const chat::Rendered made = rendered(source);
      EXPECT_EQ(made.text, one["text"].get<std::string>()) << source;
      Json spans = Json::array();
      for (const Json& span : one.value("generated", Json::array())) {
        spans.push_back({bytes_of(made.text, span[0]), bytes_of(made.text, span[1])});
      }
      EXPECT_EQ(Json(made.generated), spans) << source;
    });
    EXPECT_EQ(why, "no error") << source;
  }
}

TEST(ChatTemplateTest, NamesTheLineOfWhatIsWrong) {
  EXPECT_EQ(said([] { Template("a\n{% nope %}", "chat_template.jinja"); }),
            "chat_template.jinja: line 2: the block \"nope\" is not supported in chat templates here");
  EXPECT_EQ(said([] { rendered("\n\n{% for m in messages %}\n{{ m.role | nope }}{% endfor %}"); }),
            "T: line 4: the filter \"nope\" is not supported here");
  EXPECT_EQ(said([] { rendered("{{ raise_exception('Roles must alternate') }}"); }),
            "T: line 1: the template refuses this: Roles must alternate");
  EXPECT_EQ(said([] { rendered("{% if yes %}\n{{ messages[0].none.name }}{% endif %}"); }),
            "T: line 2: none is undefined, and so has no name");
  EXPECT_EQ(said([] { Template("\xff", "T"); }), "T: byte 0 is not UTF-8");
  EXPECT_EQ(said([] { Template("{% if a %}\n\n{% if b %}{% endif %}", "T"); }),
            "T: line 1: a block that begins here has no end: {% endif %} is missing");
}

TEST(ChatTemplateTest, TimeIsWhatTheOptionsSay) {
  RenderOptions options;
  options.now = 86400 * 366;
  EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y') }}", options).text, "02 Jan 1971");
  options.asks_answer = true;
  EXPECT_EQ(rendered("{{ add_generation_prompt }}{{ strftime_now('') }}", options).text, "True");
}

TEST(ChatTemplateTest, EndsWhatWouldGoOnForEver) {
  const std::string many = "{% for a in range(100000) %}";
  for (const std::string& source : std::vector<std::string>{
           many + many + "{% endfor %}{% endfor %}",
           "{% set ns = namespace(x='ab') %}" + many + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}" + many + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
           "{% set ns = namespace(x=1) %}" + many + "{% set ns.x = [ns.x] %}{% endfor %}",
           "{% set ns = namespace(x=1) %}" + many + "{% set ns.x = {'a': ns.x} %}{% endfor %}",
           std::string("{{ range(10 ** 9) }}"),
           std::string("{{ 'a' * 10 ** 12 }}"),
           std::string("{{ [1] * 10 ** 12 }}"),
           std::string("{{ 10 ** 40 }}"),
           std::string("{{ 'a'.ljust(10 ** 12) }}"),
           std::string("{{ '%999999d' % 1 }}"),
           std::string("{{ 9223372036854775807 + 1 }}"),
           std::string("{{ (-9223372036854775807 - 1) // -1 }}"),
           "{% set x = 'a' * 1000000 %}" + many + "{{ x }}{% endfor %}",
           "{% set x = 'a' * 100000 %}" + many + "{{ x.replace('a', x)|length }}{% endfor %}",
           "{% macro f(n) %}{% for x in [1] %}{{ f(n + 1) }}{% endfor %}{% endmacro %}{{ f(1) }}",
           "{{ " + std::string(100000, '(') + " }}",
           "{{ " + std::string(100000, '-') + "1 }}",
           "{{ 1" +
               [] {
                 std::string sum;
                 for (int i = 0; i < 100000; ++i) sum += "+1";
                 return sum;
               }() +
               " }}",
           [] {
             std::string nested;
             for (int i = 0; i < 50000; ++i) nested += "{% if 1 %}";
             return nested;
           }()}) {
    RenderOptions options = with_values();
    options.limits = {200'000, std::size_t{1} << 22};
    EXPECT_TRUE(said([&] { rendered(source, options); }).starts_with("T: line ")) << source.substr(0, 100);
  }
}

TEST(ChatTemplateTest, LeavesNothingThatRefersToItself) {  // the leak sanitizer looks
  EXPECT_EQ(rendered("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.list = [ns, loop] %}"
                     "{% for x in [1, 2] %}{% set ns.loop = loop %}{% if loop.changed(ns) %}a{% endif %}"
                     "{% macro f() %}{{ ns.list|length }}{% endmacro %}{% set ns.f = f %}{% endfor %}"
                     "{{ ns.f() }}{{ ns.loop.index }}")
                .text,
            "a22");
}

TEST(ChatTemplateTest, ReadsOrRefusesChangedTemplates) {
  std::mt19937 draw(1);
  RenderOptions options = with_values();
  options.limits = {20'000, 1 << 20};
  const Json& cases = golden()["cases"];
  const auto source = [&] { return cases[draw() % cases.size()]["template"].get<std::string>(); };
  int taken = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = source();
    for (std::size_t changes = 1 + draw() % 3; changes > 0 && !text.empty(); --changes) {
      const std::size_t at = draw() % text.size();
      const std::string other = source();
      switch (draw() % 4) {
        case 0:
          text.erase(at, 1 + draw() % 4);
          break;
        case 1:
          text.insert(at, 1, "(){}[]%-|.,:'\"~*=#\\\n0"[draw() % 21]);
          break;
        case 2:
          text.insert(at, other.substr(draw() % other.size(), draw() % 20));
          break;
        default:
          std::swap(text[at], text[draw() % text.size()]);
      }
    }
    try {
      rendered(text, options);
      ++taken;
    } catch (const RunError&) {
    }
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace lpmm
