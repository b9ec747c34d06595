#include "openai_scan.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::request {
namespace {

constexpr std::string_view kType = "multipart/form-data; boundary=b";

std::string part(std::string_view name, std::string_view content, std::string_view more = "") {
  return "--b\r\nContent-Disposition: form-data; name=\"" + std::string(name) + "\"" +
         std::string(more) + "\r\n\r\n" + std::string(content) + "\r\n";
}
const std::string kFile = part("file", "RIFF\x00\xff\r\n--", "; filename=\"a.wav\"");

class AudioTest : public ::testing::Test {
 protected:
  Result<RequestView> parse(std::string_view body, std::string_view type = kType) {
    return scan_audio(type, arena_)->finish(body);
  }
  std::string error_of(std::string_view body, std::string_view type = kType) {
    const auto view = parse(body, type);
    return view ? "no error" : view.error().message;
  }
  Arena arena_;
};

TEST_F(AudioTest, FindsTheModelAndWhetherItStreams) {
  const std::string body = kFile + part("model", "whisper-1") + part("stream", "true") + "--b--";
  const auto view = parse(body);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->api, Api::kAudio);
  EXPECT_EQ(view->model, "whisper-1");
  EXPECT_EQ(body.substr(view->model_value->begin, 9), "whisper-1");
  EXPECT_TRUE(view->stream && view->rewritable && view->model_is_text);
  EXPECT_TRUE(view->prompts.empty());
}

TEST_F(AudioTest, LetsTheLastModelCountAndNoFile) {
  const auto view = parse(kFile + part("model", "a") + part("model", "b") +
                          part("model", "c", "; filename=x") + "--b--");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->model, "b");
}

TEST_F(AudioTest, LeavesFormsWithoutModelAlone) {
  const auto view = parse(kFile + "--b--");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->model, "");
  EXPECT_FALSE(view->rewritable);
}

TEST_F(AudioTest, RefusesWhatIsNoSuchForm) {
  EXPECT_EQ(error_of(part("model", "m") + "--b--"), "invalid audio request: must have file field");
  EXPECT_EQ(error_of(kFile), "invalid audio request: the form has no end");
  EXPECT_EQ(error_of("{}", "application/json"),
            "invalid audio request: the content type must be multipart/form-data with a boundary");
}

}  // namespace
}  // namespace llmd::request
