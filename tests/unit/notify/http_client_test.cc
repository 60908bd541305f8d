#include "daemon/notify/http_client.h"

#include <stdlib.h>

#include <fstream>
#include <thread>

#include "daemon/notify/secret.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/notify/http_receiver.h"

namespace foreshock::notify {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<HttpAnswer> PostTo(const std::string& url,
                                  absl::Duration timeout = absl::Seconds(5)) {
  HttpClient client({.timeout = timeout}, {"hunter2"});
  return client.Post(url, {"Content-Type: application/json", "X-A: b"}, R"({"a":1})");
}

TEST(HttpClientTest, PostsTheBodyWithItsHeaders) {
  HttpReceiver receiver([](const std::string&) { return HttpResponse(202, "", "thanks"); });
  ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, PostTo(receiver.url() + "/x"));
  EXPECT_EQ(answer.status, 202);
  EXPECT_EQ(answer.body, "thanks");
  ASSERT_EQ(receiver.requests().size(), 1u);
  EXPECT_THAT(receiver.requests()[0],
              AllOf(HasSubstr("POST /x HTTP/1.1"), HasSubstr("X-A: b\r\n"),
                    HasSubstr("\r\n\r\n{\"a\":1}"), Not(HasSubstr("Expect"))));
}

TEST(HttpClientTest, ReadsRetryAfterAndFollowsNoRedirect) {
  HttpReceiver target([](const std::string&) { return HttpResponse(200); });
  HttpReceiver receiver([&](const std::string& request) {
    if (request.find("/busy") != std::string::npos) return HttpResponse(429, "Retry-After: 7\r\n");
    if (request.find("/long") != std::string::npos) {
      return HttpResponse(503, "Retry-After: 999999\r\n");
    }
    return HttpResponse(307, "Location: " + target.url() + "/\r\n");
  });
  ASSERT_OK_AND_ASSIGN(HttpAnswer answer, PostTo(receiver.url() + "/busy"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.retry_after, absl::Seconds(7));
  ASSERT_OK_AND_ASSIGN(answer, PostTo(receiver.url() + "/long"));
  EXPECT_EQ(answer.retry_after, absl::Hours(1));
  ASSERT_OK_AND_ASSIGN(answer, PostTo(receiver.url() + "/moved"));
  EXPECT_EQ(answer.status, 307);
  EXPECT_TRUE(target.requests().empty());
}

TEST(HttpClientTest, ANameThatHangsOrEndsEarlyIsNoAnswer) {
  HttpReceiver receiver([](const std::string& request) -> std::string {
    if (request.find("/hang") != std::string::npos) return "hang";
    if (request.find("/close") != std::string::npos) return "";
    return "HTTP/1.1 2";
  });
  EXPECT_THAT(PostTo(receiver.url() + "/hang", absl::Milliseconds(100)),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer")));
  EXPECT_THAT(PostTo(receiver.url() + "/close"),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer")));
  EXPECT_THAT(PostTo(receiver.url() + "/cut"),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer")));
  EXPECT_THAT(PostTo("http://127.0.0.1:1/"),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer")));
}

TEST(HttpClientTest, WhoHasAnsweredHasAnsweredWhateverBefallsTheBody) {
  HttpReceiver receiver([](const std::string& request) -> std::string {
    if (request.find("/long") != std::string::npos) {
      return HttpResponse(200, "", std::string(1 << 20, 'x'));
    }
    return "HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\ncut";
  });
  ASSERT_OK_AND_ASSIGN(HttpAnswer answer, PostTo(receiver.url() + "/cut"));
  EXPECT_EQ(answer.status, 202);
  ASSERT_OK_AND_ASSIGN(answer, PostTo(receiver.url() + "/long"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body.size(), 4096u);
}

TEST(HttpClientTest, OtherMethodsHaveNoBodyAndAnAnswerAsLongAsIsAsked) {
  HttpReceiver receiver(
      [](const std::string&) { return HttpResponse(200, "", std::string(1 << 20, 'x')); });
  HttpClient client({}, {});
  for (const std::string method : {"GET", "DELETE"}) {
    ASSERT_OK_AND_ASSIGN(const HttpAnswer answer, client.Do({.method = method,
                                                             .url = receiver.url() + "/a",
                                                             .headers = {"X-One: 1"},
                                                             .answer_bytes_max = 100'000}));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body.size(), 100'000u);
    EXPECT_THAT(receiver.requests().back(), HasSubstr(method + " /a HTTP/1.1"));
    EXPECT_THAT(receiver.requests().back(), HasSubstr("X-One: 1"));
  }
  ASSERT_OK(client.Post(receiver.url() + "/b", {}, "body").status());
  EXPECT_THAT(receiver.requests().back(), HasSubstr("POST /b HTTP/1.1"));
}

TEST(HttpClientTest, CancelEndsAPostThatHangs) {
  std::atomic<bool> asked{false};
  HttpReceiver receiver([&asked](const std::string&) {
    asked = true;
    return "hang";
  });
  HttpClient client({.timeout = absl::Minutes(5)}, {});
  std::thread canceller([&] {
    while (!asked) std::this_thread::yield();
    client.Cancel();
  });
  EXPECT_THAT(client.Post(receiver.url(), {}, ""),
              support::StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopping")));
  canceller.join();
  EXPECT_THAT(client.Post(receiver.url(), {}, ""),
              support::StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopping")));
}

TEST(HttpClientTest, SecretsAreInNoMessage) {
  HttpReceiver receiver(
      [](const std::string&) { return HttpResponse(400, "", "no such key: hunter2\nline"); });
  HttpClient client({}, {"hunter2", receiver.url() + "/hunter2/path"});
  const auto answer = client.Post(receiver.url() + "/hunter2/path", {}, "");
  EXPECT_EQ(ResultOf(answer, client).status.message(), "HTTP 400: no such key: *** line");
  const auto unreachable = client.Post("http://hunter2.invalid/hunter2", {}, "");
  EXPECT_THAT(std::string(unreachable.status().message()), Not(HasSubstr("hunter2")));
}

TEST(CheckPlainUrlTest, TakesWhatHasNoSecretInIt) {
  for (const char* good : {"http://h", "https://h:1/a/b", "http://[::1]:9093"}) {
    EXPECT_EQ(CheckPlainUrl(good), "") << good;
  }
  for (const char* bad : {"", "h:1", "ftp://h", "file:///etc/passwd", "http://", "http://u:p@h",
                          "https://h/?token=x", "https://h/#x", "http://h:port"}) {
    EXPECT_NE(CheckPlainUrl(bad), "") << bad;
  }
}

void WriteTo(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

TEST(ReadSecretTest, ReadsFilesAndTheEnvironment) {
  support::TempDir dir;
  WriteTo(dir.File("key"), "  s3cret\n");
  ASSERT_OK_AND_ASSIGN(std::string secret, ReadSecret({.file = dir.File("key")}));
  EXPECT_EQ(secret, "s3cret");
  setenv("FORESHOCK_TEST_SECRET", "fromenv", 1);
  ASSERT_OK_AND_ASSIGN(secret, ReadSecret({.env = "FORESHOCK_TEST_SECRET"}));
  EXPECT_EQ(secret, "fromenv");
}

TEST(ReadSecretTest, NamesThePlaceAndNeverTheContent) {
  support::TempDir dir;
  WriteTo(dir.File("empty"), " \n");
  WriteTo(dir.File("lines"), "s3cret\ns3cret2\n");
  WriteTo(dir.File("big"), std::string(70'000, 's'));
  for (const char* name : {"empty", "lines", "big", "none"}) {
    const auto secret = ReadSecret({.file = dir.File(name)});
    ASSERT_FALSE(secret.ok()) << name;
    EXPECT_THAT(std::string(secret.status().message()),
                AllOf(HasSubstr(dir.File(name)), Not(HasSubstr("s3cret"))));
  }
  EXPECT_THAT(ReadSecret({.env = "FORESHOCK_NO_SUCH"}),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("FORESHOCK_NO_SUCH")));
}

}  // namespace
}  // namespace foreshock::notify
