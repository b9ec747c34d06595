#include "sim/server.h"

#include "io/socket.h"
#include "sim/request_id.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace llmd::sim {
namespace {

using nlohmann::json;

struct Answer {
  int status = 0;
  std::string head;
  std::string body;  // without chunk framing
  std::vector<std::string> chunks;

  /// The payloads of the stream's events.
  std::vector<std::string> events() const {
    std::vector<std::string> all;
    for (size_t at = 0, end; (end = body.find("\n\n", at)) != body.npos; at = end + 2) {
      EXPECT_EQ(body.substr(at, 6), "data: ");
      all.push_back(body.substr(at + 6, end - at - 6));
    }
    return all;
  }
};

std::vector<std::string> split_chunks(std::string_view framed) {
  std::vector<std::string> chunks;
  while (!framed.empty()) {
    const size_t line = framed.find("\r\n");
    if (line == framed.npos) break;
    const size_t size = std::stoul(std::string(framed.substr(0, line)), nullptr, 16);
    if (size == 0) break;
    chunks.emplace_back(framed.substr(line + 2, size));
    framed.remove_prefix(line + 2 + size + 2);
  }
  return chunks;
}

/// A blocking connection that carries one request.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto address = io::SocketAddress::parse("127.0.0.1", port);
    EXPECT_EQ(::connect(fd_.get(), address->get(), address->length()), 0);
  }
  void send(const std::string& method, const std::string& path, const std::string& body,
            const std::string& headers = "") {
    const std::string text = method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                             headers + "Content-Length: " + std::to_string(body.size()) +
                             "\r\n\r\n" + body;
    ASSERT_EQ(::send(fd_.get(), text.data(), text.size(), 0), ssize_t(text.size()));
  }
  std::string read_some() {
    char buffer[65536];
    const ssize_t n = ::read(fd_.get(), buffer, sizeof buffer);
    return std::string(buffer, n > 0 ? size_t(n) : 0);
  }
  Answer receive() {
    std::string all;
    for (std::string part; !(part = read_some()).empty();) all += part;
    Answer a;
    const size_t end = all.find("\r\n\r\n");
    EXPECT_NE(end, all.npos) << all;
    if (end == all.npos) return a;
    a.head = all.substr(0, end + 2);
    a.status = std::stoi(a.head.substr(9, 3));
    a.body = all.substr(end + 4);
    if (a.head.find("hunked") != a.head.npos) {
      a.chunks = split_chunks(a.body);
      a.body.clear();
      for (const auto& chunk : a.chunks) a.body += chunk;
    }
    return a;
  }

 private:
  io::Fd fd_;
};

/// Servers started with the given flags on a free port.
class Rig {
 public:
  explicit Rig(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"--model", "m", "--seed", "1", "--port", "0"});
    auto settings = parse_settings(flags, {[](const char*) { return std::string(); }, {}});
    EXPECT_TRUE(settings) << settings.error().message;
    auto started = Fleet::start(*settings);
    EXPECT_TRUE(started) << started.error().message;
    fleet = std::move(*started);
    port = fleet->endpoints()[0].port;
  }
  Answer post(const std::string& path, const std::string& body, const std::string& headers = "") {
    Client c(port);
    c.send("POST", path, body, headers);
    return c.receive();
  }
  Answer get(const std::string& path) {
    Client c(port);
    c.send("GET", path, "");
    return c.receive();
  }
  std::string metric(const std::string& name) {
    const std::string page = "\n" + get("/metrics").body;
    const size_t at = page.find("\n" + name);
    if (at == page.npos) return "absent";
    const size_t value = page.find("} ", at) + 2;
    return page.substr(value, page.find('\n', value) - value);
  }
  void await_metric(const std::string& name, const std::string& value) {
    while (metric(name) != value) std::this_thread::yield();
  }
  std::string id(uint64_t n) const { return request_id(1, port, n); }

  std::unique_ptr<Fleet> fleet;
  uint16_t port = 0;
};

const std::string kHello = R"({"model":"m","messages":[{"role":"user","content":"Hello world"}])";

json parsed(const Answer& a) {
  json j = json::parse(a.body, nullptr, false);
  EXPECT_FALSE(j.is_discarded()) << a.body;
  return j;
}

TEST(Server, AnswersChat) {
  Rig rig({"--mode", "echo"});
  const Answer a = rig.post("/v1/chat/completions", kHello + "}");
  EXPECT_EQ(a.status, 200);
  json j = parsed(a);
  EXPECT_GT(j["created"], 1600000000);
  j.erase("created");
  EXPECT_EQ(j, json::parse(R"({"id":"chatcmpl-)" + rig.id(0) + R"(","model":"m",
      "object":"chat.completion",
      "usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,
               "prompt_tokens_details":{"cached_tokens":0}},
      "choices":[{"index":0,"finish_reason":"stop",
                  "message":{"role":"assistant","content":"Hello world"}}]})"));
}

TEST(Server, StreamsChatOneEventAChunk) {
  Rig rig({"--mode", "echo"});
  const Answer a = rig.post("/v1/chat/completions",
                            kHello + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  const auto events = a.events();
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(a.chunks.size(), 6u);
  const std::pair<std::string, std::string> expected[] = {
      {"null", R"([{"index":0,"finish_reason":null,"delta":{"role":"assistant"}}])"},
      {"null", R"([{"index":0,"finish_reason":null,"delta":{"content":"Hello "}}])"},
      {"null", R"([{"index":0,"finish_reason":null,"delta":{"content":"world"}}])"},
      {"null", R"([{"index":0,"finish_reason":"stop","delta":{}}])"},
      {R"({"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,
           "prompt_tokens_details":{"cached_tokens":0}})",
       "[]"}};
  for (size_t i = 0; i < 5; ++i) {
    const json event = json::parse(events[i]);
    EXPECT_EQ(event["id"], "chatcmpl-" + rig.id(0));
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_EQ(event["usage"], json::parse(expected[i].first));
    EXPECT_EQ(event["choices"], json::parse(expected[i].second));
  }
  EXPECT_EQ(events[5], "[DONE]");
}

TEST(Server, AnswersCacheThresholdAtOnce) {
  Rig rig({"--mode", "echo", "--time-to-first-token", "1h"});
  const std::string header = "X-Cache-Threshold-Finish-Reason: true\r\n";
  const json j = parsed(rig.post("/v1/chat/completions", kHello + "}", header));
  EXPECT_EQ(j["usage"], json::parse(R"({"prompt_tokens":7,"completion_tokens":0,"total_tokens":7,
                            "prompt_tokens_details":null})"));
  EXPECT_EQ(j["choices"], json::parse(R"([{"index":0,"finish_reason":"cache_threshold",
                                           "message":{"role":"assistant"}}])"));
  const Answer s = rig.post("/v1/chat/completions", kHello + R"(,"stream":true})", header);
  ASSERT_EQ(s.events().size(), 2u);
  EXPECT_EQ(json::parse(s.events()[0])["choices"][0]["finish_reason"], "cache_threshold");
}

TEST(Server, AnswersArraysOfPrompts) {
  Rig rig({"--mode", "echo"});
  const json j = parsed(rig.post("/v1/completions", R"({"model":"m","prompt":["a b","c"]})"));
  EXPECT_EQ(j["id"], "cmpl-" + rig.id(0) + "-0");
  EXPECT_EQ(j["choices"][0]["text"], "a b");
  EXPECT_EQ(j["choices"][1]["text"], "c");
  EXPECT_EQ(j["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(j["usage"]["completion_tokens"], 3);
  const json n = parsed(rig.post("/v1/completions", R"({"prompt":[1,2,3],"n":2})"));
  EXPECT_EQ(n["choices"][1]["text"], "1,2,3");
  EXPECT_EQ(n["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(n["usage"]["completion_tokens"], 10);
}

TEST(Server, AnswersThePrefillLeg) {
  Rig rig({"--mode", "echo"});
  const json j = parsed(rig.post("/v1/completions",
                                 R"({"model":"m","prompt":"Hello world","max_tokens":1,
      "kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,
      "remote_engine_id":null,"remote_block_ids":[[1,2]]}})"));
  EXPECT_EQ(j["kv_transfer_params"]["do_remote_prefill"], true);
  EXPECT_EQ(j["kv_transfer_params"]["remote_port"], 1234);
  EXPECT_EQ(j["choices"][0]["finish_reason"], "remote_decode");
  EXPECT_EQ(j["choices"][0]["text"], "Hello ");
}

TEST(Server, RefusesWithTheOpenAiEnvelope) {
  Rig rig({"--mode", "echo", "--max-model-len", "10"});
  const auto error = [&](const std::string& body, const std::string& headers = "") {
    const Answer a = rig.post("/v1/chat/completions", body, headers);
    const json j = parsed(a);
    EXPECT_EQ(j["error"]["code"], a.status);
    return std::to_string(a.status) + " " + j["error"]["type"].get<std::string>() + " " +
           j["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(error(R"({"model":"zz","messages":[]})"),
            "404 NotFoundError The model `zz` does not exist.");
  EXPECT_EQ(
      error("{}", "X-Return-Error: 503\r\n"),
      "503 InternalServerError Simulated error triggered by X-Return-Error header (code 503)");
  EXPECT_EQ(error(kHello + R"(,"max_tokens":0})"),
            "400 BadRequestError Max completion tokens and max tokens should be positive");
  EXPECT_EQ(error(kHello + R"(,"max_tokens":5})").substr(0, 92),
            "400 BadRequestError This model's maximum context length is 10 tokens. However, you "
            "requested");
  EXPECT_EQ(rig.post("/nope", "").status, 404);
  EXPECT_EQ(rig.get("/v1/completions").status, 405);
}

TEST(Server, RefusesBodiesThatAreTooLarge) {
  Rig rig({"--max-request-body-size-mb", "1"});
  Client c(rig.port);
  c.send("POST", "/v1/completions", "", "Content-Length: 2000000\r\nX-Ignore: ");
  const Answer a = c.receive();
  EXPECT_EQ(a.status, 413);
  EXPECT_EQ(json::parse(a.body)["error"]["code"], 413);
}

TEST(Server, RefusesWhenTheQueueIsFullAndFreesTheSlotOfAClientThatLeaves) {
  Rig rig({"--max-num-seqs", "1", "--max-waiting-queue-length", "0", "--mode", "echo",
           "--inter-token-latency", "1h"});
  {
    Client first(rig.port);
    first.send("POST", "/v1/chat/completions", kHello + R"(,"stream":true})");
    while (first.read_some().find("Hello ") == std::string::npos) {
    }
    EXPECT_EQ(rig.metric("vllm:num_requests_running"), "1");
    const Answer a = rig.post("/v1/chat/completions", kHello + "}");
    EXPECT_EQ(a.status, 429);
    EXPECT_EQ(json::parse(a.body)["error"]["message"],
              "Failed to enqueue request, waiting requests queue is full");
  }
  rig.await_metric("vllm:num_requests_running", "0");
  EXPECT_EQ(rig.metric("vllm:request_success_total{engine=\"0\",finished_reason=\"abort\""), "1");
  EXPECT_EQ(rig.metric("vllm:admission_rejections_total"), "1");
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x"})").status, 200);
}

TEST(Server, ReportsCachedTokens) {
  Rig rig({"--enable-kvcache", "--block-size", "8", "--mode", "echo"});
  const std::string body =
      R"({"prompt":")" + std::string("one two three four five ") + R"(six seven eight nine ten"})";
  EXPECT_EQ(
      parsed(rig.post("/v1/completions", body))["usage"]["prompt_tokens_details"]["cached_tokens"],
      0);
  EXPECT_EQ(
      parsed(rig.post("/v1/completions", body))["usage"]["prompt_tokens_details"]["cached_tokens"],
      8);
  EXPECT_EQ(rig.metric("vllm:prefix_cache_hits_total"), "8");
  EXPECT_EQ(rig.metric("vllm:prefix_cache_queries_total"), "20");
  EXPECT_EQ(rig.post("/reset_prefix_cache", "").status, 200);
  EXPECT_EQ(
      parsed(rig.post("/v1/completions", body))["usage"]["prompt_tokens_details"]["cached_tokens"],
      0);
}

TEST(Server, ClosesEachChoiceOfAStreamWithItsOwnReason) {
  Rig rig({"--mode", "echo"});
  const Answer a =
      rig.post("/v1/completions", R"({"prompt":["a b c","d"],"max_tokens":2,"stream":true})");
  std::map<int, std::string> text, reason;
  for (const std::string& event : a.events()) {
    if (event == "[DONE]") continue;
    const json choice = json::parse(event)["choices"][0];
    text[choice["index"]] += choice["text"].get<std::string>();
    if (!choice["finish_reason"].is_null()) reason[choice["index"]] += choice["finish_reason"];
  }
  EXPECT_EQ(text, (std::map<int, std::string>{{0, "a b c"}, {1, "d"}}));
  EXPECT_EQ(reason, (std::map<int, std::string>{{0, "length"}, {1, "stop"}}));
}

TEST(Server, RefusesPromptsThatTheCacheCannotHold) {
  Rig rig({"--enable-kvcache", "--kv-cache-size", "1", "--block-size", "8", "--mode", "echo"});
  for (const std::string stream : {"false", "true"}) {
    const Answer a =
        rig.post("/v1/completions",
                 R"({"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"stream":)" + stream + "}");
    EXPECT_EQ(a.status, 500);
    EXPECT_EQ(json::parse(a.body)["error"]["message"],
              "the kv cache does not have sufficient capacity to store this request");
  }
  EXPECT_EQ(rig.metric("vllm:num_requests_running"), "0");
}

TEST(Server, UsesAndEchoesRequestIds) {
  Rig quiet({"--mode", "echo"});
  const Answer a = quiet.post("/v1/chat/completions", kHello + "}", "X-Request-Id: r\"1\r\n");
  EXPECT_EQ(parsed(a)["id"], "chatcmpl-r\"1");
  EXPECT_EQ(a.head.find("X-Request-Id"), a.head.npos);
  Rig loud({"--mode", "echo", "--enable-request-id-headers"});
  const Answer b = loud.post("/v1/chat/completions", kHello + "}", "X-Request-Id: abc\r\n");
  EXPECT_NE(b.head.find("X-Request-Id: abc\r\n"), b.head.npos);
}

TEST(Server, ListsModelsAndAdapters) {
  Rig rig({"--served-model-name", "alias", "--mode", "echo", "--lora-modules",
           R"({"name":"l1","path":"/p"})"});
  EXPECT_EQ(rig.post("/v1/load_lora_adapter", R"({"lora_name":"l2","lora_path":"/q"})").status,
            200);
  const json data = parsed(rig.get("/v1/models"))["data"];
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data[0]["id"], "alias");
  EXPECT_EQ(data[0]["root"], "m");
  EXPECT_TRUE(data[0]["parent"].is_null());
  EXPECT_EQ(data[1]["root"], "/p");
  EXPECT_EQ(data[2]["parent"], "alias");
  const json answer = parsed(rig.post("/v1/completions", R"({"model":"l2","prompt":"x"})"));
  EXPECT_EQ(answer["model"], "l2");
  EXPECT_EQ(rig.post("/v1/completions", R"({"model":"m","prompt":"x"})").status, 404);
  EXPECT_EQ(rig.post("/v1/unload_lora_adapter", R"({"lora_name":"l2"})").status, 200);
  EXPECT_EQ(rig.post("/v1/completions", R"({"model":"l2","prompt":"x"})").status, 404);
  EXPECT_EQ(rig.metric("vllm:lora_requests_info").empty(), false);
}

TEST(Server, Tokenizes) {
  Rig rig({});
  EXPECT_EQ(parsed(rig.post("/tokenize", R"({"model":"m","prompt":"Hello world"})")),
            json::parse(R"({"count":2,"max_model_len":1024,"tokens":[2871118705,933488787],
                            "token_strs":null})"));
  const json chat = parsed(rig.post(
      "/tokenize", R"({"messages":[{"role":"user","content":"Hello"}],"return_token_strs":true})"));
  EXPECT_EQ(chat["count"], 6);
  EXPECT_EQ(chat["token_strs"][5], "Hello\n");
  EXPECT_EQ(rig.post("/tokenize", R"({"prompt":"x","messages":[]})").status, 400);
}

TEST(Server, RendersPromptsAsItTokenizesThem) {
  Rig rig({"--max-model-len", "20"});
  const json chat = parsed(rig.post("/v1/chat/completions/render", kHello + "}"));
  EXPECT_EQ(chat["token_ids"].size(), 7u);
  EXPECT_EQ(chat["model"], "m");
  const Answer text = rig.post("/v1/completions/render", R"({"model":"m","prompt":"Hello world"})");
  EXPECT_EQ(parsed(text)[0]["token_ids"], json::parse("[2871118705,933488787]"));
  EXPECT_EQ(rig.post("/v1/completions/render", R"({"model":"zz","prompt":"x"})").status, 404);
  EXPECT_EQ(rig.post("/v1/completions/render", R"({"model":"m","prompt":[]})").status, 400);
  EXPECT_EQ(rig.post("/v1/completions/render", R"({"prompt":"x","max_tokens":99})").status, 400);
  EXPECT_EQ(rig.post("/v1/chat/completions/render", R"({"messages":[]})").status, 400);
}

TEST(Server, TellsWhereItPublishesKvEvents) {
  Rig rig({"--enable-kvcache", "--zmq-bind", "--zmq-endpoint", "tcp://127.0.0.1:0",
           "--kv-events-replay-endpoint", "tcp://127.0.0.1:0"});
  const json sources = parsed(rig.get("/kv_event_sources"));
  const json& own = sources.at("0");
  EXPECT_EQ(own["enable_kv_cache_events"], true);
  EXPECT_EQ(own["topic"], "kv@127.0.0.1:" + std::to_string(rig.port) + "@m");
  const std::string endpoint = own["endpoint"], replay = own["replay_endpoint"];
  EXPECT_TRUE(endpoint.starts_with("tcp://127.0.0.1:")) << endpoint;
  EXPECT_FALSE(endpoint.ends_with(":0"));
  EXPECT_NE(endpoint, replay);
  EXPECT_EQ(rig.metric("llmd_sim_kv_blocks_total{engine=\"0\",event=\"stored\""), "0");
  EXPECT_EQ(parsed(Rig({}).get("/kv_event_sources"))["0"]["enable_kv_cache_events"], false);
}

TEST(Server, KeepsPromptsOfDifferentSaltsApart) {
  Rig rig({"--enable-kvcache", "--block-size", "8"});
  const auto cached = [&](const std::string& salt) {
    return parsed(
        rig.post("/v1/completions", R"({"prompt":[1,2,3,4,5,6,7,8,9],"max_tokens":1)" + salt +
                                        "}"))["usage"]["prompt_tokens_details"]["cached_tokens"];
  };
  EXPECT_EQ(cached(""), 0);
  EXPECT_EQ(cached(""), 8);
  EXPECT_EQ(cached(R"(,"cache_salt":"a")"), 0);
  EXPECT_EQ(cached(R"(,"cache_salt":"a")"), 8);
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x","cache_salt":""})").status, 400);
}

TEST(Server, TellsItsHealth) {
  Rig rig({"--startup-duration", "1h"});
  EXPECT_EQ(rig.get("/health").status, 200);
  EXPECT_EQ(rig.get("/health/ready").status, 503);
  EXPECT_EQ(rig.get("/ping").status, 200);
  EXPECT_EQ(parsed(rig.get("/version"))["version"], "0.32.0");
  Rig ready({});
  EXPECT_EQ(ready.get("/health/ready").status, 200);
}

TEST(Server, TakesNewDelaysAtRunTime) {
  Rig rig({"--time-to-first-token", "1h", "--mode", "echo"});
  const Answer bad = rig.post("/admin/config", R"({"port":9})");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(json::parse(bad.body)["error"]["message"], "field 'port' is not admin-configurable");
  EXPECT_EQ(rig.post("/admin/config", R"({"time-to-first-token":"0s"})").status, 200);
  EXPECT_EQ(parsed(rig.get("/admin/config"))["time-to-first-token"], "0s");
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x"})").status, 200);
}

TEST(Server, ScalesModelTime) {
  // An hour to the first token passes in 36 ms; the metrics still say an hour.
  Rig rig({"--time-to-first-token", "1h", "--mode", "echo", "--time-scale", "100000"});
  EXPECT_EQ(rig.post("/v1/completions", R"({"prompt":"x"})").status, 200);
  EXPECT_EQ(rig.metric("vllm:time_to_first_token_seconds_sum"), "3600");
}

TEST(Server, RunsManyInOneProcess) {
  Rig rig({"--replicas", "20", "--mode", "echo", "--loops", "2"});
  ASSERT_EQ(rig.fleet->endpoints().size(), 20u);
  rig.post("/v1/completions", R"({"prompt":"x"})");
  for (const EndpointPlan& plan : rig.fleet->endpoints()) {
    rig.port = plan.port;
    EXPECT_EQ(rig.metric("vllm:generation_tokens_total"),
              &plan == &rig.fleet->endpoints()[0] ? "1" : "0");
  }
  rig.fleet->stop(std::chrono::seconds(5));
}

}  // namespace
}  // namespace llmd::sim
