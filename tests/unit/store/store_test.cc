// The promises of Store, tested on the store on a disk, on one whose steps are all in chunks, and
// on the one in memory.
#include "daemon/store/store.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const model::SeriesKey kLoss{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""};
const model::SeriesKey kEntropy{"router.token_entropy", 3, model::Unit::kNone, 0, ""};

model::SeriesKey Head(int32_t layer, int64_t head) {
  return {"attn.delta2.entropy", layer, model::Unit::kHead, head, ""};
}

model::AttemptRow Attempt(uint32_t number, int64_t first, int64_t last) {
  model::AttemptRow row;
  row.set_number(number);
  row.set_first_step(first);
  row.set_last_step(last);
  return row;
}

model::ClosedStep Step(const std::string& run, uint32_t attempt, int64_t step,
                       std::vector<model::Sample> samples) {
  model::ClosedStep closed;
  closed.run = run;
  closed.row.attempt = attempt;
  closed.row.step = step;
  closed.row.time_unix_ns = 1'000 * (step % 1'000'000);  // steps go up to 2^63 - 1
  closed.row.tokens = 4096;
  closed.row.ranks = 8;
  closed.samples = std::move(samples);
  return closed;
}

model::ShardReport Report(int64_t step, uint32_t rank, const std::string& instance, uint64_t seq) {
  model::ShardReport report;
  report.set_step(step);
  report.set_rank(rank);
  report.set_client_instance(instance);
  report.set_seq(seq);
  return report;
}

std::vector<model::Point> ReadPoints(const Store& store, const std::string& run,
                                     const model::SeriesKey& series, const StepRange& range = {}) {
  std::vector<model::Point> points;
  EXPECT_OK(store.Points(run, {series}, range, [&points](size_t, const model::Point& point) {
    points.push_back(point);
    return true;
  }));
  return points;
}

std::vector<model::StepRow> ReadSteps(const Store& store, const std::string& run,
                                      const StepRange& range = {}) {
  std::vector<model::StepRow> steps;
  EXPECT_OK(store.Steps(run, range, [&steps](const model::StepRow& step) {
    steps.push_back(step);
    return true;
  }));
  return steps;
}

// Lists reports as "step/rank/instance/seq".
std::vector<std::string> ReadReports(const Store& store, const std::string& run, uint32_t attempt) {
  std::vector<std::string> reports;
  EXPECT_OK(store.OpenReports(run, attempt, [&reports](const model::ShardReport& report) {
    reports.push_back(std::to_string(report.step()) + "/" + std::to_string(report.rank()) + "/" +
                      report.client_instance() + "/" + std::to_string(report.seq()));
    return true;
  }));
  return reports;
}

enum class Kind { kMemory, kRocks, kFolded };

class StoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    store_.reset();
    if (GetParam() == Kind::kMemory) {
      store_ = support::NewMemoryStore();
      return;
    }
    ASSERT_OK_AND_ASSIGN(store_, OpenStore({.directory = directory_.File("data")}));
  }

  // With Kind::kFolded all reads are from chunks.
  void Write(const StoreBatch& batch) {
    ASSERT_OK(store_->Write(batch));
    if (GetParam() != Kind::kFolded) return;
    ASSERT_OK_AND_ASSIGN(const auto runs, store_->Runs());
    for (const model::RunRow& run : runs) ASSERT_OK(store_->Fold(run.name()));
  }

  support::TempDir directory_;
  std::unique_ptr<Store> store_;
};

// The tests that read points or steps run on chunks too.
class StorePointsTest : public StoreTest {};

std::string KindName(const ::testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"Memory", "Rocks", "Folded"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, StoreTest, ::testing::Values(Kind::kMemory, Kind::kRocks), KindName);
INSTANTIATE_TEST_SUITE_P(All, StorePointsTest,
                         ::testing::Values(Kind::kMemory, Kind::kRocks, Kind::kFolded), KindName);

TEST_P(StoreTest, IsEmptyAtFirstAndNamesNoRuns) {
  ASSERT_OK_AND_ASSIGN(const auto runs, store_->Runs());
  EXPECT_THAT(runs, IsEmpty());
  EXPECT_THAT(store_->Run("exp"),
              support::StatusIs(absl::StatusCode::kNotFound, "no run \"exp\"; there are none"));
}

TEST_P(StoreTest, EveryReadOfAnUnknownRunIsNotFoundAndNamesTheRunsThereAre) {
  StoreBatch batch;
  for (const char* name : {"b", "a"}) batch.runs.emplace_back().set_name(name);
  Write(batch);
  const auto not_found =
      support::StatusIs(absl::StatusCode::kNotFound, "no run \"c\"; there are: a, b");
  EXPECT_THAT(store_->Run("c"), not_found);
  EXPECT_THAT(store_->Attempts("c"), not_found);
  EXPECT_THAT(store_->Ranks("c", 1), not_found);
  EXPECT_THAT(store_->OpenReports("c", 1, [](const auto&) { return true; }), not_found);
  EXPECT_THAT(store_->Alerts("c"), not_found);
  EXPECT_THAT(store_->Events("c"), not_found);
  EXPECT_THAT(store_->Coactivation("c", 1), not_found);
  EXPECT_THAT(store_->Judging("c"), not_found);
  EXPECT_THAT(store_->Series("c", {}), not_found);
  EXPECT_THAT(store_->Points("c", {kLoss}, {}, [](size_t, const auto&) { return true; }),
              not_found);
  EXPECT_THAT(store_->Steps("c", {}, [](const auto&) { return true; }), not_found);
  EXPECT_THAT(store_->DeleteRun("c"), not_found);
}

TEST_P(StoreTest, NotFoundNamesAtMostTwentyRuns) {
  StoreBatch batch;
  for (int i = 0; i < 23; ++i) batch.runs.emplace_back().set_name("run" + std::to_string(100 + i));
  Write(batch);
  EXPECT_THAT(store_->Run("c"),
              support::StatusIs(absl::StatusCode::kNotFound,
                                AllOf(HasSubstr("run119"), HasSubstr(" and 3 more"))));
}

TEST_P(StoreTest, PutsRowsAndReadsThemInOrder) {
  StoreBatch batch;
  auto& run = batch.runs.emplace_back();
  run.set_name("exp");
  (*run.mutable_labels())["team"] = "core";
  batch.attempts.push_back({"exp", Attempt(2, 50, 60)});
  batch.attempts.push_back({"exp", Attempt(1, 0, 70)});
  for (const auto& [attempt, rank, instance] :
       std::vector<std::tuple<uint32_t, uint32_t, std::string>>{
           {1, 1, "b"}, {1, 0, "z"}, {1, 1, "a"}, {2, 0, "n"}}) {
    model::RankRow row;
    row.set_rank(rank);
    row.set_client_instance(instance);
    batch.ranks.push_back({"exp", attempt, row});
  }
  for (const char* id : {"y", "x"}) {
    model::AlertRow row;
    row.mutable_alert()->set_id(id);
    row.set_state(std::string("\0state", 6));
    batch.alerts.push_back({"exp", row});
  }
  for (const uint32_t layer : {4u, 2u}) {
    model::CoactivationRow row;
    row.set_layer(layer);
    row.add_pair_counts(9);
    batch.coactivation.push_back({"exp", 1, row});
  }
  Write(batch);

  ASSERT_OK_AND_ASSIGN(const auto row, store_->Run("exp"));
  EXPECT_EQ(row.labels().at("team"), "core");
  ASSERT_OK_AND_ASSIGN(const auto attempts, store_->Attempts("exp"));
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].number(), 1u);
  EXPECT_EQ(attempts[1].last_step(), 60);
  ASSERT_OK_AND_ASSIGN(const auto ranks, store_->Ranks("exp", 1));
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks[0].client_instance(), "z");
  EXPECT_EQ(ranks[1].client_instance(), "a");
  EXPECT_EQ(ranks[2].client_instance(), "b");
  ASSERT_OK_AND_ASSIGN(const auto no_ranks, store_->Ranks("exp", 3));
  EXPECT_THAT(no_ranks, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto alerts, store_->Alerts("exp"));
  ASSERT_EQ(alerts.size(), 2u);
  EXPECT_EQ(alerts[0].alert().id(), "x");
  EXPECT_EQ(alerts[0].state(), std::string("\0state", 6));
  ASSERT_OK_AND_ASSIGN(const auto coactivation, store_->Coactivation("exp", 1));
  ASSERT_EQ(coactivation.size(), 2u);
  EXPECT_EQ(coactivation[0].layer(), 2u);
}

TEST_P(StoreTest, SilencesAreOneRowOfTheStoreItself) {
  ASSERT_OK_AND_ASSIGN(model::SilencesRow silences, store_->Silences());
  EXPECT_EQ(silences.silences_size(), 0);
  for (const char* id : {"a", "b"}) {
    StoreBatch batch;
    batch.silences.emplace().add_silences()->set_id(id);
    EXPECT_FALSE(batch.empty());
    Write(batch);
  }
  ASSERT_OK_AND_ASSIGN(silences, store_->Silences());
  ASSERT_EQ(silences.silences_size(), 1);
  EXPECT_EQ(silences.silences(0).id(), "b");
  ASSERT_OK_AND_ASSIGN(const auto runs, store_->Runs());
  EXPECT_THAT(runs, IsEmpty());
}

TEST_P(StoreTest, ARunRemembersOneJudgingThatALaterOneReplaces) {
  StoreBatch others;
  for (const char* name : {"before", "exp", "other"}) others.runs.emplace_back().set_name(name);
  Write(others);
  EXPECT_EQ(store_->Judging("exp").value(), std::nullopt);
  const auto put = [this](const std::string& run, int64_t step, const std::string& memory) {
    StoreBatch batch;
    model::JudgingRow row;
    row.set_attempt(2);
    row.set_step(step);
    row.set_memory(memory);
    batch.judging.push_back({run, row});
    EXPECT_FALSE(batch.empty());
    Write(batch);
    EXPECT_EQ(store_->Judging(run).value()->SerializeAsString(), row.SerializeAsString());
  };
  put("exp", 70, std::string("\0long", 5));
  put("other", 5, "its own");
  put("exp", 60, "");  // the last one put, not the highest step
  // No batch has put this run.
  put("new", 1, std::string(2 << 20, '\xff'));
  EXPECT_EQ(store_->Judging("other").value()->memory(), "its own");
  EXPECT_EQ(store_->Judging("before").value(), std::nullopt);

  ASSERT_OK(store_->DeleteRun("exp"));
  EXPECT_THAT(store_->Judging("exp"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("exp")));
  StoreBatch again;
  again.runs.emplace_back().set_name("exp");
  Write(again);
  EXPECT_EQ(store_->Judging("exp").value(), std::nullopt);
  EXPECT_EQ(store_->Judging("other").value()->step(), 5);
}

TEST_P(StorePointsTest, PutAgainReplaces) {
  StoreBatch batch;
  batch.runs.emplace_back().set_name("exp");
  batch.attempts.push_back({"exp", Attempt(1, 0, 9)});
  batch.steps.push_back(Step("exp", 1, 9, {{kLoss, 2.0, 0}}));
  Write(batch);

  StoreBatch again;
  again.runs.emplace_back().set_name("exp");
  again.runs.back().set_pinned(true);
  again.attempts.push_back({"exp", Attempt(1, 0, 10)});
  again.steps.push_back(Step("exp", 1, 9, {{kLoss, 3.0, model::kFlagLate}}));
  again.steps.back().row.late = true;
  Write(again);

  ASSERT_OK_AND_ASSIGN(const auto runs, store_->Runs());
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_TRUE(runs[0].pinned());
  ASSERT_OK_AND_ASSIGN(const auto attempts, store_->Attempts("exp"));
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(attempts[0].last_step(), 10);
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss),
              ElementsAre(model::Point{1, 9, 3.0, model::kFlagLate}));
  EXPECT_THAT(ReadSteps(*store_, "exp"), ElementsAre(again.steps[0].row));
}

TEST_P(StoreTest, ARunThatNobodyPutExistsByItsNameAlone) {
  StoreBatch batch;
  batch.steps.push_back(Step("exp", 1, 0, {{kLoss, 1.0, 0}}));
  Write(batch);
  ASSERT_OK_AND_ASSIGN(const auto row, store_->Run("exp"));
  EXPECT_EQ(row.name(), "exp");
  EXPECT_EQ(row.created_unix_ns(), 0);
}

TEST_P(StoreTest, EventsAreOrderedByStepAndTheSameEventIsStoredOnce) {
  const auto event = [](int64_t step, v1::EventKind kind, const std::string& name,
                        const std::string& detail) {
    model::EventRow row;
    row.set_attempt(1);
    row.mutable_event()->set_step(step);
    row.mutable_event()->set_kind(kind);
    row.mutable_event()->set_name(name);
    row.mutable_event()->set_detail(detail);
    return row;
  };
  StoreBatch batch;
  batch.events.push_back({"exp", event(20, v1::EVENT_KIND_CHECKPOINT_SAVED, "ckpt-20", "")});
  batch.events.push_back({"exp", event(10, v1::EVENT_KIND_NOTE, "", "second")});
  batch.events.push_back({"exp", event(10, v1::EVENT_KIND_NOTE, "", "first")});
  batch.events.push_back({"exp", event(20, v1::EVENT_KIND_CHECKPOINT_SAVED, "ckpt-20", "")});
  Write(batch);
  ASSERT_OK_AND_ASSIGN(const auto events, store_->Events("exp"));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].event().detail(), "first");
  EXPECT_EQ(events[1].event().detail(), "second");
  EXPECT_EQ(events[2].event().name(), "ckpt-20");
}

TEST_P(StoreTest, OpenReportsComeInOrderAndGoWhenTheirStepIsSettled) {
  StoreBatch batch;
  batch.reports.push_back({"exp", 1, Report(7, 0, "a", 3)});
  batch.reports.push_back({"exp", 1, Report(6, 1, "b", 2)});
  batch.reports.push_back({"exp", 1, Report(6, 0, "c", 9)});
  batch.reports.push_back({"exp", 1, Report(6, 0, "a", 10)});
  batch.reports.push_back({"exp", 1, Report(6, 0, "a", 2)});
  batch.reports.push_back({"exp", 2, Report(6, 0, "d", 1)});
  Write(batch);
  EXPECT_THAT(ReadReports(*store_, "exp", 1),
              ElementsAre("6/0/a/2", "6/0/a/10", "6/0/c/9", "6/1/b/2", "7/0/a/3"));

  StoreBatch settled;
  settled.settled_steps.push_back({"exp", 1, 6});
  Write(settled);
  EXPECT_THAT(ReadReports(*store_, "exp", 1), ElementsAre("7/0/a/3"));
  EXPECT_THAT(ReadReports(*store_, "exp", 2), ElementsAre("6/0/d/1"));
}

TEST_P(StoreTest, AReportBelowASettledStepGoesWithTheNextOne) {
  StoreBatch batch;
  batch.reports.push_back({"exp", 1, Report(5, 0, "a", 1)});
  batch.settled_steps.push_back({"exp", 1, 5});
  Write(batch);
  EXPECT_THAT(ReadReports(*store_, "exp", 1), IsEmpty());
  StoreBatch late;
  late.reports.push_back({"exp", 1, Report(3, 0, "a", 2)});
  late.reports.push_back({"exp", 1, Report(6, 0, "a", 3)});
  Write(late);
  EXPECT_THAT(ReadReports(*store_, "exp", 1), ElementsAre("3/0/a/2", "6/0/a/3"));
  StoreBatch settled;
  settled.settled_steps.push_back({"exp", 1, 5});
  Write(settled);
  EXPECT_THAT(ReadReports(*store_, "exp", 1), ElementsAre("6/0/a/3"));
  StoreBatch all;
  all.settled_steps.push_back({"exp", 1, std::numeric_limits<int64_t>::max()});
  Write(all);
  EXPECT_THAT(ReadReports(*store_, "exp", 1), IsEmpty());
}

TEST_P(StorePointsTest, ALateResumeReadsEachStepFromTheNewestAttemptThatReachedIt) {
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 4)});
  batch.attempts.push_back({"exp", Attempt(2, 3, 3)});
  for (int64_t step = 0; step <= 4; ++step) {
    batch.steps.push_back(Step("exp", 1, step, {{kLoss, 1.0, 0}, {kEntropy, 1.0, 0}}));
  }
  // Attempt 2 has no entropy at step 3. The value of attempt 1 does not count: its weights are
  // gone.
  batch.steps.push_back(Step("exp", 2, 3, {{kLoss, 2.0, 0}}));
  Write(batch);

  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss),
              ElementsAre(model::Point{1, 0, 1.0, 0}, model::Point{1, 1, 1.0, 0},
                          model::Point{1, 2, 1.0, 0}, model::Point{2, 3, 2.0, 0},
                          model::Point{1, 4, 1.0, 0}));
  EXPECT_THAT(ReadPoints(*store_, "exp", kEntropy, {.first = 2}),
              ElementsAre(model::Point{1, 2, 1.0, 0}, model::Point{1, 4, 1.0, 0}));
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss, {.first = 3, .last = 3, .attempt = 1}),
              ElementsAre(model::Point{1, 3, 1.0, 0}));
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss, {.first = 3, .last = 2}), IsEmpty());
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss, {.attempt = 9}), IsEmpty());
  const std::vector<model::StepRow> steps = ReadSteps(*store_, "exp");
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[3].attempt, 2u);
}

TEST_P(StorePointsTest, StepsOfAnAttemptThatHasNotClosedAnyAreNotLive) {
  StoreBatch batch;
  batch.steps.push_back(Step("exp", 1, 0, {{kLoss, 1.0, 0}}));
  model::AttemptRow row;
  row.set_number(1);
  batch.attempts.push_back({"exp", row});
  Write(batch);
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss), IsEmpty());
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss, {.attempt = 1}),
              ElementsAre(model::Point{1, 0, 1.0, 0}));
}

TEST_P(StorePointsTest, ReadsTheWholeRangeOfSteps) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, kMax)});
  for (const int64_t step : {int64_t{0}, int64_t{1} << 40, kMax}) {
    batch.steps.push_back(Step("exp", 1, step, {{kLoss, 1.0, 0}}));
    batch.steps.back().row.time_unix_ns = 0;
  }
  Write(batch);
  EXPECT_EQ(ReadPoints(*store_, "exp", kLoss).size(), 3u);
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss, {.first = kMax, .last = kMax}),
              ElementsAre(model::Point{1, kMax, 1.0, 0}));
  EXPECT_EQ(ReadSteps(*store_, "exp").size(), 3u);
}

TEST_P(StorePointsTest, VisitorsStopEarly) {
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 9)});
  batch.attempts.push_back({"exp", Attempt(2, 2, 3)});
  for (int64_t step = 0; step < 10; ++step) {
    batch.steps.push_back(Step("exp", 1, step, {{kLoss, 1.0, 0}}));
    batch.reports.push_back({"exp", 1, Report(step, 0, "a", 1)});
  }
  batch.steps.push_back(Step("exp", 2, 2, {{kLoss, 1.0, 0}}));
  Write(batch);
  int seen = 0;
  const auto three = [&seen](const auto&...) { return ++seen % 3 != 0; };
  EXPECT_OK(store_->Points("exp", {kLoss}, {}, three));
  EXPECT_EQ(seen, 3);
  EXPECT_OK(store_->Steps("exp", {}, three));
  EXPECT_EQ(seen, 6);
  EXPECT_OK(store_->Buckets("exp", {kLoss, kLoss}, {}, 4, three));
  EXPECT_EQ(seen, 9);
  EXPECT_OK(store_->OpenReports("exp", 1, three));
  EXPECT_EQ(seen, 12);
}

TEST_P(StorePointsTest, AVisitorMayReadAndWriteTheStore) {
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 9)});
  batch.steps.push_back(Step("exp", 1, 0, {{kLoss, 1.0, 0}}));
  Write(batch);
  ASSERT_OK(store_->Points("exp", {kLoss}, {}, [this](size_t, const model::Point& point) {
    StoreBatch more;
    more.steps.push_back(Step("exp", 1, point.step + 1, {{kLoss, 2.0, 0}}));
    EXPECT_OK(store_->Write(more));
    EXPECT_OK(store_->Run("exp"));
    return true;
  }));
  // The read was of one moment: it did not see the writes of its visitor.
  EXPECT_EQ(ReadPoints(*store_, "exp", kLoss).size(), 2u);
}

TEST_P(StorePointsTest, ReadsManySeriesInTheOrderTheyAreAskedFor) {
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 9)});
  for (const int64_t step : {4, 2}) {
    batch.steps.push_back(Step("exp", 1, step, {{kLoss, 1.0 + step, 0}, {kEntropy, 0.5, 0}}));
  }
  Write(batch);
  std::vector<std::pair<size_t, int64_t>> seen;
  // One that is not there, and one that is asked for twice.
  ASSERT_OK(store_->Points("exp", {kLoss, Head(0, 0), kEntropy, kLoss}, {},
                           [&seen](size_t series, const model::Point& point) {
                             seen.emplace_back(series, point.step);
                             return true;
                           }));
  EXPECT_THAT(seen, ElementsAre(std::pair(0u, 2), std::pair(0u, 4), std::pair(2u, 2),
                                std::pair(2u, 4), std::pair(3u, 2), std::pair(3u, 4)));
  ASSERT_OK(store_->Points("exp", {}, {}, [](size_t, const model::Point&) { return true; }));
}

TEST_P(StorePointsTest, BucketsSayWhatASeriesDidAcrossAttempts) {
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 20)});
  batch.attempts.push_back({"exp", Attempt(2, 6, 9)});
  for (const auto& [attempt, step, value, flags] :
       std::vector<std::tuple<uint32_t, int64_t, double, uint32_t>>{{1, 0, 4, model::kFlagEval},
                                                                    {1, 3, 1, 0},
                                                                    {1, 5, 2, model::kFlagLate},
                                                                    {1, 7, 100, model::kFlagGrid},
                                                                    {2, 6, 3, 0},
                                                                    {2, 9, 5, 0},
                                                                    {1, 20, 7, 0}}) {
    batch.steps.push_back(Step("exp", attempt, step, {{kLoss, value, flags}}));
  }
  Write(batch);
  const auto buckets = [this](const StepRange& range, int64_t steps) {
    std::vector<Bucket> found;
    EXPECT_OK(store_->Buckets("exp", {kEntropy, kLoss}, range, steps,
                              [&found](size_t series, const Bucket& bucket) {
                                EXPECT_EQ(series, 1u);
                                found.push_back(bucket);
                                return true;
                              }));
    return found;
  };
  EXPECT_THAT(buckets({}, 8),
              ElementsAre(Bucket{0, 4, 1, 2.5, 4, 3, 6, 2, model::kFlagEval | model::kFlagLate},
                          Bucket{8, 1, 5, 5, 5, 5, 9, 2, 0}, Bucket{16, 1, 7, 7, 7, 7, 20, 1, 0}));
  EXPECT_THAT(
      buckets({.first = 3, .last = 7, .attempt = 1}, int64_t{1} << 62),
      ElementsAre(Bucket{0, 3, 1, 103.0 / 3, 100, 100, 7, 1, model::kFlagLate | model::kFlagGrid}));
  EXPECT_EQ(buckets({}, 1).size(), 6u);
  for (const int64_t bad :
       {int64_t{0}, int64_t{-8}, int64_t{3}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(
        store_->Buckets("exp", {kLoss}, {}, bad, [](size_t, const Bucket&) { return true; }),
        support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a power of two")));
  }
}

TEST_P(StorePointsTest, AMeanIsFiniteWhereTheSumIsNot) {
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 1023)});
  const double huge = std::numeric_limits<double>::max();
  for (int64_t step = 0; step < 1024; ++step) {
    batch.steps.push_back(Step("exp", 1, step, {{kLoss, huge, 0}}));
  }
  Write(batch);
  int seen = 0;
  ASSERT_OK(store_->Buckets("exp", {kLoss}, {}, 1024, [&](size_t, const Bucket& bucket) {
    EXPECT_EQ(bucket.mean, huge);
    ++seen;
    return true;
  }));
  EXPECT_EQ(seen, 1);
}

TEST_P(StoreTest, ListsSeriesSortedAndFiltered) {
  StoreBatch batch;
  const model::SeriesKey tensor{"tensor.rms", 2, model::Unit::kTensor, 0, "grad/attn.wq"};
  batch.steps.push_back(Step("exp", 1, 0,
                             {{tensor, 1.0, 0},
                              {Head(1, 10), 1.0, 0},
                              {Head(1, 2), 1.0, 0},
                              {kLoss, 1.0, 0},
                              {Head(0, 3), 1.0, 0}}));
  batch.steps.push_back(Step("other", 1, 0, {{kEntropy, 1.0, 0}}));
  Write(batch);
  const auto series = [this](const SeriesFilter& filter) {
    auto found = store_->Series("exp", filter);
    EXPECT_OK(found);
    return *found;
  };
  EXPECT_THAT(series({}), ElementsAre(Head(0, 3), Head(1, 2), Head(1, 10), tensor, kLoss));
  EXPECT_THAT(series({.indicator = "attn.*", .layers = {1}}), ElementsAre(Head(1, 2), Head(1, 10)));
  EXPECT_THAT(series({.indicator = "attn."}), IsEmpty());
  EXPECT_THAT(series({.layers = {model::kNoLayer}}), ElementsAre(kLoss));
  EXPECT_THAT(series({.unit = model::Unit::kHead, .unit_ids = {3, 10}}),
              ElementsAre(Head(0, 3), Head(1, 10)));
  EXPECT_THAT(series({.unit_name = "grad/attn.wq"}), ElementsAre(tensor));
  EXPECT_EQ(store_->Stats().series, 6u);
}

TEST_P(StorePointsTest, ValuesComeBackAsTheCatalogueStoresThem) {
  const model::SeriesKey count{"tensor.nonfinite", 0, model::Unit::kTensor, 0, "x"};
  struct Case {
    model::SeriesKey series;
    double value;
    double expected;
  };
  const double third = 1.0 / 3;
  const Case cases[] = {
      {kLoss, third, static_cast<double>(static_cast<float>(third))},
      {kLoss, -1e300, -1e300},
      {kLoss, 1e-300, 1e-300},
      {count, 9007199254740992.0, 9007199254740992.0},
      {count, 0.5, 0.5},
  };
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 100)});
  int64_t step = 0;
  for (const Case& c : cases) {
    batch.steps.push_back(Step("exp", 1, step++, {{c.series, c.value, model::kFlagSampled}}));
  }
  Write(batch);
  step = 0;
  for (const Case& c : cases) {
    const StepRange one{.first = step, .last = step};
    EXPECT_THAT(ReadPoints(*store_, "exp", c.series, one),
                ElementsAre(model::Point{1, step, c.expected, model::kFlagSampled}))
        << c.value;
    ++step;
  }
}

TEST(StorePrecisionTest, DeclaredKeepsARelativeErrorAndExactCounts) {
  support::TempDir directory;
  StoreOptions options{.directory = directory.File("data")};
  options.precision = Precision::kDeclared;
  ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(options));
  const model::SeriesKey count{"tensor.nonfinite", 0, model::Unit::kTensor, 0, "x"};
  StoreBatch batch;
  batch.attempts.push_back({"exp", Attempt(1, 0, 1)});
  batch.steps.push_back(Step(
      "exp", 1, 0, {{Head(0, 0), 1.23456789, 0}, {kLoss, 1.23456789, 0}, {count, 16777217, 0}}));
  ASSERT_OK(store->Write(batch));
  std::vector<double> values;
  ASSERT_OK(
      store->Points("exp", {Head(0, 0), kLoss, count}, {}, [&](size_t, const model::Point& point) {
        values.push_back(point.value);
        return true;
      }));
  ASSERT_EQ(values.size(), 3u);
  EXPECT_NEAR(values[0], 1.23456789, 1.23456789e-4);
  EXPECT_EQ(values[0] * 0x1p13, std::trunc(values[0] * 0x1p13)) << "no bits beyond the declared";
  EXPECT_EQ(values[1], static_cast<double>(1.23456789f)) << "a scalar is kept as it is";
  EXPECT_EQ(values[2], 16777217);
}

TEST_P(StoreTest, ABatchWithANonFinitePointIsRefusedWhole) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    StoreBatch batch;
    batch.runs.emplace_back().set_name("exp");
    batch.steps.push_back(Step("exp", 1, 3, {{kEntropy, 1.0, 0}, {kLoss, bad, 0}}));
    EXPECT_THAT(store_->Write(batch),
                support::StatusIs(absl::StatusCode::kInternal,
                                  HasSubstr("a point of train.loss at step 3 of run exp is")));
  }
  ASSERT_OK_AND_ASSIGN(const auto runs, store_->Runs());
  EXPECT_THAT(runs, IsEmpty());
  EXPECT_EQ(store_->Stats().series, 0u);
  EXPECT_EQ(store_->Stats().batches_written, 0u);
  EXPECT_TRUE(store_->Stats().writable);
}

TEST_P(StorePointsTest, DeleteRunRemovesEverythingOfItAndNothingElse) {
  StoreBatch batch;
  for (const std::string run : {"exp", "exp2"}) {
    batch.runs.emplace_back().set_name(run);
    batch.attempts.push_back({run, Attempt(1, 0, 9)});
    batch.reports.push_back({run, 1, Report(9, 0, "a", 1)});
    batch.steps.push_back(Step(run, 1, 9, {{kLoss, 1.0, 0}, {kEntropy, 1.0, 0}}));
    model::AlertRow alert;
    alert.mutable_alert()->set_id("x");
    batch.alerts.push_back({run, alert});
  }
  Write(batch);
  ASSERT_OK_AND_ASSIGN(const uint64_t series, store_->DeleteRun("exp"));
  EXPECT_EQ(series, 2u);
  EXPECT_EQ(store_->Stats().series, 2u);
  EXPECT_THAT(store_->Run("exp"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("exp2")));
  EXPECT_EQ(ReadPoints(*store_, "exp2", kLoss).size(), 1u);

  // The name is free again, and nothing of the old run comes back.
  StoreBatch again;
  again.runs.emplace_back().set_name("exp");
  again.attempts.push_back({"exp", Attempt(1, 0, 9)});
  Write(again);
  EXPECT_THAT(ReadPoints(*store_, "exp", kLoss), IsEmpty());
  EXPECT_THAT(ReadSteps(*store_, "exp"), IsEmpty());
  EXPECT_THAT(ReadReports(*store_, "exp", 1), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto alerts, store_->Alerts("exp"));
  EXPECT_THAT(alerts, IsEmpty());
}

TEST_P(StoreTest, NamesMayHoldAnyText) {
  const std::string odd("a\0b\x01\n\xc3\xbf /*", 10);
  StoreBatch batch;
  batch.runs.emplace_back().set_name("a");
  batch.steps.push_back(
      Step(odd, 1, 0, {{{"tensor.rms", 0, model::Unit::kTensor, 0, odd}, 1.0, 0}}));
  Write(batch);
  ASSERT_OK_AND_ASSIGN(const auto series, store_->Series(odd, {}));
  ASSERT_EQ(series.size(), 1u);
  EXPECT_EQ(series[0].unit_name, odd);
  ASSERT_OK_AND_ASSIGN(const auto none, store_->Series("a", {}));
  EXPECT_THAT(none, IsEmpty());
}

TEST_P(StoreTest, CountsWhatItWrote) {
  StoreBatch batch;
  batch.steps.push_back(Step("exp", 1, 0, {{kLoss, 1.0, 0}, {kEntropy, 1.0, 0}}));
  Write(batch);
  Write(StoreBatch());  // nothing to do, and not counted
  const StoreStats stats = store_->Stats();
  EXPECT_EQ(stats.points_written, 2u);
  EXPECT_EQ(stats.batches_written, 1u);
  EXPECT_EQ(stats.series, 2u);
  EXPECT_TRUE(stats.writable);
  EXPECT_OK(store_->Sync());
}

}  // namespace
}  // namespace foreshock::store
