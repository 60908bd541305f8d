#include "daemon/query/answers.h"

#include "daemon/model/catalogue.h"
#include "daemon/store/disk_store.h"
#include "tests/support/filled_store.h"
#include "tests/support/memory_store.h"
#include "tests/support/stored_run.h"
#include "tests/support/temp_dir.h"

namespace foreshock::query {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class AnswersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    support::StoreRun("exp-1", 100, store_.get());
    support::StoreRun("exp-2", 200, store_.get());
    support::StoreRun("other", 300, store_.get());
  }

  // Every response of a query.
  absl::StatusOr<std::vector<v1::QueryPointsResponse>> Points(
      const v1::QueryPointsRequest& request) {
    FORESHOCK_ASSIGN_OR_RETURN(const auto stream, answers_.QueryPoints(request));
    std::vector<v1::QueryPointsResponse> all;
    while (true) {
      FORESHOCK_ASSIGN_OR_RETURN(auto next, stream->Next());
      if (!next.has_value()) return all;
      all.push_back(*std::move(next));
    }
  }

  v1::QueryPointsRequest Loss() {
    v1::QueryPointsRequest request;
    request.mutable_selector()->set_run("exp-1");
    request.mutable_selector()->set_indicator("train.loss");
    return request;
  }

  std::unique_ptr<store::Store> store_ = support::NewMemoryStore();
  support::FakeLiveState live_;
  Answers answers_{store_.get(), &live_, support::FakeBacktest, support::FakeExplain};
};

TEST_F(AnswersTest, ListsRunsNewestFirstByPrefix) {
  ASSERT_OK_AND_ASSIGN(const v1::ListRunsResponse all, answers_.ListRuns({}));
  ASSERT_EQ(all.runs_size(), 3);
  EXPECT_EQ(all.runs(0).name(), "other");
  EXPECT_EQ(all.runs(2).name(), "exp-1");
  v1::ListRunsRequest request;
  request.set_name_prefix("exp-");
  ASSERT_OK_AND_ASSIGN(const v1::ListRunsResponse some, answers_.ListRuns(request));
  EXPECT_EQ(some.runs_size(), 2);
}

TEST_F(AnswersTest, ShowsARunWithItsAttempts) {
  live_.connected["exp-1"] = {{2, 1}};
  v1::GetRunRequest request;
  request.set_run("exp-1");
  ASSERT_OK_AND_ASSIGN(const v1::GetRunResponse response, answers_.GetRun(request));
  const v1::Run& run = response.run();
  EXPECT_EQ(run.state(), v1::RUN_STATE_LIVE);
  EXPECT_EQ(run.model().experts(), 4u);
  EXPECT_EQ(run.labels().at("team"), "blue");
  EXPECT_EQ(run.series(), 9u);  // loss and 2 x 4 shares
  EXPECT_EQ(run.alerts_firing(), 1u);
  EXPECT_EQ(run.last_step(), 79);  // where the newest attempt is
  ASSERT_EQ(run.attempts_size(), 2);
  EXPECT_EQ(run.attempts(0).state(), v1::RUN_STATE_FAILED);
  EXPECT_FALSE(run.attempts(0).has_parent());
  EXPECT_EQ(run.attempts(1).state(), v1::RUN_STATE_LIVE);
  EXPECT_EQ(run.attempts(1).parent(), 1u);
  EXPECT_EQ(run.attempts(1).ranks_connected(), 1u);
}

TEST_F(AnswersTest, ARunWithoutConnectionsOrGoodbyeIsSilent) {
  v1::GetRunRequest request;
  request.set_run("exp-1");
  ASSERT_OK_AND_ASSIGN(const v1::GetRunResponse response, answers_.GetRun(request));
  EXPECT_EQ(response.run().state(), v1::RUN_STATE_SILENT);
}

TEST_F(AnswersTest, AnUnknownRunIsNotFoundAndNamesTheRunsThereAre) {
  const auto named =
      support::StatusIs(absl::StatusCode::kNotFound,
                        AllOf(HasSubstr("nope"), HasSubstr("exp-1"), HasSubstr("other")));
  v1::GetRunRequest run;
  run.set_run("nope");
  EXPECT_THAT(answers_.GetRun(run), named);
  v1::ListSeriesRequest series;
  series.mutable_selector()->set_run("nope");
  EXPECT_THAT(answers_.ListSeries(series), named);
  v1::QueryPointsRequest points;
  points.mutable_selector()->set_run("nope");
  EXPECT_THAT(answers_.QueryPoints(points), named);
  v1::ListStepsRequest steps;
  steps.set_run("nope");
  EXPECT_THAT(answers_.ListSteps(steps), named);
  v1::ListAlertsRequest alerts;
  alerts.set_run("nope");
  EXPECT_THAT(answers_.ListAlerts(alerts), named);
  v1::ListEventsRequest events;
  events.set_run("nope");
  EXPECT_THAT(answers_.ListEvents(events), named);
  EXPECT_THAT(answers_.ListEvents({}),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("run: required")));
}

TEST_F(AnswersTest, ListsIndicatorsOfTheCatalogue) {
  ASSERT_OK_AND_ASSIGN(const v1::ListIndicatorsResponse response, answers_.ListIndicators({}));
  ASSERT_EQ(static_cast<size_t>(response.indicators_size()), model::Indicators().size());
  for (const v1::Indicator& indicator : response.indicators()) {
    EXPECT_THAT(indicator.storage(), ::testing::AnyOf("f32", "f64", "i64"));
    EXPECT_GE(indicator.version(), 1u);
  }
}

TEST_F(AnswersTest, SelectsSeriesByEveryCondition) {
  struct Case {
    const char* what;
    std::function<void(v1::SeriesSelector*)> set;
    int count;
  };
  const Case cases[] = {
      {"all", [](auto*) {}, 9},
      {"indicator", [](auto* s) { s->set_indicator("load.share"); }, 8},
      {"prefix", [](auto* s) { s->set_indicator("train.*"); }, 1},
      {"nothing stored", [](auto* s) { s->set_indicator("train.lr"); }, 0},
      {"layer", [](auto* s) { s->add_layers(1); }, 4},
      {"no layer", [](auto* s) { s->add_layers(-1); }, 1},
      {"unit", [](auto* s) { s->set_unit(v1::UNIT_EXPERT); }, 8},
      {"units", [](auto* s) { s->add_unit_ids(1), s->add_unit_ids(3); }, 4},
      {"one", [](auto* s) { s->add_layers(0), s->set_unit(v1::UNIT_EXPERT), s->add_unit_ids(2); },
       1},
  };
  for (const Case& c : cases) {
    v1::ListSeriesRequest request;
    request.mutable_selector()->set_run("exp-1");
    c.set(request.mutable_selector());
    ASSERT_OK_AND_ASSIGN(const v1::ListSeriesResponse response, answers_.ListSeries(request));
    EXPECT_EQ(response.series_size(), c.count) << c.what;
    EXPECT_FALSE(response.truncated());
  }
}

TEST_F(AnswersTest, SaysWhatIsWrongWithASelector) {
  struct Case {
    std::function<void(v1::SeriesSelector*)> set;
    const char* message;
  };
  const Case cases[] = {
      {[](auto* s) { s->set_indicator("attn.delta2.entropy_ration"); }, "'*'"},
      {[](auto* s) { s->add_layers(-2); }, "layer -2"},
      {[](auto* s) { s->set_unit(static_cast<v1::Unit>(99)); }, "unit 99"},
  };
  for (const Case& c : cases) {
    v1::ListSeriesRequest request;
    request.mutable_selector()->set_run("exp-1");
    c.set(request.mutable_selector());
    EXPECT_THAT(answers_.ListSeries(request),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST_F(AnswersTest, LimitsSeriesAndSaysSo) {
  v1::ListSeriesRequest request;
  request.mutable_selector()->set_run("exp-1");
  request.set_limit(9);
  EXPECT_FALSE(answers_.ListSeries(request)->truncated());
  request.set_limit(8);
  EXPECT_EQ(answers_.ListSeries(request)->series_size(), 8);
  EXPECT_TRUE(answers_.ListSeries(request)->truncated());
  request.set_limit(Answers::kSeriesMax + 1);
  EXPECT_THAT(answers_.ListSeries(request),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 1000000")));
}

TEST_F(AnswersTest, PointsFollowTheLiveLineage) {
  ASSERT_OK_AND_ASSIGN(const auto responses, Points(Loss()));
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(responses[0].series().indicator(), "train.loss");
  EXPECT_FALSE(responses[0].series().has_layer());
  ASSERT_EQ(responses[0].points_size(), 100);
  for (int64_t step = 0; step < 100; ++step) {
    const v1::Point& point = responses[0].points(static_cast<int>(step));
    const uint32_t attempt = step >= 60 && step < 80 ? 2 : 1;
    EXPECT_EQ(point.step(), step);
    EXPECT_EQ(point.attempt(), attempt);
    EXPECT_EQ(point.value(), 8.0 - 0.0625 * static_cast<double>(step) + attempt);
  }
}

TEST_F(AnswersTest, PointsOfOneAttemptAndRange) {
  v1::QueryPointsRequest request = Loss();
  request.set_attempt(1);
  request.set_first_step(58);
  request.set_last_step(61);
  ASSERT_OK_AND_ASSIGN(const auto responses, Points(request));
  ASSERT_EQ(responses.size(), 1u);
  ASSERT_EQ(responses[0].points_size(), 4);
  EXPECT_EQ(responses[0].points(3).step(), 61);
  EXPECT_EQ(responses[0].points(3).attempt(), 1u);
  request.set_first_step(1000);
  request.clear_last_step();
  EXPECT_TRUE(Points(request)->empty());
}

TEST_F(AnswersTest, PointsCarryTheirFlags) {
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run("exp-1");
  request.mutable_selector()->set_indicator("load.share");
  request.mutable_selector()->add_layers(1);
  request.mutable_selector()->add_unit_ids(3);
  request.set_first_step(20);
  request.set_last_step(30);
  ASSERT_OK_AND_ASSIGN(const auto responses, Points(request));
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(responses[0].series().layer(), 1u);
  EXPECT_EQ(responses[0].series().unit(), v1::UNIT_EXPERT);
  EXPECT_EQ(responses[0].series().unit_id(), 3);
  ASSERT_EQ(responses[0].points_size(), 2);
  EXPECT_THAT(responses[0].points(0).flags(),
              ElementsAre(v1::QUALITY_FLAG_SAMPLED, v1::QUALITY_FLAG_PARTIAL));
  EXPECT_THAT(responses[0].points(1).flags(), ElementsAre());
}

TEST_F(AnswersTest, TheLimitCutsAndSaysWhereToGoOn) {
  struct Case {
    uint64_t limit;
    size_t responses;
    bool truncated;
  };
  // 9 series in the order load.share (8 x 10 points), train.loss (100 points).
  for (const Case& c : {Case{180, 9, false}, Case{179, 9, true}, Case{81, 9, true},
                        Case{80, 9, true},  // the loss has points and none of them fits
                        Case{10, 2, true}, Case{1, 1, true}}) {
    v1::QueryPointsRequest request;
    request.mutable_selector()->set_run("exp-1");
    request.set_limit(c.limit);
    ASSERT_OK_AND_ASSIGN(const auto responses, Points(request));
    uint64_t points = 0;
    for (const v1::QueryPointsResponse& response : responses) {
      points += static_cast<uint64_t>(response.points_size());
      EXPECT_EQ(response.truncated(), c.truncated && &response == &responses.back());
    }
    EXPECT_EQ(points, std::min<uint64_t>(c.limit, 180));
    EXPECT_EQ(responses.size(), c.responses) << c.limit;
  }
}

TEST_F(AnswersTest, AContinuationGoesOnWhereTheLimitCut) {
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run("exp-1");
  ASSERT_OK_AND_ASSIGN(const auto whole, Points(request));
  std::vector<std::string> expected;
  for (const v1::QueryPointsResponse& response : whole) {
    for (const v1::Point& point : response.points()) {
      expected.push_back(response.series().ShortDebugString() + point.ShortDebugString());
    }
  }
  for (const uint64_t limit : {1, 7, 10, 80, 81, 179}) {
    SCOPED_TRACE(limit);
    request.set_limit(limit);
    request.clear_continuation();
    std::vector<std::string> got;
    do {
      ASSERT_OK_AND_ASSIGN(const auto part, Points(request));
      ASSERT_FALSE(part.empty());
      for (const v1::QueryPointsResponse& response : part) {
        for (const v1::Point& point : response.points()) {
          got.push_back(response.series().ShortDebugString() + point.ShortDebugString());
        }
      }
      EXPECT_EQ(part.back().truncated(), !part.back().continuation().empty());
      request.set_continuation(part.back().continuation());
    } while (!request.continuation().empty());
    EXPECT_EQ(got, expected);
  }
}

TEST_F(AnswersTest, AContinuationOfItsOwnMakingOnly) {
  v1::QueryPointsRequest request = Loss();
  for (const char* text : {"x", "1,2,3", "a,-1,0,0,train.loss,", "1,-1,0,b,train.loss,"}) {
    request.set_continuation(text);
    EXPECT_THAT(Points(request), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("truncated answer")));
  }
  // Of a series that has gone meanwhile: the next one.
  request.set_continuation("5,-1,0,0,train.aaa,");
  EXPECT_EQ(Points(request)->at(0).points_size(), 100);
}

TEST_F(AnswersTest, BucketsWhereThereAreMoreSteps) {
  v1::QueryPointsRequest request = Loss();
  request.set_buckets_max(100);  // no more than steps: points
  ASSERT_OK_AND_ASSIGN(auto responses, Points(request));
  EXPECT_EQ(responses.at(0).points_size(), 100);
  EXPECT_EQ(responses.at(0).bucket_steps(), 1u);

  request.set_buckets_max(7);  // 100 steps in at most 7 buckets: 16 steps each
  ASSERT_OK_AND_ASSIGN(responses, Points(request));
  ASSERT_EQ(responses.size(), 1u);
  EXPECT_EQ(responses[0].bucket_steps(), 16u);
  EXPECT_EQ(responses[0].points_size(), 0);
  ASSERT_EQ(responses[0].buckets_size(), 7);
  const v1::Bucket& fourth = responses[0].buckets(3);  // steps 48..63: attempt 2 from 60 on
  EXPECT_EQ(fourth.first_step(), 48);
  EXPECT_EQ(fourth.count(), 16u);
  EXPECT_EQ(fourth.max(), 8.0 - 0.0625 * 60 + 2);
  EXPECT_EQ(fourth.min(), 8.0 - 0.0625 * 59 + 1);
  EXPECT_EQ(fourth.mean(), 8.0 - 0.0625 * 55.5 + 1.25);
  EXPECT_EQ(fourth.last(), 8.0 - 0.0625 * 63 + 2);
  EXPECT_EQ(fourth.last_step(), 63);
  EXPECT_EQ(fourth.attempt(), 2u);
  EXPECT_EQ(responses[0].buckets(6).count(), 4u);

  request.set_first_step(50);  // a range within
  request.set_last_step(53);
  request.set_buckets_max(1);  // 50..53 lie in 48..55
  ASSERT_OK_AND_ASSIGN(responses, Points(request));
  EXPECT_EQ(responses.at(0).bucket_steps(), 8u);
  ASSERT_EQ(responses[0].buckets_size(), 1);
  EXPECT_EQ(responses[0].buckets(0).first_step(), 48);
  EXPECT_EQ(responses[0].buckets(0).count(), 4u);
}

TEST_F(AnswersTest, BucketsCarryTheFlagsOfTheirPointsAndContinue) {
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run("exp-1");
  request.mutable_selector()->set_indicator("load.share");
  request.set_buckets_max(4);  // 32 steps each
  request.set_limit(5);
  ASSERT_OK_AND_ASSIGN(const auto responses, Points(request));
  ASSERT_EQ(responses.size(), 2u);
  EXPECT_EQ(responses[0].buckets_size(), 3);  // no expert has a point from step 96 on
  EXPECT_THAT(responses[0].buckets(0).flags(),
              ElementsAre(v1::QUALITY_FLAG_SAMPLED, v1::QUALITY_FLAG_PARTIAL));
  EXPECT_THAT(responses[0].buckets(1).flags(), ElementsAre());
  ASSERT_TRUE(responses[1].truncated());
  request.set_continuation(responses[1].continuation());
  ASSERT_OK_AND_ASSIGN(const auto rest, Points(request));
  EXPECT_EQ(rest.at(0).buckets(0).first_step(), 64);
}

TEST_F(AnswersTest, MatchersNarrowSeries) {
  v1::ListSeriesRequest request;
  request.mutable_selector()->set_run("exp-1");
  const auto count = [&](std::vector<std::string> matchers) {
    request.mutable_selector()->clear_matchers();
    for (std::string& matcher : matchers) {
      request.mutable_selector()->add_matchers(std::move(matcher));
    }
    const auto response = answers_.ListSeries(request);
    EXPECT_OK(response);
    return response.ok() ? response->series_size() : -1;
  };
  EXPECT_EQ(count({"layer=1"}), 4);
  EXPECT_EQ(count({"layer=\"\""}), 1);  // the loss has no layer
  EXPECT_EQ(count({"unit=expert", "unit_id=~\"0|3\""}), 4);
  EXPECT_EQ(count({"indicator!~\"train\\..*\"", "layer!=0"}), 4);
  EXPECT_EQ(count({"unit_name=x"}), 0);
  request.mutable_selector()->add_matchers("head=1");
  EXPECT_THAT(
      answers_.ListSeries(request),
      support::StatusIs(absl::StatusCode::kInvalidArgument,
                        HasSubstr("matcher on 'head': the labels of a series are indicator, layer, "
                                  "unit, unit_id, unit_name")));
}

TEST_F(AnswersTest, MatchersNarrowRuns) {
  v1::ListRunsRequest request;
  request.add_matchers("team=blue");
  EXPECT_EQ(answers_.ListRuns(request)->runs_size(), 3);
  request.add_matchers("name=~exp-.*");
  EXPECT_EQ(answers_.ListRuns(request)->runs_size(), 2);
  request.add_matchers("colour=\"\"");  // none has it
  EXPECT_EQ(answers_.ListRuns(request)->runs_size(), 2);
  request.add_matchers("team!=blue");
  EXPECT_EQ(answers_.ListRuns(request)->runs_size(), 0);
  request.add_matchers("~");
  EXPECT_THAT(answers_.ListRuns(request),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("matcher '~'")));
}

TEST_F(AnswersTest, LongSeriesComeInBoundedPieces) {
  store::StoreBatch batch;
  for (int64_t step = 100; step < 3500; ++step)
    batch.steps.push_back(support::StoredStep("exp-1", 2, step));
  model::AttemptRow attempt;
  attempt.set_number(2);
  attempt.set_first_step(60);
  attempt.set_last_step(3499);
  batch.attempts.push_back({"exp-1", attempt});
  ASSERT_OK(store_->Write(batch));
  ASSERT_OK_AND_ASSIGN(const auto responses, Points(Loss()));
  ASSERT_EQ(responses.size(), 4u);
  int64_t last = -1;
  size_t points = 0;
  for (const v1::QueryPointsResponse& response : responses) {
    EXPECT_LE(response.points_size(), PointStream::kRowsPerResponse);
    EXPECT_EQ(response.series().indicator(), "train.loss");
    for (const v1::Point& point : response.points()) {
      EXPECT_GT(point.step(), last);
      last = point.step();
      ++points;
    }
  }
  // Attempt 2 covers 60..3499 and closed all but 80..99 of them.
  EXPECT_EQ(points, 3480u);
}

TEST_F(AnswersTest, RefusesRangesAndAttemptsThatCannotBe) {
  v1::QueryPointsRequest request = Loss();
  request.set_first_step(-1);
  EXPECT_THAT(Points(request),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-1")));
  request.set_first_step(5);
  request.set_last_step(4);
  EXPECT_THAT(Points(request),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("5 to 4")));
  request.set_last_step(5);
  request.set_attempt(7);
  EXPECT_THAT(Points(request),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("there are 1, 2")));
  request.clear_attempt();
  request.set_limit(Answers::kPointsMax + 1);
  EXPECT_THAT(Points(request),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limit")));
}

TEST_F(AnswersTest, ListsStepsOfTheLineage) {
  v1::ListStepsRequest request;
  request.set_run("exp-1");
  ASSERT_OK_AND_ASSIGN(const v1::ListStepsResponse all, answers_.ListSteps(request));
  ASSERT_EQ(all.steps_size(), 100);
  EXPECT_EQ(all.steps(60).attempt(), 2u);
  EXPECT_EQ(all.steps(80).attempt(), 1u);
  EXPECT_TRUE(all.steps(5).skipped());
  EXPECT_EQ(all.steps(5).tokens(), 4096u);
  EXPECT_EQ(all.steps(5).time_unix_ns(), 1'800'000'000'000'000'005);
  request.set_limit(3);
  request.set_first_step(10);
  ASSERT_OK_AND_ASSIGN(const v1::ListStepsResponse some, answers_.ListSteps(request));
  ASSERT_EQ(some.steps_size(), 3);
  EXPECT_EQ(some.steps(2).step(), 12);
}

TEST_F(AnswersTest, ListsAlertsFiringFirstThenNewest) {
  const auto ids = [&](const v1::ListAlertsRequest& request) {
    std::vector<std::string> got;
    const absl::StatusOr<v1::ListAlertsResponse> response = answers_.ListAlerts(request);
    EXPECT_OK(response);
    for (const v1::Alert& alert : response->alerts()) got.push_back(alert.id());
    return got;
  };
  v1::ListAlertsRequest request;
  request.set_run("exp-1");
  EXPECT_THAT(ids(request), ElementsAre("exp-1/firing", "exp-1/pending", "exp-1/old"));
  request.set_limit(1);
  EXPECT_THAT(ids(request), ElementsAre("exp-1/firing"));
  request.clear_limit();
  request.set_state(v1::ALERT_STATE_RESOLVED);
  EXPECT_THAT(ids(request), ElementsAre("exp-1/old"));
  request.clear_run();
  request.set_state(v1::ALERT_STATE_FIRING);
  EXPECT_THAT(ids(request), ElementsAre("exp-1/firing", "exp-2/firing", "other/firing"));
  request.set_state(static_cast<v1::AlertState>(9));
  EXPECT_THAT(answers_.ListAlerts(request),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("state 9")));
}

TEST_F(AnswersTest, ListsEventsByStep) {
  v1::ListEventsRequest request;
  request.set_run("exp-1");
  ASSERT_OK_AND_ASSIGN(const v1::ListEventsResponse response, answers_.ListEvents(request));
  ASSERT_EQ(response.events_size(), 2);
  EXPECT_EQ(response.events(0).event().name(), "step-10");
  EXPECT_EQ(response.events(1).event().name(), "step-50");
}

TEST_F(AnswersTest, SilencesAreShownAlsoWithTheAlertsTheySilence) {
  live_.silence.set_id("s1");
  live_.silence.add_matchers("run=exp-1");
  ASSERT_OK_AND_ASSIGN(const v1::ListSilencesResponse silences, answers_.ListSilences({}));
  ASSERT_EQ(silences.silences_size(), 1);
  EXPECT_EQ(silences.silences(0).id(), "s1");
  v1::ListAlertsRequest request;
  request.set_state(v1::ALERT_STATE_FIRING);
  ASSERT_OK_AND_ASSIGN(const v1::ListAlertsResponse alerts, answers_.ListAlerts(request));
  ASSERT_GT(alerts.alerts_size(), 0);
  for (const v1::Alert& alert : alerts.alerts()) {
    EXPECT_EQ(alert.silenced_by_size(), alert.run() == "exp-1" ? 1 : 0);
  }
}

TEST_F(AnswersTest, StatusAndRulesComeFromTheLiveState) {
  live_.status.set_version("0.1.0");
  live_.rules.emplace_back().set_name("Delta2EntropyFalls");
  ASSERT_OK_AND_ASSIGN(const v1::GetStatusResponse status, answers_.GetStatus({}));
  EXPECT_EQ(status.version(), "0.1.0");
  EXPECT_EQ(status.series(), 27u);
  EXPECT_TRUE(status.store_writable());
  ASSERT_OK_AND_ASSIGN(const v1::ListRulesResponse rules, answers_.ListRules({}));
  ASSERT_EQ(rules.rules_size(), 1);
  EXPECT_EQ(rules.rules(0).name(), "Delta2EntropyFalls");
}

// Points that retention has made coarser are not silently missing.
TEST(AnswersOfACoarserRunTest, SayFromWhichStepOnPointsAreRaw) {
  const support::TempDir directory;
  ASSERT_OK_AND_ASSIGN(const auto store,
                       store::OpenDiskStore({.directory = directory.File("data")}));
  ASSERT_NO_FATAL_FAILURE(support::FillRun(
      {.name = "r", .last_step = 6'000, .series = 2, .last_time = support::kFilledNow},
      store.get()));
  ASSERT_OK(
      store->Retain({.raw_steps = 1'000}, support::kFilledNow, {.go_on = [] { return true; }}));
  const support::FakeLiveState live;
  const Answers answers(store.get(), &live, support::FakeBacktest, support::FakeExplain);
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run("r");
  const auto first = [&]() -> v1::QueryPointsResponse {
    const auto stream = answers.QueryPoints(request);
    EXPECT_OK(stream);
    const auto next = (*stream)->Next();
    EXPECT_OK(next);
    return next->value();
  };
  EXPECT_EQ(first().downsampled_before_step(), 4'096);
  EXPECT_EQ(first().points(0).step(), 4'096);
  // Where none is left there is an answer all the same.
  request.set_first_step(100);
  request.set_last_step(200);
  EXPECT_EQ(first().points_size(), 0);
  EXPECT_EQ(first().downsampled_before_step(), 201);
  // And of buckets there are some, though points would be few enough.
  request.set_buckets_max(1'000);
  EXPECT_FALSE(first().has_downsampled_before_step());
  EXPECT_GT(first().buckets_size(), 0);
  // All is raw here.
  request.set_first_step(5'000);
  request.set_last_step(5'100);
  EXPECT_FALSE(first().has_downsampled_before_step());
  EXPECT_EQ(first().points_size(), 101);
}

}  // namespace
}  // namespace foreshock::query
