#include "codec/form_scan.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::codec {
namespace {

/// "name=content" of each part, files with a '*'; the error after what came before it.
struct Parts final : FormSink {
  explicit Parts(std::string_view b) : body(b) {}
  void part(const FormPart& part) override {
    text += (text.empty() ? "" : " ") + std::string(part.name) + (part.is_file ? "*=" : "=") +
            std::string(body.substr(part.begin, part.end - part.begin));
  }
  std::string_view body;
  std::string text;
};

std::string read(std::string_view body, size_t step) {
  const std::string delimiter = "\r\n--b";
  Parts parts(body);
  FormScanner scanner(delimiter, parts);
  for (size_t end = step; end < body.size(); end += step) scanner.feed(body.substr(0, end));
  scanner.feed(body);
  if (!scanner.finish()) parts.text += " ! " + std::string(scanner.error());
  return parts.text;
}

std::string read(std::string_view body) {
  const std::string whole = read(body, body.size() + 1);
  for (const size_t step : {1, 2, 3, 7}) EXPECT_EQ(read(body, step), whole) << step;
  return whole;
}

std::string part(std::string_view head, std::string_view content) {
  return "--b\r\nContent-Disposition: form-data; " + std::string(head) + "\r\n\r\n" +
         std::string(content) + "\r\n";
}

TEST(FormScanner, ReadsNamesAndContents) {
  EXPECT_EQ(read(part("name=\"model\"", "whisper") + part("name=x; filename=a.wav", "RIFF\r\n") +
                 "--b--\r\n"),
            "model=whisper x*=RIFF\r\n");
  EXPECT_EQ(read("--b\r\nX: y\r\ncontent-disposition:form-data;NAME=\"a;b\"\r\n\r\n\r\n--b--"),
            "a;b=");
  EXPECT_EQ(read(part("name=a; filename*=UTF-8''x", "1") + "--b--"), "a*=1");
  EXPECT_EQ(read("--b\r\n\r\nnameless\r\n--b--"), "=nameless");
}

TEST(FormScanner, TellsTheBoundaryFromItsLookalikes) {
  EXPECT_EQ(read(part("name=a", "x\r\n--bc\r\n--b y\r\n-b\r\n\r\n--") + "--b--"),
            "a=x\r\n--bc\r\n--b y\r\n-b\r\n\r\n--");
  EXPECT_EQ(read("--b \t\r\n\r\n1\r\n--b  \r\n\r\n2\r\n--b--"), "=1 =2");
}

TEST(FormScanner, PassesOverWhatIsAround) {
  EXPECT_EQ(read("before\r\n" + part("name=a", "1") + "--b--\r\nafter\r\n--b\r\n"), "a=1");
  EXPECT_EQ(read("--b--"), "");
}

TEST(FormScanner, RefusesFormsWithoutEnd) {
  EXPECT_EQ(read(""), " ! the form has no end");
  EXPECT_EQ(read("{}"), " ! the form has no end");
  EXPECT_EQ(read(part("name=a", "1") + "--b"), " ! the form has no end");
}

TEST(FormScanner, BoundsHeadsAndParts) {
  EXPECT_EQ(read("--b\r\nX: " + std::string(kFormHeadBytesMax, 'x') + "\r\n\r\n\r\n--b--"),
            " ! the head of a part is too large");
  std::string many;
  for (size_t i = 0; i <= kFormPartsMax; ++i) many += "--b\r\n\r\n\r\n";
  EXPECT_TRUE(read(many + "--b--", many.size()).ends_with("! the form has too many parts"));
}

TEST(FormBoundary, IsFoundInTheContentType) {
  EXPECT_EQ(form_boundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(form_boundary("Multipart/Form-Data;charset=x; BOUNDARY=\"a b\" "), "a b");
  for (const auto* none :
       {"", "application/json", "multipart/mixed; boundary=a", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=\"a\x01\""})
    EXPECT_FALSE(form_boundary(none)) << none;
  EXPECT_FALSE(form_boundary("multipart/form-data; boundary=" + std::string(201, 'x')));
}

}  // namespace
}  // namespace llmd::codec
