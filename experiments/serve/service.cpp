#include "experiments/serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "experiments/serve/answer.h"

namespace lpmm {
namespace {

using Clock = std::chrono::steady_clock;

// Takes as long for any text of this length, so that nobody learns a token by timing.
bool is_same(std::string_view a, std::string_view b) {
  unsigned differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differs |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return differs == 0;
}

bool is_json(std::string type) {
  type.resize(std::min(type.find(';'), type.size()));
  std::erase_if(type, [](char c) { return c == ' ' || c == '\t'; });
  std::ranges::transform(type, type.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return type == "application/json";
}

// Ends the reading of a text by an exception.
TextWriter::GoesOn as_question(const std::function<void()>& goes_on) {
  return [&goes_on] {
    goes_on();
    return true;
  };
}

class Turn {
 public:
  Turn(Turns& turns, std::size_t most, const std::function<void()>& goes_on) : turns_(turns) {
    turns_.take(most, goes_on);
  }
  ~Turn() { turns_.leave(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
};

}  // namespace

void Turns::take(std::size_t most, const std::function<void()>& goes_on) {
  constexpr std::chrono::milliseconds kSlice{50};
  std::unique_lock lock(mutex_);
  if (waiting_.size() > most) {
    throw ApiError(429, fmt::format("{} requests wait already; try again later", most), "", "rate_limit");
  }
  const std::uint64_t own = next_++;
  waiting_.push_back(own);
  try {
    while (waiting_.front() != own) {
      changed_.wait_for(lock, kSlice);
      goes_on();
    }
  } catch (...) {
    waiting_.erase(std::ranges::find(waiting_, own));
    changed_.notify_all();
    throw;
  }
}

void Turns::leave() {
  const std::scoped_lock lock(mutex_);
  waiting_.pop_front();
  changed_.notify_all();
}

void Service::check(const HttpRequest& request) const {
  // A page in a browser must not speak to a server on the same machine.
  if (!request.origin.empty()) throw ApiError(403, "requests of web pages (Origin) are not answered");
  if (token_.empty()) return;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view said = request.authorization;
  if (!said.starts_with(kScheme) || !is_same(said.substr(kScheme.size()), token_)) {
    throw ApiError(401, "the token is missing or wrong: Authorization: Bearer TOKEN", "", "invalid_api_key");
  }
}

void Service::handle(const HttpRequest& request, Connection& connection) {
  check(request);
  const bool is_models = request.path == "/v1/models" || request.path == "/v1/models/" + served_.model;
  const bool is_chat = request.path == "/v1/chat/completions";
  if (!is_models && !is_chat && request.path != "/v1/completions") {
    throw ApiError(404, fmt::format("there is no {}; there are /v1/models, /v1/completions and "
                                    "/v1/chat/completions",
                                    request.path));
  }
  const char* method = is_models ? "GET" : "POST";
  if (request.method != method) {
    throw ApiError(405, fmt::format("{} takes {}, not {}", request.path, method, request.method));
  }
  if (is_models) {
    const Json model = {{"id", served_.model}, {"object", "model"}, {"created", 0}, {"owned_by", "lpmm"}};
    const bool is_list = request.path == "/v1/models";
    connection.answer(200, (is_list ? Json{{"object", "list"}, {"data", Json::array({model})}} : model)
                               .dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  if (!is_json(request.content_type)) throw ApiError(415, "the body must be of type application/json");
  const auto until = Clock::now() + limits_.patience;
  const std::function<void()> goes_on = [&] {
    if (stopping_) throw ApiError(503, "the server stops");
    if (connection.is_gone()) throw ApiError(499, "the client is gone");
    if (Clock::now() > until) {
      throw ApiError(503, fmt::format("there was no answer after {} seconds", limits_.patience.count()));
    }
  };
  answer(read_request(request.body, is_chat, served_), connection, goes_on);
}

void Service::answer(const TextRequest& request, Connection& connection,
                     const std::function<void()>& goes_on) {
  const Turn turn(turns_, limits_.waiting, goes_on);
  TextWriter& writer = served_.writer;
  Answer answer(request, served_, ++answers_, connection);
  const std::int64_t known = writer.tokenizer().vocabulary();
  const bool scores = request.alternatives >= 0;
  std::int64_t prompt_tokens = 0, written_tokens = 0;
  for (const std::vector<std::int32_t>& ids : request.prompts) {
    writer.forget();
    if (request.echo) {
      std::vector<TokenScore> tokens;
      if (scores) {
        tokens.push_back({ids[0], std::nullopt, {}});
        writer.read(ids, as_question(goes_on), [&](std::size_t i, std::span<const float> logits) {
          if (i + 1 < ids.size()) {
            tokens.push_back(score_token(logits, ids[i + 1], request.alternatives, known));
          }
        });
        writer.forget();
      }
      answer.add(whole_characters(writer.tokenizer().decode(ids)), tokens);
    }
    const Written written = writer.write(
        ids, request.write,
        [&](const WrittenToken& token) {
          std::vector<TokenScore> tokens;
          if (scores && token.id >= 0) {
            tokens.push_back(score_token(token.logits, token.id, request.alternatives, known));
          }
          answer.add(token.text, tokens);
          goes_on();
          return true;
        },
        as_question(goes_on));
    answer.end_choice(written.ended);
    prompt_tokens += std::ssize(ids);
    written_tokens += std::ssize(written.ids);
  }
  answer.finish(prompt_tokens, written_tokens);
}

}  // namespace lpmm
