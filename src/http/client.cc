#include "http/client.h"

#include "client_connection.h"

#include "base/check.h"

namespace llmd::http {

std::string_view text_of(Failure failure) {
  switch (failure) {
    case Failure::kConnect:
      return "cannot connect";
    case Failure::kStale:
    case Failure::kUnsent:
    case Failure::kReset:
    case Failure::kBroken:
      return "connection closed before the answer was complete";
    case Failure::kTimeout:
      return "no answer in time";
    case Failure::kProtocol:
      return "the answer is not valid HTTP";
  }
  return "failed";
}

ClientPeer& Client::State::peer(const Destination& destination) {
  auto& slot = peers[destination];
  if (!slot) {
    slot = std::make_unique<ClientPeer>();
    slot->destination = destination;
  }
  return *slot;
}

ClientConnection& Client::State::connection_to(const Destination& destination, bool fresh) {
  ClientPeer& to = peer(destination);
  if (!fresh && !to.idle.empty()) {
    ClientConnection& kept = *to.idle.back();
    to.idle.pop_back();
    --idle;
    kept.state_ = ClientConnection::State::kActive;
    kept.deadline_.clear();
    return kept;
  }
  connections.emplace_front(*this, to);
  connections.front().self = connections.begin();
  ++to.connections;
  ++made;
  return connections.front();
}

void Client::State::erase(ClientConnection& connection) {
  ClientPeer& of = connection.peer_;
  connections.erase(connection.self);
  if (--of.connections == 0) peers.erase(Destination(of.destination));
}

Client::Client(io::Loop& loop, ClientOptions options)
    : state_(std::make_unique<State>(loop, options)) {}

Client::~Client() {
  for (const auto& connection : state_->connections) CHECK(connection.call == nullptr);
}

io::Loop& Client::loop() const {
  return state_->loop;
}

void Client::purge(const Destination& destination) {
  const auto found = state_->peers.find(destination);
  if (found == state_->peers.end()) return;
  ClientPeer& peer = *found->second;
  peer.purged = true;
  while (!peer.idle.empty()) peer.idle.back()->close();
}

size_t Client::idle_connections() const {
  return state_->idle;
}
size_t Client::connections() const {
  return state_->connections.size();
}
uint64_t Client::connections_made() const {
  return state_->made;
}

void Call::start(const Destination& destination, const CallRequest& request) {
  CHECK(!active());
  connection_ = &client_->state_->connection_to(destination, request.fresh_connection);
  connection_->begin(*this, request);
}

void Call::abort() {
  if (auto* connection = std::exchange(connection_, nullptr)) connection->abandon();
}

void Call::pause() {
  if (!connection_) return;
  connection_->paused_ = true;
  if (connection_->head_done_) connection_->deadline_.clear();
}

void Call::resume() {
  if (!connection_ || !std::exchange(connection_->paused_, false)) return;
  if (connection_->head_done_) connection_->deadline_.set(client_->state_->options.body_timeout);
  if (connection_->readable_) client_->loop().at_turn_end(*connection_);
}

bool Call::request_sent() const {
  return connection_ && connection_->sent();
}

}  // namespace llmd::http
