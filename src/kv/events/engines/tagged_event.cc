#include "engines/tagged_event.h"

#include "base/text.h"

#include <algorithm>
#include <cstring>

namespace llmd::kv_events {
namespace {

using codec::MsgpackReader;
using Outcome = EngineAdapter::Outcome;
using Kind = MsgpackReader::Kind;

/// A number as it is, bytes as the number that their last eight make.
bool read_hash(MsgpackReader& reader, uint64_t& hash) {
  if (reader.next_kind() == Kind::kInt) return reader.read_bits(hash);
  std::string_view bytes;
  if (!reader.read_bytes(bytes) || bytes.empty()) return false;
  if (bytes.size() > 8) bytes.remove_prefix(bytes.size() - 8);
  hash = 0;
  for (const char c : bytes) hash = hash << 8 | static_cast<uint8_t>(c);
  return true;
}

/// The medium in small letters; the usual ones without a copy.
std::string_view small_medium(Arena& arena, std::string_view medium) {
  static constexpr std::pair<std::string_view, std::string_view> kUsual[] = {
      {"GPU", "gpu"}, {"", "gpu"}, {"CPU", "cpu"}, {"CPU_PINNED", "cpu_pinned"}, {"DISK", "disk"}};
  for (const auto& [large, small] : kUsual)
    if (medium == large) return small;
  if (std::ranges::none_of(medium, [](char c) { return c >= 'A' && c <= 'Z'; })) return medium;
  return arena.copy(to_lower(medium));
}

/// Reads the fields of one event, wherever they stand.
class EventReading {
 public:
  EventReading(const TaggedDialect& dialect, MsgpackReader& reader, EventRoom& room, Event& event)
      : dialect_(dialect), reader_(reader), room_(room), event_(event) {}

  Outcome read() {
    event_ = {};
    event_.medium = "gpu";
    const Outcome outcome = reader_.next_kind() == Kind::kMap ? read_map() : read_array();
    return outcome == Outcome::kEvent ? finish() : outcome;
  }

 private:
  bool set_type(std::string_view name) {
    typed_ = true;
    if (name == "BlockStored")
      event_.type = Event::Type::kStored;
    else if (name == "BlockRemoved")
      event_.type = Event::Type::kRemoved;
    else if (name == "AllBlocksCleared")
      event_.type = Event::Type::kCleared;
    else
      typed_ = false;
    return typed_;
  }

  Outcome read_array() {
    uint32_t count;
    std::string_view type;
    if (!reader_.read_array(count) || count == 0 || !reader_.read_text(type))
      return Outcome::kMalformed;
    if (!set_type(type)) return Outcome::kUnknown;
    std::span<const Field> places;
    if (event_.type == Event::Type::kStored) places = dialect_.stored;
    if (event_.type == Event::Type::kRemoved) places = dialect_.removed;
    for (uint32_t i = 1; i < count; ++i) {
      const Field field = i <= places.size() ? places[i - 1] : Field::kIgnored;
      if (!read_field(field)) return Outcome::kMalformed;
    }
    return Outcome::kEvent;
  }

  Outcome read_map() {
    if (!read_pairs()) return Outcome::kMalformed;
    if (unknown_) return Outcome::kUnknown;
    return typed_ ? Outcome::kEvent : Outcome::kMalformed;
  }

  /// All pairs of a map. Ends early at a type that is new.
  bool read_pairs() {
    uint32_t count;
    if (!reader_.read_map(count)) return false;
    size_t expected = 0;
    for (uint32_t i = 0; i < count; ++i) {
      std::string_view name;
      if (!reader_.read_text(name) || !read_field(field_of(name, expected))) return false;
      if (unknown_) return true;
    }
    return true;
  }

  /// Engines write fields in one order: the one after the last found is looked at first.
  Field field_of(std::string_view name, size_t& expected) const {
    const auto names = dialect_.names;
    for (size_t i = 0; i < names.size(); ++i) {
      const size_t at = (expected + i) % names.size();
      if (names[at].name != name) continue;
      expected = at + 1;
      return names[at].field;
    }
    return Field::kIgnored;
  }

  bool read_field(Field field) {
    switch (field) {
      case Field::kIgnored:
        return reader_.skip();
      case Field::kType: {
        std::string_view name;
        if (!reader_.read_text(name)) return false;
        unknown_ = !set_type(name);
        return true;
      }
      case Field::kBlocks:
        return has_blocks_ = read_blocks();
      case Field::kParent:
        return reader_.take_nil() || read_hash(reader_, event_.parent);
      case Field::kTokens:
        return has_tokens_ = read_tokens();
      case Field::kBlockTokens:
        return has_block_tokens_ = read_uint32(event_.block_tokens);
      case Field::kMedium: {
        std::string_view medium;
        if (!read_optional_text(medium)) return false;
        event_.medium = small_medium(room_.arena(), medium);
        return true;
      }
      case Field::kLoraName:
        return read_optional_text(event_.lora_name);
      case Field::kExtraKeys:
        return read_extras();
      case Field::kGroup:
        return reader_.take_nil() || (read_uint32(event_.group) && event_.group != Event::kNoGroup);
      case Field::kCacheKind: {
        std::string_view name;
        if (reader_.take_nil()) return true;
        if (!reader_.read_text(name)) return false;
        event_.cache_kind = cache_kind(name);
        return true;
      }
      case Field::kSlidingWindow:
        return reader_.take_nil() || read_uint32(event_.sliding_window);
      case Field::kCacheSalt:
        return read_optional_text(salt_);
      case Field::kOptions:
        return reader_.next_kind() == Kind::kMap ? read_pairs() : reader_.skip();
    }
    return false;
  }

  bool read_uint32(uint32_t& value) { return reader_.read_uint32s({&value, 1}); }

  bool read_optional_text(std::string_view& text) {
    return reader_.take_nil() || reader_.read_text(text);
  }

  bool read_blocks() {
    uint32_t count;
    if (!reader_.read_array(count)) return false;
    const auto blocks = room_.take<uint64_t>(count);
    if (!blocks) return false;
    for (uint64_t& block : *blocks)
      if (!read_hash(reader_, block)) return false;
    event_.blocks = *blocks;
    return true;
  }

  bool read_tokens() {
    uint32_t count;
    if (!reader_.read_array(count)) return false;
    const auto tokens = room_.take<uint32_t>(count);
    if (!tokens) return false;
    event_.tokens = *tokens;
    return reader_.read_uint32s(*tokens);
  }

  /// nil, or for each block nil or a list. Lists are rare: nothing is kept before the first.
  bool read_extras() {
    if (reader_.take_nil()) return true;
    uint32_t count;
    if (!reader_.read_array(count)) return false;
    uint32_t i = 0;
    while (i < count && reader_.take_nil()) ++i;
    if (i == count) return true;
    const auto all = room_.take<Extras>(count);
    if (!all) return false;
    extras_ = *all;
    std::ranges::fill(extras_, Extras{});
    for (; i < count; ++i) {
      bool plain = false;
      if (!reader_.take_nil() && !read_extras_of(extras_[i], plain)) return false;
      if (i == 0) ends_plain_ = plain;
    }
    return true;
  }

  /// Texts, and the texts that lists begin with: an image's hash comes with its place in the
  /// block. `plain`: the last one came alone.
  bool read_extras_of(Extras& extras, bool& plain) {
    uint32_t count;
    if (!reader_.read_array(count)) return false;
    const auto texts = room_.take<std::string_view>(count);
    if (!texts) return false;
    size_t kept = 0;
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t rest = 1;
      plain = reader_.next_kind() == Kind::kText;
      if (reader_.next_kind() == Kind::kArray && !reader_.read_array(rest)) return false;
      for (uint32_t k = 0; k < rest; ++k) {
        if (k == 0 && reader_.next_kind() == Kind::kText) {
          if (!reader_.read_text((*texts)[kept++])) return false;
        } else if (!reader_.skip()) {
          return false;
        }
      }
    }
    extras = texts->first(kept);
    return true;
  }

  Outcome finish() {
    const bool stored = event_.type == Event::Type::kStored;
    if (event_.type != Event::Type::kCleared && !has_blocks_) return Outcome::kMalformed;
    if (stored && (!has_tokens_ || !has_block_tokens_)) return Outcome::kMalformed;
    if (!stored) return Outcome::kEvent;
    bool any = false;
    for (Extras& extras : extras_) {
      if (!extras.empty() && !event_.lora_name.empty() && extras[0] == event_.lora_name)
        extras = extras.subspan(1);
      any = any || !extras.empty();
    }
    if (!any) extras_ = {};
    event_.salted = ends_with_salt();
    if (!salt_.empty() && event_.parent == 0 && !event_.blocks.empty()) add_salt();
    event_.extras = extras_;
    return Outcome::kEvent;
  }

  /// A salt comes alone, behind the images of the first block, and is in no other block. So may the
  /// hash of an image be that some engines write without its place, and that ends in that block.
  bool ends_with_salt() const {
    if (!ends_plain_ || event_.parent != 0 || extras_.empty() || extras_[0].empty()) return false;
    return extras_.size() == 1 ||
           std::ranges::find(extras_[1], extras_[0].back()) == extras_[1].end();
  }

  void add_salt() {
    event_.salted = true;
    if (extras_.empty()) extras_ = room_.arena().array<Extras>(event_.blocks.size());
    const auto texts = room_.arena().array<std::string_view>(extras_[0].size() + 1);
    std::ranges::copy(extras_[0], texts.begin());
    texts.back() = salt_;
    extras_[0] = texts;
  }

  const TaggedDialect& dialect_;
  MsgpackReader& reader_;
  EventRoom& room_;
  Event& event_;
  std::span<Extras> extras_;
  bool ends_plain_ = false;
  std::string_view salt_;
  bool typed_ = false;
  bool unknown_ = false;
  bool has_blocks_ = false;
  bool has_tokens_ = false;
  bool has_block_tokens_ = false;
};

}  // namespace

Outcome read_tagged(const TaggedDialect& dialect, MsgpackReader& reader, EventRoom& room,
                    Event& event) {
  return EventReading(dialect, reader, room, event).read();
}

}  // namespace llmd::kv_events
