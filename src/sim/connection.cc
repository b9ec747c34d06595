#include "connection.h"

#include "base/text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmd::sim {

using nlohmann::json;

Connection::~Connection() {
  cancel();
}

void Connection::on_abort(http::Exchange&, http::AbortCause) {
  if (!exchange_) return;
  exchange_ = nullptr;
  cancel();
  endpoint_.pump();
}

/// Ends all sequences that still run.
void Connection::cancel() {
  if (open_choices_ == 0) return;
  open_choices_ = 0;
  const TimePoint now = endpoint_.clock.now();
  for (Choice& choice : choices_) endpoint_.engine.abort(choice, now);
}

std::vector<HeaderField> Connection::answer_headers(std::string_view type) const {
  std::vector<HeaderField> headers{{"content-type", type}};
  for (const auto& [name, value] : endpoint_.identity_headers) headers.push_back({name, value});
  if (!request_id_.empty()) headers.push_back({"X-Request-Id", request_id_});
  return headers;
}

void Connection::respond(http::Exchange& x, int status, std::string_view type,
                         std::string_view body) {
  const auto headers = answer_headers(type);
  x.respond(status, headers, body);
}

void Connection::refuse(http::Exchange& x, const ApiError& error) {
  if (grpc_) return grpc_refuse(x, error);
  respond(x, error.status, "application/json", error_body(error));
}

void Connection::generate(http::Exchange& x, std::string_view body, bool chat) {
  Endpoint& e = endpoint_;
  request_id_.clear();
  if (e.draining) return refuse(x, {503, "server is shutting down"});
  json parsed;
  if (const auto error = parse_object(body, parsed)) return refuse(x, *error);

  const HeaderView& headers = x.head().headers;
  const Draws draws(static_cast<uint64_t>(e.config.seed) ^ (uint64_t(e.config.port) << 48),
                    e.next_request);
  std::string id = e.next_id();
  if (const auto given = headers.get("x-request-id"); !given.empty()) id = given;
  if (e.config.enable_request_id_headers) request_id_ = id;
  if (const auto failure = fail_on_request(x, draws)) return refuse(x, *failure);

  const std::string model = requested_model(parsed);
  const bool base = e.serves(model);
  const int32_t adapter = base ? -1 : e.engine.find_adapter(model);
  if (!base && adapter < 0)
    return refuse(x, {404, fmt::format("The model `{}` does not exist.", model)});
  if (const auto error = read_generation(parsed, chat, request_)) return refuse(x, *error);
  if (const auto error = check_room()) return refuse(x, *error);
  head_ = {chat, (chat ? "chatcmpl-" : "cmpl-") + id + (chat ? "" : "-0"),
           adapter < 0 ? e.config.display_model() : model, e.unix_seconds()};
  begin(x, adapter, draws);
}

/// The failure that the request asks for, or that is drawn for it.
std::optional<ApiError> Connection::fail_on_request(http::Exchange& x, const Draws& draws) {
  if (const auto wanted = x.head().headers.find("x-return-error")) return requested_error(*wanted);
  Draws failure_draws = draws.sub(0);
  return inject_failure(endpoint_.config, failure_draws);
}

/// Why the request that was read does not fit, if it does not.
std::optional<ApiError> Connection::check_room() const {
  if (auto error = check_context(request_, endpoint_.config.max_model_len)) return error;
  if (endpoint_.engine.accepts(request_.prompts.size() * request_.n)) return std::nullopt;
  endpoint_.engine.count_rejected();
  return ApiError{429, "Failed to enqueue request, waiting requests queue is full"};
}

namespace {

bool is_true(std::string_view header) {
  return header == "1" || header == "t" || header == "T" || header == "true" || header == "TRUE" ||
         header == "True";
}

/// What a choice will answer, and how that ends.
void plan_output(Choice& c, const GenerationRequest& request, const ServerConfig& config) {
  const PromptInput& prompt = request.prompts[c.prompt_index];
  if (config.mode == Mode::kEcho) {
    c.output = Output::echo(prompt.echo);
    if (request.remote_decode && request.max_tokens) c.output.truncate(*request.max_tokens);
  } else {
    const uint32_t left = config.max_model_len - static_cast<uint32_t>(prompt.ids.size());
    const uint32_t length = draw_length(request.max_tokens, request.ignore_eos, left, c.draws);
    c.output = Output::random(length, c.draws.sub(1));
  }
  c.output_tokens = c.output.size();
  const bool full = request.max_tokens && c.output_tokens >= *request.max_tokens;
  c.finish = request.remote_decode ? FinishReason::kRemoteDecode
             : full                ? FinishReason::kLength
                                   : FinishReason::kStop;
}

}  // namespace

void Connection::begin(http::Exchange& x, int32_t adapter, Draws draws) {
  const ServerConfig& config = endpoint_.config;
  const bool force = is_true(x.head().headers.get("x-cache-threshold-finish-reason"));
  exchange_ = &x;
  started_ = false;
  choices_.clear();
  choices_.resize(request_.prompts.size() * request_.n);
  open_choices_ = choices_.size();
  if (request_.stream) events_.begin(head_);
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    Choice& c = choices_[i];
    c.index = i;
    c.prompt_index = i / request_.n;
    c.owner = this;
    c.prompt = request_.prompts[c.prompt_index].ids;
    c.max_tokens = request_.max_tokens;
    c.choices = request_.n;
    c.adapter = adapter;
    c.cache_salt = request_.cache_salt;
    c.remote_prefill = request_.remote_prefill;
    c.each_token = request_.stream;
    c.force_cache_threshold = force;
    c.cache_hit_threshold =
        request_.cache_hit_threshold.value_or(config.global_cache_hit_threshold);
    c.draws = draws.sub(i + 1);
    plan_output(c, request_, config);
  }
  const TimePoint now = endpoint_.clock.now();
  for (Choice& c : choices_) endpoint_.engine.submit(c, now);
  endpoint_.pump();
}

void Connection::on_progress(Sequence& sequence) {
  Choice& choice = static_cast<Choice&>(sequence);
  if (choice.ended()) --open_choices_;
  if (choice.state == Sequence::State::kNoCapacity) {
    const ApiError error{500,
                         "the kv cache does not have sufficient capacity to store this request"};
    cancel();
    if (!started_) return refuse(*std::exchange(exchange_, nullptr), error);
    if (grpc_) return grpc_finish(&error);
    if (send(events_.error(error))) send(StreamEvents::kDone, true);
    return;
  }
  if (request_.stream)
    stream(choice);
  else if (open_choices_ == 0)
    answer();
}

void Connection::answer() {
  if (grpc_) return grpc_answer();
  // The connection's next request may begin inside respond(), so nothing is touched after it.
  http::Exchange& x = *std::exchange(exchange_, nullptr);
  std::string& body = endpoint_.scratch;
  body.clear();
  append_answer(body, head_, request_, choices_);
  respond(x, 200, "application/json", body);
}

bool Connection::send(std::string_view event, bool last) {
  http::Exchange& x = *exchange_;
  if (last) exchange_ = nullptr;
  x.write(event, last);
  return !last && exchange_ != nullptr;
}

void Connection::stream(Choice& choice) {
  if (grpc_) return grpc_stream(choice);
  if (!started_) {
    started_ = true;
    exchange_->start(200, answer_headers("text/event-stream; charset=utf-8"));
  }
  const bool answered = choice.finish != FinishReason::kCacheThreshold;
  if (head_.chat && answered && choice.written == 0 && !send(events_.role(choice.index))) return;
  while (choice.written < choice.emitted) {
    ++choice.written;
    if (!send(events_.token(choice.index, choice.output.next()))) return;
  }
  if (!choice.ended()) return;
  if (!send(events_.finish(choice.index, choice.finish))) return;
  if (open_choices_ > 0) return;
  if (request_.include_usage && !send(events_.usage(usage_of(request_, choices_)))) return;
  send(StreamEvents::kDone, true);
}

}  // namespace llmd::sim
