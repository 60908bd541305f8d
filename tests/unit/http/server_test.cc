#include "daemon/http/server.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "daemon/http/management.h"
#include "tests/support/http_client.h"
#include "tests/support/status_matchers.h"

namespace foreshock::http {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class HttpServerTest : public ::testing::Test {
 protected:
  void StartWith(HttpOptions options) {
    options.listen = "127.0.0.1:0";
    server_ = std::make_unique<HttpServer>(options);
    server_->Handle("GET", "/echo", [](const HttpRequest& request) {
      std::string text = request.method;
      for (const auto& [name, value] : request.query) absl::StrAppend(&text, " ", name, "=", value);
      return HttpResponse{.body = text};
    });
    server_->Handle("POST", "/echo", [](const HttpRequest& request) {
      return HttpResponse{.status = 201, .body = request.body};
    });
    server_->Handle("POST", "/type", [](const HttpRequest& request) {
      return HttpResponse{.body = request.content_type, .headers = {{"Cache-Control", "private"}}};
    });
    server_->Handle("GET", "/runs/*",
                    [](const HttpRequest& request) { return HttpResponse{.body = request.rest}; });
    server_->Handle("GET", "/throws", [](const HttpRequest&) -> HttpResponse {
      throw std::runtime_error("secret detail");
    });
    server_->Handle("GET", "/large", [](const HttpRequest&) {
      return HttpResponse{.body = std::string(4 << 20, 'x')};
    });
    ASSERT_OK_AND_ASSIGN(address_, server_->Start());
  }
  void SetUp() override { StartWith({}); }

  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

TEST_F(HttpServerTest, PortZeroGivesTheBoundPort) {
  EXPECT_THAT(address_, AllOf(HasSubstr("127.0.0.1:"), Not(HasSubstr(":0"))));
}

TEST_F(HttpServerTest, AnswersGetWithDecodedQuery) {
  const support::HttpReply reply = support::HttpGet(address_, "/echo?b=two%20words&a=1&flag");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "GET a=1 b=two words flag=");
  EXPECT_THAT(reply.headers, HasSubstr("content-type: text/plain; charset=utf-8"));
}

TEST_F(HttpServerTest, AHandlerSeesTheBodysTypeAndReplacesADefaultHeader) {
  const support::HttpReply reply = support::HttpCall(
      address_, "POST", "/type", "{}", "Content-Type: Application/JSON; charset=utf-8\r\n");
  EXPECT_EQ(reply.body, "application/json");
  EXPECT_THAT(reply.headers, HasSubstr("cache-control: private\r\n"));
  EXPECT_THAT(reply.headers, Not(HasSubstr("no-store")));
  EXPECT_EQ(support::HttpCall(address_, "POST", "/type", "{}").body, "");
}

TEST_F(HttpServerTest, AnswersHeadLikeGetWithoutBody) {
  support::HttpPeer peer(address_);
  ASSERT_TRUE(peer.Send("HEAD /echo HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"));
  const support::HttpReply reply = peer.Receive(/*head=*/true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.headers, HasSubstr("content-length: 3\r\n"));
  EXPECT_TRUE(peer.AtEnd());
}

// The library's brotli takes hundreds of milliseconds where gzip takes one.
TEST_F(HttpServerTest, CompressesWithGzipForWhoeverTakesItAndWithNothingElse) {
  const auto encoding = [this](const std::string& accepted) {
    const std::string header =
        accepted.empty() ? "" : absl::StrCat("Accept-Encoding: ", accepted, "\r\n");
    const support::HttpReply reply = support::HttpCall(address_, "GET", "/large", "", header);
    EXPECT_EQ(reply.status, 200);
    const size_t at = reply.headers.find("content-encoding: ");
    if (at == std::string::npos) {
      EXPECT_EQ(reply.body.size(), size_t{4} << 20) << accepted;
      return std::string("none");
    }
    EXPECT_LT(reply.body.size(), 100'000u) << accepted;
    return reply.headers.substr(at + 18, reply.headers.find('\r', at) - at - 18);
  };
  EXPECT_EQ(encoding("gzip"), "gzip");
  EXPECT_EQ(encoding("gzip, deflate, br, zstd"), "gzip");  // a browser
  EXPECT_EQ(encoding("br"), "none");
  EXPECT_EQ(encoding(""), "none");
}

TEST_F(HttpServerTest, RoutesByPrefixOnlyWithSomethingBehindIt) {
  EXPECT_EQ(support::HttpGet(address_, "/runs/exp%2F1").body, "exp/1");
  EXPECT_EQ(support::HttpGet(address_, "/runs/").status, 404);
  EXPECT_EQ(support::HttpGet(address_, "/runs").status, 404);
}

TEST_F(HttpServerTest, UnknownPathIs404InJson) {
  const support::HttpReply reply = support::HttpGet(address_, "/nope\"x");
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.headers, HasSubstr("content-type: application/json"));
  EXPECT_EQ(reply.body,
            "{\"code\": \"NOT_FOUND\", \"message\": \"no page at '/nope\\\"x'; there are /echo, "
            "/large, /throws, /type\"}\n");
}

TEST_F(HttpServerTest, OtherMethodIs405WithAllow) {
  const support::HttpReply reply = support::HttpCall(address_, "DELETE", "/echo");
  EXPECT_EQ(reply.status, 405);
  EXPECT_THAT(reply.headers, HasSubstr("allow: get, head, post\r\n"));
  EXPECT_THAT(reply.body, HasSubstr("allowed are GET, HEAD, POST"));
}

TEST_F(HttpServerTest, NothingReachesTheFileSystem) {
  for (const char* path : {"/../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd",
                           "/runs/../../etc/passwd%00", "/echo/../../etc/passwd"}) {
    EXPECT_THAT(support::HttpGet(address_, path).body, Not(HasSubstr("root:"))) << path;
  }
}

TEST_F(HttpServerTest, ExceptionBecomes500WithoutItsText) {
  const support::HttpReply reply = support::HttpGet(address_, "/throws");
  EXPECT_EQ(reply.status, 500);
  EXPECT_THAT(reply.body, AllOf(HasSubstr("INTERNAL"), Not(HasSubstr("secret"))));
  EXPECT_THAT(reply.headers, Not(HasSubstr("secret")));
  EXPECT_EQ(support::HttpGet(address_, "/echo").status, 200);
}

TEST_F(HttpServerTest, PostBodyArrivesAndTheConnectionGoesOn) {
  support::HttpPeer peer(address_);
  ASSERT_TRUE(peer.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello"));
  const support::HttpReply first = peer.Receive();
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(first.body, "hello");
  ASSERT_TRUE(
      peer.Send("POST /echo HTTP/1.1\r\nHost: t\r\n\r\nGET /echo HTTP/1.1\r\nHost: t\r\n\r\n"));
  EXPECT_EQ(peer.Receive().status, 201);  // no length: no body
  EXPECT_EQ(peer.Receive().body, "GET");  // sent together with the one before
}

TEST_F(HttpServerTest, RefusesWhatItWouldHaveToReadWithoutBound) {
  struct Case {
    const char* what;
    std::string request;
    int status;
  };
  const std::string post = "POST /echo HTTP/1.1\r\nHost: t\r\n";
  const Case cases[] = {
      {"body over the limit", post + "Content-Length: 1048577\r\n\r\nx", 413},
      {"body of absurd length", post + "Content-Length: 99999999999999999999999\r\n\r\nx", 400},
      {"negative length", post + "Content-Length: -1\r\n\r\n", 400},
      {"two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400},
      {"chunked body", post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 411},
      {"compressed body", post + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 415},
      {"long path", "GET /" + std::string(1100, 'a') + " HTTP/1.1\r\nHost: t\r\n\r\n", 414},
      {"long line", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: t\r\n\r\n", 414},
      {"one large header", "GET /echo HTTP/1.1\r\nX: " + std::string(9000, 'a') + "\r\n\r\n", 400},
      {"no HTTP", "hello\r\n\r\n", 400},
      {"unknown method", "BREW /echo HTTP/1.1\r\nHost: t\r\n\r\n", 400},
  };
  for (const Case& c : cases) {
    support::HttpPeer peer(address_);
    ASSERT_TRUE(peer.Send(c.request)) << c.what;
    const support::HttpReply reply = peer.Receive();
    EXPECT_EQ(reply.status, c.status) << c.what;
    EXPECT_THAT(reply.body, HasSubstr("\"message\"")) << c.what;
    EXPECT_TRUE(peer.AtEnd()) << c.what << ": unread bytes must not become a request";
  }
  EXPECT_EQ(server_->stats().client_errors, std::size(cases));
}

TEST_F(HttpServerTest, ManyHeadersTogetherAreBounded) {
  std::string request = "GET /echo HTTP/1.1\r\nHost: t\r\n";
  while (request.size() < 17000) request += "X-Header: 0123456789\r\n";
  support::HttpPeer peer(address_);
  ASSERT_TRUE(peer.Send(request + "\r\n"));
  EXPECT_EQ(peer.Receive().status, 400);
  EXPECT_TRUE(peer.AtEnd());
}

TEST_F(HttpServerTest, BodyAtTheLimitIsTaken) {
  const std::string body(1 << 20, 'b');
  EXPECT_EQ(support::HttpCall(address_, "POST", "/echo", body).body, body);
}

TEST_F(HttpServerTest, RangesAreIgnored) {
  support::HttpPeer peer(address_);
  ASSERT_TRUE(peer.Send("GET /echo HTTP/1.1\r\nHost: t\r\nRange: bytes=0-0,0-,0-\r\n\r\n"));
  const support::HttpReply reply = peer.Receive();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "GET");
}

TEST_F(HttpServerTest, SendsLargeResponsesWhole) {
  EXPECT_EQ(support::HttpGet(address_, "/large").body.size(), size_t{4} << 20);
}

TEST_F(HttpServerTest, SlowRequestEndsAtTheDeadlineOfTheWholeRequest) {
  StartWith({.threads = 1, .read_timeout = absl::Milliseconds(200)});
  support::HttpPeer slow(address_);
  // Never finishes; a timeout per read would not end it as long as bytes keep coming.
  std::atomic<bool> done{false};
  std::thread trickle([&] {
    while (!done && slow.Send("G")) absl::SleepFor(absl::Milliseconds(20));
  });
  EXPECT_EQ(support::HttpGet(address_, "/echo").status, 200);  // the only thread became free again
  done = true;
  trickle.join();
}

TEST_F(HttpServerTest, IdleConnectionsMakeRoom) {
  StartWith({.threads = 1, .idle_timeout = absl::Seconds(60)});
  support::HttpPeer idle(address_);
  ASSERT_TRUE(idle.Send("GET /echo HTTP/1.1\r\nHost: t\r\n\r\n"));
  ASSERT_EQ(idle.Receive().status, 200);
  EXPECT_EQ(support::HttpGet(address_, "/echo").status, 200);
}

TEST_F(HttpServerTest, ConnectionsBeyondTheWaitingRoomGet503) {
  absl::Notification entered, release;
  HttpServer server({.listen = "127.0.0.1:0", .threads = 1, .connections_waiting_max = 1});
  server.Handle("GET", "/block", [&](const HttpRequest&) {
    if (!entered.HasBeenNotified()) entered.Notify();
    release.WaitForNotification();
    return HttpResponse{};
  });
  ASSERT_OK_AND_ASSIGN(const std::string address, server.Start());
  const std::string request = "GET /block HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
  support::HttpPeer busy(address);
  ASSERT_TRUE(busy.Send(request));
  entered.WaitForNotification();
  support::HttpPeer waiting(address);
  support::HttpPeer refused(address);
  EXPECT_EQ(refused.Receive().status, 503);
  EXPECT_EQ(server.stats().connections_refused, 1u);
  release.Notify();
  EXPECT_EQ(busy.Receive().status, 200);
  ASSERT_TRUE(waiting.Send(request));
  EXPECT_EQ(waiting.Receive().status, 200);
  EXPECT_OK(server.Stop(absl::Seconds(10)));
}

TEST_F(HttpServerTest, StopLetsARequestFinishAndThenCuts) {
  absl::Notification entered, release;
  HttpServer server({.listen = "127.0.0.1:0"});
  server.Handle("GET", "/wait", [&](const HttpRequest&) {
    entered.Notify();
    release.WaitForNotification();
    return HttpResponse{.body = "done"};
  });
  ASSERT_OK_AND_ASSIGN(const std::string address, server.Start());
  support::HttpPeer peer(address);
  ASSERT_TRUE(peer.Send("GET /wait HTTP/1.1\r\nHost: t\r\n\r\n"));
  entered.WaitForNotification();
  absl::Status stopped;
  std::thread stopper([&] { stopped = server.Stop(absl::Seconds(30)); });
  release.Notify();
  EXPECT_EQ(peer.Receive().body, "done");
  EXPECT_TRUE(peer.AtEnd());
  stopper.join();
  EXPECT_OK(stopped);
  EXPECT_FALSE(support::HttpPeer(address).connected());
  EXPECT_OK(server.Stop(absl::Seconds(1)));  // a second time does nothing
}

TEST_F(HttpServerTest, StopSaysHowManyConnectionsItCut) {
  absl::Notification entered, release;
  HttpServer server({.listen = "127.0.0.1:0"});
  server.Handle("GET", "/hang", [&](const HttpRequest&) {
    entered.Notify();
    release.WaitForNotification();
    return HttpResponse{.body = "late"};
  });
  ASSERT_OK_AND_ASSIGN(const std::string address, server.Start());
  support::HttpPeer peer(address);
  ASSERT_TRUE(peer.Send("GET /hang HTTP/1.1\r\nHost: t\r\n\r\n"));
  entered.WaitForNotification();
  absl::Status stopped;
  std::thread stopper([&] { stopped = server.Stop(absl::Milliseconds(20)); });
  EXPECT_TRUE(peer.AtEnd());  // cut while the handler still runs
  release.Notify();
  stopper.join();
  EXPECT_THAT(stopped,
              support::StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("1 connections")));
}

TEST(HttpListen, RefusesBadAddressesAndUsedPorts) {
  for (const char* address : {"", "localhost", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536",
                              "::1:80", "127.0.0.1:-1"}) {
    EXPECT_THAT(HttpServer({.listen = address}).Start(),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")))
        << address;
    EXPECT_THAT(CheckHttpAddress(address),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")))
        << address;
  }
  HttpServer first({.listen = "127.0.0.1:0"});
  ASSERT_OK_AND_ASSIGN(const std::string address, first.Start());
  EXPECT_THAT(HttpServer({.listen = address}).Start(),
              support::StatusIs(
                  absl::StatusCode::kAlreadyExists,
                  "cannot listen on " + address +
                      ": Address already in use (another process, perhaps another foreshockd, "
                      "listens there)"));
}

TEST(HttpListen, AnswersOnIpv6) {
  HttpServer server({.listen = "[::1]:0"});
  const absl::StatusOr<std::string> address = server.Start();
  if (!address.ok()) GTEST_SKIP() << "no IPv6 here: " << address.status();
  EXPECT_EQ(support::HttpGet(*address, "/").status, 404);
}

TEST(ErrorResponse, FitsTheStatusAndIsAlwaysJson) {
  struct Case {
    absl::Status status;
    int http;
    std::string body;
  };
  const Case cases[] = {
      {absl::NotFoundError("run 'a'"), 404,
       "{\"code\": \"NOT_FOUND\", \"message\": \"run 'a'\"}\n"},
      {absl::InvalidArgumentError("tab\there \x01 \xff\n\"\\"), 400,
       "{\"code\": \"INVALID_ARGUMENT\", "
       "\"message\": \"tab\\u0009here \\u0001 ?\\n\\\"\\\\\"}\n"},
      {absl::UnavailableError(""), 503, "{\"code\": \"UNAVAILABLE\", \"message\": \"\"}\n"},
      {absl::ResourceExhaustedError("x"), 429,
       "{\"code\": \"RESOURCE_EXHAUSTED\", \"message\": \"x\"}\n"},
      {absl::DataLossError("x"), 500, "{\"code\": \"DATA_LOSS\", \"message\": \"x\"}\n"},
  };
  for (const Case& c : cases) {
    const HttpResponse response = ErrorResponse(c.status);
    EXPECT_EQ(response.status, c.http);
    EXPECT_EQ(response.body, c.body);
  }
}

TEST(ManagementRoutes, AnswerWhatASupervisorAsks) {
  absl::Status ready = absl::UnavailableError("the store is being opened");
  absl::Status reload;
  HttpServer server({.listen = "127.0.0.1:0"});
  AddManagementRoutes({.ready = [&] { return ready; }, .reload = [&] { return reload; }}, &server);
  ASSERT_OK_AND_ASSIGN(const std::string address, server.Start());
  EXPECT_EQ(support::HttpGet(address, "/-/healthy").status, 200);
  EXPECT_EQ(support::HttpCall(address, "HEAD", "/-/healthy").status, 200);
  EXPECT_EQ(support::HttpGet(address, "/-/ready").status, 503);
  EXPECT_EQ(support::HttpGet(address, "/-/ready").body, "the store is being opened\n");
  ready = absl::OkStatus();
  EXPECT_EQ(support::HttpGet(address, "/-/ready").status, 200);
  EXPECT_EQ(support::HttpCall(address, "POST", "/-/reload").status, 200);
  EXPECT_EQ(support::HttpCall(address, "PUT", "/-/reload").status, 200);
  EXPECT_EQ(support::HttpGet(address, "/-/reload").status, 405);
  reload = absl::InvalidArgumentError("rules/a.yaml:3:1: unknown key");
  const support::HttpReply failed = support::HttpCall(address, "POST", "/-/reload");
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(failed.body, "rules/a.yaml:3:1: unknown key\n");
}

TEST(ManagementRoutes, ReloadDoesNotExistUnlessEnabled) {
  HttpServer server({.listen = "127.0.0.1:0"});
  AddManagementRoutes({.ready = [] { return absl::OkStatus(); }, .reload = nullptr}, &server);
  ASSERT_OK_AND_ASSIGN(const std::string address, server.Start());
  EXPECT_EQ(support::HttpCall(address, "POST", "/-/reload").status, 404);
}

}  // namespace
}  // namespace foreshock::http
