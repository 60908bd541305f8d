// Small captures, made here, through the readers and a backtest.
#include "daemon/backtest/capture_steps.h"

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/backtest/backtest.h"
#include "daemon/backtest/stored_steps.h"
#include "daemon/capture/writer.h"
#include "daemon/store/store.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stored_run.h"
#include "tests/support/temp_dir.h"

namespace foreshock::backtest {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A capture being written: two ranks of which rank 0 has the loss.
class TestCapture {
 public:
  explicit TestCapture(const std::string& path) {
    auto writer = capture::CaptureWriter::Create(path);
    EXPECT_OK(writer);
    writer_ = *std::move(writer);
  }
  ~TestCapture() { EXPECT_OK(writer_->Commit()); }

  void Launch(std::optional<int64_t> resume = std::nullopt, const std::string& run = "r") {
    ++launch_;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      v1::CaptureRecord record = Record(rank);
      v1::Hello* hello = record.mutable_message()->mutable_hello();
      hello->set_run(run);
      hello->set_launch_id(absl::StrCat("launch-", launch_));
      hello->set_client_instance(absl::StrCat("instance-", launch_, "-", rank));
      hello->set_rank(rank);
      hello->set_world_size(2);
      hello->mutable_coordinates()->set_data(rank);
      if (resume.has_value()) hello->set_resume_step(*resume);
      EXPECT_OK(writer_->Write(record));
    }
    seq_ = 0;
  }

  void Step(int64_t step, double loss, const std::vector<uint32_t>& ranks = {0, 1}) {
    ++seq_;
    for (const uint32_t rank : ranks) {
      v1::CaptureRecord record = Record(rank);
      v1::Report* report = record.mutable_message()->mutable_report();
      report->set_seq(seq_);
      report->set_step(step);
      report->set_time_unix_ns(1'800'000'000'000'000'000 + 1'000'000'000 * step);
      report->set_last_of_step(true);
      if (rank == 0) {
        v1::ScalarBatch* scalars = report->add_summaries()->mutable_scalars();
        if (seq_ == 1) {
          v1::ScalarDeclaration* declaration = scalars->add_declare();
          declaration->set_id(1);
          declaration->set_name("loss");
          declaration->set_reduction(v1::REDUCTION_MEAN);
          declaration->set_scope(v1::SCOPE_GLOBAL);
        }
        scalars->add_ids(1);
        scalars->add_values(loss);
      }
      EXPECT_OK(writer_->Write(record));
    }
  }

  void Write(const v1::CaptureRecord& record) { EXPECT_OK(writer_->Write(record)); }
  v1::CaptureRecord Record(uint32_t rank) const {
    v1::CaptureRecord record;
    record.set_stream(2 * launch_ + rank);
    return record;
  }

 private:
  std::unique_ptr<capture::CaptureWriter> writer_;
  uint32_t launch_ = 0;
  uint64_t seq_ = 0;
};

// "A1 0 1 2 A2@1 1 2".
class Order final : public StepSink {
 public:
  void BeginAttempt(const std::string& run, const v1::ModelShape&,
                    const rules::AttemptStart& attempt) override {
    words.push_back(absl::StrCat("A", attempt.number));
    if (attempt.resume_step.has_value()) absl::StrAppend(&words.back(), "@", *attempt.resume_step);
  }
  void OnStep(const model::ClosedStep& step) override {
    words.push_back(absl::StrCat(step.row.step, step.row.partial ? "!" : ""));
    samples += step.samples.size();
  }
  bool done() const override { return words.size() >= words_max; }
  bool Wants(const model::SeriesKey& series) const override { return series.indicator != unwanted; }
  std::vector<std::string> words;
  size_t samples = 0;
  size_t words_max = 1'000'000;
  std::string unwanted;
};

class CaptureSteps : public ::testing::Test {
 protected:
  std::string OrderOf() {
    Order order;
    const auto totals = ReadCaptureSteps(path_, nullptr, &order);
    return totals.ok() ? absl::StrJoin(order.words, " ") : std::string(totals.status().message());
  }

  RunResult Judge(const std::string& rule) {
    const auto rules = rules::ParseRules(
        "test.yaml", absl::StrCat("groups: [{name: g, rules: [{alert: r, warm_up: judge, labels: "
                                  "{severity: warning}, ",
                                  rule, "}]}]"));
    EXPECT_OK(rules);
    Backtest backtest(*rules);
    const auto totals = ReadCaptureSteps(path_, nullptr, &backtest);
    EXPECT_OK(totals);
    return backtest.Finish();
  }

  const support::TempDir directory_;
  const std::string path_ = directory_.File("run.jsonl");
};

TEST_F(CaptureSteps, ComeInTheOrderInWhichTheyWereJudged) {
  {
    TestCapture capture(path_);
    capture.Launch();
    for (int64_t step = 0; step < 3; ++step) capture.Step(step, 3);
    capture.Step(3, 3, {0});  // the launch dies in step 3
    capture.Launch(1);
    for (int64_t step = 1; step < 3; ++step) capture.Step(step, 3);
  }
  EXPECT_EQ(OrderOf(), "A1 0 1 2 3! A2@1 1 2");
}

TEST_F(CaptureSteps, WaitForASilentRankAsTheDaemonDoes) {
  {
    TestCapture capture(path_);
    capture.Launch();
    capture.Step(0, 3);
    for (int64_t step = 1; step < 40; ++step) capture.Step(step, 3, {0});  // a second apart
  }
  Order order;
  ASSERT_OK(ReadCaptureSteps(path_, nullptr, &order));
  // Step 1 waits 30 s for rank 1, which is silent from then on.
  ASSERT_THAT(order.words, SizeIs(41));
  EXPECT_EQ(order.words[2], "1!");
  EXPECT_EQ(order.words[3], "2");
}

TEST_F(CaptureSteps, ARunOfTenStepsSaysWhatItCannotSay) {
  {
    TestCapture capture(path_);
    capture.Launch();
    for (int64_t step = 0; step < 10; ++step) capture.Step(step, 3);
  }
  const RunResult result = Judge("indicator: train.loss, relative_rise: {above: 2}");
  EXPECT_THAT(result.steps, SizeIs(10));
  EXPECT_THAT(result.alerts, IsEmpty());
  ASSERT_THAT(result.judging, SizeIs(1));
  EXPECT_EQ(result.judging[0].rows(), 0u);
  EXPECT_EQ(result.judged.rules_judging(), 0u);
  EXPECT_THAT(Notes(result),
              ElementsAre(AllOf(HasSubstr("1 rule has judged no row, so its silence says nothing"),
                                HasSubstr("10 rows have come, too few to know what is usual"))));
  const RunResult judged = Judge("indicator: train.loss, threshold: {above: 5}");
  EXPECT_EQ(judged.judging[0].rows(), 10u);
  EXPECT_THAT(Notes(judged), IsEmpty());
}

TEST_F(CaptureSteps, GapsAreToldAndHurtNothing) {
  {
    TestCapture capture(path_);
    capture.Launch();
    for (int64_t step = 0; step < 200; ++step) capture.Step(step, 3);
    for (int64_t step = 500; step < 700; ++step) capture.Step(step, step < 650 ? 3 : 9);
    for (int64_t step = 710; step < 900; ++step) capture.Step(step, 9);
  }
  const RunResult result = Judge("indicator: train.loss, threshold: {above: 5}");
  ASSERT_THAT(result.alerts, SizeIs(1));
  EXPECT_EQ(result.alerts[0].fired.step, 650);
  EXPECT_THAT(
      Notes(result),
      ElementsAre("steps are missing in 2 places; the longest gap is from step 199 to 500"));
}

TEST_F(CaptureSteps, SamplesEvery200StepsAreNoGap) {
  {
    TestCapture capture(path_);
    capture.Launch();
    for (int64_t step = 0; step < 40000; step += 200) capture.Step(step, 3);
  }
  EXPECT_THAT(Notes(Judge("indicator: train.loss, threshold: {above: 5}")), IsEmpty());
}

TEST_F(CaptureSteps, AStretchOfNaNBreaksTheLossWhereItStaysSo) {
  {
    TestCapture capture(path_);
    capture.Launch();
    for (int64_t step = 0; step < 300; ++step) {
      capture.Step(step, step == 50 || step >= 200 ? kNaN : 3);
    }
  }
  const RunResult result = Judge("non_finite: {names: [loss]}, clear_samples: 5");
  EXPECT_TRUE(result.has_loss);
  EXPECT_EQ(result.loss_break_step, 200);
  ASSERT_THAT(result.alerts, SizeIs(2));
  EXPECT_EQ(result.alerts[0].fired.step, 50);
  EXPECT_EQ(result.alerts[1].fired.step, 200);
}

TEST_F(CaptureSteps, FiftyAttemptsThatOverlap) {
  {
    TestCapture capture(path_);
    for (int64_t attempt = 0; attempt < 50; ++attempt) {
      capture.Launch(attempt == 0 ? std::nullopt : std::optional<int64_t>(10 * attempt));
      for (int64_t step = 10 * attempt; step < 10 * attempt + 30; ++step) capture.Step(step, 3);
    }
  }
  const RunResult result = Judge("indicator: train.loss, threshold: {above: 5}");
  EXPECT_EQ(result.attempts, 50u);
  EXPECT_THAT(result.steps, SizeIs(1500));
  EXPECT_EQ(result.StepsBefore(10), 10u);
  EXPECT_EQ(result.StepsBefore(20), 30u);  // 10 to 19 came twice
  EXPECT_THAT(Notes(result), IsEmpty());
}

TEST_F(CaptureSteps, BadInputIsToldApart) {
  { TestCapture capture(path_); }
  EXPECT_THAT(OrderOf(), HasSubstr("run.jsonl: it is empty"));
  {
    TestCapture capture(path_);
    capture.Launch();
  }
  EXPECT_THAT(OrderOf(), HasSubstr("run.jsonl: no step of it ever closed (0 reports)"));
  {
    TestCapture capture(path_);
    capture.Launch();
    capture.Launch(std::nullopt, "other");
  }
  EXPECT_THAT(OrderOf(), HasSubstr("record 3 (stream 4): it holds the runs 'r' and 'other'"));
  {
    TestCapture capture(path_);
    capture.Launch();
    capture.Step(0, 3);
    v1::CaptureRecord record = capture.Record(0);
    record.mutable_message()->mutable_report()->set_seq(1);
    capture.Write(record);
  }
  EXPECT_THAT(OrderOf(), HasSubstr("record 5 (stream 2): report.seq: found 1; allowed"));
  std::ofstream(path_) << "no capture";
  EXPECT_THAT(OrderOf(), HasSubstr(path_));
}

TEST_F(CaptureSteps, RefusedPayloadsAreCounted) {
  {
    TestCapture capture(path_);
    capture.Launch();
    capture.Step(0, 3);
    v1::CaptureRecord record = capture.Record(0);
    v1::Report* report = record.mutable_message()->mutable_report();
    report->set_seq(2);
    report->set_step(1);
    report->set_last_of_step(true);
    report->add_summaries()->mutable_router_load()->set_layer(0);
    capture.Write(record);
  }
  Order order;
  const auto totals = ReadCaptureSteps(path_, nullptr, &order);
  ASSERT_OK(totals);
  EXPECT_EQ(totals->rejected, 1u);
  EXPECT_THAT(totals->reasons, ElementsAre(HasSubstr("router_load")));
}

TEST(StoredSteps, ComeAttemptByAttempt) {
  const auto store = support::NewMemoryStore();
  support::StoreRun("exp", 1, store.get());
  Order order;
  std::vector<int64_t> progress;
  ASSERT_OK(ReadStoredSteps(
      *store, "exp",
      [&](uint64_t done, uint64_t total, int64_t step) {
        progress = {static_cast<int64_t>(done), static_cast<int64_t>(total), step};
      },
      &order));
  ASSERT_THAT(order.words, SizeIs(2 + 100 + 20));
  EXPECT_EQ(order.words[0], "A1");
  EXPECT_EQ(order.words[100], "99");  // attempt 1 to its end, though attempt 2 has overtaken it
  EXPECT_EQ(order.words[101], "A2");
  EXPECT_EQ(order.words[102], "60");
  EXPECT_THAT(progress, ElementsAre(120, 120, 79));
}

TEST(StoredSteps, OnlyWhatIsWantedIsRead) {
  const auto store = support::NewMemoryStore();
  support::StoreRun("exp", 1, store.get());
  Order all;
  ASSERT_OK(ReadStoredSteps(*store, "exp", nullptr, &all));
  EXPECT_EQ(all.samples, 120u + 12 * 8);  // the loss, and 8 shares at every tenth step
  Order order;
  order.words_max = 51;  // "A1" and 50 steps
  order.unwanted = "load.share";
  ASSERT_OK(ReadStoredSteps(*store, "exp", nullptr, &order));
  EXPECT_EQ(order.words.back(), "49");
  EXPECT_EQ(order.samples, 50u);
}

TEST(StoredSteps, AnUnknownRunNamesTheOthersAndAnEmptyOneSaysSo) {
  const auto store = support::NewMemoryStore();
  support::StoreRun("exp", 1, store.get());
  store::StoreBatch batch;
  batch.runs.emplace_back();
  batch.runs.back().set_name("young");
  ASSERT_OK(store->Write(batch));
  Order order;
  EXPECT_THAT(ReadStoredSteps(*store, "other", nullptr, &order),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("exp")));
  EXPECT_THAT(
      ReadStoredSteps(*store, "young", nullptr, &order),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no closed step yet")));
}

}  // namespace
}  // namespace foreshock::backtest
