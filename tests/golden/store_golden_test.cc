// The bytes of format 2: what known batches become, and that a store of these bytes reads back.
// docs/formats/store.md explains the rows one by one.
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/store/damage.h"
#include "daemon/store/database.h"
#include "daemon/store/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::golden {
namespace {

using ::testing::ElementsAre;

const model::SeriesKey kLoss{"train.loss", model::kNoLayer, model::Unit::kNone, 0, ""};
const model::SeriesKey kHead{"attn.delta2.entropy", 3, model::Unit::kHead, 7, ""};
const model::SeriesKey kTensor{"tensor.nonfinite", 2, model::Unit::kTensor, 0, "grad/wq"};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The rows of a store, in the form of Dump.
std::string Golden() {
  return ReadFile(absl::StrCat(FORESHOCK_SOURCE_DIR, "/tests/data/golden/store/format_2.txt"));
}

model::JudgingRow KnownJudging() {
  model::JudgingRow judging;
  judging.set_attempt(1);
  judging.set_step(1200);
  judging.set_memory("memory");
  return judging;
}

store::StoreBatch KnownBatch() {
  store::StoreBatch batch;
  model::RunRow& run = batch.runs.emplace_back();
  run.set_name("exp-42");
  run.set_created_unix_ns(1'800'000'000'000'000'000);
  model::AttemptRow attempt;
  attempt.set_number(1);
  attempt.set_launch_id("launch");
  attempt.set_first_step(0);
  attempt.set_last_step(1200);
  batch.attempts.push_back({"exp-42", attempt});
  model::RankRow rank;
  rank.set_rank(5);
  rank.set_client_instance("c1");
  rank.set_committed_seq(1201);
  batch.ranks.push_back({"exp-42", 1, rank});
  model::ShardReport report;
  report.set_rank(5);
  report.set_client_instance("c1");
  report.set_seq(1202);
  report.set_step(1201);
  batch.reports.push_back({"exp-42", 1, report});

  model::ClosedStep step;
  step.run = "exp-42";
  step.row = {1, 1200, 1'800'000'060'000'000'000, 4'194'304, 8, false, true, false};
  step.samples = {{kLoss, 2.5, 0},
                  {kHead, 1e300, model::kFlagPartial},
                  {kTensor, 3, model::kFlagEval | model::kFlagSampled}};
  batch.steps.push_back(step);
  model::AlertRow alert;
  alert.mutable_alert()->set_id("a1");
  alert.set_undelivered(true);
  batch.alerts.push_back({"exp-42", alert});
  model::EventRow event;
  event.set_attempt(1);
  event.mutable_event()->set_kind(v1::EVENT_KIND_CHECKPOINT_SAVED);
  event.mutable_event()->set_step(1000);
  event.mutable_event()->set_name("ckpt");
  batch.events.push_back({"exp-42", event});
  model::CoactivationRow coactivation;
  coactivation.set_layer(3);
  coactivation.set_tokens(64);
  batch.coactivation.push_back({"exp-42", 1, coactivation});
  batch.judging.push_back({"exp-42", KnownJudging()});
  batch.silences.emplace().add_silences()->set_id("s1");
  return batch;
}

// A step that is closed and not folded.
store::StoreBatch OpenBatch() {
  store::StoreBatch batch;
  model::ClosedStep step;
  step.run = "exp-42";
  step.row = {1, 1199, 1'800'000'059'000'000'000, 4'194'304, 8, false, false, true};
  step.samples = {{kLoss, 2.25, model::kFlagLate}, {kHead, 0.5, 0}};
  batch.steps.push_back(step);
  return batch;
}

absl::StatusOr<std::unique_ptr<store::Database>> OpenDatabase(const store::StoreOptions& options) {
  return store::Database::Open(options, nullptr, std::make_shared<store::DamageWatch>());
}

// "family key value" in hex, one row a line, in the order of the store.
std::string Dump(const store::StoreOptions& options) {
  const auto database = OpenDatabase(options);
  EXPECT_OK(database);
  if (!database.ok()) return "";
  std::string text;
  for (const store::Family family : store::kAllFamilies) {
    const std::unique_ptr<rocksdb::Iterator> it(
        (*database)->db()->NewIterator({}, (*database)->family(family)));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      absl::StrAppend(&text, store::FamilyName(family), " ",
                      absl::BytesToHexString(it->key().ToString()), " ",
                      absl::BytesToHexString(it->value().ToString()), "\n");
    }
  }
  return text;
}

// Makes a store of these rows.
void PutRows(const std::string& rows, const store::StoreOptions& options) {
  ASSERT_OK_AND_ASSIGN(const auto database, OpenDatabase(options));
  for (const absl::string_view line : absl::StrSplit(rows, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    ASSERT_EQ(parts.size(), 3u) << line;
    for (const store::Family family : store::kAllFamilies) {
      if (store::FamilyName(family) != parts[0]) continue;
      ASSERT_TRUE(database->db()
                      ->Put({}, database->family(family), absl::HexStringToBytes(parts[1]),
                            absl::HexStringToBytes(parts[2]))
                      .ok());
    }
  }
}

// The store answers with what the batches say.
void ExpectKnownBatches(const store::Store& store) {
  const store::StoreBatch expected = KnownBatch();
  const store::StoreBatch open_batch = OpenBatch();
  const auto equals = [](const auto& row) { return row.SerializeAsString(); };
  ASSERT_OK_AND_ASSIGN(const auto run, store.Run("exp-42"));
  EXPECT_EQ(equals(run), equals(expected.runs[0]));
  ASSERT_OK_AND_ASSIGN(const auto attempts, store.Attempts("exp-42"));
  ASSERT_EQ(attempts.size(), 1u);
  EXPECT_EQ(equals(attempts[0]), equals(expected.attempts[0].row));
  ASSERT_OK_AND_ASSIGN(const auto ranks, store.Ranks("exp-42", 1));
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(equals(ranks[0]), equals(expected.ranks[0].row));
  ASSERT_OK_AND_ASSIGN(const auto alerts, store.Alerts("exp-42"));
  ASSERT_EQ(alerts.size(), 1u);
  EXPECT_EQ(equals(alerts[0]), equals(expected.alerts[0].row));
  ASSERT_OK_AND_ASSIGN(const auto events, store.Events("exp-42"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(equals(events[0]), equals(expected.events[0].row));
  ASSERT_OK_AND_ASSIGN(const auto coactivation, store.Coactivation("exp-42", 1));
  ASSERT_EQ(coactivation.size(), 1u);
  EXPECT_EQ(equals(coactivation[0]), equals(expected.coactivation[0].row));

  std::vector<model::StepRow> steps;
  ASSERT_OK(store.Steps("exp-42", {}, [&steps](const model::StepRow& step) {
    steps.push_back(step);
    return true;
  }));
  EXPECT_THAT(steps, ElementsAre(open_batch.steps[0].row, expected.steps[0].row));
  for (const model::Sample& sample : expected.steps[0].samples) {
    std::vector<model::Point> points;
    ASSERT_OK(
        store.Points("exp-42", {sample.series}, {}, [&points](size_t, const model::Point& point) {
          points.push_back(point);
          return true;
        }));
    std::vector<model::Point> expected_points;
    for (const model::Sample& open : open_batch.steps[0].samples) {
      if (!(open.series == sample.series)) continue;
      expected_points.push_back({1, 1199, open.value, open.flags});
    }
    expected_points.push_back({1, 1200, sample.value, sample.flags});
    EXPECT_EQ(points, expected_points) << sample.series.indicator;
  }
  std::vector<std::string> reports;
  ASSERT_OK(store.OpenReports("exp-42", 1, [&](const model::ShardReport& report) {
    reports.push_back(equals(report));
    return true;
  }));
  EXPECT_THAT(reports, ElementsAre(equals(expected.reports[0].row)));
  ASSERT_OK_AND_ASSIGN(const auto silences, store.Silences());
  EXPECT_EQ(equals(silences), equals(*expected.silences));
  ASSERT_OK_AND_ASSIGN(const auto judging, store.Judging("exp-42"));
  ASSERT_TRUE(judging.has_value());
  EXPECT_EQ(equals(*judging), equals(KnownJudging()));
}

TEST(StoreGoldenTest, KnownBatchesBecomeTheseBytes) {
  support::TempDir directory;
  const store::StoreOptions options{.directory = directory.File("data")};
  {
    // One row more before the opening: heads are numbered from RocksDB's sequence number on.
    store::StoreBatch run;
    run.runs = KnownBatch().runs;
    ASSERT_OK_AND_ASSIGN(const auto store, store::OpenStore(options));
    ASSERT_OK(store->Write(run));
  }
  {
    ASSERT_OK_AND_ASSIGN(const auto store, store::OpenStore(options));
    ASSERT_OK(store->Write(KnownBatch()));
    ASSERT_OK(store->Fold("exp-42"));
    ASSERT_OK(store->Write(OpenBatch()));
  }
  EXPECT_EQ(Dump(options), Golden());
}

TEST(StoreGoldenTest, TheseBytesReadBackAsTheBatches) {
  support::TempDir directory;
  const store::StoreOptions options{.directory = directory.File("data")};
  ASSERT_NO_FATAL_FAILURE(PutRows(Golden(), options));
  ASSERT_OK_AND_ASSIGN(const auto store, store::OpenStore(options));
  ExpectKnownBatches(*store);
}

}  // namespace
}  // namespace foreshock::golden
