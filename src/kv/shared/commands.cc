#include "commands.h"

#include "redis/reply.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmd::kv_shared {
namespace {

/// Engine keys that one script takes: it holds up the server for about a millisecond.
constexpr size_t kScriptKeysMax = 512;

// A hash without fields does not exist, so a block without entries needs no further step.
constexpr std::string_view kRemove = R"(for _, engine in ipairs(KEYS) do
  local held = 0
  for _, key in ipairs(redis.call('ZRANGE', engine, 0, -1)) do
    redis.call('HDEL', key, ARGV[1])
    held = held + redis.call('EXISTS', key)
  end
  if held == 0 then redis.call('DEL', engine) end
end)";

constexpr std::string_view kClearPage = R"(local page = redis.call('SCAN', ARGV[2], 'COUNT', 1024)
for _, key in ipairs(page[2]) do
  if key:sub(1, 7) ~= 'engine:' and redis.call('TYPE', key).ok == 'hash' then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      local read, entry = pcall(cjson.decode, field)
      if read and type(entry) == 'table' and entry.PodIdentifier == ARGV[1] then
        redis.call('HDEL', key, field)
      end
    end
  end
end
return page[1])";

/// A key's name without an allocation.
class Name {
 public:
  explicit Name(uint64_t key, std::string_view prefix = {})
      : end_(fmt::format_to(text_, "{}{}", prefix, key)) {}
  operator std::string_view() const { return {text_, end_}; }

 private:
  char text_[32];
  char* end_;
};

}  // namespace

size_t append_store(std::string& out, std::string_view field, std::span<const uint64_t> keys,
                    std::span<const uint64_t> engine_keys) {
  for (const uint64_t key : keys) redis::append_command(out, {"HSET", Name(key), field, ""});
  const size_t n = engine_keys.empty() ? 0 : std::max(keys.size(), engine_keys.size());
  size_t position = 0;
  for (size_t i = 0; i < n; ++i) {
    const size_t engine = i * engine_keys.size() / n;
    position = i > 0 && engine == (i - 1) * engine_keys.size() / n ? position + 1 : 0;
    redis::append_command(out, {"ZADD", Name(engine_keys[engine], kEnginePrefix), Name(position),
                                Name(keys[i * keys.size() / n])});
  }
  return keys.size() + n;
}

size_t append_remove(std::string& out, std::string_view field,
                     std::span<const uint64_t> engine_keys) {
  size_t commands = 0;
  for (; !engine_keys.empty(); ++commands) {
    const auto some = engine_keys.first(std::min(engine_keys.size(), kScriptKeysMax));
    engine_keys = engine_keys.subspan(some.size());
    redis::append_command_size(out, some.size() + 4);
    redis::append_word(out, "EVAL");
    redis::append_word(out, kRemove);
    redis::append_word(out, Name(some.size()));
    for (const uint64_t key : some) redis::append_word(out, Name(key, kEnginePrefix));
    redis::append_word(out, field);
  }
  return commands;
}

size_t append_remove_keys(std::string& out, std::string_view field,
                          std::span<const uint64_t> keys) {
  for (const uint64_t key : keys) redis::append_command(out, {"HDEL", Name(key), field});
  return keys.size();
}

size_t append_clear_page(std::string& out, std::string_view pod, std::string_view cursor) {
  redis::append_command(out, {"EVAL", kClearPage, "0", pod, cursor});
  return 1;
}

size_t append_look_up(std::string& out, std::span<const uint64_t> keys) {
  for (const uint64_t key : keys) redis::append_command(out, {"HKEYS", Name(key)});
  return keys.size();
}

size_t append_request_key(std::string& out, uint64_t engine_key) {
  redis::append_command(out, {"ZREVRANGE", Name(engine_key, kEnginePrefix), "0", "0"});
  return 1;
}

}  // namespace llmd::kv_shared
