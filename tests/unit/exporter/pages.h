// Helpers of the exporter's tests: steps to observe, pages to read.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "daemon/exporter/exporter.h"
#include "daemon/exporter/snapshot_builder.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"

namespace foreshock::exporter {

inline model::Sample MakeSample(const std::string& indicator, int32_t layer, model::Unit unit,
                                int64_t unit_id, double value, uint32_t flags = 0) {
  model::Sample sample;
  sample.series = {indicator, layer, unit, unit == model::Unit::kTensor ? 0 : unit_id,
                   unit == model::Unit::kTensor ? "act/" + std::to_string(unit_id) : ""};
  sample.value = value;
  sample.flags = flags;
  return sample;
}

inline model::ClosedStep MakeStep(const std::string& run, int64_t step,
                                  std::vector<model::Sample> samples, uint32_t attempt = 1) {
  model::ClosedStep closed;
  closed.run = run;
  closed.row.attempt = attempt;
  closed.row.step = step;
  closed.row.ranks = 2;
  closed.row.tokens = 100;
  closed.samples = std::move(samples);
  return closed;
}

// The value of a line "name{labels} value" by what stands before the value.
inline std::map<std::string, std::string> ReadPage(const std::string& page) {
  std::map<std::string, std::string> values;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(page, '\n', absl::SkipEmpty()))) {
    if (absl::StartsWith(line, "#")) continue;
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(values.emplace(line.substr(0, space), line.substr(space + 1)).second)
        << "twice: " << line;
  }
  return values;
}

// Families with their type, from the TYPE lines.
inline std::map<std::string, std::string> FamiliesOf(const std::string& page) {
  std::map<std::string, std::string> families;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(page, '\n'))) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 4 && words[1] == "TYPE") {
      EXPECT_TRUE(families.emplace(words[2], words[3]).second) << "twice: " << words[2];
    }
  }
  return families;
}

// A builder, an exporter over it and the clock of both.
struct PageMaker {
  explicit PageMaker(SnapshotOptions snapshot_options = {}, ExporterOptions options = {})
      : builder(snapshot_options, &clock) {
    auto made = Exporter::Create(options, {.snapshot = [this] { return builder.Latest(); },
                                           .self = [this] { return self; },
                                           .process =
                                               [] {
                                                 return ProcessStats{1, 2.5, 3, 4};
                                               },
                                           .clock = &clock});
    EXPECT_OK(made);
    exporter = std::move(made).value();
  }

  std::string Page() {
    builder.Publish();
    return exporter->Render();
  }

  support::FakeClock clock;
  SelfStats self;
  SnapshotBuilder builder;
  std::unique_ptr<Exporter> exporter;
};

}  // namespace foreshock::exporter
