#include "daemon/web/page.h"

#include <string>

#include "daemon/web/assets.h"
#include "tests/support/http_client.h"
#include "tests/support/status_matchers.h"

namespace foreshock::web {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddPageRoutes(&server_);
    ASSERT_OK_AND_ASSIGN(address_, server_.Start());
  }

  http::HttpServer server_{{.listen = "127.0.0.1:0"}};
  std::string address_;
};

TEST_F(PageTest, EveryViewIsTheSamePageOrSaysThatItWasNotBuilt) {
  const support::HttpReply root = support::HttpGet(address_, "/");
  EXPECT_EQ(root.status, 200);
  if (internal::Assets().empty()) {
    EXPECT_THAT(root.body, HasSubstr("built without its page"));
    EXPECT_THAT(root.headers, HasSubstr("content-type: text/plain"));
  } else {
    EXPECT_THAT(root.body, HasSubstr("web/main.js?v="));
    EXPECT_THAT(root.body, Not(HasSubstr("@")));  // every placeholder was filled in
    EXPECT_THAT(root.headers, HasSubstr("content-type: text/html; charset=utf-8"));
    EXPECT_THAT(root.headers, HasSubstr("cache-control: no-store"));
    EXPECT_THAT(root.headers, HasSubstr("content-security-policy: default-src 'none'; script-src "
                                        "'self'; "));
    EXPECT_THAT(root.headers, HasSubstr("frame-ancestors 'none'"));
  }
  for (const char* view : {"/runs", "/run?run=a%2Fb", "/alerts", "/alert?run=a&id=b", "/attention",
                           "/router", "/compare?a=x&b=y", "/rules", "/daemon"}) {
    EXPECT_EQ(support::HttpGet(address_, view).body, root.body) << view;
  }
}

TEST_F(PageTest, ScriptAndStyleMayBeKeptForEver) {
  for (const internal::Asset& asset : internal::Assets()) {
    if (asset.name == "index.html") continue;
    const support::HttpReply reply =
        support::HttpGet(address_, absl::StrCat("/web/", asset.name, "?v=1"));
    EXPECT_EQ(reply.status, 200) << asset.name;
    EXPECT_EQ(reply.body, asset.content);
    EXPECT_THAT(reply.headers, HasSubstr("immutable"));
    EXPECT_THAT(reply.headers, Not(HasSubstr("no-store")));
  }
}

TEST_F(PageTest, AnUnknownAddressHelps) {
  for (const char* path : {"/old/view", "/web/gone.js", "/Runs"}) {
    const support::HttpReply reply = support::HttpGet(address_, path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_THAT(reply.body, HasSubstr("<a href=\"/runs\">")) << path;
  }
  for (const char* path : {"/api/v1/nope", "/-/nope"}) {
    const support::HttpReply reply = support::HttpGet(address_, path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_THAT(reply.body, HasSubstr("\"NOT_FOUND\"")) << path;
  }
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    EXPECT_EQ(support::HttpCall(address_, method, "/api/v1/nope").status, 404) << method;
    EXPECT_EQ(support::HttpCall(address_, method, "/runs").status, 405) << method;
  }
}

}  // namespace
}  // namespace foreshock::web
