#include "daemon/notify/alertmanager_silences.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/notify/alertmanager.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;
using Outcome = SendResult::Outcome;

// Keeps silences as Alertmanager does, and the alerts that it was shown last.
struct FakeAlertmanager {
  std::vector<Json> silences;
  Json alerts;
  int made = 0;
  std::vector<std::string> asked;  // "POST /api/v2/alerts"
  int silences_status = 200;       // what it answers to all that is about silences

  HttpAnswer Answer(const HttpCall& call) {
    const std::string path = call.url.substr(std::string("http://am").size());
    asked.push_back(absl::StrCat(call.method, " ", path.substr(0, path.find('?'))));
    if (path == "/api/v2/alerts") {
      alerts = Json::parse(call.body);
      return {.status = 200};
    }
    if (silences_status != 200) return {.status = silences_status, .body = "forbidden"};
    if (call.method == "GET") return {.status = 200, .body = Json(silences).dump()};
    if (call.method == "DELETE") {
      for (Json& silence : silences) {
        if (absl::EndsWith(path, silence["id"].get<std::string>())) {
          silence["status"]["state"] = "expired";
        }
      }
      return {.status = 200};
    }
    Json silence = Json::parse(call.body);
    std::erase_if(silences, [&](const Json& old) {
      return silence.contains("id") && old["id"] == silence["id"];
    });
    if (!silence.contains("id")) silence["id"] = absl::StrCat("id-", ++made);
    silence["status"]["state"] = "active";
    silences.push_back(silence);
    return {.status = 200, .body = R"({"silenceID": "x"})"};
  }
  // "run=exp-42 until TIME", of those in force.
  std::vector<std::string> InForce() const {
    std::vector<std::string> texts;
    for (const Json& silence : silences) {
      if (silence["status"]["state"] == "expired") continue;
      std::string text;
      for (const Json& matcher : silence["matchers"]) {
        if (matcher["name"] == "severity" || matcher["name"] == "alertname") {
          absl::StrAppend(&text, matcher["value"].get<std::string>(), " ");
        }
      }
      texts.push_back(absl::StrCat(text, "until ", silence["endsAt"].get<std::string>()));
    }
    return texts;
  }
};

class FakePosterOfAlertmanager final : public HttpPoster {
 public:
  explicit FakePosterOfAlertmanager(FakeAlertmanager* fake) : fake_(fake) {}
  absl::StatusOr<HttpAnswer> Do(const HttpCall& call) override { return fake_->Answer(call); }

 private:
  FakeAlertmanager* const fake_;
};

class AlertmanagerSilencesTest : public ::testing::Test {
 protected:
  AlertmanagerSilencesTest() { Start(); }
  void Start() {
    notifier_ = std::make_unique<AlertmanagerNotifier>(
        AlertmanagerNotifier::Options{.url = "http://am", .notifier = "am"},
        std::make_unique<FakePosterOfAlertmanager>(&fake_));
  }
  static v1::Silence SilenceFor(absl::Duration time) {
    v1::Silence silence;
    silence.set_id("0a1b2c3d");
    silence.set_by("ada");
    silence.set_why("moving house");
    silence.set_ends_unix_ns(absl::ToUnixNanos(kNow + time));
    return silence;
  }
  Outcome Send(std::vector<std::shared_ptr<const model::AlertRow>> rows,
               std::map<std::string, v1::Silence> silences = {}) {
    return notifier_
        ->Send({.alerts = std::move(rows), .silences = std::move(silences), .now = kNow})
        .outcome;
  }

  FakeAlertmanager fake_;
  std::unique_ptr<AlertmanagerNotifier> notifier_;
};

TEST_F(AlertmanagerSilencesTest, ASilencedAlertIsShownAndMutedByItsOwnLabels) {
  const auto a = Firing("a");
  const auto b = Firing("b");
  EXPECT_EQ(Send({a, b}, {{"a", SilenceFor(absl::Hours(2))}}), Outcome::kTaken);
  EXPECT_EQ(fake_.alerts.size(), 2u);
  EXPECT_THAT(fake_.InForce(), ElementsAre("Rulea warning until 2027-01-15T10:00:00.000Z"));
  EXPECT_EQ(fake_.silences[0]["createdBy"], "ada");
  EXPECT_EQ(fake_.silences[0]["comment"], "Foreshock silence 0a1b2c3d: moving house");
  Json matched;
  for (const Json& matcher : fake_.silences[0]["matchers"]) {
    matched[matcher["name"].get<std::string>()] = matcher["value"];
    EXPECT_EQ(matcher["isEqual"], true);
    EXPECT_EQ(matcher["isRegex"], false);
  }
  EXPECT_EQ(matched, fake_.alerts[0]["labels"]);  // all of them: it mutes nothing else
  // The silence is there before the alert, so nobody is paged in between. The third question is
  // whether Prometheus tells it of the exported rules as well.
  EXPECT_THAT(fake_.asked, ElementsAre("GET /api/v2/silences", "POST /api/v2/silences",
                                       "GET /api/v2/alerts", "POST /api/v2/alerts"));
}

TEST_F(AlertmanagerSilencesTest, IsMadeOnceProlongedAndLifted) {
  const auto a = Firing("a");
  for (int i = 0; i < 3; ++i) Send({a}, {{"a", SilenceFor(absl::Hours(2))}});
  Start();  // a restart
  Send({a}, {{"a", SilenceFor(absl::Hours(2))}});
  EXPECT_EQ(fake_.made, 1);
  Send({a}, {{"a", SilenceFor(absl::Hours(3))}});
  EXPECT_EQ(fake_.made, 1);
  EXPECT_THAT(fake_.InForce(), ElementsAre("Rulea warning until 2027-01-15T11:00:00.000Z"));
  fake_.asked.clear();
  Send({a});
  EXPECT_THAT(fake_.InForce(), IsEmpty());
  EXPECT_THAT(fake_.asked, ElementsAre("GET /api/v2/silences", "POST /api/v2/alerts",
                                       "DELETE /api/v2/silence/id-1"));
  Send({a});
  fake_.asked.clear();
  Send({a});  // nothing is held: no questions are asked
  EXPECT_THAT(fake_.asked, ElementsAre("POST /api/v2/alerts"));
}

TEST_F(AlertmanagerSilencesTest, WhatTheProcessBeforeLeftIsLifted) {
  Send({Firing("a")}, {{"a", SilenceFor(absl::Hours(2))}});
  Start();
  Send({Firing("b")});  // another alert's
  EXPECT_EQ(fake_.InForce().size(), 1u);
  Send({Firing("a")});
  EXPECT_THAT(fake_.InForce(), IsEmpty());
}

TEST_F(AlertmanagerSilencesTest, SilencesOfPeopleAreLeftAlone) {
  fake_.silences.push_back({{"id", "theirs"},
                            {"comment", "mine"},
                            {"createdBy", "bob"},
                            {"endsAt", "2027-01-15T10:00:00.000Z"},
                            {"status", {{"state", "active"}}},
                            {"matchers", Json::array()}});
  Send({Firing("a")}, {{"a", SilenceFor(absl::Hours(2))}});
  Send({Firing("a")});
  EXPECT_THAT(fake_.InForce(), ElementsAre("until 2027-01-15T10:00:00.000Z"));
}

TEST_F(AlertmanagerSilencesTest, ARisenAlertIsMutedUnderBothSeverities) {
  const auto a = Firing("a", "critical");
  model::Delivery* delivery = a->add_deliveries();
  delivery->set_notifier("am");
  delivery->add_told()->set_severity("warning");
  Send({a}, {{"a", SilenceFor(absl::Hours(2))}});
  EXPECT_EQ(fake_.alerts.size(), 2u);
  EXPECT_EQ(fake_.InForce().size(), 2u);
}

TEST_F(AlertmanagerSilencesTest, AlertsAreShownThoughSilencesAreRefused) {
  for (const int status : {403, 503}) {
    fake_.silences_status = status;
    fake_.alerts.clear();
    EXPECT_EQ(Send({Firing("a")}, {{"a", SilenceFor(absl::Hours(2))}}), Outcome::kTaken);
    EXPECT_EQ(fake_.alerts.size(), 1u);
  }
  fake_.silences_status = 200;
  Send({Firing("a")}, {{"a", SilenceFor(absl::Hours(2))}});
  EXPECT_EQ(fake_.InForce().size(), 1u);
}

TEST_F(AlertmanagerSilencesTest, AListThatIsNoJsonIsAnError) {
  FakePosterOfAlertmanager poster(&fake_);
  AlertmanagerSilences silences("http://am", {}, &poster);
  fake_.silences_status = 200;
  fake_.silences.push_back("no object");
  EXPECT_OK(silences.Raise({}, kNow));
  fake_.silences_status = 404;
  EXPECT_THAT(silences.Raise({}, kNow),
              support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("HTTP 404")));
}

}  // namespace
}  // namespace foreshock::notify
