#include "daemon/query/json_actions.h"

#include "tests/support/http_client.h"
#include "tests/support/status_matchers.h"

namespace foreshock::query {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kJson[] = "Content-Type: application/json\r\n";

class JsonActionsTest : public ::testing::Test {
 protected:
  void Start() { ASSERT_OK_AND_ASSIGN(address_, server_.Start()); }
  void StartWithActions() {
    AddJsonActions(
        {.acknowledge =
             [this](const v1::AcknowledgeAlertRequest& request) -> absl::StatusOr<v1::Alert> {
           asked_ = request.ShortDebugString();
           if (request.by().empty()) return absl::InvalidArgumentError("by: required");
           v1::Alert alert;
           alert.set_id(request.id());
           return alert;
         },
         .accept = [this](const v1::AcceptAlertRequest& request)
             -> absl::StatusOr<v1::AcceptAlertResponse> {
           asked_ = request.ShortDebugString();
           v1::AcceptAlertResponse response;
           response.mutable_alert()->set_id(request.id());
           return response;
         },
         .silence = [this](const v1::SilenceAlertsRequest& request) -> absl::StatusOr<v1::Silence> {
           asked_ = request.ShortDebugString();
           return v1::Silence();
         },
         .expire_silence = [this](const std::string& id) -> absl::StatusOr<v1::Silence> {
           asked_ = id;
           return absl::NotFoundError("no silence");
         }},
        &server_);
    Start();
  }
  support::HttpReply Post(const std::string& path, const std::string& body,
                          const std::string& type = kJson) {
    return support::HttpCall(address_, "POST", path, body, type);
  }

  http::HttpServer server_{{.listen = "127.0.0.1:0"}};
  std::string address_;
  std::string asked_;
};

TEST_F(JsonActionsTest, EachPathTakesItsMessage) {
  StartWithActions();
  support::HttpReply reply =
      Post("/api/v1/alerts/acknowledge", R"({"id": "a1", "by": "ada", "why": "<b>"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr(R"({"alert":{"id":"a1")"));
  EXPECT_EQ(asked_, R"(id: "a1" by: "ada" why: "<b>")");
  reply = Post("/api/v1/alerts/accept", R"({"id": "a1", "by": "ada"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr(R"({"alert":{"id":"a1")"));
  EXPECT_EQ(asked_, R"(id: "a1" by: "ada")");
  reply = Post("/api/v1/silences",
               R"({"matchers": ["run=a"], "duration_ns": "3600000000000", "by": "ada"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(asked_, R"(matchers: "run=a" duration_ns: 3600000000000 by: "ada")");
  reply = Post("/api/v1/silences/expire", R"({"id": "s1"})");
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.body, HasSubstr("no silence"));
  EXPECT_EQ(asked_, "s1");
}

TEST_F(JsonActionsTest, WhatIsNoSuchJsonChangesNothing) {
  StartWithActions();
  const std::string good = R"({"id": "a1", "by": "ada"})";
  for (const char* type : {"Content-Type: text/plain\r\n", "",
                           "Content-Type: application/x-www-form-urlencoded\r\n"}) {
    const support::HttpReply reply = Post("/api/v1/alerts/acknowledge", good, type);
    EXPECT_EQ(reply.status, 400) << type;
    EXPECT_THAT(reply.body, HasSubstr("allowed is application/json"));
  }
  for (const char* body : {"", "{", "[]", R"({"id": 3, "to": "x"})", R"({"id": ["a"]})", "\xff"}) {
    const support::HttpReply reply = Post("/api/v1/alerts/acknowledge", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_THAT(reply.body, AllOf(HasSubstr("INVALID_ARGUMENT"),
                                  HasSubstr("foreshock.v1.AcknowledgeAlertRequest")));
  }
  EXPECT_EQ(asked_, "");
  // And what the action refuses is handed on.
  EXPECT_THAT(Post("/api/v1/alerts/acknowledge", "{}").body, HasSubstr("by: required"));
  EXPECT_EQ(support::HttpGet(address_, "/api/v1/alerts/acknowledge").status, 405);
}

TEST_F(JsonActionsTest, RefusedTheySayHowElse) {
  RefuseJsonActions(&server_);
  Start();
  for (const char* path : {"/api/v1/alerts/acknowledge", "/api/v1/alerts/accept",
                           "/api/v1/silences", "/api/v1/silences/expire"}) {
    const support::HttpReply reply = Post(path, "{}");
    EXPECT_EQ(reply.status, 403) << path;
    EXPECT_THAT(reply.body, AllOf(HasSubstr("http.actions"), HasSubstr("foreshock alerts")));
  }
}

}  // namespace
}  // namespace foreshock::query
