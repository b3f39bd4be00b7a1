#include "experiments/serve/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "experiments/serve/connection.h"
#include "lpmm/base/error.h"
#include "lpmm/files/json.h"

namespace lpmm {
namespace {

constexpr std::size_t kMostPrompts = 256, kMostStops = 16;

[[noreturn]] void refuse_field(const std::string& field, const std::string& why,
                               const std::string& code = {}) {
  throw ApiError(400, fmt::format("{} {}", field, why), field, code);
}

// The members of an object; each that is there must be asked for.
class Members {
 public:
  explicit Members(const Json& object) : object_(object) {}
  // Null: it is not there, or null.
  const Json* find(const std::string& name) {
    asked_.insert(name);
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  bool flag(const std::string& name) {
    const Json* value = find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse_field(name, "is not true or false");
    return value->get<bool>();
  }
  double number(const std::string& name, double usual) {
    const Json* value = find(name);
    if (value == nullptr) return usual;
    if (!value->is_number()) refuse_field(name, "is not a number");
    return value->get<double>();
  }
  std::int64_t integer(const std::string& name, std::int64_t usual, std::int64_t least, std::int64_t most) {
    const Json* value = find(name);
    if (value == nullptr) return usual;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() || value->get<std::uint64_t>() <= std::uint64_t{1} << 62);
    if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
      refuse_field(name, fmt::format("is not an integer from {} to {}", least, most));
    }
    return value->get<std::int64_t>();
  }
  // Refuses a field unless it has the one value that changes nothing.
  void only(const std::string& name, const Json& value) {
    const Json* said = find(name);
    if (said != nullptr && *said != value) {
      refuse_field(name, fmt::format("other than {} is not supported", value.dump()));
    }
  }
  void check_all_asked() const {
    for (const auto& [name, value] : object_.items()) {
      if (!asked_.contains(name)) refuse_field(name, "is not supported");
    }
  }

 private:
  const Json& object_;
  std::set<std::string> asked_;
};

Json parse_body(const std::string& body) {
  try {
    Json object = parse_json(body, 32, SameNames::kRefused);
    if (object.is_object()) return object;
  } catch (const std::exception& error) {
    throw ApiError(400, fmt::format("the body is no JSON: {}", error.what()));
  }
  throw ApiError(400, "the body is no JSON object");
}

std::vector<std::int32_t> ids_in(const Json& list, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (const Json& one : list) {
    if (!one.is_number_integer() || one < 0 || one >= tokenizer.vocabulary()) {
      refuse_field("prompt", fmt::format("has {}, which is no token: ids are 0 to {}",
                                         one.dump().substr(0, 40), tokenizer.vocabulary() - 1));
    }
    ids.push_back(one.get<std::int32_t>());
  }
  return ids;
}

std::vector<std::int32_t> ids_of(const Json& prompt, const Tokenizer& tokenizer) {
  if (prompt.is_array()) return ids_in(prompt, tokenizer);
  if (!prompt.is_string())
    refuse_field("prompt", "is neither a text nor a list of token ids, nor a list of these");
  std::vector<std::int32_t> ids = tokenizer.before_text();
  const std::vector<std::int32_t> text = tokenizer.encode(prompt.get<std::string>());
  ids.insert(ids.end(), text.begin(), text.end());
  return ids;
}

void read_prompts(Members& fields, const Tokenizer& tokenizer, TextRequest& request) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) refuse_field("prompt", "is missing");
  if (prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number()) {
    if (prompt->size() > kMostPrompts)
      refuse_field("prompt", fmt::format("has more than {} parts", kMostPrompts));
    for (const Json& one : *prompt) request.prompts.push_back(ids_of(one, tokenizer));
  } else {
    request.prompts.push_back(ids_of(*prompt, tokenizer));
  }
}

// A content is a text, or a list of {"type": "text", "text": "..."}.
std::string content_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse_field("messages", "has a content that is no text");
  std::string text;
  for (const Json& part : content) {
    const bool is_text =
        part.is_object() && part.value("type", Json()) == "text" && part.value("text", Json()).is_string();
    if (!is_text) refuse_field("messages", "has a content with a part that is no text");
    text += part["text"].get<std::string>();
  }
  return text;
}

void read_messages(Members& fields, const Served& served, TextRequest& request) {
  if (served.format == nullptr) {
    throw ApiError(400, "this model has no chat template; the server takes one by --template");
  }
  const Json* said = fields.find("messages");
  if (said == nullptr || !said->is_array() || said->empty()) {
    refuse_field("messages", "is not a list of {\"role\", \"content\"}");
  }
  Json messages = Json::array();
  for (const Json& one : *said) {
    if (!one.is_object() || !one.value("role", Json()).is_string() || !one.contains("content")) {
      refuse_field("messages", "has one without role and content");
    }
    Members message(one);
    message.find("role");
    message.find("content");
    message.check_all_asked();
    messages.push_back({{"role", one["role"]}, {"content", content_of(one["content"])}});
  }
  request.prompts.push_back(served.format->prompt(messages));
}

void read_stops(Members& fields, std::vector<std::string>& stops) {
  const Json* said = fields.find("stop");
  if (said == nullptr) return;
  for (const Json& one : said->is_array() ? *said : Json::array({*said})) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty() || stops.size() >= kMostStops) {
      refuse_field("stop", fmt::format("is neither a text nor a list of up to {} texts", kMostStops));
    }
    stops.push_back(one.get<std::string>());
  }
}

void read_sampling(Members& fields, SamplingOptions& o) {
  o.temperature = fields.number("temperature", 1);
  o.top_p = fields.number("top_p", 1);
  o.top_k = fields.integer("top_k", 0, 0, 1 << 24);
  o.min_p = fields.number("min_p", 0);
  o.repetition_penalty = fields.number("repetition_penalty", 1);
  const std::int64_t most = std::int64_t{1} << 62;
  const std::int64_t seed = fields.integer("seed", -1 - most, -most, most);
  o.seed = seed >= -most ? static_cast<std::uint64_t>(seed) : std::random_device()();
  check_sampling(o);
}

void read_logprobs(Members& fields, TextRequest& request) {
  if (!request.is_chat) {
    request.alternatives = fields.integer("logprobs", -1, 0, 20);
    return;
  }
  const std::int64_t most = fields.integer("top_logprobs", 0, 0, 20);
  if (fields.flag("logprobs")) {
    request.alternatives = most;
  } else if (most > 0) {
    refuse_field("top_logprobs", "needs logprobs = true");
  }
}

void read_lengths(Members& fields, const Served& served, TextRequest& request) {
  constexpr std::int64_t kUsualTokens = 16;  // OpenAI's, of completions
  const char* name = request.is_chat && fields.find("max_completion_tokens") != nullptr
                         ? "max_completion_tokens"
                         : "max_tokens";
  const std::int64_t context = served.writer.context();
  std::int64_t longest = 0;
  for (const auto& ids : request.prompts) {
    if (ids.empty()) refuse_field(request.is_chat ? "messages" : "prompt", "is empty");
    longest = std::max(longest, std::ssize(ids));
  }
  const std::int64_t room = std::max<std::int64_t>(0, context - longest);
  const std::int64_t usual =
      request.is_chat ? std::min(served.most_tokens, room) : std::min(served.most_tokens, kUsualTokens);
  request.write.tokens = fields.integer(name, usual, request.is_chat ? 1 : 0, served.most_tokens);
  if (longest + request.write.tokens > context || (request.is_chat && room == 0)) {
    refuse_field(request.is_chat ? "messages" : "prompt",
                 fmt::format("has {} tokens, and {} are to be written: this server's context is {} tokens",
                             longest, request.write.tokens, context),
                 "context_length_exceeded");
  }
}

void check_model(Members& fields, const std::string& name) {
  const Json* said = fields.find("model");
  if (said == nullptr || *said == name) return;
  throw ApiError(404, fmt::format("there is no model {}; this server has {}", said->dump(), name), "model",
                 "model_not_found");
}

}  // namespace

TextRequest read_request(const std::string& body, bool is_chat, const Served& served) {
  const Json object = parse_body(body);
  Members fields(object);
  check_model(fields, served.model);
  TextRequest request;
  request.is_chat = request.write.begins = is_chat;
  try {
    if (is_chat) {
      read_messages(fields, served, request);
      request.write.stops = served.format->stops();
      fields.only("response_format", {{"type", "text"}});
    } else {
      read_prompts(fields, served.writer.tokenizer(), request);
      request.echo = fields.flag("echo");
      fields.only("best_of", 1);
      fields.only("suffix", "");
    }
    read_stops(fields, request.write.stops);
    read_sampling(fields, request.write.sampling);
  } catch (const UsageError& error) {
    throw ApiError(400, error.what());
  } catch (const RunError& error) {
    throw ApiError(400, error.what());
  }
  read_logprobs(fields, request);
  read_lengths(fields, served, request);
  request.streams = fields.flag("stream");
  if (const Json* options = fields.find("stream_options"); options != nullptr) {
    if (!options->is_object()) refuse_field("stream_options", "is not an object");
    Members of(*options);
    request.counts_tokens = of.flag("include_usage");
    of.check_all_asked();
  }
  fields.only("n", 1);
  fields.only("presence_penalty", 0);
  fields.only("frequency_penalty", 0);
  fields.only("logit_bias", Json::object());
  fields.find("user");  // a client's own label
  fields.check_all_asked();
  return request;
}

}  // namespace lpmm
