#include "daemon/notify/silences.h"

#include "absl/strings/str_cat.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/notify/rows.h"

namespace foreshock::notify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::SilenceAlertsRequest Request(const std::vector<std::string>& matchers,
                                 absl::Duration duration = absl::Hours(2)) {
  v1::SilenceAlertsRequest request;
  request.mutable_matchers()->Assign(matchers.begin(), matchers.end());
  request.set_duration_ns(absl::ToInt64Nanoseconds(duration));
  request.set_by("ada");
  request.set_why("maintenance");
  return request;
}

class SilencesTest : public ::testing::Test {
 protected:
  support::FakeClock clock_;
  model::SilencesRow stored_;
  absl::Status answer_;
  Silences silences_{&clock_, [this](const model::SilencesRow& row) {
                       if (answer_.ok()) stored_ = row;
                       return answer_;
                     }};
};

TEST_F(SilencesTest, OneLastsAsLongAsItWasGivenAlsoOverARestart) {
  ASSERT_OK_AND_ASSIGN(const v1::Silence silence,
                       silences_.Add(Request({"run=exp-42", "layer=1"})));
  EXPECT_THAT(silences_.Matching(FullAlert()), ElementsAre(silence.id()));
  v1::Alert other = FullAlert();
  other.set_run("exp-43");
  EXPECT_THAT(silences_.Matching(other), IsEmpty());
  clock_.Advance(absl::Minutes(119));
  Silences again(&clock_, [](const model::SilencesRow&) { return absl::OkStatus(); });
  again.Load(stored_);
  EXPECT_THAT(again.Matching(FullAlert()), ElementsAre(silence.id()));
  EXPECT_EQ(again.List(false)[0].why(), "maintenance");
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(again.Matching(FullAlert()), IsEmpty());
  EXPECT_THAT(again.List(false), IsEmpty());
  EXPECT_THAT(again.List(true), SizeIs(1));
}

TEST_F(SilencesTest, OfSeveralTheOneThatEndsLastCounts) {
  EXPECT_FALSE(silences_.Longest(FullAlert()).has_value());
  ASSERT_OK(silences_.Add(Request({"run=exp-42"}, absl::Hours(1))).status());
  ASSERT_OK_AND_ASSIGN(const v1::Silence longest,
                       silences_.Add(Request({"layer=1"}, absl::Hours(3))));
  ASSERT_OK(silences_.Add(Request({"severity=critical"}, absl::Hours(2))).status());
  ASSERT_OK(silences_.Add(Request({"run=other"}, absl::Hours(9))).status());
  ASSERT_TRUE(silences_.Longest(FullAlert()).has_value());
  EXPECT_EQ(silences_.Longest(FullAlert())->id(), longest.id());
}

TEST_F(SilencesTest, OneCanBeEndedAndIsForgottenAfterDays) {
  ASSERT_OK_AND_ASSIGN(const v1::Silence silence, silences_.Add(Request({"run=exp-42"})));
  ASSERT_OK(silences_.Expire(silence.id()).status());
  EXPECT_THAT(silences_.Matching(FullAlert()), IsEmpty());
  EXPECT_THAT(silences_.Expire(silence.id()),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("there are none")));
  EXPECT_THAT(stored_.silences(), SizeIs(1));
  clock_.Advance(absl::Hours(24 * 6));
  ASSERT_OK(silences_.Add(Request({"run=x"})).status());
  EXPECT_THAT(stored_.silences(), SizeIs(1));
}

TEST_F(SilencesTest, WhatCannotBeWrittenIsNotInForce) {
  answer_ = absl::ResourceExhaustedError("disk full");
  EXPECT_THAT(silences_.Add(Request({"run=exp-42"})),
              support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk full")));
  EXPECT_THAT(silences_.Matching(FullAlert()), IsEmpty());
}

TEST_F(SilencesTest, BadRequestsSayWhatIsAllowed) {
  const auto refused = [this](const v1::SilenceAlertsRequest& request, const char* why) {
    EXPECT_THAT(silences_.Add(request),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(Request({}), "1 to 32 matchers");
  refused(Request(std::vector<std::string>(33, "run=x")), "this one has 33");
  refused(Request({"run"}), "matcher 'run'");
  refused(Request({"run=x"}, absl::ZeroDuration()), "from 1s to");
  refused(Request({"run=x"}, absl::Hours(10'000)), "from 1s to");
  v1::SilenceAlertsRequest request = Request({"run=x"});
  request.clear_by();
  refused(request, "`by` is empty");
  request = Request({"run=x"});
  request.set_why("two\nlines");
  refused(request, "`why`");
}

TEST_F(SilencesTest, WhatIsAllowedReachesToItsBounds) {
  const std::string longest(1000, 'x');
  EXPECT_OK(CheckBy(longest));
  EXPECT_OK(CheckWhy(longest));
  EXPECT_OK(CheckWhy(""));
  EXPECT_THAT(CheckBy(""),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("`by` is empty")));
  for (const std::string& bad : {longest + "x", std::string("a\tb")}) {
    EXPECT_THAT(CheckBy(bad),
                support::StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("`by` is too long or not one line; allowed is one "
                                            "line of at most 1000 bytes")));
  }
  EXPECT_OK(silences_.Add(Request({"run=x"}, absl::Seconds(1))).status());
  EXPECT_OK(silences_.Add(Request({"run=x"}, Silences::kLongest)).status());
  EXPECT_OK(silences_.Add(Request(std::vector<std::string>(32, "run=x"))).status());
}

TEST_F(SilencesTest, OneSaysWhoMadeItAndWhen) {
  ASSERT_OK_AND_ASSIGN(const v1::Silence silence, silences_.Add(Request({"run=x"})));
  EXPECT_EQ(silence.by(), "ada");
  EXPECT_EQ(silence.why(), "maintenance");
  EXPECT_EQ(silence.starts_unix_ns(), absl::ToUnixNanos(clock_.Now()));
  EXPECT_EQ(silence.ends_unix_ns(), absl::ToUnixNanos(clock_.Now() + absl::Hours(2)));
}

// Stored silences by id, and when each ends.
model::SilencesRow Stored(const std::vector<std::pair<std::string, absl::Time>>& silences) {
  model::SilencesRow row;
  for (const auto& [id, ends] : silences) {
    v1::Silence* silence = row.add_silences();
    silence->set_id(id);
    silence->add_matchers("run=exp-42");
    silence->set_ends_unix_ns(absl::ToUnixNanos(ends));
  }
  return row;
}

TEST_F(SilencesTest, AreListedByWhatIsInForceAndByTheirEnds) {
  const absl::Time now = clock_.Now();
  silences_.Load(Stored({{"d", now - absl::Hours(1)},
                         {"c", now + absl::Hours(1)},
                         {"e", now - absl::Hours(2)},
                         {"a", now + absl::Hours(1)},
                         {"b", now + absl::Hours(3)}}));
  const auto ids = [this](bool expired) {
    std::vector<std::string> list;
    for (const v1::Silence& silence : silences_.List(expired)) list.push_back(silence.id());
    return list;
  };
  EXPECT_THAT(ids(true), ElementsAre("b", "a", "c", "d", "e"));
  EXPECT_THAT(ids(false), ElementsAre("b", "a", "c"));
  EXPECT_THAT(silences_.Expire("x"),
              support::StatusIs(absl::StatusCode::kNotFound,
                                "no silence 'x' is in force; there are a, b, c"));
  EXPECT_THAT(silences_.Expire("d"), support::StatusIs(absl::StatusCode::kNotFound,
                                                       HasSubstr("no silence 'd' is in force")));
}

TEST_F(SilencesTest, TheLongestCountsInWhateverOrderTheyAreKept) {
  const absl::Time now = clock_.Now();
  for (const std::string longest : {"a", "b", "c"}) {
    std::vector<std::pair<std::string, absl::Time>> silences;
    for (const std::string id : {"a", "b", "c"}) {
      silences.emplace_back(id, now + absl::Hours(id == longest ? 9 : 1));
    }
    silences_.Load(Stored(silences));
    EXPECT_EQ(silences_.Longest(FullAlert())->id(), longest);
  }
}

TEST_F(SilencesTest, OneIsRememberedForFiveDays) {
  const absl::Time now = clock_.Now();
  silences_.Load(Stored({{"kept", now - Silences::kRemembered},
                         {"forgotten", now - Silences::kRemembered - absl::Nanoseconds(1)}}));
  ASSERT_OK(silences_.Add(Request({"run=x"})).status());
  ASSERT_THAT(stored_.silences(), SizeIs(2));
  EXPECT_TRUE(stored_.silences(0).id() == "kept" || stored_.silences(1).id() == "kept");
}

TEST_F(SilencesTest, ThereIsALimit) {
  model::SilencesRow row;
  for (size_t i = 0; i < Silences::kSilencesMax; ++i) {
    v1::Silence* silence = row.add_silences();
    silence->set_id(absl::StrCat(i));
    silence->add_matchers("run=x");
    silence->set_ends_unix_ns(absl::ToUnixNanos(clock_.Now() + absl::Hours(1)));
  }
  silences_.Load(row);
  EXPECT_THAT(silences_.Add(Request({"run=y"})),
              support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("1000 silences")));
}

TEST_F(SilencesTest, OneThatCannotBeReadIsVoid) {
  model::SilencesRow row;
  v1::Silence* silence = row.add_silences();
  silence->set_id("new");
  silence->add_matchers("run=exp-42");
  silence->add_matchers("an unknown way to write it");
  silence->set_ends_unix_ns(absl::ToUnixNanos(clock_.Now() + absl::Hours(1)));
  silences_.Load(row);
  EXPECT_THAT(silences_.Matching(FullAlert()), IsEmpty());
  EXPECT_THAT(silences_.List(false), SizeIs(1));
}

}  // namespace
}  // namespace foreshock::notify
