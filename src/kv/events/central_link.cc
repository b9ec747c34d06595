#include "central_link.h"

#include "kv_events/topic.h"

#include <algorithm>

namespace llmd::kv_events {
namespace {

constexpr int kMessagesAtOnce = 64;

}  // namespace

CentralLink::CentralLink(LinkContext context)
    : context_(context),
      socket_(context.zmq, ZMQ_SUB,
              {.receive_messages_max = context.options.waiting_messages_max,
               .message_bytes_max = BatchDecoder::kBatchBytesMax}) {}

Status CentralLink::start() {
  socket_.subscribe(context_.options.topic_filter);
  LLMD_TRY(socket_.bind(context_.options.bind_endpoint));
  watch_ = std::make_unique<ZmqWatch>(context_.loop, socket_, *this);
  return {};
}

bool CentralLink::read_some(ZmqSocket&) {
  ZmqMessage message;
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    if (!socket_.receive(message)) return false;
    take(message);
  }
  return true;
}

void CentralLink::take(const ZmqMessage& message) {
  SubscriberMetrics& metrics = context_.stream.metrics;
  const auto read = message.size() == 3
                        ? as_message(message.frame(0), message.frame(1), message.frame(2))
                        : std::nullopt;
  if (!read) return metrics.bad_frames.add();
  // Ranks of one pod may share its topic, each with numbers of its own. A batch that cannot be read
  // is missed when the next one comes.
  const auto batch = context_.stream.decoder.decode(read->payload);
  if (!batch) return metrics.bad_batches.add();
  PublisherStream* const stream = find(parse_topic(read->topic).pod, batch->rank);
  if (!stream) return metrics.refused.add();
  stream->metrics().messages.add();
  if (in_row(read->sequence)) stream->skip_to(read->sequence);
  stream->live(*read, &*batch);
}

/// Whether the number is the next one of a row that all publishers share.
bool CentralLink::in_row(uint64_t sequence) {
  const bool follows = sequence == row_next_ || streams_.size() == 1;
  row_length_ = follows ? std::min(row_length_ + 1, kRowMin) : 0;
  row_next_ = sequence + 1;
  return row_length_ == kRowMin && streams_.size() > 1;
}

PublisherStream* CentralLink::find(std::string_view pod, std::optional<uint32_t> rank) {
  key_ = pod;
  key_ += '\0';
  if (rank) key_.append(reinterpret_cast<const char*>(&*rank), sizeof *rank);
  if (const auto found = streams_.find(key_); found != streams_.end()) return found->second.get();
  if (streams_.size() >= kPublishersMax && !make_room()) return nullptr;
  auto stream = std::make_unique<PublisherStream>(
      context_.stream, Publisher{std::string(pod), 0, rank, nullptr},
      context_.stream.metrics.pod(labels_.admit(pod)), false, "");
  return streams_.emplace(key_, std::move(stream)).first->second.get();
}

bool CentralLink::make_room() {
  const auto oldest = std::ranges::min_element(
      streams_, {}, [](const auto& entry) { return entry.second->heard(); });
  if (context_.stream.clock.now() - oldest->second->heard() < kSilenceMax) return false;
  oldest->second->leave();
  streams_.erase(oldest);
  return true;
}

void CentralLink::forget_pod(std::string_view pod) {
  boost::unordered::erase_if(streams_, [&](const auto& entry) {
    if (entry.second->publisher().pod != pod) return false;
    entry.second->leave();
    return true;
  });
}

}  // namespace llmd::kv_events
