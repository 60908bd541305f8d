// Random batches into both stores, with reopens in between: every read answers the same.
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/memory_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::property {
namespace {

constexpr int kBatches = 300;
constexpr const char* kRuns[] = {"a", "ab", "b"};
constexpr uint32_t kAttemptsMax = 3;
constexpr int64_t kStepsMax = 12;

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  uint32_t Below(uint32_t bound) { return random_() % bound; }
  std::string Run() { return kRuns[Below(3)]; }
  uint32_t Attempt() { return 1 + Below(kAttemptsMax); }
  int64_t Step() { return Below(kStepsMax); }

  model::SeriesKey Series() {
    switch (Below(3)) {
      case 0:
        return {"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""};
      case 1:
        return {"attn.delta2.entropy", static_cast<int32_t>(Below(2)), model::Unit::kHead, Below(3),
                ""};
      default:
        return {"tensor.nonfinite", model::kNoLayer, model::Unit::kTensor, 0,
                Below(2) == 0 ? "w" : "wq"};
    }
  }

  double Value() {
    constexpr double kValues[] = {0, -0.0, 1, -7, 0.1, 1e-40, 1e300, 16777217, 9007199254740991};
    return kValues[Below(std::size(kValues))];
  }

  store::StoreBatch Batch() {
    store::StoreBatch batch;
    for (uint32_t parts = 1 + Below(4); parts > 0; --parts) AddPart(&batch);
    return batch;
  }

 private:
  void AddPart(store::StoreBatch* batch) {
    const std::string run = Run();
    switch (Below(10)) {
      case 0: {
        auto& row = batch->runs.emplace_back();
        row.set_name(run);
        row.set_created_unix_ns(Below(100));
        break;
      }
      case 1: {
        model::AttemptRow row;
        row.set_number(Attempt());
        if (Below(4) != 0) {
          row.set_first_step(Step());
          row.set_last_step(row.first_step() + Step());
        }
        batch->attempts.push_back({run, row});
        break;
      }
      case 2: {
        model::RankRow row;
        row.set_rank(Below(3));
        row.set_client_instance(Below(2) == 0 ? "x" : "xy");
        row.set_committed_seq(Below(100));
        batch->ranks.push_back({run, Attempt(), row});
        break;
      }
      case 3: {
        model::ShardReport row;
        row.set_rank(Below(2));
        row.set_step(Step());
        row.set_seq(Below(3));
        row.set_time_unix_ns(Below(100));
        batch->reports.push_back({run, Attempt(), row});
        break;
      }
      case 4:
        batch->settled_steps.push_back({run, Attempt(), Step()});
        break;
      case 5: {
        model::AlertRow row;
        row.mutable_alert()->set_id(absl::StrCat(Below(4)));
        row.set_state(absl::StrCat(Below(100)));
        batch->alerts.push_back({run, row});
        break;
      }
      case 6: {
        model::EventRow row;
        row.set_attempt(Attempt());
        row.mutable_event()->set_step(Step());
        row.mutable_event()->set_kind(static_cast<v1::EventKind>(1 + Below(3)));
        row.mutable_event()->set_name(Below(2) == 0 ? "" : "n");
        row.set_time_unix_ns(Below(100));
        batch->events.push_back({run, row});
        break;
      }
      case 7: {
        model::JudgingRow row;
        row.set_attempt(Attempt());
        row.set_step(Step());
        row.set_memory(absl::StrCat(Below(100)));
        batch->judging.push_back({run, row});
        break;
      }
      default: {
        model::ClosedStep step;
        step.run = run;
        step.row.attempt = Attempt();
        step.row.step = Step();
        step.row.tokens = Below(1000);
        step.row.late = Below(2) == 0;
        for (uint32_t i = Below(4); i > 0; --i) {
          step.samples.push_back({Series(), Value(), Below(256)});
        }
        batch->steps.push_back(step);
      }
    }
  }

  std::mt19937 random_;
};

template <typename Row>
void AppendRows(const absl::StatusOr<std::vector<Row>>& rows, std::string* out) {
  if (!rows.ok()) {
    absl::StrAppend(out, rows.status().ToString(), "\n");
    return;
  }
  for (const Row& row : *rows) absl::StrAppend(out, row.ShortDebugString(), "\n");
}

// Everything a store answers about a run, as text.
std::string Describe(const store::Store& store, const std::string& run) {
  std::string out;
  AppendRows(store.Runs(), &out);
  AppendRows(store.Attempts(run), &out);
  AppendRows(store.Alerts(run), &out);
  AppendRows(store.Events(run), &out);
  const auto judging = store.Judging(run);
  const bool has_judging = judging.ok() && judging->has_value();
  absl::StrAppend(&out, "judging ", judging.status().ToString(), " ",
                  has_judging ? (*judging)->ShortDebugString() : "", "\n");
  const store::StepRange ranges[] = {
      {}, {.first = 3, .last = 9}, {.attempt = 1}, {.first = 5, .attempt = 2}};
  for (const store::StepRange& range : ranges) {
    const absl::Status status = store.Steps(run, range, [&out](const model::StepRow& row) {
      absl::StrAppend(&out, "step ", row.attempt, "/", row.step, " ", row.tokens, row.late, "\n");
      return true;
    });
    absl::StrAppend(&out, status.ToString(), "\n");
  }
  for (uint32_t attempt = 1; attempt <= kAttemptsMax; ++attempt) {
    AppendRows(store.Ranks(run, attempt), &out);
    const absl::Status status =
        store.OpenReports(run, attempt, [&out](const model::ShardReport& report) {
          absl::StrAppend(&out, report.ShortDebugString(), "\n");
          return true;
        });
    absl::StrAppend(&out, status.ToString(), "\n");
  }
  const auto series = store.Series(run, {});
  if (!series.ok()) return absl::StrCat(out, series.status().ToString());
  for (const model::SeriesKey& key : *series) {
    absl::StrAppend(&out, key.indicator, " ", key.layer, " ", key.unit_id, key.unit_name, "\n");
    for (const store::StepRange& range : ranges) {
      const absl::Status status =
          store.Points(run, {key}, range, [&out](size_t, const model::Point& point) {
            absl::StrAppend(&out, point.attempt, "/", point.step, " ", point.value, " ",
                            point.flags, "\n");
            return true;
          });
      absl::StrAppend(&out, status.ToString(), "\n");
    }
  }
  return out;
}

TEST(StorePropertyTest, BothStoresAnswerTheSameAfterAnyBatches) {
  const char* given = std::getenv("FORESHOCK_TEST_SEED");
  unsigned seed = 0;
  if (given == nullptr || !absl::SimpleAtoi(given, &seed)) seed = std::random_device()();
  std::printf("seed %u (repeat with FORESHOCK_TEST_SEED)\n", seed);
  Generator generator(seed);
  support::TempDir directory;
  const store::StoreOptions options{.directory = directory.File("data"),
                                    .write_buffer_bytes = 64 << 10};
  ASSERT_OK_AND_ASSIGN(auto rocks, store::OpenStore(options));
  const auto memory = support::NewMemoryStore();
  for (int i = 0; i < kBatches; ++i) {
    SCOPED_TRACE(absl::StrCat("seed ", seed, " batch ", i));
    const store::StoreBatch batch = generator.Batch();
    ASSERT_OK(rocks->Write(batch));
    ASSERT_OK(memory->Write(batch));
    if (generator.Below(60) == 0) {
      const std::string run = generator.Run();
      const auto expected = memory->DeleteRun(run);
      const auto deleted = rocks->DeleteRun(run);
      ASSERT_EQ(deleted.status(), expected.status());
      if (expected.ok()) {
        EXPECT_EQ(*deleted, *expected);
      }
    }
    if (generator.Below(20) == 0) {
      const std::string run = generator.Run();
      EXPECT_EQ(rocks->Fold(run), memory->Fold(run));
    }
    if (generator.Below(40) == 0) {
      rocks.reset();
      ASSERT_OK_AND_ASSIGN(rocks, store::OpenStore(options));
    }
    EXPECT_EQ(rocks->Stats().series, memory->Stats().series);
    if (i % 10 != 0 && i != kBatches - 1) continue;
    for (const char* run : kRuns) ASSERT_EQ(Describe(*rocks, run), Describe(*memory, run));
  }
}

}  // namespace
}  // namespace foreshock::property
