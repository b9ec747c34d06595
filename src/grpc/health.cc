#include "grpc/health.h"

#include "codec/protobuf.h"

#include <optional>

namespace llmd::grpc {
namespace {

/// HealthCheckRequest{1 service}
std::optional<std::string> read_service(std::string_view message) {
  std::string service;
  codec::ProtoReader reader(message);
  while (reader.next())
    if (reader.key() == codec::proto_bytes(1)) service = reader.bytes();
  if (!reader.ok()) return std::nullopt;
  return service;
}

/// HealthCheckResponse{1 status}
std::string response(Serving status) {
  std::string out;
  codec::ProtoWriter(out).varint(1, static_cast<uint64_t>(status));
  return out;
}

/// A call with one request message, as all of this service are.
class OneRequestCall : public CallHandler {
 public:
  explicit OneRequestCall(Call& call) : call_(call) {}
  void on_half_close() final {
    if (!asked_) call_.finish(StatusCode::kInvalidArgument, "no request message");
  }
  void on_message(std::string_view message) final {
    if (std::exchange(asked_, true))
      return call_.finish(StatusCode::kInvalidArgument, "more than one request message");
    const auto service = read_service(message);
    if (!service) return call_.finish(StatusCode::kInvalidArgument, "malformed request");
    on_service(*service);
  }
  void on_abort(StatusCode) override {}

 protected:
  virtual void on_service(const std::string& service) = 0;
  Call& call_;

 private:
  bool asked_ = false;
};

class UnaryCall final : public OneRequestCall {
 public:
  using Answer = std::function<std::string(const std::string& service)>;
  UnaryCall(Call& call, Answer answer) : OneRequestCall(call), answer_(std::move(answer)) {}

 private:
  void on_service(const std::string& service) override {
    const auto message = answer_(service);
    call_.send({{message}});
    call_.finish(StatusCode::kOk);
  }
  const Answer answer_;
};

}  // namespace

/// Stays open and tells every change.
class Health::Watch final : public OneRequestCall {
 public:
  Watch(Call& call, Health& health) : OneRequestCall(call), health_(health) {}
  ~Watch() override { std::erase(health_.watches_, this); }

  void tell() {
    const Serving now = health_.status_of_(service_);
    if (told_ == now) return;
    told_ = now;
    const auto message = response(now);
    call_.send({{message}});
  }

 private:
  void on_service(const std::string& service) override {
    service_ = service;
    health_.watches_.push_back(this);
    tell();
  }

  Health& health_;
  std::string service_;
  std::optional<Serving> told_;
};

Health::Health(std::function<Serving(std::string_view)> status_of, std::vector<std::string> listed)
    : status_of_(std::move(status_of)), listed_(std::move(listed)) {}
Health::~Health() = default;

std::vector<Method> Health::methods() {
  const auto unary = [](UnaryCall::Answer answer) {
    return [answer = std::move(answer)](Call& call) -> std::unique_ptr<CallHandler> {
      return std::make_unique<UnaryCall>(call, answer);
    };
  };
  return {{"/grpc.health.v1.Health/Check",
           unary([this](const std::string& service) { return response(status_of_(service)); })},
          {"/grpc.health.v1.Health/List", unary([this](const std::string&) {
             // HealthListResponse{1 map<string, HealthCheckResponse>}
             std::string out;
             codec::ProtoWriter writer(out);
             for (const auto& name : listed_)
               writer.message(1, [&] {
                 writer.bytes(1, name);
                 writer.bytes(2, response(status_of_(name)));
               });
             return out;
           })},
          {"/grpc.health.v1.Health/Watch", [this](Call& call) -> std::unique_ptr<CallHandler> {
             return std::make_unique<Watch>(call, *this);
           }}};
}

void Health::refresh() {
  for (auto* watch : watches_) watch->tell();
}

}  // namespace llmd::grpc
