#include "parser.h"

#include "char_class.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::http {
namespace {

TEST(CharClass, KnowsFieldValuesWhereverAByteStands) {
  for (const size_t size : {1, 7, 8, 9, 17})
    for (size_t place = 0; place < size; ++place)
      for (unsigned c = 0; c < 256; ++c) {
        std::string text(size, 'v');
        text[place] = static_cast<char>(c);
        ASSERT_EQ(is_field_value(text), all_of_class(text, kValueChar)) << size << ' ' << c;
      }
}

using namespace std::string_literals;

std::vector<HeaderField> fields;

std::expected<RequestHead, ParseFault> request(std::string_view head) {
  HeadScanner scanner;
  const size_t length = scanner.scan(head);
  if (length == HeadScanner::kBad || length == HeadScanner::kMore)
    return std::unexpected(ParseFault{length == HeadScanner::kBad ? 400 : 0, "scan"});
  return parse_request_head(head.substr(0, length), 16, fields);
}

std::expected<ResponseHead, ParseFault> response(std::string_view head, bool answers_head = false) {
  HeadScanner scanner;
  const size_t length = scanner.scan(head);
  if (length == HeadScanner::kBad || length == HeadScanner::kMore)
    return std::unexpected(ParseFault{400, "scan"});
  return parse_response_head(head.substr(0, length), answers_head, 16, fields);
}

TEST(RequestHead, HoldsWhatWasSent) {
  const auto head = request(
      "POST /v1/completions?beta=true HTTP/1.1\r\nHost: gw:8080\r\nContent-Length: 12\r\n"
      "X-Empty:\r\nx-blank: \t a b \t\r\nExpect: 100-Continue\r\n\r\n");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->method, "POST");
  EXPECT_EQ(head->target, "/v1/completions?beta=true");
  EXPECT_EQ(head->path(), "/v1/completions");
  EXPECT_EQ(head->query(), "beta=true");
  EXPECT_EQ(head->framing, Framing::kLength);
  EXPECT_EQ(head->content_length, 12u);
  EXPECT_TRUE(head->keep_alive);
  EXPECT_TRUE(head->expects_continue);
  EXPECT_EQ(head->headers.size(), 5u);
  EXPECT_EQ(head->headers.find("x-empty"), "");
  EXPECT_EQ(head->headers.get("X-Blank"), "a b");
}

TEST(RequestHead, CutsAbsoluteTargetsDownToThePath) {
  const auto target = [](std::string_view text, std::string_view method = "GET") {
    std::string bytes(method);
    bytes.append(" ").append(text).append(" HTTP/1.1\r\nHost: GW:80\r\n\r\n");
    const auto head = request(bytes);
    return head ? std::string(head->target) : "";
  };
  EXPECT_EQ(target("http://gw:80/v1/models?x=1"), "/v1/models?x=1");
  EXPECT_EQ(target("HTTPS://gw:80"), "/");
  EXPECT_EQ(target("http://other/v1/models"), "");
  EXPECT_EQ(target("http://user@gw:80/"), "");
  EXPECT_EQ(target("http:///v1/models"), "");
  EXPECT_EQ(target("/v1/models#x"), "");
  EXPECT_EQ(target("*", "OPTIONS"), "*");
  EXPECT_EQ(target("*"), "");
  EXPECT_EQ(target("ftp://gw/x"), "");
  EXPECT_EQ(target("v1/models"), "");
}

TEST(RequestHead, KeepsAliveByVersionAndConnection) {
  const auto keeps = [](std::string_view version, std::string_view line) {
    return request("GET / " + std::string(version) + "\r\nHost: a\r\n" + std::string(line) + "\r\n")
        ->keep_alive;
  };
  EXPECT_TRUE(keeps("HTTP/1.1", ""));
  EXPECT_FALSE(keeps("HTTP/1.1", "Connection: x, Close\r\n"));
  EXPECT_FALSE(keeps("HTTP/1.0", ""));
  EXPECT_TRUE(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
}

struct Refused {
  std::string head;
  int status;
};

TEST(RequestHead, RefusesWhatCouldBeReadInTwoWays) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\n";
  const Refused cases[] = {
      {start + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400},
      {start + "Transfer-Encoding: identity\r\n\r\n", 400},
      {start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {start + "Transfer-Encoding: \x0b"s + "chunked\r\n\r\n", 400},
      {start + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400},
      {start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {start + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 400},
      {start + "Content-Length: 3, 3\r\n\r\n", 400},
      {start + "Content-Length: +3\r\n\r\n", 400},
      {start + "Content-Length: -1\r\n\r\n", 400},
      {start + "Content-Length: 0x3\r\n\r\n", 400},
      {start + "Content-Length:\r\n\r\n", 400},
      {start + "Content-Length: 9999999999999999999\r\n\r\n", 400},
      {start + "X: a\r\n folded\r\n\r\n", 400},
      {start + "X : a\r\n\r\n", 400},
      {start + ": a\r\n\r\n", 400},
      {start + "X\r\n\r\n", 400},
      {start + "X: a\rb\r\n\r\n", 400},
      {start + "X: a\0b\r\n\r\n"s, 400},
      {start + "X\0: a\r\n\r\n"s, 400},
      {start + "X: a\n\r\n", 400},
      {start + "X: a\r\n\n", 400},
      {start + "Host: b\r\n\r\n", 400},
      {start + "Expect: 200-ok\r\n\r\n", 417},
      {start + "Upgrade: websocket\r\n\r\n", 501},
      {start + "Upgrade: h2c, foo\r\n\r\n", 501},
      {start + "Upgrade: h2c\r\nUpgrade: foo\r\n\r\n", 501},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},
      {"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\n", 505},
      {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
  };
  for (const auto& [head, status] : cases) {
    const auto result = request(head);
    ASSERT_FALSE(result) << head;
    EXPECT_EQ(result.error().status, status) << head << result.error().what;
  }
}

TEST(RequestHead, LimitsTheNumberOfLines) {
  std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 15; ++i) head += "x: y\r\n";
  EXPECT_TRUE(request(head + "\r\n"));
  EXPECT_EQ(request(head + "x: y\r\n\r\n").error().status, 431);
}

TEST(ResponseHead, FramesByMethodStatusAndHeaders) {
  const auto framing = [](std::string_view head, bool answers_head = false) {
    return response(head, answers_head)->framing;
  };
  EXPECT_EQ(framing("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"), Framing::kLength);
  EXPECT_EQ(framing("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true), Framing::kNone);
  EXPECT_EQ(framing("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), Framing::kNone);
  EXPECT_EQ(framing("HTTP/1.1 200 \r\ntransfer-encoding: Chunked\r\n\r\n"), Framing::kChunked);
  EXPECT_EQ(framing("HTTP/1.1 204 No Content\r\n\r\n"), Framing::kNone);
  EXPECT_EQ(framing("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), Framing::kNone);
  EXPECT_EQ(framing("HTTP/1.1 100 Continue\r\n\r\n"), Framing::kNone);
  EXPECT_EQ(framing("HTTP/1.0 200 OK\r\n\r\n"), Framing::kUntilClose);
  EXPECT_FALSE(response("HTTP/1.1 200 OK\r\n\r\n")->keep_alive);
  EXPECT_TRUE(response("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")->keep_alive);
}

TEST(ResponseHead, RefusesMalformedHeads) {
  for (const char* head :
       {"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n", "ICY 200 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"})
    EXPECT_FALSE(response(head)) << head;
}

TEST(HeadScanner, FindsTheEndHoweverTheBytesArrive) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
  for (size_t split = 0; split <= head.size(); ++split) {
    HeadScanner scanner;
    const size_t first = scanner.scan(std::string_view(head).substr(0, split));
    EXPECT_EQ(first, split == head.size() ? head.size() : HeadScanner::kMore);
    if (first == HeadScanner::kMore) {
      EXPECT_EQ(scanner.scan(head + "next"), head.size());
    }
  }
}

struct Decoded {
  ChunkDecoder::Status status = ChunkDecoder::Status::kMore;
  std::string data;
  std::string rest;
};

Decoded decode(const std::string& bytes, size_t step) {
  ChunkDecoder decoder;
  Decoded out;
  for (size_t at = 0; at < bytes.size(); at += step) {
    std::string part = bytes.substr(at, step);
    const auto result = decoder.decode(part.data(), part.size());
    out.data += result.data;
    out.status = result.status;
    if (result.status == ChunkDecoder::Status::kMore) continue;
    out.rest = part.substr(result.consumed) + bytes.substr(std::min(bytes.size(), at + step));
    break;
  }
  return out;
}

TEST(ChunkDecoder, TakesTheFramingOffHoweverTheBytesArrive) {
  const std::string bytes =
      "5\r\nhello\r\n00A;name=\"v\"\r\n, world!!!\r\n1\r\n\n\r\n0\r\nX-T: 1\r\n\r\nGET";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    const auto out = decode(bytes, step);
    EXPECT_EQ(out.status, ChunkDecoder::Status::kDone) << step;
    EXPECT_EQ(out.data, "hello, world!!!\n") << step;
    EXPECT_EQ(out.rest, "GET") << step;
  }
}

TEST(ChunkDecoder, RefusesMalformedFraming) {
  for (const std::string& bytes : {"\r\n"s,
                                   "g\r\n"s,
                                   " 5\r\n"s,
                                   "5 \r\n"s,
                                   "-5\r\n"s,
                                   "0x5\r\n"s,
                                   "5\n"s,
                                   "5\rhello"s,
                                   "5\r\nhelloX"s,
                                   "5\r\nhello\rX"s,
                                   "5\r\nhello\n"s,
                                   "1111111111111111\r\n"s,
                                   "0\r\n\n"s,
                                   "0\r\n: x\r\n"s,
                                   "0\r\n x\r\n"s,
                                   "0\r\nX: \0\r\n"s,
                                   "0\r\n\rX"s,
                                   ";x\r\n"s,
                                   "5;\n\r\n"s,
                                   "5;" + std::string(2000, 'x'),
                                   "0\r\n" + std::string(20000, 'x')})
    for (const size_t step : {size_t{1}, bytes.size()})
      EXPECT_EQ(decode(bytes, step).status, ChunkDecoder::Status::kBad) << bytes.substr(0, 40);
}

TEST(QueryParameter, FindsWholeNames) {
  EXPECT_EQ(query_parameter("ab=1&b=2&c", "b"), "2");
  EXPECT_EQ(query_parameter("ab=1&b=2&c", "c"), "");
  EXPECT_EQ(query_parameter("", "c"), "");
}

}  // namespace
}  // namespace llmd::http
