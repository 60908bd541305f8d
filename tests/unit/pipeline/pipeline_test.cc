#include "daemon/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"

namespace foreshock::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kRules[] = R"(
groups:
  - name: training
    rules:
      - alert: loss_high
        indicator: train.loss
        threshold: {above: 10, clear: 9}
        hits: 1 of 1
        clear_samples: 1
        warm_up: judge
        labels: {severity: critical}
)";

// Passes everything on to a memory store, but refuses to write while told so.
class RefusingStore final : public store::Store {
 public:
  explicit RefusingStore(store::Store* inner) : inner_(inner) {}
  std::atomic<bool> refuse{false};
  std::string damaged_run;      // its steps cannot be read
  bool damaged_memory = false;  // what rules remember cannot be read
  // Of all steps that were asked for since it was last set.
  mutable std::atomic<int64_t> first_step_read = std::numeric_limits<int64_t>::max();

  // From Hang to Release a call of what hangs does not return.
  enum class Hanging { kNothing, kWrites, kSyncs };
  void Hang(Hanging what) {
    base::MutexLock lock(&mutex_);
    hanging_ = what;
    changed_.NotifyAll();
  }

  absl::Status Write(const store::StoreBatch& batch) override {
    WaitWhile(Hanging::kWrites);
    if (refuse) return absl::ResourceExhaustedError("no space left");
    return inner_->Write(batch);
  }
  absl::Status Sync() override {
    WaitWhile(Hanging::kSyncs);
    return inner_->Sync();
  }
  absl::StatusOr<std::vector<model::RunRow>> Runs() const override { return inner_->Runs(); }
  absl::StatusOr<model::RunRow> Run(const std::string& run) const override {
    return inner_->Run(run);
  }
  absl::StatusOr<std::vector<model::AttemptRow>> Attempts(const std::string& run) const override {
    return inner_->Attempts(run);
  }
  absl::StatusOr<std::vector<model::RankRow>> Ranks(const std::string& run,
                                                    uint32_t attempt) const override {
    return inner_->Ranks(run, attempt);
  }
  absl::Status OpenReports(
      const std::string& run, uint32_t attempt,
      const std::function<bool(const model::ShardReport&)>& visit) const override {
    return inner_->OpenReports(run, attempt, visit);
  }
  absl::StatusOr<std::vector<model::AlertRow>> Alerts(const std::string& run) const override {
    return inner_->Alerts(run);
  }
  absl::StatusOr<std::vector<model::EventRow>> Events(const std::string& run) const override {
    return inner_->Events(run);
  }
  absl::StatusOr<std::vector<model::CoactivationRow>> Coactivation(
      const std::string& run, uint32_t attempt) const override {
    return inner_->Coactivation(run, attempt);
  }
  absl::StatusOr<std::optional<model::JudgingRow>> Judging(const std::string& run) const override {
    if (damaged_memory) return absl::DataLossError("store: corrupt row in default");
    return inner_->Judging(run);
  }
  absl::StatusOr<model::SilencesRow> Silences() const override { return inner_->Silences(); }
  absl::StatusOr<std::vector<model::SeriesKey>> Series(
      const std::string& run, const store::SeriesFilter& filter) const override {
    return inner_->Series(run, filter);
  }
  absl::Status Points(
      const std::string& run, absl::Span<const model::SeriesKey> series,
      const store::StepRange& range,
      const std::function<bool(size_t, const model::Point&)>& visit) const override {
    return inner_->Points(run, series, range, visit);
  }
  absl::Status Buckets(
      const std::string& run, absl::Span<const model::SeriesKey> series,
      const store::StepRange& range, int64_t bucket_steps,
      const std::function<bool(size_t, const store::Bucket&)>& visit) const override {
    return inner_->Buckets(run, series, range, bucket_steps, visit);
  }
  absl::StatusOr<int64_t> RawFrom(const std::string& run,
                                  const store::StepRange& range) const override {
    return inner_->RawFrom(run, range);
  }
  absl::Status Steps(const std::string& run, const store::StepRange& range,
                     const std::function<bool(const model::StepRow&)>& visit) const override {
    if (run == damaged_run) return absl::DataLossError("store: corrupt block in 000012.sst");
    first_step_read = std::min<int64_t>(first_step_read, range.first);
    return inner_->Steps(run, range, visit);
  }
  absl::StatusOr<uint64_t> DeleteRun(const std::string& run) override {
    return inner_->DeleteRun(run);
  }
  absl::Status Fold(const std::string& run) override { return inner_->Fold(run); }
  store::StoreStats Stats() const override { return inner_->Stats(); }

 private:
  void WaitWhile(Hanging what) {
    base::MutexLock lock(&mutex_);
    while (hanging_ == what) changed_.Wait(&mutex_);
  }

  store::Store* const inner_;
  base::Mutex mutex_;
  base::CondVar changed_;
  Hanging hanging_ ABSL_GUARDED_BY(mutex_) = Hanging::kNothing;
};

// Waits for `condition`, with a deadline; what changes it notifies `changed`.
template <typename Condition>
bool WaitUntil(base::Mutex* mutex, base::CondVar* changed, const Condition& condition)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    changed->WaitFor(mutex, left);
  }
  return true;
}

class RecordingListener final : public PipelineListener {
 public:
  void OnStep(const model::ClosedStep& step) override {
    base::MutexLock lock(&mutex_);
    steps_.push_back(step.row);
  }
  void OnAlert(const model::AlertRow& row, bool restored) override {
    base::MutexLock lock(&mutex_);
    (restored ? restored_ : alerts_).push_back(row.alert());
    if (row.alert().state() != v1::ALERT_STATE_FIRING) return;
    const int severity = rules::SeverityRank(row.alert().severity());
    int& gravest = gravest_.try_emplace(row.alert().id(), -1).first->second;
    if (severity > gravest && !restored) {
      news_.push_back(row.alert().rule() + " " + row.alert().severity());
    }
    gravest = std::max(gravest, severity);
  }
  void OnRun(const std::string&, const std::vector<AttemptStatus>& attempts) override {
    base::MutexLock lock(&mutex_);
    connected_ = attempts.empty() ? 0 : attempts.back().ranks_connected;
    changed_.NotifyAll();
  }
  void OnRound() override {
    base::MutexLock lock(&mutex_);
    ++rounds_;
    changed_.NotifyAll();
    while (held_ && free_rounds_ == 0) {
      parked_ = true;
      changed_.NotifyAll();
      changed_.Wait(&mutex_);
    }
    parked_ = false;
    if (held_) --free_rounds_;
  }
  void OnRunDeleted(const std::string& run) override {
    base::MutexLock lock(&mutex_);
    deleted_.push_back(run);
  }

  // From Hold to Release the writer's thread stands still between two rounds.
  void Hold() {
    base::MutexLock lock(&mutex_);
    held_ = true;
    while (!parked_) changed_.Wait(&mutex_);
  }
  void Release() {
    base::MutexLock lock(&mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  // Lets it do so many rounds while it is held.
  void ReleaseFor(uint64_t rounds) {
    base::MutexLock lock(&mutex_);
    free_rounds_ = rounds;
    changed_.NotifyAll();
    while (free_rounds_ > 0 || !parked_) changed_.Wait(&mutex_);
  }
  // Until the writer's thread has finished a round that began after this call.
  bool WaitForRound() {
    base::MutexLock lock(&mutex_);
    const uint64_t wanted = rounds_ + 2;
    return WaitUntil(&mutex_, &changed_,
                     [this, wanted]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return rounds_ >= wanted; });
  }
  bool WaitForConnected(uint32_t ranks) {
    base::MutexLock lock(&mutex_);
    return WaitUntil(&mutex_, &changed_, [this, ranks]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return connected_ == ranks;
    });
  }

  std::vector<v1::Alert> alerts() const {
    base::MutexLock lock(&mutex_);
    return alerts_;
  }
  std::vector<v1::Alert> restored() const {
    base::MutexLock lock(&mutex_);
    return restored_;
  }
  // "rule severity" of what notifiers are to tell.
  std::vector<std::string> news() const {
    base::MutexLock lock(&mutex_);
    return news_;
  }
  std::vector<std::string> deleted() const {
    base::MutexLock lock(&mutex_);
    return deleted_;
  }

 private:
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool parked_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t free_rounds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<uint32_t> connected_ ABSL_GUARDED_BY(mutex_);
  std::vector<model::StepRow> steps_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Alert> alerts_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Alert> restored_ ABSL_GUARDED_BY(mutex_);
  uint64_t rounds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> news_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> gravest_ ABSL_GUARDED_BY(mutex_);  // severity, by alert id
  std::vector<std::string> deleted_ ABSL_GUARDED_BY(mutex_);
};

// What a rank's stream hears; waits with a deadline.
class Ears {
 public:
  ingest::PushStream::AckFn OnAck() {
    return [this](const v1::Ack& ack) {
      base::MutexLock lock(&mutex_);
      acked_ = std::max(acked_, ack.seq());
      duplicates_ += ack.duplicates();
      rejections_.insert(rejections_.end(), ack.rejections().begin(), ack.rejections().end());
      changed_.NotifyAll();
    };
  }
  ingest::PushStream::EndFn OnEnd() {
    return [this](const absl::Status& status) {
      base::MutexLock lock(&mutex_);
      ended_ = status;
      changed_.NotifyAll();
    };
  }
  bool WaitForSeq(uint64_t seq) {
    return Wait([this, seq]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return acked_ >= seq; });
  }
  bool WaitForEnd() {
    return Wait([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !ended_.ok(); });
  }
  uint64_t acked() const {
    base::MutexLock lock(&mutex_);
    return acked_;
  }
  uint64_t duplicates() const {
    base::MutexLock lock(&mutex_);
    return duplicates_;
  }
  std::vector<v1::Rejection> rejections() const {
    base::MutexLock lock(&mutex_);
    return rejections_;
  }
  absl::Status ended() const {
    base::MutexLock lock(&mutex_);
    return ended_;
  }

 private:
  template <typename Condition>
  bool Wait(const Condition& condition) {
    base::MutexLock lock(&mutex_);
    return WaitUntil(&mutex_, &changed_, condition);
  }

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  uint64_t acked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t duplicates_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<v1::Rejection> rejections_ ABSL_GUARDED_BY(mutex_);
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

v1::Hello HelloOf(uint32_t rank, const std::string& launch = "launch-a",
                  const std::string& instance = "", uint32_t world_size = 1) {
  v1::Hello hello;
  hello.set_run("exp-42");
  hello.set_launch_id(launch);
  hello.set_client_instance(instance.empty() ? "process-" + std::to_string(rank) : instance);
  hello.set_rank(rank);
  hello.set_world_size(world_size);
  hello.mutable_coordinates()->set_data(rank);
  return hello;
}

v1::Report LossReport(uint64_t seq, int64_t step, double loss) {
  v1::Report report;
  report.set_seq(seq);
  report.set_step(step);
  report.set_last_of_step(true);
  v1::ScalarBatch* scalars = report.add_summaries()->mutable_scalars();
  scalars->add_ids(1);
  scalars->add_values(loss);
  return report;
}

model::StreamNames Names() {
  model::StreamNames names;
  v1::ScalarDeclaration& loss = names.scalars[1];
  loss.set_id(1);
  loss.set_name("loss");
  loss.set_reduction(v1::REDUCTION_MEAN);
  loss.set_scope(v1::SCOPE_GLOBAL);
  return names;
}

model::SeriesKey SeriesOf(const std::string& indicator) {
  model::SeriesKey key;
  key.indicator = indicator;
  return key;
}

std::string RunLevelRule(const std::string& detector) {
  return "groups:\n  - name: g\n    rules:\n      - {alert: r, " + detector +
         ", labels: {severity: warning}}\n";
}

class PipelineTest : public ::testing::Test {
 protected:
  PipelineTest() : memory_(support::NewMemoryStore()), store_(memory_.get()) {
    absl::StatusOr<std::shared_ptr<const rules::RuleSet>> rules =
        rules::ParseRules("test.yaml", kRules);
    EXPECT_OK(rules);
    if (rules.ok()) rules_ = *rules;
    options_.retry_interval = absl::ZeroDuration();
    Restart();
  }

  void Restart() {
    if (pipeline_ != nullptr) {
      EXPECT_OK(pipeline_->Stop(absl::Seconds(20)));
    }
    listener_ = std::make_unique<RecordingListener>();
    pipeline_ = std::make_unique<Pipeline>(
        options_,
        Pipeline::Deps{
            .store = &store_, .clock = &clock_, .rules = rules_, .listener = listener_.get()});
    ASSERT_OK(pipeline_->Start());
  }

  void UseRules(const std::string& text) {
    ASSERT_OK_AND_ASSIGN(rules_, rules::ParseRules("test.yaml", text));
    Restart();
  }

  // Lets the writer's thread see that so much time has passed.
  void Pass(absl::Duration time) {
    clock_.Advance(time);
    ASSERT_TRUE(listener_->WaitForRound());
  }

  absl::StatusOr<std::unique_ptr<ingest::PushStream>> Open(const v1::Hello& hello, Ears* ears) {
    return pipeline_->Open(hello, ears->OnAck(), ears->OnEnd());
  }

  // (step, value, attempt) of train.loss.
  std::vector<std::tuple<int64_t, double, uint32_t>> Losses(
      std::optional<uint32_t> attempt = std::nullopt) {
    std::vector<std::tuple<int64_t, double, uint32_t>> points;
    EXPECT_OK(store_.Points("exp-42", {SeriesOf("train.loss")}, {.attempt = attempt},
                            [&](size_t, const model::Point& point) {
                              points.emplace_back(point.step, point.value, point.attempt);
                              return true;
                            }));
    return points;
  }

  // Sends losses as rank 0 of a one-rank launch and waits until they are committed.
  void PushLosses(const std::string& launch, int64_t first_step, std::vector<double> losses) {
    Ears ears;
    auto stream = Open(HelloOf(0, launch, "process-" + launch), &ears);
    ASSERT_OK(stream);
    uint64_t seq = (*stream)->hello_ack().last_committed_seq();
    for (double loss : losses) {
      ASSERT_OK((*stream)->Submit(LossReport(++seq, first_step++, loss), Names(), {}));
    }
    ASSERT_TRUE(ears.WaitForSeq(seq));
  }

  std::unique_ptr<store::Store> memory_;
  RefusingStore store_;
  support::FakeClock clock_;
  std::shared_ptr<const rules::RuleSet> rules_;
  Pipeline::Options options_;
  std::unique_ptr<RecordingListener> listener_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineTest, AnAckMeansThatThePointsCanBeRead) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  EXPECT_EQ(stream->hello_ack().attempt(), 1u);
  EXPECT_EQ(stream->hello_ack().last_committed_seq(), 0u);
  ASSERT_OK(stream->Submit(LossReport(1, 7, 2.5), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(1));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(7, 2.5, 1u)));
}

TEST_F(PipelineTest, MergesRanksAndClosesWhenAllHaveSpoken) {
  Ears ears0;
  Ears ears1;
  ASSERT_OK_AND_ASSIGN(auto rank0, Open(HelloOf(0, "a", "", 2), &ears0));
  ASSERT_OK_AND_ASSIGN(auto rank1, Open(HelloOf(1, "a", "", 2), &ears1));
  ASSERT_OK(rank0->Submit(LossReport(1, 0, 2.0), Names(), {}));
  ASSERT_TRUE(ears0.WaitForSeq(1));
  EXPECT_THAT(Losses(), IsEmpty()) << "acknowledged, but the step is open";
  ASSERT_OK(rank1->Submit(LossReport(1, 0, 4.0), Names(), {}));
  ASSERT_TRUE(ears1.WaitForSeq(1));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 3.0, 1u)));
}

TEST_F(PipelineTest, CountsARepeatedReportAndStoresItOnce) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  ASSERT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  ASSERT_OK(stream->Submit(LossReport(1, 0, 9.0), Names(), {}));
  ASSERT_OK(stream->Submit(LossReport(2, 1, 2.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  EXPECT_EQ(ears.duplicates(), 1u);
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 1.0, 1u), std::tuple(1, 2.0, 1u)));
}

TEST_F(PipelineTest, AReconnectLearnsWhatIsCommitted) {
  PushLosses("a", 0, {1, 2, 3});
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0, "a", "process-a"), &ears));
  EXPECT_EQ(stream->hello_ack().attempt(), 1u);
  EXPECT_EQ(stream->hello_ack().last_committed_seq(), 3u);
}

TEST_F(PipelineTest, TheSameProcessMayReplaceItsStreamAnotherMayNot) {
  Ears first;
  Ears second;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &first));
  EXPECT_THAT(Open(HelloOf(0, "launch-a", "impostor"), &second),
              support::StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("rank 0")));
  ASSERT_OK_AND_ASSIGN(auto again, Open(HelloOf(0), &second));
  ASSERT_TRUE(first.WaitForEnd());
  EXPECT_EQ(first.ended().code(), absl::StatusCode::kAborted);
}

TEST_F(PipelineTest, RefusesAHelloThatContradictsItsLaunch) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0, "a", "", 4), &ears));
  EXPECT_THAT(Open(HelloOf(1, "a", "", 8), &ears),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("world_size is 8")));
  v1::Hello moved = HelloOf(0, "a", "", 4);
  moved.mutable_coordinates()->set_tensor(3);
  EXPECT_THAT(Open(moved, &ears), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                    HasSubstr("changed its coordinates")));
}

TEST_F(PipelineTest, ANewLaunchIsANewAttemptAndTheOldOneStaysReadable) {
  PushLosses("a", 0, {1, 2, 3, 4});
  PushLosses("b", 2, {30});
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 1.0, 1u), std::tuple(1, 2.0, 1u),
                                    std::tuple(2, 30.0, 2u), std::tuple(3, 4.0, 1u)));
  EXPECT_THAT(Losses(1u), SizeIs(4));
  ASSERT_OK_AND_ASSIGN(const auto attempts, store_.Attempts("exp-42"));
  ASSERT_THAT(attempts, SizeIs(2));
  EXPECT_EQ(attempts[1].parent(), 1u);
  EXPECT_EQ(attempts[1].first_step(), 2);
}

TEST_F(PipelineTest, ANewLaunchClosesWhatTheOldOneLeftOpen) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto half, Open(HelloOf(0, "a", "", 2), &ears));
  ASSERT_OK(half->Submit(LossReport(1, 0, 5.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(1));
  EXPECT_THAT(Losses(), IsEmpty());
  PushLosses("b", 1, {6});
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 5.0, 1u), std::tuple(1, 6.0, 2u)));
}

TEST_F(PipelineTest, AStepClosesByLatenessAndLateDataStillLands) {
  Ears ears0;
  Ears ears1;
  ASSERT_OK_AND_ASSIGN(auto rank0, Open(HelloOf(0, "a", "", 2), &ears0));
  ASSERT_OK_AND_ASSIGN(auto rank1, Open(HelloOf(1, "a", "", 2), &ears1));
  ASSERT_OK(rank0->Submit(LossReport(1, 0, 2.0), Names(), {}));
  ASSERT_TRUE(ears0.WaitForSeq(1));
  clock_.Advance(absl::Minutes(1));
  ASSERT_OK(rank0->Submit(LossReport(2, 1, 2.0), Names(), {}));
  ASSERT_TRUE(ears0.WaitForSeq(2));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 2.0, 1u), std::tuple(1, 2.0, 1u)));
  ASSERT_OK(rank1->Submit(LossReport(1, 0, 4.0), Names(), {}));
  ASSERT_TRUE(ears1.WaitForSeq(1));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 3.0, 1u), std::tuple(1, 2.0, 1u)));
  EXPECT_EQ(pipeline_->stats().reports_late, 1u);
}

TEST_F(PipelineTest, RefusesAStepThatIsLongClosedWithTheReason) {
  PushLosses("a", 1000, {1});
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0, "a", "process-a"), &ears));
  ASSERT_OK(stream->Submit(LossReport(2, 3, 1.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  ASSERT_THAT(ears.rejections(), SizeIs(1));
  EXPECT_THAT(ears.rejections()[0].reason(), HasSubstr("new launch_id"));
}

TEST_F(PipelineTest, AClockThatIsSetClosesNoStepAndRaisesNoHang) {
  UseRules(RunLevelRule("hang: {at_least: 1m}"));
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto rank0, Open(HelloOf(0, "a", "", 2), &ears));
  ASSERT_OK(rank0->Submit(LossReport(1, 0, 2.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(1));
  for (const absl::Duration jump : {absl::Hours(24), -absl::Hours(48), absl::Hours(24)}) {
    clock_.Jump(jump);
    Pass(absl::Seconds(1));
    Pass(absl::Seconds(1));
  }
  EXPECT_THAT(Losses(), IsEmpty()) << "the other rank was not waited for";
  EXPECT_THAT(listener_->news(), IsEmpty());
  // What really passes is still seen, although the clock was set back.
  clock_.Jump(-absl::Hours(24));
  Pass(absl::Seconds(30));
  ASSERT_OK(rank0->Submit(LossReport(2, 1, 2.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 2.0, 1u), std::tuple(1, 2.0, 1u)));
  Pass(absl::Seconds(1));
  Pass(absl::Minutes(5));
  EXPECT_THAT(listener_->news(), ElementsAre("r warning"));
}

TEST_F(PipelineTest, ARefusingStoreIsTriedAgainAlsoWhenTheClockWasSetBack) {
  options_.retry_interval = absl::Seconds(1);
  Restart();
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  store_.refuse = true;
  ASSERT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (pipeline_->stats().store_writable && absl::Now() < deadline) std::this_thread::yield();
  clock_.Jump(-absl::Hours(24));
  store_.refuse = false;
  Pass(absl::Seconds(2));
  EXPECT_TRUE(ears.WaitForSeq(1));
}

TEST_F(PipelineTest, ARunThatTheMediumHasDamagedDoesNotKeepTheOthersFromStarting) {
  PushLosses("a", 0, {1, 2});
  store_.damaged_run = "exp-42";
  Restart();
  Ears ears;
  EXPECT_THAT(Open(HelloOf(0), &ears),
              support::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("000012.sst")));
  v1::Hello other = HelloOf(0);
  other.set_run("other");
  EXPECT_OK(Open(other, &ears));
}

TEST_F(PipelineTest, NothingIsAcknowledgedWhileTheStoreRefusesAndNothingIsLost) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  store_.refuse = true;
  ASSERT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (pipeline_->stats().store_writable && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_THAT(
      stream->Submit(LossReport(2, 1, 2.0), Names(), {}),
      support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("cannot be written")));
  EXPECT_EQ(ears.acked(), 0u);
  store_.refuse = false;
  ASSERT_TRUE(ears.WaitForSeq(1));
  ASSERT_OK(stream->Submit(LossReport(2, 1, 2.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 1.0, 1u), std::tuple(1, 2.0, 1u)));
}

TEST_F(PipelineTest, ARestartLosesNoOpenStatisticsAndNoMark) {
  v1::Hello hello0 = HelloOf(0, "a", "", 2);
  v1::Hello hello1 = HelloOf(1, "a", "", 2);
  {
    Ears ears;
    ASSERT_OK_AND_ASSIGN(auto rank0, Open(hello0, &ears));
    ASSERT_OK(rank0->Submit(LossReport(1, 0, 2.0), Names(), {}));
    ASSERT_TRUE(ears.WaitForSeq(1));
  }
  Restart();
  Ears ears0;
  Ears ears1;
  ASSERT_OK_AND_ASSIGN(auto rank0, Open(hello0, &ears0));
  EXPECT_EQ(rank0->hello_ack().last_committed_seq(), 1u);
  ASSERT_OK_AND_ASSIGN(auto rank1, Open(hello1, &ears1));
  ASSERT_OK(rank1->Submit(LossReport(1, 0, 4.0), Names(), {}));
  ASSERT_TRUE(ears1.WaitForSeq(1));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 3.0, 1u)));
}

// 950 steps; the rule compares with the first ones, which a restart does not read again.
class RememberedTest : public PipelineTest {
 protected:
  RememberedTest() {
    options_.run.remember_steps = 100;
    UseRules(kAnchored);
    std::vector<double> losses(950, 1.3);
    std::fill_n(losses.begin(), 10, 1.0);
    PushLosses("a", 0, losses);
    store_.first_step_read = std::numeric_limits<int64_t>::max();
  }

  std::optional<std::pair<uint32_t, int64_t>> Remembered() {
    const auto row = store_.Judging("exp-42");
    EXPECT_OK(row);
    if (!row.ok() || !row->has_value()) return std::nullopt;
    return std::pair((*row)->attempt(), (*row)->step());
  }
  // Whether a loss of 1.6 is an alert: it is, against the first ones.
  bool Alerts(int64_t step) {
    PushLosses("a", step, {1.6});
    return !listener_->alerts().empty();
  }

  static constexpr char kAnchored[] = R"(
groups:
  - name: g
    rules:
      - alert: high
        indicator: train.loss
        warm_up: judge
        relative_rise: {above: 1.5}
        baseline: {kind: anchored, samples: 6}
        labels: {severity: warning}
)";
};

TEST_F(RememberedTest, ARestartJudgesOnlyWhatCameAfter) {
  EXPECT_EQ(Remembered(), std::pair(1u, int64_t{899}));
  Restart();
  EXPECT_EQ(store_.first_step_read, 900);
  EXPECT_TRUE(Alerts(950));
}

TEST_F(RememberedTest, OtherRulesJudgeFromTheStart) {
  UseRules(absl::StrReplaceAll(kAnchored, {{"1.5", "1.4"}}));
  EXPECT_EQ(store_.first_step_read, 0);
  EXPECT_TRUE(Alerts(950));
  // It has been a while: what the new ones remember is stored at once.
  EXPECT_EQ(Remembered(), std::pair(1u, int64_t{950}));
}

TEST_F(RememberedTest, RulesThatAreReplacedAreRememberedWithTheNextStep) {
  ASSERT_OK_AND_ASSIGN(
      rules_, rules::ParseRules("test.yaml", absl::StrReplaceAll(kAnchored, {{"1.5", "1.45"}})));
  ASSERT_OK(pipeline_->ReplaceRules(rules_));
  PushLosses("a", 950, {1.3});
  EXPECT_EQ(Remembered(), std::pair(1u, int64_t{950}));
}

// A daemon that is killed behind a reload goes on as one that lives: the changed rule has not seen
// the losses of 1.0, so 1.6 is none.
TEST_F(RememberedTest, ARuleThatWasReloadedBeginsThereAlsoAfterAKill) {
  ASSERT_OK_AND_ASSIGN(
      rules_, rules::ParseRules("test.yaml", absl::StrReplaceAll(kAnchored, {{"1.5", "1.45"}})));
  ASSERT_OK(pipeline_->ReplaceRules(rules_));
  Restart();
  EXPECT_EQ(store_.first_step_read, 900);
  PushLosses("a", 950, std::vector<double>(10, 1.3));
  EXPECT_FALSE(Alerts(960));
  // The note goes with the next memory.
  ASSERT_OK_AND_ASSIGN(const auto attempts, store_.Attempts("exp-42"));
  EXPECT_EQ(attempts.back().rules_replaced(), "");
}

// One rule changed while the daemon was down: it is shown the whole run, and the other goes on.
TEST_F(RememberedTest, ARuleThatIsAddedWhileTheDaemonIsDownIsShownTheWholeRun) {
  const std::string added = absl::StrReplaceAll(kAnchored, {{"alert: high", "alert: higher"}});
  UseRules(absl::StrCat(kAnchored, added.substr(added.find("      - alert"))));
  EXPECT_EQ(store_.first_step_read, 0);
  EXPECT_TRUE(Alerts(950));
  EXPECT_EQ(listener_->alerts().size(), 2u);
  EXPECT_EQ(Remembered(), std::pair(1u, int64_t{950}));
}

TEST_F(RememberedTest, WhatIsDamagedIsDoneWithout) {
  store_.damaged_memory = true;
  Restart();
  EXPECT_EQ(store_.first_step_read, 0);
  EXPECT_TRUE(Alerts(950));
}

TEST_F(RememberedTest, ANewAttemptIsRememberedWhenItBegins) {
  PushLosses("b", 500, std::vector<double>(20, 1.3));
  EXPECT_EQ(Remembered(), std::pair(2u, int64_t{-1}));
  Restart();
  EXPECT_EQ(store_.first_step_read, 500);
  PushLosses("b", 520, std::vector<double>(80, 1.3));
  EXPECT_TRUE(listener_->alerts().empty());
  EXPECT_EQ(Remembered(), std::pair(2u, int64_t{599}));
  PushLosses("b", 600, {1.6});
  EXPECT_FALSE(listener_->alerts().empty());
}

TEST_F(RememberedTest, AlsoWhereTheModelHasAnotherShape) {
  {
    Ears ears;
    v1::Hello hello = HelloOf(0, "b", "process-b");
    hello.mutable_model()->set_layers(48);
    ASSERT_OK_AND_ASSIGN(auto stream, Open(hello, &ears));
    for (int i = 0; i < 150; ++i) {
      ASSERT_OK(
          stream->Submit(LossReport(static_cast<uint64_t>(i) + 1, 950 + i, 1.3), Names(), {}));
    }
    ASSERT_TRUE(ears.WaitForSeq(150));
  }
  Restart();
  EXPECT_EQ(store_.first_step_read, 1050);
}

// A spike is three steps, that the running median of five sees.
TEST_F(RememberedTest, IndicatorsThatLookBackGoOn) {
  std::vector<double> losses(950, 1.0);
  for (const size_t at : {100u, 250u, 400u}) std::fill_n(losses.begin() + at, 3, 1.5);
  PushLosses("b", 0, losses);
  Restart();
  PushLosses("b", 950, {1.0});
  double rate = 0;
  ASSERT_OK(store_.Points("exp-42", {SeriesOf("train.spike_rate")}, {.first = 950},
                          [&](size_t, const model::Point& point) {
                            rate = point.value;
                            return true;
                          }));
  EXPECT_NEAR(rate, 3000.0 / 931, 1e-4);
}

// An event begins to hold with a step, whether the daemon is started anew before or behind it.
TEST_F(RememberedTest, ADeclaredEventHoldsFromItsStepOn) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_DATA_CHANGE);
  event.set_step(970);
  ASSERT_OK(pipeline_->DeclareEvent("exp-42", event));
  PushLosses("a", 950, std::vector<double>(20, 1.3));
  Restart();
  PushLosses("a", 970, std::vector<double>(20, 2.1));  // the new level; against 1.3 an alert
  EXPECT_TRUE(listener_->alerts().empty());
  ASSERT_OK_AND_ASSIGN(const auto events, store_.Events("exp-42"));
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_FALSE(events[0].waits());
  EXPECT_EQ(events[0].in_force_step(), 970);
  store_.damaged_memory = true;  // and so do those who are shown the steps
  Restart();
  PushLosses("a", 990, {2.1});
  EXPECT_TRUE(listener_->alerts().empty());
}

TEST_F(RememberedTest, AnEventThatIsDeclaredAgainIsTheSame) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_DATA_CHANGE);
  event.set_step(950);
  for (const bool restart : {false, true, false}) {  // before, and behind the step
    ASSERT_OK(pipeline_->DeclareEvent("exp-42", event));
    if (restart) Restart();
  }
  PushLosses("a", 950, std::vector<double>(20, 2.1));
  ASSERT_OK(pipeline_->DeclareEvent("exp-42", event));
  PushLosses("a", 970, {3.5});  // against 2.1 an alert: nothing began anew
  EXPECT_THAT(listener_->alerts(), SizeIs(1));
  ASSERT_OK_AND_ASSIGN(const auto events, store_.Events("exp-42"));
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].in_force_step(), 950);
  EXPECT_FALSE(events[0].waits());
}

// Attempt 1 still speaks after attempt 2 has begun.
TEST_F(RememberedTest, ALeftoverOfAnOlderAttemptTakesNoDeclaredEvent) {
  Ears old_ears;
  ASSERT_OK_AND_ASSIGN(auto old_stream, Open(HelloOf(0, "a", "process-a"), &old_ears));
  PushLosses("b", 900, {1.3});
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_DATA_CHANGE);
  event.set_step(905);
  ASSERT_OK(pipeline_->DeclareEvent("exp-42", event));
  const uint64_t seq = old_stream->hello_ack().last_committed_seq() + 1;
  ASSERT_OK(old_stream->Submit(LossReport(seq, 950, 1.3), Names(), {}));
  ASSERT_TRUE(old_ears.WaitForSeq(seq));
  PushLosses("b", 901, std::vector<double>(4, 1.3));
  PushLosses("b", 905, std::vector<double>(20, 2.1));
  EXPECT_TRUE(listener_->alerts().empty());
  ASSERT_OK_AND_ASSIGN(const auto events, store_.Events("exp-42"));
  EXPECT_EQ(events.at(0).in_force_step(), 905);
  EXPECT_EQ(events.at(0).in_force_attempt(), 2u);
}

TEST_F(RememberedTest, OneForAStepThatHasClosedHoldsFromTheNextOn) {
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_DATA_CHANGE);
  event.set_step(899);  // which is remembered
  ASSERT_OK(pipeline_->DeclareEvent("exp-42", event));
  Restart();
  PushLosses("a", 950, std::vector<double>(20, 2.1));
  EXPECT_TRUE(listener_->alerts().empty());
  ASSERT_OK_AND_ASSIGN(const auto events, store_.Events("exp-42"));
  EXPECT_EQ(events.at(0).in_force_step(), 950);
}

TEST_F(RememberedTest, ARunThatEndsIsRememberedToItsLastStep) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0, "a", "process-a"), &ears));
  v1::Goodbye goodbye;
  goodbye.set_outcome(v1::OUTCOME_FINISHED);
  ASSERT_OK(stream->Submit(goodbye));
  stream.reset();
  ASSERT_OK(pipeline_->Flush(absl::Seconds(20)));
  EXPECT_EQ(Remembered(), std::pair(1u, int64_t{949}));
}

TEST_F(PipelineTest, AnAlertIsToldOnceEvenOverARestart) {
  PushLosses("a", 0, {1, 20, 20});
  std::vector<v1::Alert> alerts = listener_->alerts();
  const auto firing = [](const v1::Alert& alert) {
    return alert.state() == v1::ALERT_STATE_FIRING;
  };
  ASSERT_EQ(std::count_if(alerts.begin(), alerts.end(), firing), 1);
  Restart();
  EXPECT_THAT(listener_->restored(), SizeIs(1));
  PushLosses("a", 3, {20, 20});
  alerts = listener_->alerts();
  EXPECT_EQ(std::count_if(alerts.begin(), alerts.end(), firing), 0) << "no second page";
  PushLosses("a", 5, {1, 1});
  alerts = listener_->alerts();
  ASSERT_FALSE(alerts.empty());
  EXPECT_EQ(alerts.back().state(), v1::ALERT_STATE_RESOLVED);
}

TEST_F(PipelineTest, WhatWasToldOfAnAlertAndSaidOfItGoesOnWithItsRow) {
  const auto stored = [this] {
    const auto rows = store_.Alerts("exp-42");
    EXPECT_TRUE(rows.ok() && rows->size() == 1u);
    return rows.ok() && !rows->empty() ? rows->front() : model::AlertRow();
  };
  PushLosses("a", 0, {1, 20, 20});
  model::AlertRow row = stored();
  const std::string id = row.alert().id();
  EXPECT_TRUE(row.undelivered());
  EXPECT_EQ(row.fired_unix_ns(), absl::ToUnixNanos(clock_.Now()));
  EXPECT_EQ(row.ended_unix_ns(), 0);
  const size_t heard = listener_->alerts().size();
  ASSERT_OK(pipeline_->UpdateAlert("exp-42", id, /*tell=*/false, [](model::AlertRow* changed) {
    changed->add_deliveries()->set_notifier("n");
    changed->set_undelivered(false);
  }));
  EXPECT_EQ(listener_->alerts().size(), heard);
  ASSERT_OK(pipeline_->UpdateAlert("exp-42", id, /*tell=*/true, [](model::AlertRow* changed) {
    changed->mutable_alert()->mutable_acknowledgement()->set_by("ada");
  }));
  EXPECT_EQ(listener_->alerts().size(), heard + 1);
  Restart();
  clock_.Advance(absl::Seconds(5));
  PushLosses("a", 3, {1, 1});
  row = stored();
  EXPECT_EQ(row.alert().state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(row.alert().acknowledgement().by(), "ada");
  EXPECT_EQ(row.deliveries_size(), 1);
  EXPECT_TRUE(row.undelivered());  // its end is news
  EXPECT_EQ(row.ended_unix_ns() - row.fired_unix_ns(), 5'000'000'000);
  // It is still at hand until its end was told, and is changed in the store after that.
  for (const bool undelivered : {false, true, false}) {
    ASSERT_OK(pipeline_->UpdateAlert("exp-42", id, false, [&](model::AlertRow* changed) {
      EXPECT_EQ(changed->deliveries_size(), 1);
      changed->set_undelivered(undelivered);
    }));
    EXPECT_EQ(stored().undelivered(), undelivered);
  }
  const auto nothing = [](model::AlertRow*) { FAIL(); };
  EXPECT_THAT(pipeline_->UpdateAlert("exp-42", "nosuch", false, nothing),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("no alert 'nosuch'")));
  EXPECT_FALSE(pipeline_->UpdateAlert("nosuch", id, false, nothing).ok());
  EXPECT_OK(pipeline_->Flush(absl::Seconds(20)));
}

TEST_F(PipelineTest, ARisenSeverityIsToldOnceMoreAndNeverAgain) {
  UseRules(R"(
groups:
  - name: g
    defaults: {labels: {severity: info}, warm_up: judge}
    rules:
      - {alert: high, indicator: train.loss, threshold: {above: 10}}
      - {alert: extreme, indicator: train.loss, threshold: {above: 100}}
signatures:
  - signature: fault
    when: high
    confirmations: [{when: extreme, severity: critical}]
    labels: {severity: warning, fault: x}
)");
  PushLosses("a", 0, {1, 20, 20});
  EXPECT_THAT(listener_->news(), ElementsAre("high info", "fault warning"));
  Restart();  // the stored row says as what it was told
  PushLosses("a", 3, {20, 200, 200});
  EXPECT_THAT(listener_->news(), ElementsAre("extreme info", "fault critical"));
  Restart();
  PushLosses("a", 6, {20, 200});
  EXPECT_THAT(listener_->news(), ElementsAre("extreme info"));  // only that one had ended
}

TEST_F(PipelineTest, ARunThatStandsStillIsNoticedByTheClockAndOnceOverARestart) {
  UseRules(RunLevelRule("hang: {at_least: 1m}"));
  PushLosses("a", 0, {1, 1});
  Pass(absl::Seconds(1));
  Pass(absl::Seconds(30));
  EXPECT_THAT(listener_->alerts(), IsEmpty());
  Pass(absl::Minutes(5));
  ASSERT_THAT(listener_->news(), ElementsAre("r warning"));
  EXPECT_EQ(listener_->alerts()[0].firing_step(), 1);
  Restart();
  Pass(absl::Minutes(5));
  Pass(absl::Minutes(5));
  EXPECT_THAT(listener_->news(), IsEmpty());
  PushLosses("a", 2, {1});
  ASSERT_THAT(listener_->alerts(), SizeIs(1));
  EXPECT_EQ(listener_->alerts()[0].state(), v1::ALERT_STATE_RESOLVED);
  EXPECT_EQ(listener_->alerts()[0].resolved_step(), 2);
}

TEST_F(PipelineTest, ARunThatHasSaidGoodbyeOrWasNotHeardOfDoesNotHang) {
  UseRules(RunLevelRule("hang: {at_least: 1m}"));
  PushLosses("a", 0, {1});
  Restart();  // its ranks do not come back
  Pass(absl::Seconds(1));
  Pass(absl::Hours(1));
  EXPECT_THAT(listener_->alerts(), IsEmpty());
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0, "a", "process-a"), &ears));
  Pass(absl::Seconds(1));
  Pass(absl::Hours(1));
  ASSERT_THAT(listener_->news(), ElementsAre("r warning"));
  v1::Goodbye goodbye;
  goodbye.set_outcome(v1::OUTCOME_FINISHED);
  ASSERT_OK(stream->Submit(goodbye));
  Pass(absl::Seconds(1));
  Pass(absl::Seconds(1));
  ASSERT_THAT(listener_->alerts(), SizeIs(2));
  EXPECT_EQ(listener_->alerts()[1].state(), v1::ALERT_STATE_RESOLVED);
}

TEST_F(PipelineTest, CoverageIsJudgedByThePlansOfTheHellosAlsoAfterARestart) {
  UseRules(RunLevelRule("coverage: {missing_intervals: 3}"));
  v1::Hello hello = HelloOf(0, "a", "process-0", /*world_size=*/2);
  v1::PlanEntry* scalars = hello.add_plan();
  scalars->set_kind(v1::SUMMARY_KIND_SCALARS);
  scalars->set_every_steps(1);
  uint64_t seq = 0;
  const auto push = [&](int steps) {
    Ears ears;
    ASSERT_OK_AND_ASSIGN(auto stream, Open(hello, &ears));
    for (int i = 0; i < steps; ++i, ++seq) {
      ASSERT_OK(stream->Submit(LossReport(seq + 1, static_cast<int64_t>(seq), 1), Names(), {}));
    }
    ASSERT_TRUE(ears.WaitForSeq(seq));
  };
  push(2);
  Pass(absl::Minutes(1));  // rank 1 never comes: nothing waits for it any more
  EXPECT_THAT(listener_->news(), IsEmpty());
  Restart();
  push(1);
  Pass(absl::Minutes(1));
  ASSERT_THAT(listener_->news(), ElementsAre("r warning"));
  EXPECT_EQ(listener_->alerts()[0].firing_step(), 2);
  EXPECT_EQ(listener_->alerts()[0].rank(), 1u);
}

TEST_F(PipelineTest, AttemptsThatCloseNoStepAreCountedAlsoOverARestart) {
  UseRules(RunLevelRule("restarts: {above: 4, in: 100 steps}"));
  PushLosses("a", 0, {1});
  const auto launch = [&](const std::string& id) {
    Ears ears;
    ASSERT_OK(Open(HelloOf(0, id, "process-" + id), &ears).status());
    Pass(absl::Seconds(1));
  };
  for (const char* id : {"b", "c", "d"}) launch(id);
  Restart();
  launch("e");
  EXPECT_THAT(listener_->news(), IsEmpty());
  launch("f");
  EXPECT_THAT(listener_->news(), ElementsAre("r warning"));
  Restart();
  for (const char* id : {"g", "h"}) launch(id);
  EXPECT_THAT(listener_->news(), IsEmpty());
}

TEST_F(PipelineTest, NonFiniteInputIsAFindingNotAPoint) {
  PushLosses("a", 0, {1, std::numeric_limits<double>::quiet_NaN(), 3});
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 1.0, 1u), std::tuple(2, 3.0, 1u)));
}

TEST_F(PipelineTest, RecomputedReportsAreAcknowledgedAndNotUsed) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  v1::Report recomputed = LossReport(1, 0, 9.0);
  recomputed.set_recomputed(true);
  recomputed.set_last_of_step(false);
  ASSERT_OK(stream->Submit(recomputed, Names(), {}));
  ASSERT_OK(stream->Submit(LossReport(2, 0, 1.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 1.0, 1u)));
}

TEST_F(PipelineTest, EvaluationIsKeptApart) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  v1::Report eval = LossReport(1, 0, 50.0);
  eval.set_phase(v1::PHASE_EVAL);
  eval.set_last_of_step(false);
  ASSERT_OK(stream->Submit(eval, Names(), {}));
  ASSERT_OK(stream->Submit(LossReport(2, 0, 1.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 1.0, 1u)));
  EXPECT_THAT(listener_->alerts(), IsEmpty()) << "a loss of 50 would fire";
  std::vector<double> eval_losses;
  ASSERT_OK(store_.Points("exp-42", {SeriesOf("eval.train.loss")}, {},
                          [&](size_t, const model::Point& point) {
                            eval_losses.push_back(point.value);
                            return true;
                          }));
  EXPECT_THAT(eval_losses, ElementsAre(50.0));
}

TEST_F(PipelineTest, GoodbyesEndTheAttempt) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  ASSERT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  v1::Goodbye goodbye;
  goodbye.set_outcome(v1::OUTCOME_FINISHED);
  ASSERT_OK(stream->Submit(goodbye));
  ASSERT_TRUE(ears.WaitForSeq(1));
  stream.reset();
  EXPECT_THAT(pipeline_->DeleteRun("nobody"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody")));
  ASSERT_OK_AND_ASSIGN(const auto attempts, store_.Attempts("exp-42"));
  EXPECT_EQ(attempts[0].state(), v1::RUN_STATE_FINISHED);
}

TEST_F(PipelineTest, DeletesARunOnlyOnceItsRanksAreGone) {
  Ears ears;
  {
    ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
    EXPECT_THAT(pipeline_->DeleteRun("exp-42"),
                support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("connected")));
  }
  PushLosses("launch-a", 0, {1});
  EXPECT_OK(pipeline_->DeleteRun("exp-42"));
  EXPECT_THAT(listener_->deleted(), ElementsAre("exp-42"));
  EXPECT_THAT(store_.Run("exp-42"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("exp-42")));
}

TEST_F(PipelineTest, AStreamThatOutlivesItsDeletedRunDoesNotTouchTheNextOne) {
  PushLosses("launch-a", 0, {1});
  Ears replaced;
  Ears newer;
  ASSERT_OK_AND_ASSIGN(auto old, Open(HelloOf(0, "launch-b"), &replaced));
  ASSERT_OK(Open(HelloOf(0, "launch-b"), &newer));  // and is gone at once
  ASSERT_OK(pipeline_->DeleteRun("exp-42"));

  PushLosses("launch-c", 0, {1});  // the name's attempt 1; `old` spoke for an attempt 2
  ASSERT_OK(old->Submit(LossReport(7, 1, 5), Names(), {}));
  v1::Goodbye goodbye;
  goodbye.set_outcome(v1::OUTCOME_FINISHED);
  ASSERT_OK(old->Submit(goodbye));
  old.reset();
  PushLosses("launch-c", 1, {2});
  EXPECT_THAT(Losses(), ElementsAre(std::tuple(0, 1.0, 1u), std::tuple(1, 2.0, 1u)));
}

TEST_F(PipelineTest, ARankWhoseAdmissionCouldNotBeCommittedIsNotTakenForConnected) {
  Ears ears;
  store_.refuse = true;
  EXPECT_THAT(Open(HelloOf(0, "launch-a", "first"), &ears),
              support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no space left")));
  store_.refuse = false;
  ASSERT_TRUE(listener_->WaitForRound());
  EXPECT_EQ(pipeline_->stats().streams, 0u);
  EXPECT_OK(Open(HelloOf(0, "launch-a", "second"), &ears));
}

TEST_F(PipelineTest, ARunIsNotDeletedWhileSomethingOfItCannotBeCommitted) {
  PushLosses("launch-a", 0, {1});
  ASSERT_TRUE(listener_->WaitForConnected(0));
  store_.refuse = true;
  EXPECT_FALSE(pipeline_->PinRun("exp-42", true).ok());  // stays in the batch
  EXPECT_THAT(pipeline_->DeleteRun("exp-42"),
              support::StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("'exp-42' cannot be deleted")));
  EXPECT_OK(store_.Run("exp-42"));
  store_.refuse = false;
  EXPECT_OK(pipeline_->DeleteRun("exp-42"));
  ASSERT_TRUE(listener_->WaitForRound());
  EXPECT_THAT(store_.Run("exp-42"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("exp-42")));
}

TEST_F(PipelineTest, ARunThatCouldNotBeCommittedStaysInMemory) {
  options_.runs_max = 1;
  Restart();
  Ears ears;
  v1::Hello other = HelloOf(0);
  other.set_run("other");
  store_.refuse = true;
  EXPECT_FALSE(Open(HelloOf(0, "launch-a"), &ears).ok());
  ASSERT_TRUE(listener_->WaitForRound());
  EXPECT_THAT(Open(other, &ears), support::StatusIs(absl::StatusCode::kResourceExhausted,
                                                    HasSubstr("'exp-42' cannot leave memory")));
  EXPECT_FALSE(Open(HelloOf(0, "launch-b"), &ears).ok());
  store_.refuse = false;
  ASSERT_TRUE(listener_->WaitForRound());
  ASSERT_OK_AND_ASSIGN(const auto attempts, store_.Attempts("exp-42"));
  ASSERT_THAT(attempts, SizeIs(2));
  EXPECT_EQ(attempts[0].launch_id(), "launch-a");
  EXPECT_EQ(attempts[1].launch_id(), "launch-b");
  EXPECT_OK(Open(other, &ears));
}

TEST_F(PipelineTest, TheLabelsOfARunAreThoseOfItsNewestLaunchThatHasAny) {
  v1::Hello hello = HelloOf(0, "launch-a");
  (*hello.mutable_labels())["launch"] = "a";
  (*hello.mutable_labels())["team"] = "x";
  Ears ears;
  ASSERT_OK(Open(hello, &ears));
  hello = HelloOf(0, "launch-b");
  (*hello.mutable_labels())["launch"] = "b";
  ASSERT_OK(Open(hello, &ears));
  ASSERT_OK(Open(HelloOf(0, "launch-c"), &ears));
  ASSERT_OK_AND_ASSIGN(const model::RunRow run, store_.Run("exp-42"));
  EXPECT_THAT(run.labels(), ElementsAre(Pair("launch", "b")));
}

TEST_F(PipelineTest, DeclaredEventsAreKept) {
  PushLosses("a", 0, {1});
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_CHECKPOINT_SAVED);
  event.set_step(1);
  event.set_name("ckpt-1");
  ASSERT_OK_AND_ASSIGN(const uint32_t attempt, pipeline_->DeclareEvent("exp-42", event));
  EXPECT_EQ(attempt, 1u);
  ASSERT_OK_AND_ASSIGN(const auto events, store_.Events("exp-42"));
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].event().name(), "ckpt-1");
}

TEST_F(PipelineTest, AFullQueueRefusesReportsButNotTheEndOfAStream) {
  options_.queue_items_max = 1;
  Restart();
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  ASSERT_TRUE(listener_->WaitForConnected(1));
  listener_->Hold();
  EXPECT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  EXPECT_THAT(stream->Submit(LossReport(2, 1, 1.0), Names(), {}),
              support::StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("holds 1 items")));
  stream.reset();
  listener_->Release();
  EXPECT_TRUE(listener_->WaitForConnected(0));
}

TEST_F(PipelineTest, AFullQueueDoesNotKeepADrainFromTheStreams) {
  options_.queue_items_max = 1;
  Restart();
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  listener_->Hold();
  EXPECT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  pipeline_->Drain();
  listener_->Release();
  EXPECT_TRUE(ears.WaitForEnd());
  EXPECT_EQ(ears.acked(), 1u);
}

TEST_F(PipelineTest, DrainingEndsStreamsAfterTheirAcks) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  ASSERT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  pipeline_->Drain();
  ASSERT_TRUE(ears.WaitForEnd());
  EXPECT_EQ(ears.acked(), 1u);
  EXPECT_EQ(ears.ended().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(stream->Submit(LossReport(2, 1, 1.0), Names(), {}),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
  EXPECT_THAT(Open(HelloOf(1), &ears),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
}

// A disk that does not answer: the deadline holds, and what was not committed is not acknowledged.
TEST_F(PipelineTest, AStopKeepsItsDeadlineWhenTheStoreHangs) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  store_.Hang(RefusingStore::Hanging::kWrites);
  ASSERT_OK(stream->Submit(LossReport(1, 0, 1.0), Names(), {}));
  const absl::Time started = base::SteadyNow();
  EXPECT_THAT(pipeline_->Flush(absl::Milliseconds(50)),
              support::StatusIs(absl::StatusCode::kDeadlineExceeded,
                                HasSubstr("not committed after 50ms")));
  EXPECT_THAT(pipeline_->Stop(absl::Milliseconds(50)),
              support::StatusIs(absl::StatusCode::kDeadlineExceeded,
                                HasSubstr("not committed after 50ms")));
  EXPECT_LT(base::SteadyNow() - started, absl::Seconds(10)) << "it would have waited for ever";
  EXPECT_EQ(ears.acked(), 0u);
  // When it answers after all, a later stop ends well.
  store_.Hang(RefusingStore::Hanging::kNothing);
  EXPECT_OK(pipeline_->Stop(absl::Seconds(20)));
  EXPECT_EQ(ears.acked(), 1u);
}

TEST_F(PipelineTest, AStopKeepsItsDeadlineWhenTheMediumDoesNotTakeTheLog) {
  store_.Hang(RefusingStore::Hanging::kSyncs);
  PushLosses("a", 0, {1});
  EXPECT_THAT(
      pipeline_->Stop(absl::Milliseconds(200)),
      support::StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("everything is committed")));
  store_.Hang(RefusingStore::Hanging::kNothing);
  EXPECT_OK(pipeline_->Stop(absl::Seconds(20)));
}

// One run has a backlog; a report of another one comes in behind it.
TEST_F(PipelineTest, AnAckDoesNotWaitForAnotherRunsBacklog) {
  constexpr uint64_t kBacklog = 200;
  options_.round_items_max = 10;
  Restart();
  Ears late_ears;
  Ears other_ears;
  ASSERT_OK_AND_ASSIGN(auto late, Open(HelloOf(0), &late_ears));
  v1::Hello hello = HelloOf(0);
  hello.set_run("other");
  ASSERT_OK_AND_ASSIGN(auto other, Open(hello, &other_ears));
  listener_->Hold();
  for (uint64_t seq = 1; seq <= kBacklog; ++seq) {
    ASSERT_OK(late->Submit(LossReport(seq, static_cast<int64_t>(seq), 1.0), Names(), {}));
  }
  ASSERT_OK(other->Submit(LossReport(1, 1, 1.0), Names(), {}));
  listener_->ReleaseFor(/*rounds=*/1);
  EXPECT_EQ(other_ears.acked(), 1u);
  EXPECT_LT(late_ears.acked(), 10u);
  listener_->Release();
  EXPECT_TRUE(late_ears.WaitForSeq(kBacklog));
}

// A goodbye makes many steps due at once; they close in several rounds, each of them committed.
TEST_F(PipelineTest, ARoundIsBoundedInPoints) {
  options_.round_points_max = 8;
  Restart();
  Ears ears0;
  Ears ears1;
  ASSERT_OK_AND_ASSIGN(auto rank0, Open(HelloOf(0, "a", "", 2), &ears0));
  ASSERT_OK_AND_ASSIGN(auto rank1, Open(HelloOf(1, "a", "", 2), &ears1));
  for (int64_t step = 0; step < 100; ++step) {
    ASSERT_OK(rank0->Submit(LossReport(static_cast<uint64_t>(step) + 1, step, 1.0), Names(), {}));
  }
  ASSERT_TRUE(ears0.WaitForSeq(100));
  ASSERT_THAT(Losses(), IsEmpty());
  listener_->Hold();
  v1::Goodbye goodbye;
  goodbye.set_outcome(v1::OUTCOME_FINISHED);
  ASSERT_OK(rank1->Submit(goodbye));
  listener_->ReleaseFor(/*rounds=*/1);
  const size_t closed = Losses().size();
  EXPECT_GE(closed, 1u);
  EXPECT_LE(closed, 8u);
  listener_->Release();
  ASSERT_OK(pipeline_->Stop(absl::Seconds(20)));
  EXPECT_THAT(Losses(), SizeIs(100));
}

// One rank of four sends a step that is nonsense; the run goes on, and the rank is told.
TEST_F(PipelineTest, AWildStepOfOneRankIsThatRanksErrorAndNotTheRunsClock) {
  constexpr uint32_t kWorld = 4;
  std::vector<Ears> ears(kWorld);
  std::vector<std::unique_ptr<ingest::PushStream>> ranks;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(rank, "a", "", kWorld), &ears[rank]));
    ranks.push_back(std::move(stream));
  }
  std::vector<uint64_t> seq(kWorld, 0);
  const auto push = [&](int64_t step) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      ASSERT_OK(ranks[rank]->Submit(LossReport(++seq[rank], step, 1.0), Names(), {}));
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) ASSERT_TRUE(ears[rank].WaitForSeq(seq[rank]));
  };
  for (int64_t step = 0; step < 5; ++step) push(step);
  ASSERT_OK(ranks[3]->Submit(LossReport(++seq[3], (int64_t{1} << 53) - 1, 9.0), Names(), {}));
  ASSERT_TRUE(ears[3].WaitForSeq(seq[3]));
  Pass(absl::Minutes(2));
  Pass(absl::Minutes(2));
  for (int64_t step = 5; step < 10; ++step) push(step);
  EXPECT_THAT(Losses(), SizeIs(10));
  ASSERT_OK_AND_ASSIGN(const auto attempts, store_.Attempts("exp-42"));
  EXPECT_EQ(attempts[0].last_step(), 9);
  ASSERT_THAT(ears[3].rejections(), SizeIs(1));
  EXPECT_THAT(
      ears[3].rejections()[0].reason(),
      AllOf(HasSubstr("step 9007199254740991 is too far ahead of the run, which is at step 4"),
            HasSubstr("steps up to 10004 are taken (merge.steps_ahead_max)")));
  for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_THAT(ears[rank].rejections(), IsEmpty());
  EXPECT_EQ(pipeline_->stats().reports_too_far, 1u);
  // A restart goes on as well.
  ranks.clear();
  Restart();
  PushLosses("b", 10, {1.0});
  ASSERT_OK_AND_ASSIGN(const auto all, store_.Attempts("exp-42"));
  EXPECT_EQ(all[1].last_step(), 10);
}

TEST_F(PipelineTest, ADeclaredEventLetsTheRunJump) {
  PushLosses("a", 0, {1});
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0, "a", "process-a"), &ears));
  ASSERT_OK(stream->Submit(LossReport(2, 500'000, 1.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  EXPECT_THAT(ears.rejections(), SizeIs(1));
  v1::Event event;
  event.set_kind(v1::EVENT_KIND_NOTE);
  event.set_step(500'000);
  ASSERT_OK(pipeline_->DeclareEvent("exp-42", event));
  ASSERT_OK(stream->Submit(LossReport(3, 500'001, 1.0), Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(3));
  EXPECT_THAT(Losses(), SizeIs(2));
}

TEST_F(PipelineTest, AClockThatIsADayAheadIsNotTheTimeOfTheStep) {
  Ears ears;
  ASSERT_OK_AND_ASSIGN(auto stream, Open(HelloOf(0), &ears));
  v1::Report report = LossReport(1, 0, 1.0);
  report.set_time_unix_ns(absl::ToUnixNanos(clock_.Now() + absl::Hours(23)));
  ASSERT_OK(stream->Submit(report, Names(), {}));
  report = LossReport(2, 1, 1.0);
  report.set_time_unix_ns(absl::ToUnixNanos(clock_.Now() + absl::Hours(25)));
  ASSERT_OK(stream->Submit(report, Names(), {}));
  ASSERT_TRUE(ears.WaitForSeq(2));
  std::vector<int64_t> times;
  ASSERT_OK(store_.Steps("exp-42", {}, [&](const model::StepRow& row) {
    times.push_back(row.time_unix_ns);
    return true;
  }));
  EXPECT_THAT(times, ElementsAre(absl::ToUnixNanos(clock_.Now() + absl::Hours(23)), 0));
  EXPECT_EQ(pipeline_->stats().reports_clock_ahead, 1u);
}

// A rank of a run of two never closes its step and sends ever more; a small run beside it goes on.
TEST_F(PipelineTest, OneRunCannotHoldAllOpenStatistics) {
  options_.open_bytes_max = 200'000;
  Restart();
  Ears greedy_ears;
  Ears small_ears;
  v1::Hello hello = HelloOf(0, "a", "", 2);
  hello.set_run("greedy");
  ASSERT_OK_AND_ASSIGN(auto greedy, Open(hello, &greedy_ears));
  ASSERT_OK_AND_ASSIGN(auto small, Open(HelloOf(0, "a", "", 2), &small_ears));
  constexpr uint64_t kReports = 500;
  for (uint64_t seq = 1; seq <= kReports; ++seq) {
    v1::Report report;
    report.set_seq(seq);
    report.set_step(1);
    v1::Event* event = report.add_summaries()->mutable_event();
    event->set_kind(v1::EVENT_KIND_NOTE);
    event->set_name(absl::StrCat(seq));
    event->set_detail(std::string(1000, 'x'));
    ASSERT_OK(greedy->Submit(report, Names(), {}));
  }
  ASSERT_TRUE(greedy_ears.WaitForSeq(kReports));
  EXPECT_LT(pipeline_->stats().open_bytes, 250'000u);
  ASSERT_FALSE(greedy_ears.rejections().empty());
  EXPECT_THAT(greedy_ears.rejections()[0].reason(), HasSubstr("merge.all_bytes_max"));
  ASSERT_OK(small->Submit(LossReport(1, 0, 1.0), Names(), {}));
  ASSERT_TRUE(small_ears.WaitForSeq(1));
  EXPECT_THAT(small_ears.rejections(), IsEmpty());
}

}  // namespace
}  // namespace foreshock::pipeline
