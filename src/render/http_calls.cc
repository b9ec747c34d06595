#include "answer.h"
#include "server_calls.h"

#include "base/log.h"
#include "base/text.h"
#include "fetch/post.h"
#include "render/render_client.h"

namespace llmd::render {
namespace {

constexpr std::string_view kChat = "/v1/chat/completions/render";
constexpr std::string_view kCompletions = "/v1/completions/render";
constexpr size_t kAnswerBytesMax = RenderClient::kAnswerBytesMax;

struct HttpCall final : ServerCall, fetch::Post {
  HttpCall(io::Loop& loop, http::Client& client) : Post(loop, client, kAnswerBytesMax) {}

  bool active() const override { return Post::active(); }
  void ask(RenderServer& server, Question question, Done to) override {
    done = std::move(to);
    chat = question.chat;
    answer.clear();
    start(server.address, chat ? kChat : kCompletions, std::move(question.body), question.timeout);
  }
  void on_answer(std::string_view bytes) override { answer += bytes; }
  void on_ended(std::string_view why, bool reached) override {
    done(why.empty() ? read_answer(answer, chat)
                     : Rendered(fail(Code::kServiceUnavailable, std::string(why))),
         reached);
  }

  Done done;
  bool chat = false;
  std::string answer;
};

/// A chat until there is an answer to one, then one with an image.
struct HttpWarmer final : Warmer, fetch::Post {
  HttpWarmer(io::Loop& loop, http::Client& client, RenderServer& to, WarmUp of)
      : Post(loop, client, kAnswerBytesMax), server(to), what(std::move(of)), timer(loop) {
    ask();
  }
  void ask() { start(server.address, kChat, warm_up_body(what.model, false), what.timeout); }
  void on_ended(std::string_view why, bool) override {
    if (with_image || ++tries == RenderClient::kWarmUpsMax) {
      if (!why.empty())
        log::warn("a render server could not be warmed up",
                  {{"server", server.address.name()}, {"image", with_image}, {"why", why}});
      done_ = true;
    } else if (!why.empty()) {
      timer.arm(RenderClient::kWarmUpPause, [this] { ask(); });
    } else {
      with_image = true;
      start(server.address, kChat, warm_up_body(what.model, true), what.media_timeout);
    }
  }

  RenderServer& server;
  const WarmUp what;
  io::Timer timer;
  int tries = 0;
  bool with_image = false;
};

class Http final : public Protocol {
 public:
  explicit Http(io::Loop& loop) : loop_(loop), client_(loop) {}
  std::unique_ptr<ServerCall> call() override { return std::make_unique<HttpCall>(loop_, client_); }
  std::unique_ptr<Warmer> warm_up(RenderServer& server, WarmUp what) override {
    return std::make_unique<HttpWarmer>(loop_, client_, server, std::move(what));
  }

 private:
  io::Loop& loop_;
  http::Client client_;
};

}  // namespace

std::string warm_up_body(std::string_view model, bool with_image) {
  constexpr std::string_view kImage =
      R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,)"
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
      R"(Jggg=="}}])";  // of one pixel
  std::string body = R"({"model":")";
  append_json_escaped(body, model);
  body += R"(","messages":[{"role":"user","content":)";
  body += with_image ? kImage : R"("warmup")";
  return body + "}]}";
}

std::unique_ptr<Protocol> http_protocol(io::Loop& loop) {
  return std::make_unique<Http>(loop);
}

}  // namespace llmd::render
