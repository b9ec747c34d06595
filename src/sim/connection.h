#pragma once

#include "api.h"
#include "endpoint.h"

#include "http/server.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::sim {

/// Answers the requests of one client connection. Of a generation it holds everything: the parsed
/// request, its sequences and the stream's fixed text; all of it is reused for the connection's
/// next request. Threading: the server's loop.
class Connection final : public http::RequestHandler, private SequenceOwner {
 public:
  explicit Connection(Endpoint& endpoint) : endpoint_(endpoint) {}
  ~Connection() override;

  void on_request(http::Exchange& exchange) override;
  void on_request_end(http::Exchange& exchange, std::string_view body) override;
  void on_abort(http::Exchange& exchange, http::AbortCause cause) override;

 private:
  struct Route;
  static const Route* find_route(std::string_view path);

  // One per route.
  void chat(http::Exchange& x, std::string_view body) { generate(x, body, true); }
  void completions(http::Exchange& x, std::string_view body) { generate(x, body, false); }
  void models(http::Exchange& x, std::string_view);
  void event_sources(http::Exchange& x, std::string_view);
  void metrics(http::Exchange& x, std::string_view);
  void ok(http::Exchange& x, std::string_view);
  void ready(http::Exchange& x, std::string_view);
  void version(http::Exchange& x, std::string_view);
  void load(http::Exchange& x, std::string_view);
  void render_chat(http::Exchange& x, std::string_view body) { render(x, body, true); }
  void render_completions(http::Exchange& x, std::string_view body) { render(x, body, false); }
  void tokenize_text(http::Exchange& x, std::string_view body);
  void reset_prefix_cache(http::Exchange& x, std::string_view);
  void load_adapter(http::Exchange& x, std::string_view body);
  void unload_adapter(http::Exchange& x, std::string_view body);
  void show_admin(http::Exchange& x, std::string_view);
  void change_admin(http::Exchange& x, std::string_view body);

  void grpc_generate(http::Exchange& x, std::string_view body);
  void grpc_model_info(http::Exchange& x, std::string_view);

  void render(http::Exchange& x, std::string_view body, bool chat);
  void generate(http::Exchange& x, std::string_view body, bool chat);
  std::optional<ApiError> fail_on_request(http::Exchange& x, const Draws& draws);
  std::optional<ApiError> check_room() const;
  void begin(http::Exchange& x, int32_t adapter, Draws draws);
  void on_progress(Sequence& sequence) override;
  void stream(Choice& choice);
  void answer();
  void cancel();
  /// Writes one event; false when the exchange ended in the meantime.
  bool send(std::string_view event, bool last = false);
  // In grpc_connection.cc.
  void grpc_answer();
  void grpc_stream(Choice& choice);
  void grpc_finish(const ApiError* error);
  void grpc_refuse(http::Exchange& x, const ApiError& error);

  void respond(http::Exchange& x, int status, std::string_view type, std::string_view body);
  void refuse(http::Exchange& x, const ApiError& error);
  std::vector<HeaderField> answer_headers(std::string_view type) const;

  Endpoint& endpoint_;
  http::Exchange* exchange_ = nullptr;  // of the generation under way
  GenerationRequest request_;
  std::vector<Choice> choices_;
  size_t open_choices_ = 0;
  bool started_ = false;  // the stream's head is out
  bool grpc_ = false;     // the current request is a gRPC call
  AnswerHead head_;
  std::string request_id_;  // echoed as a header when that is on
  StreamEvents events_;
};

}  // namespace llmd::sim
