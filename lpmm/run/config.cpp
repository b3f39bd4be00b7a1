#include "lpmm/run/config.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::int64_t kMostSteps = 0xFFFFFFFE;  // the noise counts steps in 32 bits
constexpr std::uint64_t kLongestFile = 1 << 20;
constexpr double kAny = std::numeric_limits<double>::max();

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

// The one list of sections and keys with their ranges; Reader and Writer walk over it.
template <class Visitor, class Config>
void visit(Visitor& v, Config& c) {
  v.section("model");
  v.text("name", c.model.name);
  v.integers("hidden", c.model.hidden, 1, 1 << 24);
  v.integer("widen", c.model.widen, 1, 1024);
  v.number("label_smoothing", c.model.label_smoothing, 0, 0.999);
  v.integer("layers", c.model.layers, 0, 1000);
  v.integer("heads", c.model.heads, 0, 1000);
  v.integer("embedding", c.model.embedding, 0, 1 << 16);
  v.integer("context", c.model.context, 0, 1 << 20);
  v.integer("vocabulary", c.model.vocabulary, 0, 1 << 24);
  v.number("dropout", c.model.dropout, 0, 0.999);
  v.boolean("recompute", c.model.recompute);

  v.section("data");
  v.choice(
      "set", c.data.set,
      Names<std::string>{{"cifar10", "cifar10"}, {"drawn", "drawn"}, {"auto", "auto"}, {"text", "text"}});
  v.boolean("augment", c.data.augment);
  v.integer("train_images", c.data.train_images, 1, 10'000'000);
  v.integer("test_images", c.data.test_images, 1, 10'000'000);
  v.integer("draw_seed", c.data.draw_seed, 0, std::numeric_limits<std::int64_t>::max());
  v.text("path", c.data.text.path);
  v.text("tokenizer", c.data.text.tokenizer);
  v.text("tokenizer_folder", c.data.text.folder);
  v.number("validation_share", c.data.text.validation_share, 0, 1);
  v.integer("length", c.data.text.length, 0, 1 << 20);

  v.section("train");
  v.integer("epochs", c.train.epochs, 0, 1'000'000);
  v.integer("steps", c.train.steps, 0, kMostSteps);
  v.text("init", c.train.init);
  v.integer("batch", c.train.batch, 1, 1 << 20);
  v.integer("microbatches", c.train.microbatches, 1, kMostMicrobatches);
  v.integer("seed", c.train.seed, 0, std::numeric_limits<std::int64_t>::max());
  v.choice("compute", c.train.compute, Names<Compute>{{"bf16", Compute::kBf16}, {"fp32", Compute::kFp32}});
  v.integer("threads", c.train.threads, 0, 1024);
  v.integer("eval_every_epochs", c.train.eval_every_epochs, 0, 1'000'000);
  v.integer("max_failed_steps", c.train.max_failed_steps, 1, 1'000'000);

  v.section("optimizer");
  v.choice("rule", c.optimizer.rule,
           Names<RuleName>{{"sgd", RuleName::kSgd}, {"adam", RuleName::kAdam}, {"adamw", RuleName::kAdamW}});
  v.number("learning_rate", c.optimizer.learning_rate, 0, kAny);
  v.number("weight_decay", c.optimizer.weight_decay, 0, kAny);
  v.boolean("decoupled_decay", c.optimizer.decoupled_decay);
  v.number("momentum", c.optimizer.momentum, 0, 1);
  v.number("dampening", c.optimizer.dampening, 0, 1);
  v.boolean("nesterov", c.optimizer.nesterov);
  v.number("beta1", c.optimizer.beta1, 0, 1);
  v.number("beta2", c.optimizer.beta2, 0, 1);
  v.number("epsilon", c.optimizer.epsilon, 0, kAny);
  v.number("clip_norm", c.optimizer.clip_norm, 0, kAny);
  v.list("group", c.optimizer.groups, [](auto& item, auto& group) {
    item.text("pattern", group.pattern);
    item.number("learning_rate_scale", group.learning_rate_scale, 0, kAny);
    item.number("weight_decay", group.weight_decay, -1, kAny);
    item.boolean("frozen", group.frozen);
  });

  v.section("schedule");
  v.choice("kind", c.schedule.kind,
           Names<ScheduleKind>{{"constant", ScheduleKind::kConstant},
                               {"step", ScheduleKind::kStep},
                               {"cosine", ScheduleKind::kCosine},
                               {"linear", ScheduleKind::kLinear},
                               {"inverse_square_root", ScheduleKind::kInverseSquareRoot}});
  v.integer("warmup_steps", c.schedule.warmup_steps, 0, kMostSteps);
  v.number("final_scale", c.schedule.final_scale, 0, 1);
  v.numbers("milestones", c.schedule.milestones, 0, 1);
  v.number("gamma", c.schedule.gamma, 0, kAny);

  v.section("memory");
  v.policy(c.policy, c.optimizer);
  v.boolean("error_feedback", c.policy.error_feedback);
  v.list("override", c.policy.overrides, [](auto& item, auto& o) {
    item.text("pattern", o.pattern);
    for (std::size_t r = 0; r < kRoles; ++r) item.spec(to_string(static_cast<Role>(r)), o.specs[r]);
    item.boolean("exempt", o.exempt);
  });

  v.section("checkpoint");
  v.integer("every_steps", c.checkpoint.every_steps, 0, kMostSteps);
  v.integer("keep", c.checkpoint.keep, 0, 1'000'000);
  v.boolean("final", c.checkpoint.final);

  v.section("log");
  v.integer("every_steps", c.log.every_steps, 1, kMostSteps);
  v.integer("underflow_every_steps", c.log.underflow_every_steps, 0, kMostSteps);
  v.choice("tensors", c.log.tensors,
           Names<TensorRecords>{{"last", TensorRecords::kLast}, {"all", TensorRecords::kAll}});
}

// "runs/a.toml:12" or "--set a.b=c".
std::string place(const toml::source_region& source, const std::string& name) {
  const std::string path = source.path ? *source.path : name;
  return path.starts_with("--") ? path : fmt::format("{}:{}", path, source.begin.line);
}

// Reads one table: each call takes one key, finish() refuses what nobody took.
class Reader {
 public:
  Reader(toml::table& root, std::string name) : root_(&root), table_(&root), name_(std::move(name)) {}

  void section(std::string_view name) {
    prefix_ = fmt::format("{}.", name);
    sections_.insert(std::string(name));
    toml::node* node = root_->get(name);
    table_ = node == nullptr ? nullptr : node->as_table();
    if (node != nullptr && table_ == nullptr) fail(*node, fmt::format("{} is a table, [{}]", name, name));
  }

  void text(std::string_view key, std::string& out) {
    if (toml::node* n = take(key)) out = value<std::string>(*n, key, "a string");
  }
  void boolean(std::string_view key, bool& out) {
    if (toml::node* n = take(key)) out = value<bool>(*n, key, "true or false");
  }
  template <class T>
  void integer(std::string_view key, T& out, std::int64_t low, std::int64_t high) {
    if (toml::node* n = take(key)) out = static_cast<T>(whole(*n, key, low, high));
  }
  void number(std::string_view key, double& out, double low, double high) {
    if (toml::node* n = take(key)) out = real(*n, key, low, high);
  }
  void integers(std::string_view key, std::vector<std::int64_t>& out, std::int64_t low, std::int64_t high) {
    each(key, "an array of integers", out, [&](const toml::node& n) { return whole(n, key, low, high); });
  }
  void numbers(std::string_view key, std::vector<double>& out, double low, double high) {
    each(key, "an array of numbers", out, [&](const toml::node& n) { return real(n, key, low, high); });
  }
  template <class T>
  void choice(std::string_view key, T& out, const Names<T>& names) {
    toml::node* n = take(key);
    if (n == nullptr) return;
    const auto word = value<std::string>(*n, key, "a string");
    std::vector<std::string_view> known;
    for (const auto& [name, item] : names) {
      if (name == word) {
        out = item;
        return;
      }
      known.push_back(name);
    }
    fail(*n, fmt::format("{}{} is one of {}, not \"{}\"; did you mean \"{}\"?", prefix_, key, join(known),
                         word, nearest_name(word, known)));
  }
  void spec(std::string_view key, std::optional<Spec>& out) {
    if (toml::node* n = take(key)) {
      const auto text = value<std::string>(*n, key, "a string");
      if (key == "accumulator" && text == kInMomentum) {
        fail(*n,
             "gradients are accumulated in the momentum for all tensors, by memory.accumulator, or for none");
      }
      guard(*n, key, [&] { out = parse_spec(text); });
    }
  }
  void policy(Policy& out, const OptimizerConfig& optimizer) {
    constexpr auto kParameter = static_cast<std::size_t>(Role::kParameter);
    constexpr auto kMomentum = static_cast<std::size_t>(Role::kMomentum);
    constexpr auto kAccumulator = static_cast<std::size_t>(Role::kAccumulator);
    if (toml::node* n = take("preset")) {
      const auto preset = value<std::string>(*n, "preset", "a string");
      guard(*n, "preset", [&] { out = make_policy(preset, optimizer); });
    }
    // Error feedback is the preset's where the parameter and what carries its errors are.
    for (std::size_t r = 0; r < kRoles; ++r) {
      std::optional<Spec> given;
      if (r == kAccumulator && take_word("accumulator", kInMomentum)) {
        out.accumulate_in_momentum = true;
        continue;
      }
      spec(to_string(static_cast<Role>(r)), given);
      if (given && r == kAccumulator) out.accumulate_in_momentum = false;
      if (given) out.specs[r] = *given;
      if (given && (r == kParameter || r == kMomentum)) out.error_feedback = false;
    }
    choice(
        "rounding", rounding_,
        Names<std::optional<Rounding>>{
            {"sr", Rounding::kStochastic}, {"rn", Rounding::kNearest}, {"qr", Rounding::kQuasiStochastic}});
    if (rounding_ && *rounding_ != out.specs[kParameter].rounding) out.error_feedback = false;
  }
  // Asked for by memory.rounding; applied when the overrides are known too.
  std::optional<Rounding> rounding() const { return rounding_; }

  template <class T, class Body>
  void list(std::string_view key, std::vector<T>& out, const Body& body) {
    const std::string full = prefix_ + std::string(key);
    T defaults;
    toml::table nothing;
    Reader names(nothing, name_);
    names.prefix_ = full + ".";
    body(names, defaults);
    known_.insert(names.known_.begin(), names.known_.end());
    toml::node* n = take(key);
    if (n == nullptr) return;
    toml::array* items = n->as_array();
    if (items == nullptr) fail(*n, fmt::format("{} is an array of tables, [[{}]]", full, full));
    out.clear();
    for (toml::node& item : *items) {
      if (!item.is_table()) fail(item, fmt::format("{} is an array of tables, [[{}]]", full, full));
      Reader reader(*item.as_table(), name_);
      reader.prefix_ = full + ".";
      T entry;
      body(reader, entry);
      reader.refuse_rest(*item.as_table(), reader.prefix_);
      if (entry.pattern.empty()) fail(item, fmt::format("{} needs a pattern", full));
      out.push_back(std::move(entry));
    }
  }

  // Every key of the file that no section knows is an error.
  void finish() {
    for (auto&& [key, node] : *root_) {
      const std::string section(key.str());
      if (sections_.contains(section)) {
        refuse_rest(*node.as_table(), section + ".");
      } else if (!node.is_table() || node.as_table()->empty()) {
        refuse(key.source(), section);
      } else {
        const toml::key& inner = node.as_table()->begin()->first;
        refuse(inner.source(), section + "." + std::string(inner.str()));
      }
    }
  }

  // Where a key was set; the file's name where it was not.
  std::string where(const std::string& key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? name_ : found->second;
  }

 private:
  toml::node* take(std::string_view key) {
    const std::string full = prefix_ + std::string(key);
    known_.insert(full);
    toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
    if (node != nullptr) places_[full] = place(node->source(), name_);
    return node;
  }
  // Takes the key where its value is this string.
  bool take_word(std::string_view key, std::string_view word) {
    const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
    return node != nullptr && node->value_exact<std::string>() == word && take(key) != nullptr;
  }
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw UsageError(fmt::format("{}: {}", place(node.source(), name_), what));
  }
  template <class T>
  T value(const toml::node& n, std::string_view key, const char* expected) const {
    const auto v = n.value_exact<T>();
    if (!v) fail(n, fmt::format("{}{} is {}, not {}", prefix_, key, expected, kind(n)));
    return *v;
  }
  std::int64_t whole(const toml::node& n, std::string_view key, std::int64_t low, std::int64_t high) const {
    const auto v = value<std::int64_t>(n, key, "an integer");
    if (v < low || v > high) {
      fail(n, fmt::format("{}{} = {} is out of range; it goes from {} to {}", prefix_, key, v, low, high));
    }
    return v;
  }
  double real(const toml::node& n, std::string_view key, double low, double high) const {
    const double v =
        n.is_integer() ? static_cast<double>(n.as_integer()->get()) : value<double>(n, key, "a number");
    if (!(v >= low && v <= high)) {
      fail(n, fmt::format("{}{} = {} is out of range; it {}", prefix_, key, v,
                          high == kAny ? fmt::format("is at least {} and finite", low)
                                       : fmt::format("goes from {} to {}", low, high)));
    }
    return v;
  }
  template <class T, class Get>
  void each(std::string_view key, const char* expected, std::vector<T>& out, const Get& get) {
    toml::node* n = take(key);
    if (n == nullptr) return;
    toml::array* items = n->as_array();
    if (items == nullptr) fail(*n, fmt::format("{}{} is {}, not {}", prefix_, key, expected, kind(*n)));
    out.clear();
    for (const toml::node& item : *items) out.push_back(get(item));
  }
  template <class Body>
  void guard(const toml::node& n, std::string_view key, const Body& body) const {
    try {
      body();
    } catch (const UsageError& e) {
      fail(n, fmt::format("{}{}: {}", prefix_, key, e.what()));
    }
  }
  static std::string kind(const toml::node& n) {
    std::ostringstream s;
    s << n.type();
    return fmt::format("a value of type {}", s.str());
  }
  void refuse_rest(const toml::table& table, const std::string& prefix) const {
    for (auto&& [key, node] : table) {
      if (const std::string full = prefix + std::string(key.str()); !known_.contains(full)) {
        refuse(key.source(), full);
      }
    }
  }
  [[noreturn]] void refuse(const toml::source_region& source, const std::string& key) const {
    const std::vector<std::string_view> names(known_.begin(), known_.end());
    throw UsageError(fmt::format("{}: unknown key {}; did you mean {}?", place(source, name_), key,
                                 nearest_name(key, names)));
  }

  toml::table* root_;
  toml::table* table_;
  std::string name_, prefix_;
  std::set<std::string> sections_;
  std::set<std::string, std::less<>> known_;
  std::map<std::string, std::string> places_;
  std::optional<Rounding> rounding_;
};

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char ch : text) {
    if (ch == '"' || ch == '\\') out += '\\';
    if (static_cast<unsigned char>(ch) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<int>(ch));
    } else {
      out += ch;
    }
  }
  return out + '"';
}

// Collects (section, key, value) in order; lists of tables become inline tables of one line each.
class Writer {
 public:
  struct Line {
    std::string section, key, value;
  };
  std::vector<Line> lines;

  void section(std::string_view name) { section_ = name; }
  void text(std::string_view key, const std::string& v) { add(key, toml_string(v)); }
  void boolean(std::string_view key, bool v) { add(key, v ? "true" : "false"); }
  template <class T>
  void integer(std::string_view key, T v, std::int64_t, std::int64_t) {
    add(key, fmt::format("{}", v));
  }
  void number(std::string_view key, double v, double, double) { add(key, fmt::format("{}", v)); }
  void integers(std::string_view key, const std::vector<std::int64_t>& v, std::int64_t, std::int64_t) {
    add(key, fmt::format("[{}]", fmt::join(v, ", ")));
  }
  void numbers(std::string_view key, const std::vector<double>& v, double, double) {
    add(key, fmt::format("[{}]", fmt::join(v, ", ")));
  }
  template <class T>
  void choice(std::string_view key, const T& v, const Names<T>& names) {
    const auto at = std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.second == v; });
    add(key, toml_string(at->first));
  }
  void spec(std::string_view key, const std::optional<Spec>& v) {
    if (v) add(key, toml_string(to_string(*v)));
  }
  void policy(const Policy& policy, const OptimizerConfig&) {
    text("preset", policy.preset);
    for (std::size_t r = 0; r < kRoles; ++r) {
      const Role role = static_cast<Role>(r);
      if (role == Role::kAccumulator && policy.accumulate_in_momentum) {
        text(to_string(role), std::string(kInMomentum));
      } else {
        spec(to_string(role), policy.specs[r]);
      }
    }
  }
  template <class T, class Body>
  void list(std::string_view key, const std::vector<T>& items, const Body& body) {
    std::vector<std::string> tables;
    for (const T& item : items) {
      Writer inner;
      body(inner, item);
      std::vector<std::string> pairs;
      for (const Line& l : inner.lines) pairs.push_back(fmt::format("{} = {}", l.key, l.value));
      tables.push_back(fmt::format("{{ {} }}", fmt::join(pairs, ", ")));
    }
    if (!tables.empty()) add(key, fmt::format("[{}]", fmt::join(tables, ", ")));
  }

 private:
  void add(std::string_view key, std::string value) {
    lines.push_back({section_, std::string(key), std::move(value)});
  }
  std::string section_;
};

std::vector<Writer::Line> lines_of(const RunConfig& config) {
  Writer writer;
  visit(writer, config);
  return std::move(writer.lines);
}

toml::table parse_toml(const std::string& text, const std::string& name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("{}: {}", place(e.source(), name), e.description()));
  }
}

void merge(toml::table& into, toml::table&& from, const std::string& option) {
  for (auto&& [key, node] : from) {
    toml::node* old = into.get(key);
    if (old != nullptr && old->is_table() && node.is_table()) {
      merge(*old->as_table(), std::move(*node.as_table()), option);
    } else if (old != nullptr && !old->is_table() && node.is_table()) {
      throw UsageError(fmt::format("{}: {} is no table in the file", option, key.str()));
    } else {
      node.visit([&, k = key](auto& n) { into.insert_or_assign(k, std::move(n)); });
    }
  }
}

// "a.b=c" as a table; `option` names it in messages.
toml::table parse_setting(const std::string& setting, const std::string& option) {
  const std::size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  constexpr const char* kKeyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  if (equals == std::string::npos || key.find('.') == std::string::npos ||
      key.find_first_not_of(kKeyLetters) != std::string::npos) {
    throw UsageError(fmt::format("{}: expected section.key=value, as in --set train.epochs=10", option));
  }
  const std::string value = setting.substr(equals + 1);
  if (value.find('\n') != std::string::npos)
    throw UsageError(fmt::format("{}: sets more than one line", option));
  try {
    return toml::parse(fmt::format("{} = {}", key, value), option);
  } catch (const toml::parse_error&) {
    if (value.find_first_not_of("0123456789", value.starts_with('-') ? 1 : 0) == std::string::npos &&
        value.size() > 15) {
      throw UsageError(fmt::format("{}: is out of range", option));
    }
    // A bare word is a string; brackets and quotes show that a TOML value was meant.
    if (value.empty() || value.find_first_of("[]{}\"'") != std::string::npos) {
      throw UsageError(fmt::format("{}: \"{}\" is no TOML value", option, value));
    }
    return parse_toml(fmt::format("{} = {}", key, toml_string(value)), option);
  }
}

void check(const RunConfig& c, const Reader& reader) {
  const auto refuse = [&](const char* key, const std::string& what) {
    throw UsageError(fmt::format("{}: {}", reader.where(key), what));
  };
  if (c.train.batch % c.train.microbatches != 0) {
    refuse(reader.where("train.microbatches") == reader.where("") ? "train.batch" : "train.microbatches",
           fmt::format("train.batch = {} is not divisible by train.microbatches = {}", c.train.batch,
                       c.train.microbatches));
  }
  if (c.train.epochs == 0 && c.train.steps == 0) {
    refuse("train.epochs", "set train.epochs or train.steps to how long to train");
  }
  if (!std::is_sorted(c.schedule.milestones.begin(), c.schedule.milestones.end())) {
    refuse("schedule.milestones", "schedule.milestones are shares of the run in ascending order");
  }
  try {
    check_optimizer(c.optimizer);
    check_policy(c.policy, {});
    check_momentum(c.policy, c.optimizer);
  } catch (const UsageError& e) {
    refuse("", e.what());
  }
}

}  // namespace

RunConfig parse_config(const std::string& text, const std::string& name, const ConfigOptions& options) {
  toml::table root = parse_toml(text, name);
  const auto set = [&](const std::string& setting, const std::string& option) {
    merge(root, parse_setting(setting, option), option);
  };
  if (!options.preset.empty()) {
    if (toml::table* memory = root["memory"].as_table()) {
      for (std::size_t r = 0; r < kRoles; ++r) memory->erase(to_string(static_cast<Role>(r)));
      memory->erase("error_feedback");
    }
    set("memory.preset=" + toml_string(options.preset), "--preset " + options.preset);
  }
  if (!options.rounding.empty()) {
    set("memory.rounding=" + toml_string(options.rounding), "--rounding " + options.rounding);
  }
  for (const std::string& setting : options.settings) set(setting, "--set " + setting);
  // A length in epochs that was asked for replaces one in steps that the file has.
  const auto given = [&](std::string_view key) {
    return std::any_of(options.settings.begin(), options.settings.end(),
                       [&](const std::string& s) { return s.starts_with(key); });
  };
  if (given("train.epochs=") && !given("train.steps=")) root["train"].as_table()->erase("steps");

  RunConfig config;
  config.policy = make_policy("fp32");
  Reader reader(root, name);
  visit(reader, config);
  reader.finish();
  if (reader.rounding()) set_rounding(config.policy, *reader.rounding());
  check(config, reader);
  return config;
}

RunConfig load_config(const std::string& path, const ConfigOptions& options) {
  std::string text;
  try {
    text = read_text(path, kLongestFile);
  } catch (const RunError& e) {
    throw UsageError(e.what());
  }
  return parse_config(text, path, options);
}

std::string to_toml(const RunConfig& config) {
  std::string out, section;
  for (const Writer::Line& line : lines_of(config)) {
    if (line.section != section) {
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", line.section);
      section = line.section;
    }
    out += fmt::format("{} = {}\n", line.key, line.value);
  }
  return out;
}

std::vector<ConfigDifference> differences(const RunConfig& first, const RunConfig& second) {
  std::map<std::string, ConfigDifference> all;
  for (const auto& l : lines_of(first)) all[l.section + "." + l.key].first = l.value;
  for (const auto& l : lines_of(second)) all[l.section + "." + l.key].second = l.value;
  if (!uses_momentum(first.optimizer) && !uses_momentum(second.optimizer)) all.erase("memory.momentum");
  if (!uses_variance(first.optimizer) && !uses_variance(second.optimizer)) all.erase("memory.variance");
  std::vector<ConfigDifference> out;
  for (auto& [key, d] : all) {
    if (d.first != d.second) out.push_back({key, d.first, d.second});
  }
  return out;
}

}  // namespace lpmm
