// The store's side of store_peers.py: recorded runs as points, and the store fed with points.
//
//   store_feed points OUT CAPTURE...        replays captures by the daemon's own code into OUT
//   store_feed append STORE POINTS [sync | kill | declared]
//                                           writes them, a batch per run and step, then folds;
//                                           sync: each batch is forced to the medium;
//                                           kill: dies by SIGKILL after the last batch instead;
//                                           declared: values keep what their indicator promises
//   store_feed compact STORE                as RocksDB would have it in the end, all in tables
//   store_feed scan STORE                   reads every point once
//   store_feed plot STORE STEPS             opens, reads series 0 of the first run in buckets
//   store_feed check STORE POINTS           counts points that are missing or not as written
//
// POINTS is a folder: series.tsv (run, attempt, indicator, layer, unit, unit id, unit name; the
// line is the series' number) and points.bin (Record, sorted by step). Each verb prints one line of
// JSON. Seconds: `wall` and `cpu` (of the process, background threads included) are those of the
// store alone, without making the batches.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "daemon/backtest/capture_steps.h"
#include "daemon/base/check.h"
#include "daemon/store/store.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/options_util.h"

namespace foreshock::bench {
namespace {

constexpr int kRounds = 5;  // repetitions of a short read
constexpr int64_t kSecond = 1'000'000'000;

static_assert(std::endian::native == std::endian::little);
#pragma pack(push, 1)
struct Record {
  int64_t step = 0;
  uint32_t series = 0;
  float value = 0;
  uint32_t flags = 0;
};
#pragma pack(pop)
static_assert(sizeof(Record) == 20);

struct FedSeries {
  std::string run;
  uint32_t attempt = 0;
  model::SeriesKey key;
};

double CpuSeconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / kSecond;
}

// Wall and CPU seconds of the process since it was made.
class Stopwatch {
 public:
  void Stop() {
    wall = absl::ToDoubleSeconds(absl::Now() - wall_begun_);
    cpu = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun_;
  }
  double wall = 0;
  double cpu = 0;

 private:
  const absl::Time wall_begun_ = absl::Now();
  const double cpu_begun_ = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
};

void Print(const std::vector<std::pair<std::string, double>>& fields) {
  std::vector<std::string> items;
  for (const auto& [name, value] : fields) {
    char text[64];
    std::snprintf(text, sizeof(text), "\"%s\": %.9g", name.c_str(), value);
    items.push_back(text);
  }
  std::printf("{%s}\n", absl::StrJoin(items, ", ").c_str());
  std::fflush(stdout);
}

std::vector<FedSeries> ReadSeries(const std::string& folder) {
  std::vector<FedSeries> series;
  std::ifstream file(folder + "/series.tsv");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, '\t');
    FORESHOCK_CHECK(cells.size() == 7);
    FedSeries& one = series.emplace_back();
    int unit = 0;
    one.run = cells[0];
    one.key.indicator = cells[2];
    one.key.unit_name = cells[6];
    FORESHOCK_CHECK(
        absl::SimpleAtoi(cells[1], &one.attempt) && absl::SimpleAtoi(cells[3], &one.key.layer) &&
        absl::SimpleAtoi(cells[4], &unit) && absl::SimpleAtoi(cells[5], &one.key.unit_id));
    one.key.unit = static_cast<model::Unit>(unit);
  }
  return series;
}

std::vector<Record> ReadRecords(const std::string& folder) {
  const std::string path = folder + "/points.bin";
  std::vector<Record> records(std::filesystem::file_size(path) / sizeof(Record));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(records.data()),
            static_cast<std::streamsize>(records.size() * sizeof(Record)));
  FORESHOCK_CHECK(file.good());
  return records;
}

// Numbers the series and keeps the points of captures.
class Collect final : public backtest::StepSink {
 public:
  void BeginAttempt(const std::string& run, const v1::ModelShape&,
                    const rules::AttemptStart& attempt) override {
    run_ = run;
    attempt_ = attempt.number;
  }
  void OnStep(const model::ClosedStep& step) override {
    for (const model::Sample& sample : step.samples) {
      const auto [it, added] = numbers_.try_emplace({run_, attempt_, sample.series},
                                                    static_cast<uint32_t>(numbers_.size()));
      if (added) {
        const model::SeriesKey& key = sample.series;
        series_ +=
            absl::StrCat(run_, "\t", attempt_, "\t", key.indicator, "\t", key.layer, "\t",
                         static_cast<int>(key.unit), "\t", key.unit_id, "\t", key.unit_name, "\n");
      }
      records_.push_back(
          {step.row.step, it->second, static_cast<float>(sample.value), sample.flags});
    }
  }

  void Save(const std::string& folder) {
    std::filesystem::create_directories(folder);
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Record& a, const Record& b) { return a.step < b.step; });
    std::ofstream(folder + "/series.tsv") << series_;
    std::ofstream file(folder + "/points.bin", std::ios::binary);
    file.write(reinterpret_cast<const char*>(records_.data()),
               static_cast<std::streamsize>(records_.size() * sizeof(Record)));
    FORESHOCK_CHECK(file.good());
  }

 private:
  std::string run_;
  uint32_t attempt_ = 0;
  absl::flat_hash_map<std::tuple<std::string, uint32_t, model::SeriesKey>, uint32_t> numbers_;
  std::string series_;
  std::vector<Record> records_;
};

int Points(const std::string& folder, const std::vector<std::string>& captures) {
  Collect collect;
  for (const std::string& capture : captures) {
    const auto totals = backtest::ReadCaptureSteps(capture, nullptr, &collect);
    if (!totals.ok()) {
      std::fprintf(stderr, "%s: %s\n", capture.c_str(), totals.status().ToString().c_str());
      return 1;
    }
  }
  collect.Save(folder);
  return 0;
}

std::unique_ptr<store::Store> Open(const std::string& directory,
                                   store::Precision precision = store::Precision::kLossless) {
  auto store = store::OpenStore({.directory = directory, .precision = precision});
  if (!store.ok()) std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
  FORESHOCK_CHECK(store.ok());
  return *std::move(store);
}

// The closed step of each run and attempt in `records`, which are of one step, as the daemon
// commits them.
store::StoreBatch BatchOf(absl::Span<const Record> records, const std::vector<FedSeries>& series,
                          std::map<std::pair<std::string, uint32_t>, model::AttemptRow>* attempts) {
  store::StoreBatch batch;
  absl::flat_hash_map<std::pair<std::string, uint32_t>, size_t> places;
  for (const Record& record : records) {
    const FedSeries& one = series[record.series];
    const auto [it, added] = places.try_emplace({one.run, one.attempt}, batch.steps.size());
    if (added) {
      model::AttemptRow& attempt = (*attempts)[it->first];
      attempt.set_number(one.attempt);
      if (!attempt.has_first_step()) attempt.set_first_step(record.step);
      attempt.set_last_step(record.step);
      batch.attempts.push_back({one.run, attempt});
      model::ClosedStep& step = batch.steps.emplace_back();
      step.run = one.run;
      step.row.attempt = one.attempt;
      step.row.step = record.step;
      step.row.time_unix_ns = (1'800'000'000 + record.step) * kSecond;
    }
    batch.steps[it->second].samples.push_back({one.key, record.value, record.flags});
  }
  return batch;
}

int Append(const std::string& directory, const std::string& points, const std::string& how) {
  constexpr size_t kMadePoints = 200'000;  // batches are made ahead, while the watch stands
  constexpr size_t kSyncedBatches = 300;   // forcing takes milliseconds each
  const std::vector<FedSeries> series = ReadSeries(points);
  const std::vector<Record> records = ReadRecords(points);
  const size_t batches_max = how == "sync" ? kSyncedBatches : records.size();
  std::map<std::pair<std::string, uint32_t>, model::AttemptRow> attempts;
  const auto store = Open(
      directory, how == "declared" ? store::Precision::kDeclared : store::Precision::kLossless);
  const double cpu_begun = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
  double making = 0;
  double wall = 0;
  size_t batches = 0;
  size_t written = 0;
  for (auto begin = records.begin(); begin != records.end() && batches < batches_max;) {
    const double making_begun = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
    std::vector<store::StoreBatch> made;
    for (size_t count = 0; begin != records.end() && count < kMadePoints && batches < batches_max;
         ++batches) {
      const auto end = std::find_if(begin, records.end(), [&begin](const Record& record) {
        return record.step != begin->step;
      });
      made.push_back(BatchOf({&*begin, static_cast<size_t>(end - begin)}, series, &attempts));
      count += static_cast<size_t>(end - begin);
      written += static_cast<size_t>(end - begin);
      begin = end;
    }
    making += CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - making_begun;
    const absl::Time wall_begun = absl::Now();
    for (const store::StoreBatch& batch : made) {
      FORESHOCK_CHECK(store->Write(batch).ok());
      if (how == "sync") FORESHOCK_CHECK(store->Sync().ok());
    }
    wall += absl::ToDoubleSeconds(absl::Now() - wall_begun);
  }
  if (how == "kill") {
    Print({{"points", written}});
    kill(getpid(), SIGKILL);
  }
  const double cpu = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun - making;
  Stopwatch fold;
  std::set<std::string> runs;
  for (const auto& [run, attempt] : attempts) runs.insert(run.first);
  for (const std::string& run : runs) FORESHOCK_CHECK(store->Fold(run).ok());
  fold.Stop();
  Print({{"points", written},
         {"batches", batches},
         {"wall", wall},
         {"cpu", cpu},
         {"settled_wall", wall + fold.wall},
         {"settled_cpu", cpu + fold.cpu}});
  return 0;
}

// With the options that the store itself gave the database.
int Compact(const std::string& directory) {
  rocksdb::ConfigOptions config;
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  FORESHOCK_CHECK(rocksdb::LoadLatestOptions(config, directory, &options, &families).ok());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(options, directory, families, &handles, &raw);
  if (!opened.ok()) std::fprintf(stderr, "%s\n", opened.ToString().c_str());
  FORESHOCK_CHECK(opened.ok());
  const std::unique_ptr<rocksdb::DB> db(raw);
  FORESHOCK_CHECK(db->Flush({}, handles).ok());
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    FORESHOCK_CHECK(db->CompactRange(all, handle, nullptr, nullptr).ok());
    FORESHOCK_CHECK(db->DestroyColumnFamilyHandle(handle).ok());
  }
  FORESHOCK_CHECK(db->Close().ok());
  return 0;
}

// Visits every point of the store: visit(run, attempt, key, point).
template <typename Visit>
void ForEachPoint(const store::Store& store, const Visit& visit) {
  const auto runs = store.Runs();
  FORESHOCK_CHECK(runs.ok());
  for (const model::RunRow& run : *runs) {
    const auto keys = store.Series(run.name(), {});
    const auto attempts = store.Attempts(run.name());
    FORESHOCK_CHECK(keys.ok() && attempts.ok());
    for (const model::AttemptRow& attempt : *attempts) {
      FORESHOCK_CHECK(store
                          .Points(run.name(), *keys, {.attempt = attempt.number()},
                                  [&](size_t i, const model::Point& point) {
                                    visit(run.name(), attempt.number(), (*keys)[i], point);
                                    return true;
                                  })
                          .ok());
    }
  }
}

int Scan(const std::string& directory) {
  const auto store = Open(directory);
  uint64_t points = 0;
  double sum = 0;
  Stopwatch watch;
  ForEachPoint(*store, [&](const std::string&, uint32_t, const model::SeriesKey&,
                           const model::Point& point) {
    ++points;
    sum += point.value;
  });
  watch.Stop();
  Print({{"points", points}, {"sum", sum}, {"wall", watch.wall}, {"cpu", watch.cpu}});
  return 0;
}

int Plot(const std::string& directory, int64_t bucket_steps) {
  Stopwatch open;
  const auto store = Open(directory);
  open.Stop();
  const auto runs = store->Runs();
  FORESHOCK_CHECK(runs.ok() && !runs->empty());
  const auto keys = store->Series(runs->front().name(), {});
  FORESHOCK_CHECK(keys.ok() && !keys->empty());
  std::vector<double> walls;
  int64_t buckets = 0;
  for (int i = 0; i <= kRounds; ++i) {
    buckets = 0;
    Stopwatch watch;
    FORESHOCK_CHECK(store
                        ->Buckets(runs->front().name(), {keys->front()}, {}, bucket_steps,
                                  [&buckets](size_t, const store::Bucket&) {
                                    ++buckets;
                                    return true;
                                  })
                        .ok());
    watch.Stop();
    walls.push_back(watch.wall);
  }
  std::sort(walls.begin() + 1, walls.end());
  Print({{"open", open.wall},
         {"buckets", static_cast<double>(buckets)},
         {"first", walls[0]},
         {"again", walls[1 + kRounds / 2]}});
  return 0;
}

int Check(const std::string& directory, const std::string& points) {
  const std::vector<FedSeries> series = ReadSeries(points);
  absl::flat_hash_map<std::tuple<std::string, uint32_t, model::SeriesKey>, uint32_t> numbers;
  for (size_t i = 0; i < series.size(); ++i) {
    numbers[{series[i].run, series[i].attempt, series[i].key}] = static_cast<uint32_t>(i);
  }
  std::vector<Record> stored;
  const auto store = Open(directory);
  ForEachPoint(*store, [&](const std::string& run, uint32_t attempt, const model::SeriesKey& key,
                           const model::Point& point) {
    stored.push_back({point.step, numbers.at({run, attempt, key}), static_cast<float>(point.value),
                      point.flags});
  });
  std::vector<Record> written = ReadRecords(points);
  const auto by_place = [](const Record& a, const Record& b) {
    return std::pair(a.series, a.step) < std::pair(b.series, b.step);
  };
  std::sort(stored.begin(), stored.end(), by_place);
  std::sort(written.begin(), written.end(), by_place);
  uint64_t missing = 0;
  uint64_t wrong = 0;
  auto found = stored.begin();
  for (const Record& record : written) {
    while (found != stored.end() && by_place(*found, record)) ++found;
    if (found == stored.end() || by_place(record, *found)) {
      ++missing;
    } else if (std::memcmp(&record, &*found, sizeof(Record)) != 0) {
      ++wrong;
    }
  }
  Print({{"points", stored.size()}, {"missing", missing}, {"wrong", wrong}});
  return 0;
}

int Run(const std::vector<std::string>& words) {
  const std::string verb = words.empty() ? "" : words[0];
  const size_t count = words.size();
  if (verb == "points" && count > 2) return Points(words[1], {words.begin() + 2, words.end()});
  if (verb == "append" && count == 3) return Append(words[1], words[2], "");
  if (verb == "append" && count == 4) return Append(words[1], words[2], words[3]);
  if (verb == "compact" && count == 2) return Compact(words[1]);
  if (verb == "scan" && count == 2) return Scan(words[1]);
  int64_t steps = 0;
  if (verb == "plot" && count == 3 && absl::SimpleAtoi(words[2], &steps)) {
    return Plot(words[1], steps);
  }
  if (verb == "check" && count == 3) return Check(words[1], words[2]);
  std::fprintf(stderr, "store_feed: the verbs are at the head of tests/bench/store_feed.cc\n");
  return 2;
}

}  // namespace
}  // namespace foreshock::bench

int main(int argc, char** argv) {
  return foreshock::bench::Run(std::vector<std::string>(argv + 1, argv + argc));
}
