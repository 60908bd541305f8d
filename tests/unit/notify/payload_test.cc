// What receivers are sent. Python tests check PagerDuty's and the webhook's against schemas.
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/notify/alertmanager.h"
#include "daemon/notify/delivery.h"
#include "daemon/notify/pagerduty.h"
#include "daemon/notify/slack.h"
#include "daemon/notify/webhook.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using Outcome = SendResult::Outcome;

constexpr int64_t kFired = 1'800'000'000;  // RowOf

struct Posted {
  std::string url;
  std::vector<std::string> headers;
  std::string body;
  Json json;
  absl::StatusOr<HttpAnswer> answer = HttpAnswer{.status = 202};
};

class FakePoster final : public HttpPoster {
 public:
  explicit FakePoster(Posted* posted) : posted_(posted) {}
  absl::StatusOr<HttpAnswer> Do(const HttpCall& call) override {
    if (call.method == "GET") return HttpAnswer{.status = 200, .body = "[]"};  // no silences
    posted_->url = call.url;
    posted_->headers = call.headers;
    posted_->body = std::string(call.body);
    posted_->json = Json::parse(call.body);
    return posted_->answer;
  }

 private:
  Posted* const posted_;
};

class PayloadTest : public ::testing::Test {
 protected:
  std::unique_ptr<HttpPoster> Poster() { return std::make_unique<FakePoster>(&posted_); }
  std::shared_ptr<model::AlertRow> Full() {
    v1::Alert alert = FullAlert();
    alert.clear_resolved_step();
    alert.set_state(v1::ALERT_STATE_FIRING);
    return RowOf(alert);
  }
  Posted posted_;
  const absl::Time now_ = absl::FromUnixSeconds(kFired + 10);
};

class AlertmanagerTest : public PayloadTest {
 protected:
  AlertmanagerNotifier notifier_{{.url = "http://am:9093/",
                                  .bearer_token = "tok",
                                  .resend = absl::Minutes(1),
                                  .external_url = "https://f",
                                  .notifier = "am"},
                                 Poster()};
};

TEST_F(AlertmanagerTest, LabelsAreTheIdentityAndTextStandsInAnnotations) {
  auto row = Full();
  (*row->mutable_alert()->mutable_labels())["team"] = "llm";
  EXPECT_EQ(notifier_.Send({.alerts = {row}, .now = now_}).outcome, Outcome::kTaken);
  EXPECT_EQ(posted_.url, "http://am:9093/api/v2/alerts");
  EXPECT_THAT(posted_.headers, Contains("Authorization: Bearer tok"));
  ASSERT_EQ(posted_.json.size(), 1u);
  const Json first = posted_.json[0];
  EXPECT_EQ(first["labels"], Json({{"alertname", "Delta2EntropyFalls"},
                                   {"run", "exp-42"},
                                   {"severity", "critical"},
                                   {"fault", "low_precision_attention"},
                                   {"evaluation", "daemon"},
                                   {"team", "llm"}}));
  EXPECT_EQ(first["startsAt"], "2027-01-15T08:00:00.000Z");
  EXPECT_EQ(first["endsAt"], "2027-01-15T08:04:10.000Z");  // four intervals ahead
  EXPECT_EQ(first["generatorURL"], "https://f/alert?run=exp-42&id=a1");
  EXPECT_EQ(first["annotations"]["alert_url"], first["generatorURL"]);
  EXPECT_EQ(first["annotations"]["runbook_url"], "https://example.org/r");
  EXPECT_EQ(first["annotations"]["where"], "layers 1, 2");
  // The alert spreads, flaps and is judged anew: it stays the same alert.
  row->mutable_alert()->add_layers(7);
  row->mutable_alert()->set_value(0.1);
  (*row->mutable_alert()->mutable_labels())["flapping"] = "true";
  notifier_.Send({.alerts = {row}, .now = now_ + absl::Minutes(1)});
  EXPECT_EQ(posted_.json[0]["labels"], first["labels"]);
  EXPECT_EQ(posted_.json[0]["startsAt"], first["startsAt"]);
  EXPECT_NE(posted_.json[0]["endsAt"], first["endsAt"]);
}

TEST_F(AlertmanagerTest, AnEndHasTheSameLabelsAndATimeThatIsPast) {
  auto row = Full();
  notifier_.Send({.alerts = {row}, .now = now_});
  const Json labels = posted_.json[0]["labels"];
  row->mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
  row->set_ended_unix_ns((kFired + 5) * 1'000'000'000);
  notifier_.Send({.alerts = {row}, .now = now_});
  EXPECT_EQ(posted_.json[0]["labels"], labels);
  EXPECT_EQ(posted_.json[0]["endsAt"], "2027-01-15T08:00:05.000Z");
}

TEST_F(AlertmanagerTest, WhatEndedWithItsRunSaysSoAndEndsThen) {
  Message message{.alerts = {Full()}, .now = now_};
  message.ended_runs["exp-42"] = {"the run failed", absl::FromUnixSeconds(kFired + 3), now_};
  notifier_.Send(message);
  EXPECT_EQ(posted_.json[0]["endsAt"], "2027-01-15T08:00:03.000Z");
  EXPECT_EQ(posted_.json[0]["annotations"]["ended"], "the run failed, it fired until then");
}

TEST_F(AlertmanagerTest, WhatFiresAgainIsNotEndedByTheRepeatedEndOfBefore) {
  auto old = Full();
  old->mutable_alert()->set_id("old");
  old->mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
  old->set_ended_unix_ns((kFired + 5) * 1'000'000'000);
  auto again = Full();
  again->set_fired_unix_ns((kFired + 8) * 1'000'000'000);
  for (const auto& alerts : {std::vector{old, again}, std::vector{again, old}}) {
    notifier_.Send({.alerts = {alerts.begin(), alerts.end()}, .now = now_});
    ASSERT_EQ(posted_.json.size(), 1u);
    EXPECT_EQ(posted_.json[0]["endsAt"], "2027-01-15T08:04:10.000Z");
    EXPECT_EQ(posted_.json[0]["annotations"]["alert_id"], "a1");
  }
}

TEST_F(AlertmanagerTest, ARisenSeverityEndsUnderItsFormerName) {
  auto row = Full();
  model::Delivery delivery;
  delivery.set_notifier("am");
  delivery.add_told()->set_severity("warning");
  MergeDelivery(delivery, row.get());
  notifier_.Send({.alerts = {row}, .now = now_});
  ASSERT_EQ(posted_.json.size(), 2u);
  std::map<std::string, std::string> ends;
  for (const Json& alert : posted_.json) {
    ends[alert["labels"]["severity"].get<std::string>()] = alert["endsAt"].get<std::string>();
  }
  EXPECT_EQ(ends["warning"], "2027-01-15T08:00:10.000Z");
  EXPECT_EQ(ends["critical"], "2027-01-15T08:04:10.000Z");
}

class PagerDutyTest : public PayloadTest {
 protected:
  PagerDutyNotifier notifier_{
      {.url = "https://pd/v2/enqueue", .routing_key = "key", .external_url = "https://f"},
      Poster()};
};

TEST_F(PagerDutyTest, TriggersAcknowledgesAndResolvesUnderOneKey) {
  const auto row = Full();
  notifier_.Send({.group = "a1/critical", .alerts = {row}, .now = now_});
  EXPECT_EQ(posted_.json["routing_key"], "key");
  EXPECT_EQ(posted_.json["event_action"], "trigger");
  EXPECT_EQ(posted_.json["dedup_key"], "foreshock/a1/critical");
  const Json payload = posted_.json["payload"];
  EXPECT_EQ(payload["severity"], "critical");
  EXPECT_EQ(payload["source"], "exp-42");
  EXPECT_THAT(payload["summary"].get<std::string>(), HasSubstr("low_precision_attention"));
  EXPECT_EQ(payload["custom_details"]["Last healthy step"],
            "400; newest checkpoint at or before it: step-400");
  EXPECT_EQ(posted_.json["links"][1]["href"], "https://f/alert?run=exp-42&id=a1");
  for (const auto& [kind, action] : {std::pair{MessageKind::kAcknowledged, "acknowledge"},
                                     std::pair{MessageKind::kResolved, "resolve"}}) {
    notifier_.Send({.kind = kind, .group = "a1/critical", .alerts = {row}, .now = now_});
    EXPECT_EQ(posted_.json, Json({{"routing_key", "key"},
                                  {"dedup_key", "foreshock/a1/critical"},
                                  {"event_action", action}}));
  }
}

TEST_F(PagerDutyTest, AResolutionSaysThatItCameWithTheRunsEnd) {
  Message message{
      .kind = MessageKind::kResolved, .group = "a1/critical", .alerts = {Full()}, .now = now_};
  message.ended_runs["exp-42"] = {"the run failed", now_, now_};
  notifier_.Send(message);
  EXPECT_EQ(posted_.json["event_action"], "resolve");
  EXPECT_THAT(posted_.json["payload"]["summary"].get<std::string>(),
              HasSubstr(": the run failed, it fired until then"));
}

TEST_F(PagerDutyTest, StaysWithinTheLimitsWhateverTheAlertSays) {
  auto row = Full();
  row->mutable_alert()->set_run(std::string(5000, 'x'));
  row->mutable_alert()->set_summary(std::string(100'000, 'y'));
  row->mutable_alert()->set_description("bad \xff utf-8");
  Message message{.group = "g", .alerts = {}, .now = now_};
  for (int i = 0; i < 200; ++i) message.alerts.push_back(row);
  notifier_.Send(message);
  EXPECT_LE(posted_.json["payload"]["summary"].get<std::string>().size(), 1024u);
  EXPECT_LE(posted_.body.size(), 512u << 10);
  EXPECT_EQ(posted_.json["payload"]["custom_details"]["With it"].size(), 4u);
  EXPECT_EQ(posted_.json["payload"]["custom_details"]["And more"], 195);
}

TEST_F(PayloadTest, AWebhookIsToldWhyAndWhenAnAlertEndedWithItsRun) {
  WebhookNotifier notifier({.url = "https://h/x"}, nullptr, Poster());
  Message message{.kind = MessageKind::kResolved, .group = "g", .alerts = {Full()}, .now = now_};
  message.ended_runs["exp-42"] = {"the run failed", absl::FromUnixSeconds(kFired + 3), now_};
  notifier.Send(message);
  const Json& alert = posted_.json["alerts"][0];
  EXPECT_EQ(alert["state"], "ALERT_STATE_FIRING");  // as the record of the run says for ever
  EXPECT_EQ(alert["end_reason"], "the run failed, it fired until then");
  EXPECT_EQ(alert["ended_unix_ns"], "1800000003000000000");
  EXPECT_THAT(posted_.json["summary"].get<std::string>(), HasSubstr("the run failed"));
}

TEST_F(PayloadTest, AWebhookIsSignedAndHasAKeyOfItsOwn) {
  WebhookNotifier notifier({.url = "https://h/x", .hmac_secret = "s", .external_url = "https://f"},
                           nullptr, Poster());
  notifier.Send({.group = "a1/critical", .alerts = {Full()}, .now = now_});
  EXPECT_THAT(posted_.headers, Contains("Idempotency-Key: a1/critical/firing"));
  EXPECT_THAT(posted_.headers,
              Contains(absl::StrCat("X-Foreshock-Signature: ", Signature("s", posted_.body))));
  EXPECT_EQ(posted_.json["status"], "firing");
  EXPECT_EQ(posted_.json["run_url"], "https://f/run?run=exp-42");
  EXPECT_EQ(posted_.json["alerts"][0]["firing_step"], "460");  // as the read API writes it
  EXPECT_EQ(posted_.json["alerts"][0]["fired_unix_ns"], "1800000000000000000");
  EXPECT_EQ(posted_.json["more"], 0);
}

TEST_F(PayloadTest, AWebhookSpeaksAsItsTemplateSays) {
  ASSERT_OK_AND_ASSIGN(auto words, BodyTemplate::Parse("t", R"({"text": "{{status}}: {{summary}}",
      "steps": [{{#alerts}}"{{firing_step}}"{{^last}},{{/last}}{{/alerts}}]})",
                                                       true));
  WebhookNotifier notifier({.url = "https://h/x", .hmac_secret = "s", .content_type = "a/json"},
                           std::move(words), Poster());
  notifier.Send({.group = "a1/critical", .alerts = {Full(), Full()}, .now = now_});
  EXPECT_THAT(posted_.headers, Contains("Content-Type: a/json"));
  EXPECT_THAT(posted_.headers, Contains("Idempotency-Key: a1/critical/firing"));
  EXPECT_THAT(posted_.headers,
              Contains(absl::StrCat("X-Foreshock-Signature: ", Signature("s", posted_.body))));
  EXPECT_THAT(posted_.json["text"].get<std::string>(),
              HasSubstr("firing: critical: low_precision_attention in run exp-42"));
  EXPECT_EQ(posted_.json["steps"], (Json{"460", "460"}));
}

TEST_F(PayloadTest, PagerDutyHearsOfNewAttempts) {
  PagerDutyNotifier notifier({.routing_key = "key", .external_url = "https://f"}, Poster());
  notifier.SendChange({.run = "exp-42",
                       .attempt = 3,
                       .world_size = 8,
                       .resume_step = 400,
                       .last_step = 460,
                       .at = absl::FromUnixSeconds(kFired)});
  EXPECT_EQ(posted_.url, "https://events.pagerduty.com/v2/change/enqueue");
  EXPECT_EQ(posted_.json["routing_key"], "key");
  EXPECT_EQ(posted_.json.count("event_action"), 0u);
  const Json payload = posted_.json["payload"];
  EXPECT_EQ(payload["summary"],
            "Run exp-42 goes on in attempt 3 from step 400; the one before reached step 460");
  EXPECT_EQ(payload["timestamp"], "2027-01-15T08:00:00.000Z");
  EXPECT_EQ(payload["source"], "exp-42");
  EXPECT_EQ(payload["custom_details"]["Ranks"], 8);
  EXPECT_EQ(posted_.json["links"][0]["href"], "https://f/run?run=exp-42");
  notifier.SendChange({.run = std::string(5000, 'x'), .attempt = 2});
  EXPECT_LE(posted_.json["payload"]["summary"].get<std::string>().size(), 1024u);
  EXPECT_EQ(ChangeUrl("https://events.eu.pagerduty.com/v2/enqueue"),
            "https://events.eu.pagerduty.com/v2/change/enqueue");
  EXPECT_EQ(ChangeUrl("https://proxy/pd"), "");
}

TEST(SignatureTest, IsHmacSha256) {
  // RFC 4231, test case 2.
  EXPECT_EQ(Signature("Jefe", "what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_F(PayloadTest, SlackGetsEscapedTextWithinItsLimits) {
  SlackNotifier notifier({.url = "https://hooks/secret"}, Poster());
  auto row = Full();
  row->mutable_alert()->set_run("<!channel> & co");
  row->mutable_alert()->set_summary(std::string(5000, '<'));
  Message message{.group = "g", .alerts = {}, .now = now_};
  for (int i = 0; i < 9; ++i) message.alerts.push_back(row);
  notifier.Send(message);
  EXPECT_THAT(posted_.body, Not(HasSubstr("<!channel>")));
  EXPECT_THAT(posted_.json["text"].get<std::string>(), HasSubstr("&lt;!channel&gt; &amp; co"));
  const Json blocks = posted_.json["blocks"];
  EXPECT_EQ(blocks.size(), 7u);  // headline, five alerts, and the rest
  EXPECT_EQ(blocks[6]["text"]["text"], "... and 4 more");
  for (const Json& block : blocks) {
    EXPECT_LE(block["text"]["text"].get<std::string>().size(), 3000u);
  }
  notifier.Send({.kind = MessageKind::kResolved, .group = "g", .alerts = {row}, .now = now_});
  EXPECT_EQ(posted_.json["blocks"].size(), 1u);
}

TEST_F(PayloadTest, AnswersAreTakenRetriedOrRefused) {
  SlackNotifier notifier({.url = "https://hooks/secret"}, Poster());
  const auto send = [&](absl::StatusOr<HttpAnswer> answer) {
    posted_.answer = std::move(answer);
    return notifier.Send({.group = "g", .alerts = {Full()}, .now = now_});
  };
  for (const int status : {200, 202, 204}) {
    EXPECT_EQ(send(HttpAnswer{.status = status}).outcome, Outcome::kTaken) << status;
  }
  for (const int status : {408, 425, 429, 500, 503}) {
    EXPECT_EQ(send(HttpAnswer{.status = status}).outcome, Outcome::kRetry) << status;
  }
  for (const int status : {301, 302, 400, 401, 403, 404, 410, 422}) {
    EXPECT_EQ(send(HttpAnswer{.status = status}).outcome, Outcome::kRefused) << status;
  }
  const SendResult limited = send(HttpAnswer{.status = 429, .retry_after = absl::Seconds(7)});
  EXPECT_EQ(limited.retry_after, absl::Seconds(7));
  EXPECT_EQ(send(absl::UnavailableError("no answer")).outcome, Outcome::kRetry);
  EXPECT_THAT(std::string(send(HttpAnswer{.status = 400, .body = "bad key"}).status.message()),
              HasSubstr("HTTP 400: bad key"));
}

}  // namespace
}  // namespace foreshock::notify
