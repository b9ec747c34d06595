#include "kv_events/batch_decoder.h"

#include "base/arena_list.h"

#include <algorithm>

namespace llmd::kv_events {
namespace {

using codec::MsgpackReader;
using Kind = MsgpackReader::Kind;
using Outcome = EngineAdapter::Outcome;

/// A data-parallel rank is a small number or nil; anything else is no reason to lose the batch.
bool read_rank(MsgpackReader& reader, std::optional<uint32_t>& rank) {
  const char* const start = reader.position();
  uint32_t value[1];
  if (reader.next_kind() == Kind::kInt && reader.read_uint32s(value)) {
    rank = value[0];
    return true;
  }
  reader.rewind(start);
  return reader.skip();
}

/// Whether `next` goes on where `last` ends: removals of one medium and group, read into adjacent
/// memory.
bool continues(const Event& last, const Event& next) {
  return last.type == Event::Type::kRemoved && next.type == Event::Type::kRemoved &&
         last.group == next.group && last.medium == next.medium &&
         last.blocks.data() + last.blocks.size() == next.blocks.data();
}

}  // namespace

bool BatchDecoder::read_events(MsgpackReader& reader, EventRoom& room, Batch& batch) {
  uint32_t count;
  if (!reader.read_array(count)) return false;
  ArenaList<Event> events(arena_);
  // Grown storage lies between the blocks of events, so there is some from the start.
  events.reserve(std::min<size_t>(count, 256));
  for (uint32_t i = 0; i < count; ++i) {
    const char* const start = reader.position();
    const bool wrapped = reader.next_kind() == Kind::kBytes;  // a message within the message
    std::string_view inside;
    if (wrapped && !reader.read_bytes(inside)) return false;
    MsgpackReader inner(inside);
    Event event;
    const Outcome outcome = adapter_.read(wrapped ? inner : reader, room, event);
    if (outcome == Outcome::kEvent) {
      if (!events.empty() && continues(events.back(), event))
        events.back().blocks = {events.back().blocks.data(),
                                events.back().blocks.size() + event.blocks.size()};
      else
        events.push_back(event);
      continue;
    }
    ++(outcome == Outcome::kUnknown ? batch.unknown : batch.malformed);
    if (wrapped) continue;
    reader.rewind(start);
    if (!reader.skip()) return false;
  }
  batch.events = events.view();
  return true;
}

std::optional<Batch> BatchDecoder::decode(std::string_view payload) {
  if (payload.size() > kBatchBytesMax) return std::nullopt;
  arena_.reset();
  MsgpackReader reader(payload);
  EventRoom room(arena_, payload.size());
  Batch batch;
  uint32_t count;
  if (reader.next_kind() == Kind::kMap) {
    bool events = false;
    reader.read_map(count);
    for (uint32_t i = 0; i < count; ++i) {
      std::string_view name;
      if (!reader.read_text(name)) return std::nullopt;
      if (name == "ts")
        reader.read_real(batch.published);
      else if (name == "events")
        events = read_events(reader, room, batch);
      else if (name == "data_parallel_rank" || name == "attn_dp_rank")
        read_rank(reader, batch.rank);
      else
        reader.skip();
    }
    if (!reader.ok() || !events) return std::nullopt;
    return batch;
  }
  if (!reader.read_array(count) || count < 2) return std::nullopt;
  if (!reader.read_real(batch.published) || !read_events(reader, room, batch)) return std::nullopt;
  if (count > 2) read_rank(reader, batch.rank);
  for (uint32_t i = 3; i < count; ++i) reader.skip();
  if (!reader.ok()) return std::nullopt;
  return batch;
}

double published_at(std::string_view payload) {
  MsgpackReader reader(payload);
  uint32_t count = 0;
  double time = 0;
  if (reader.next_kind() == Kind::kMap) {
    std::string_view name;
    if (!reader.read_map(count) || count == 0 || !reader.read_text(name) || name != "ts") return 0;
  } else if (!reader.read_array(count) || count == 0) {
    return 0;
  }
  return reader.read_real(time) ? time : 0;
}

}  // namespace llmd::kv_events
