// Retention: the decisions, and what a store is like after they are carried out.
#include "daemon/store/retention.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/store/database.h"
#include "daemon/store/disk_store.h"
#include "daemon/store/retention_worker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/filled_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_files.h"
#include "tests/support/temp_dir.h"

namespace foreshock::store {
namespace {

using store::AttemptFacts;
using store::NextRetentionStep;
using store::RetentionStep;
using store::RunFacts;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Kind = RetentionStep::Kind;

RunFacts Facts(const std::string& name, int64_t last_step, absl::Duration age, uint64_t bytes) {
  RunFacts run{.name = name, .ended = true, .newest = support::kFilledNow - age, .bytes = bytes};
  AttemptFacts attempt{.number = 1, .last_step = last_step};
  attempt.raw_age_step = attempt.kept_age_step = 0;
  run.attempts.push_back(attempt);
  return run;
}

// Changes the facts as carrying out a step does.
void Apply(const RetentionStep& step, std::vector<RunFacts>* runs) {
  for (RunFacts& run : *runs) {
    if (run.name != step.run) continue;
    if (step.kind == Kind::kEmptyRun) {
      run.empty = true;
      run.bytes = 100;
    }
    for (AttemptFacts& attempt : run.attempts) {
      if (attempt.number != step.attempt) continue;
      int64_t* through =
          step.kind == Kind::kDownsample ? &attempt.downsampled_before : &attempt.dropped_before;
      EXPECT_GT(step.before_step, *through) << "does nothing";
      *through = std::max(*through, step.before_step);
      run.bytes -= run.bytes / 20;
    }
  }
  std::erase_if(*runs, [&step](const RunFacts& run) {
    return step.kind == Kind::kDeleteRun && run.name == step.run;
  });
}

uint64_t Total(const std::vector<RunFacts>& runs) {
  uint64_t bytes = 0;
  for (const RunFacts& run : runs) bytes += run.bytes;
  return bytes;
}

TEST(RetentionPlanTest, WithoutLimitsNothingGoes) {
  EXPECT_FALSE(RetentionOptions().any());
  EXPECT_FALSE(NextRetentionStep({}, {Facts("r", 1 << 20, absl::Hours(9999), 1u << 30)}, 1u << 30,
                                 support::kFilledNow)
                   .has_value());
}

TEST(RetentionPlanTest, APointStaysRawWhileEitherLimitKeepsIt) {
  RunFacts run = Facts("r", 99'999, absl::Hours(1), 1000);
  run.attempts[0].raw_age_step = 50'000;
  RetentionOptions options{.raw_for = absl::Hours(5)};
  auto step = NextRetentionStep(options, {run}, 0, support::kFilledNow);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->before_step, 48 * 1024);  // 50 000 in whole kRetentionSteps
  options.raw_steps = 90'000;
  step = NextRetentionStep(options, {run}, 0, support::kFilledNow);
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->before_step, 9 * 1024);
  EXPECT_EQ(step->kind, Kind::kDownsample);
  run.pinned = true;
  EXPECT_FALSE(NextRetentionStep(options, {run}, 0, support::kFilledNow).has_value());
}

TEST(RetentionPlanTest, DownsampledPointsGoLater) {
  RunFacts run = Facts("r", 99'999, absl::Hours(1), 1000);
  run.attempts[0].raw_age_step = 50'000;
  run.attempts[0].kept_age_step = 20'000;
  const RetentionOptions options{.raw_for = absl::Hours(5), .downsampled_for = absl::Hours(20)};
  std::vector<RunFacts> runs = {run};
  std::vector<std::string> done;
  while (const auto step = NextRetentionStep(options, runs, 0, support::kFilledNow)) {
    done.push_back(
        absl::StrCat(step->kind == Kind::kDownsample ? "downsample " : "drop ", step->before_step));
    Apply(*step, &runs);
  }
  EXPECT_THAT(done, ElementsAre("downsample 49152", "drop 19456"));
}

TEST(RetentionPlanTest, TheBudgetTakesRawPointsOfTheOldestFirstThenEndedRuns) {
  std::vector<RunFacts> runs = {Facts("new", 40'000, absl::Hours(1), 4000),
                                Facts("old", 10'000, absl::Hours(90), 4000),
                                Facts("pinned", 40'000, absl::Hours(99), 4000)};
  runs[2].pinned = true;
  std::vector<std::string> done;
  while (const auto step =
             NextRetentionStep({.bytes_max = 4500}, runs, Total(runs), support::kFilledNow)) {
    done.push_back(absl::StrCat(step->run, step->kind == Kind::kEmptyRun ? " emptied" : ""));
    Apply(*step, &runs);
  }
  EXPECT_THAT(done, ElementsAre("old", "new", "old emptied", "new emptied"));
}

TEST(RetentionPlanTest, ALiveRunKeepsItsNewestSteps) {
  std::vector<RunFacts> runs = {Facts("live", 50'000, absl::Seconds(1), 4000)};
  runs[0].ended = false;
  while (const auto step =
             NextRetentionStep({.bytes_max = 1}, runs, Total(runs), support::kFilledNow)) {
    EXPECT_NE(step->kind, Kind::kEmptyRun);
    Apply(*step, &runs);
  }
  EXPECT_EQ(runs[0].attempts[0].downsampled_before, 39 * 1024);  // 40 001 in whole kRetentionSteps
  EXPECT_EQ(runs[0].attempts[0].dropped_before, 39 * 1024);
}

TEST(RetentionPlanTest, AnyFactsComeToAnEndAndNothingProtectedGoes) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937_64 random(seed);
  const auto below = [&random](int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<RunFacts> runs;
    for (int64_t r = below(6); r >= 0; --r) {
      RunFacts run = Facts(absl::StrCat("r", r), 0, absl::Minutes(below(60 * 24 * 60)),
                           static_cast<uint64_t>(below(1 << 20)));
      run.attempts.clear();
      run.pinned = below(4) == 0;
      run.ended = below(2) == 0;
      for (uint32_t a = 1; a <= 1 + static_cast<uint32_t>(below(3)); ++a) {
        AttemptFacts attempt{.number = a, .first_step = below(100'000)};
        attempt.last_step = attempt.first_step + below(200'000);
        attempt.downsampled_before = attempt.dropped_before = attempt.first_step;
        attempt.raw_age_step = attempt.first_step + below(200'000);
        attempt.kept_age_step = attempt.first_step + below(200'000);
        run.attempts.push_back(attempt);
      }
      runs.push_back(run);
    }
    RetentionOptions options;
    if (below(2) == 0) options.raw_for = absl::Hours(1);
    if (below(2) == 0) options.raw_steps = 1 + below(100'000);
    if (below(2) == 0) options.downsampled_for = absl::Hours(2);
    if (below(2) == 0) options.runs_for = absl::Hours(1 + below(1000));
    if (below(2) == 0) options.alerts_for = absl::Hours(1 + below(1000));
    if (below(2) == 0) options.bytes_max = static_cast<uint64_t>(1 + below(1 << 21));
    if (below(2) == 0) options.run_bytes_max = static_cast<uint64_t>(1 + below(1 << 20));
    const std::vector<RunFacts> before = runs;
    int steps = 0;
    while (const auto step = NextRetentionStep(options, runs, Total(runs), support::kFilledNow)) {
      ASSERT_LT(++steps, 1000) << "round " << round;
      const auto run = std::find_if(before.begin(), before.end(),
                                    [&](const RunFacts& of) { return of.name == step->run; });
      ASSERT_FALSE(run->pinned) << "round " << round;
      const bool ended = run->ended || run->newest + kSilentEnd <= support::kFilledNow;
      if (step->kind == Kind::kEmptyRun || step->kind == Kind::kDeleteRun) {
        ASSERT_TRUE(ended) << "round " << round;
      } else if (!ended) {
        ASSERT_LE(step->before_step, run->attempts.back().last_step - kLiveRawSteps + 1)
            << "round " << round;
      }
      Apply(*step, &runs);
    }
  }
}

// ---- a store

class RetainTest : public ::testing::Test {
 protected:
  StoreOptions Options() const { return {.directory = directory_.File("data")}; }

  std::unique_ptr<DiskStore> Open() {
    auto store = OpenDiskStore(Options());
    EXPECT_OK(store);
    return *std::move(store);
  }

  absl::StatusOr<RetentionResult> Retain(DiskStore* store, const RetentionOptions& options) {
    return store->Retain(options, support::kFilledNow,
                         {.delete_run = [&](const std::string& run) -> absl::Status {
                            deleted_.push_back(run);
                            return store->DeleteRun(run).status();
                          },
                          .go_on = [this] { return batches_-- > 0; }});
  }

  static std::vector<model::Point> PointsOf(const Store& store, const support::FilledRun& run) {
    std::vector<model::Point> points;
    EXPECT_OK(store.Points(run.name, support::FilledSeriesOf(run), {},
                           [&](size_t, const model::Point& point) {
                             points.push_back(point);
                             return true;
                           }));
    return points;
  }

  static std::vector<Bucket> BucketsOf(const Store& store, const support::FilledRun& run,
                                       int64_t steps) {
    std::vector<Bucket> buckets;
    EXPECT_OK(store.Buckets(run.name, support::FilledSeriesOf(run), {}, steps,
                            [&](size_t, const Bucket& bucket) {
                              buckets.push_back(bucket);
                              return true;
                            }));
    return buckets;
  }

  static uint64_t LiveDiskBytes(const DiskStore& store) {
    const auto usage = store.Usage();
    EXPECT_OK(usage);
    uint64_t bytes = 0;
    for (const StoreUsage::Family& family : usage->families) {
      bytes += family.disk_bytes + family.memory_bytes;
    }
    return bytes;
  }

  static std::vector<std::string> Findings(const DiskStore& store) {
    std::vector<std::string> findings;
    EXPECT_OK(store.Verify({.finding = [&](const VerifyFinding& finding) {
      findings.push_back(finding.where + ": " + finding.what);
    }}));
    return findings;
  }

  support::TempDir directory_;
  std::vector<std::string> deleted_;
  int batches_ = 1 << 30;
};

TEST_F(RetainTest, OldPointsBecomePartsThatAnswerTheSameBuckets) {
  const support::FilledRun run{.name = "r", .last_step = 20'000, .last_time = support::kFilledNow};
  ASSERT_NO_FATAL_FAILURE(support::FillRun(run, Open().get()));
  ASSERT_NO_FATAL_FAILURE(support::IntoFiles(Options()));
  const auto store = Open();
  const std::vector<Bucket> before = BucketsOf(*store, run, 1024);
  const uint64_t bytes_before = LiveDiskBytes(*store);
  ASSERT_OK_AND_ASSIGN(const RetentionResult result, Retain(store.get(), {.raw_steps = 2'000}));
  constexpr int64_t kRawFrom = 17 * 1024;
  EXPECT_EQ(result.points_downsampled, kRawFrom * 4u);
  ASSERT_OK_AND_ASSIGN(const int64_t raw_from, store->RawFrom("r", {}));
  EXPECT_EQ(raw_from, kRawFrom);
  EXPECT_EQ(store->RawFrom("r", {.first = 19'000}).value(), 19'000);

  for (const model::Point& point : PointsOf(*store, run)) ASSERT_GE(point.step, kRawFrom);
  EXPECT_THAT(PointsOf(*store, run), SizeIs((20'001 - kRawFrom) * 4));
  const std::vector<Bucket> after = BucketsOf(*store, run, 1024);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    Bucket same = after[i];
    EXPECT_NEAR(same.mean, before[i].mean, 1e-6) << i;
    same.mean = before[i].mean;
    EXPECT_EQ(same, before[i]) << i;
  }
  // Where buckets are finer than parts, a part counts once, in the bucket of its first step.
  uint64_t count = 0;
  for (const Bucket& bucket : BucketsOf(*store, run, 16)) count += bucket.count;
  EXPECT_EQ(count, 20'001u * 4);
  EXPECT_LT(LiveDiskBytes(*store), bytes_before / 2) << bytes_before;
  EXPECT_THAT(Findings(*store), IsEmpty());
  // A second pass finds nothing to do.
  ASSERT_OK_AND_ASSIGN(const RetentionResult again, Retain(store.get(), {.raw_steps = 2'000}));
  EXPECT_EQ(again.chunks_downsampled, 0u);
}

TEST_F(RetainTest, APassThatIsBrokenOffAnywhereIsFinishedByTheNext) {
  const support::FilledRun run{
      .name = "r", .last_step = 4'200, .series = 2, .last_time = support::kFilledNow};
  const RetentionOptions options{.raw_steps = 1'000};
  std::vector<Bucket> expected;
  for (int batches = 1 << 20; batches >= 0; batches = batches > 8 ? 2 : batches - 1) {
    SCOPED_TRACE(batches);
    const support::TempDir fresh;
    const StoreOptions in{.directory = fresh.File("data")};
    {
      ASSERT_OK_AND_ASSIGN(const auto store, OpenDiskStore(in));
      ASSERT_NO_FATAL_FAILURE(support::FillRun(run, store.get()));
      batches_ = batches;
      const auto result = Retain(store.get(), options);
      EXPECT_EQ(result.ok(), batches >= 3) << result.status();
      EXPECT_THAT(Findings(*store), IsEmpty());
    }
    ASSERT_OK_AND_ASSIGN(const auto store, OpenDiskStore(in));
    batches_ = 1 << 20;
    ASSERT_OK(Retain(store.get(), options));
    const std::vector<Bucket> buckets = BucketsOf(*store, run, 256);
    if (expected.empty()) expected = buckets;
    EXPECT_EQ(buckets, expected);
    EXPECT_EQ(store->RawFrom("r", {}).value(), 3 * 1024);
    EXPECT_THAT(Findings(*store), IsEmpty());
  }
}

TEST_F(RetainTest, RowsThatComeTooLateAreLeftOut) {
  const support::FilledRun run{.name = "r", .last_step = 8'000, .last_time = support::kFilledNow};
  const auto store = Open();
  ASSERT_NO_FATAL_FAILURE(support::FillRun(run, store.get()));
  ASSERT_OK(Retain(store.get(), {.raw_steps = 1'000}));
  const std::vector<Bucket> before = BucketsOf(*store, run, 1024);
  StoreBatch late;
  for (const int64_t step : {10, 3'000}) {
    model::ClosedStep closed;
    closed.run = "r";
    closed.row.attempt = 1;
    closed.row.step = step;
    closed.samples.push_back({support::FilledSeries(0), 1e9, 0});
    late.steps.push_back(closed);
  }
  ASSERT_OK(store->Write(late));
  EXPECT_EQ(BucketsOf(*store, run, 1024), before);
  ASSERT_OK(store->Fold("r"));
  EXPECT_EQ(BucketsOf(*store, run, 1024), before);
  // The run goes on after that.
  support::FilledRun more = run;
  more.first_step = 8'001;
  more.last_step = 9'000;
  ASSERT_NO_FATAL_FAILURE(support::FillRun(more, store.get()));
  EXPECT_THAT(PointsOf(*store, run), SizeIs((9'001 - 6 * 1024) * 4));
  EXPECT_THAT(Findings(*store), IsEmpty());
}

TEST_F(RetainTest, AnEndedRunLeavesItsAlertsAndGivesItsRoomBack) {
  const support::FilledRun old{
      .name = "old", .last_step = 9'000, .last_time = support::kFilledNow - absl::Hours(50)};
  const support::FilledRun young{
      .name = "young", .last_step = 3'000, .last_time = support::kFilledNow};
  ASSERT_NO_FATAL_FAILURE(support::FillRun(old, Open().get()));
  ASSERT_NO_FATAL_FAILURE(support::FillRun(young, Open().get()));
  ASSERT_NO_FATAL_FAILURE(support::IntoFiles(Options()));
  const auto store = Open();
  const uint64_t before = LiveDiskBytes(*store);
  RetentionOptions options{.runs_for = absl::Hours(40), .alerts_for = absl::Hours(60)};
  ASSERT_OK_AND_ASSIGN(const RetentionResult result, Retain(store.get(), options));
  EXPECT_EQ(result.runs_emptied, 1u);
  EXPECT_LT(LiveDiskBytes(*store), before / 2) << before;
  EXPECT_THAT(store->Series("old", {}).value(), IsEmpty());
  EXPECT_THAT(store->Alerts("old").value(), SizeIs(1));
  EXPECT_THAT(store->Events("old").value(), SizeIs(1));
  EXPECT_THAT(store->Attempts("old").value(), SizeIs(1));
  EXPECT_EQ(store->Judging("old").value(), std::nullopt);
  EXPECT_EQ(store->Judging("young").value()->memory(), "memory of young");
  EXPECT_EQ(store->RawFrom("old", {}).value(), 9'001);
  EXPECT_THAT(PointsOf(*store, young), SizeIs(3'001 * 4));
  EXPECT_EQ(store->Stats().series, 4u);
  // The run may go on as before.
  support::FilledRun more = old;
  more.first_step = 9'001;
  more.last_step = 9'100;
  ASSERT_NO_FATAL_FAILURE(support::FillRun(more, store.get()));
  EXPECT_THAT(PointsOf(*store, old), SizeIs(100 * 4));
  EXPECT_THAT(Findings(*store), IsEmpty());
  ASSERT_OK(Retain(store.get(), options));
  EXPECT_THAT(deleted_, IsEmpty());
  options.alerts_for = absl::Hours(45);
  ASSERT_OK(Retain(store.get(), options));
  EXPECT_THAT(deleted_, ElementsAre("old"));
}

TEST_F(RetainTest, TheBudgetIsKeptAndPinnedRunsStay) {
  auto store = Open();
  std::vector<support::FilledRun> runs;
  for (int r = 0; r < 4; ++r) {
    runs.push_back({.name = absl::StrCat("r", r),
                    .last_step = 9'000,
                    .last_time = support::kFilledNow - absl::Hours(10 - r)});
    ASSERT_NO_FATAL_FAILURE(support::FillRun(runs.back(), store.get()));
  }
  StoreBatch pin;
  model::RunRow row;
  row.set_name("r0");
  row.set_pinned(true);
  pin.runs.push_back(row);
  ASSERT_OK(store->Write(pin));
  const std::vector<model::Point> pinned = PointsOf(*store, runs[0]);
  store.reset();
  ASSERT_NO_FATAL_FAILURE(support::IntoFiles(Options()));
  store = Open();
  const uint64_t before = LiveDiskBytes(*store);
  const uint64_t budget = before / 2;
  ASSERT_OK_AND_ASSIGN(const RetentionResult result, Retain(store.get(), {.bytes_max = budget}));
  EXPECT_FALSE(result.over_budget);
  EXPECT_LE(LiveDiskBytes(*store), budget);
  EXPECT_EQ(PointsOf(*store, runs[0]), pinned);
  EXPECT_THAT(PointsOf(*store, runs[1]), SizeIs(0));  // the oldest is downsampled first
  EXPECT_EQ(result.runs_emptied, 0u);
  ASSERT_OK_AND_ASSIGN(const RetentionResult most, Retain(store.get(), {.bytes_max = 1}));
  EXPECT_TRUE(most.over_budget);
  EXPECT_EQ(most.runs_emptied, 3u);
  EXPECT_EQ(PointsOf(*store, runs[0]), pinned);
  EXPECT_THAT(Findings(*store), IsEmpty());
}

TEST_F(RetainTest, UsageCountsWhatThereIs) {
  const auto store = Open();
  // The points are not in chunks yet: retention folds them first.
  const support::FilledRun run{
      .name = "r", .last_step = 8'191, .fold = false, .last_time = support::kFilledNow};
  ASSERT_NO_FATAL_FAILURE(support::FillRun(run, store.get()));
  ASSERT_OK(Retain(store.get(), {.raw_steps = 4'096}));
  ASSERT_OK_AND_ASSIGN(const StoreUsage usage, store->Usage());
  ASSERT_THAT(usage.runs, SizeIs(1));
  const StoreUsage::Run& found = usage.runs[0];
  EXPECT_EQ(found.series, 4u);
  EXPECT_EQ(found.raw_points, 4u * 4'096);
  EXPECT_EQ(found.downsampled_points, 4u * 4'096);
  EXPECT_EQ(found.step_rows, 8'192u);
  EXPECT_EQ(found.first_step, 0);
  EXPECT_EQ(found.last_step, 8'191);
  EXPECT_EQ(found.newest_unix_ns, absl::ToUnixNanos(support::kFilledNow));
  EXPECT_EQ(found.raw_from, 4'096);
  uint64_t rows = 0;
  for (const StoreUsage::Rows& family : found.families) rows += family.rows;
  EXPECT_EQ(rows, found.raw.rows + found.downsampled.rows + found.steps.rows + 4 + 7)
      << "chunks, series, attempt, rank, alert, event, coactivation, judging, retention";
}

TEST_F(RetainTest, TheWorkerDoesItByItself) {
  const auto store = Open();
  const support::FilledRun run{.name = "r", .last_step = 8'000, .last_time = support::kFilledNow};
  ASSERT_NO_FATAL_FAILURE(support::FillRun(run, store.get()));
  const support::FakeClock clock(support::kFilledNow);
  const RetentionOptions options{.raw_steps = 1'000, .interval = absl::Milliseconds(1)};
  const RetentionWorker worker(store.get(), options, &clock,
                               [](const std::string&) { return absl::OkStatus(); });
  for (int i = 0; i < 30'000 && store->Stats().points_downsampled < 6 * 1024 * 4; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(store->Stats().points_downsampled, 6u * 1024 * 4);
}

TEST_F(RetainTest, TheWorkerDoesNotBelieveAClockThatJumps) {
  const auto store = Open();
  const support::FilledRun run{.name = "r", .last_step = 8'000, .last_time = support::kFilledNow};
  ASSERT_NO_FATAL_FAILURE(support::FillRun(run, store.get()));
  support::FakeClock clock(support::kFilledNow);
  const RetentionOptions options{.raw_for = absl::Hours(24), .interval = absl::Milliseconds(1)};
  const RetentionWorker worker(store.get(), options, &clock,
                               [](const std::string&) { return absl::OkStatus(); });
  clock.Jump(absl::Hours(48));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(store->Stats().points_downsampled, 0u);
  // It believes the clock again once a day has passed.
  int hours = 0;
  for (; hours < 30'000 && store->Stats().points_downsampled == 0; ++hours) {
    clock.Advance(absl::Hours(1));
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GT(store->Stats().points_downsampled, 0u);
  EXPECT_GE(hours, 24);
}

}  // namespace
}  // namespace foreshock::store
