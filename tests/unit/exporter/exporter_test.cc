#include "daemon/exporter/exporter.h"

#include <cstdio>
#include <fstream>
#include <limits>
#include <locale>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/model/catalogue.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/exporter/pages.h"

namespace foreshock::exporter {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

// Says something for every metric there is.
void FillEverything(PageMaker* maker) {
  SelfStats& self = maker->self;
  self.version = "0.1.0";
  self.reports_refused["queue_full"] = 1;
  self.limit_hits["streams"] = 1;
  self.commit_latency.counts[3] = 7;
  self.commit_latency.sum_s = 0.02;
  self.notifiers["log"] = {.results = {{"sent", 2}},
                           .pending = 3,
                           .oldest_pending_s = 1.5,
                           .last_success_unix_s = 1'800'000'000,
                           .last_failure_unix_s = 1'700'000'000,
                           .troubles = {"told_twice"}};
  self.remote_writes["mimir"] = {.results = {{"sent", 5}},
                                 .retries = 1,
                                 .queue_samples = 2,
                                 .queue_bytes = 3,
                                 .last_success_unix_s = 1'800'000'000};
  self.silences = 4;
  self.config_last_reload_unix_s = 1'800'000'000;
  self.access_refused["no_token"] = 4;
  self.tls_certificate_expires_unix_s = 1'900'000'000;
  std::vector<model::Sample> samples;
  for (const model::IndicatorInfo& info : model::Indicators()) {
    const int32_t layer = info.per_layer ? 0 : model::kNoLayer;
    samples.push_back(MakeSample(std::string(info.id), layer, info.unit, 0, 1.5));
    if (info.unit != model::Unit::kNone) {
      samples.push_back(MakeSample(std::string(info.id), layer, info.unit, 1, 2.5));
    }
  }
  for (const char* name : {"aux_loss",
                           "clip_fraction",
                           "embed_grad_ratio",
                           "eps_ratio",
                           "grad_norm",
                           "grad_norm_k",
                           "grad_norm_q",
                           "grad_norm_router",
                           "log_z",
                           "loss",
                           "loss_scale",
                           "lr",
                           "param_rms",
                           "policy_entropy",
                           "reward_mean",
                           "reward_std",
                           "rms_t",
                           "second_moment_ratio",
                           "staleness",
                           "tokens",
                           "update_rms",
                           "my_own"}) {
    samples.push_back(
        MakeSample(absl::StrCat("train.", name), model::kNoLayer, model::Unit::kNone, 0, 0.5));
  }
  model::ClosedStep step = MakeStep("exp-42", 7, samples);
  step.findings.push_back({model::Finding::Kind::kNonFinite, "loss", 1, model::kNoLayer, -1, 1});
  step.undefined.push_back({"attn.delta2", "no_base", 1});
  maker->builder.SetRun({.run = "exp-42", .attempt = 1, .world_size = 4, .ranks_connected = 3});
  maker->builder.Observe(step);
  v1::Alert alert;
  alert.set_id("1");
  alert.set_run("exp-42");
  alert.set_rule("Delta2EntropyFalls");
  alert.set_severity("critical");
  alert.set_fault("low_precision_attention");
  alert.set_state(v1::ALERT_STATE_FIRING);
  maker->builder.SetAlert(alert);
}

// Output and exit code of promtool over a page.
std::pair<std::string, int> CheckWithPromtool(const std::string& page) {
  support::TempDir dir;
  std::ofstream(dir.File("page")) << page;
  FILE* pipe =
      popen(absl::StrCat("promtool check metrics < ", dir.File("page"), " 2>&1").c_str(), "r");
  std::string output;
  char chunk[4096];
  for (size_t n; (n = fread(chunk, 1, sizeof(chunk), pipe)) > 0;) output.append(chunk, n);
  return {output, pclose(pipe)};
}

TEST(ExporterTest, ShowsRunsIndicatorsAndAlerts) {
  PageMaker maker;
  FillEverything(&maker);
  const auto page = ReadPage(maker.Page());
  const std::map<std::string, std::string> expected = {
      {"foreshock_last_step{run=\"exp-42\"}", "7"},
      {"foreshock_run_state{run=\"exp-42\",state=\"live\"}", "1"},
      {"foreshock_run_state{run=\"exp-42\",state=\"failed\"}", "0"},
      {"foreshock_last_update_timestamp_seconds{run=\"exp-42\"}", "1800000000"},
      {"foreshock_run_coverage_ratio{run=\"exp-42\"}", "0.5"},
      {"foreshock_run_ranks_connected{run=\"exp-42\"}", "3"},
      {"foreshock_alert_firing{run=\"exp-42\",rule=\"Delta2EntropyFalls\",severity=\"critical\","
       "fault=\"low_precision_attention\"}",
       "1"},
      {"foreshock_nonfinite_total{run=\"exp-42\",name=\"loss\",rank=\"1\"}", "1"},
      {"foreshock_indicator_undefined_total{indicator=\"attn.delta2\",reason=\"no_base\"}", "1"},
      {"foreshock_indicator_valid{run=\"exp-42\",indicator=\"attn.delta2.norm\"}", "0"},
      {"foreshock_indicator_valid{run=\"exp-42\",indicator=\"load.cv\"}", "1"},
      {"foreshock_train_loss{run=\"exp-42\"}", "0.5"},
      {"foreshock_train_scalar{run=\"exp-42\",name=\"my_own\"}", "0.5"},
      {"foreshock_load_cv_ratio{run=\"exp-42\",layer=\"0\"}", "1.5"},
      {"foreshock_attn_delta2_entropy_nats{run=\"exp-42\",layer=\"0\",aggregate=\"mean\"}", "2"},
      {"foreshock_attn_delta2_entropy_nats{run=\"exp-42\",layer=\"0\",aggregate=\"p10\"}", "1.6"},
      {"foreshock_load_share_ratio{run=\"exp-42\",layer=\"0\",expert=\"1\",aggregate=\"top\"}",
       "2.5"},
      {"foreshock_load_share_ratio{run=\"exp-42\",layer=\"0\",expert=\"0\",aggregate=\"bottom\"}",
       "1.5"},
      {"foreshock_tensor_absmax{run=\"exp-42\",layer=\"0\",tensor=\"act/1\",aggregate=\"top\"}",
       "2.5"},
      {"foreshock_commit_duration_seconds_bucket{le=\"0.0025\"}", "0"},
      {"foreshock_commit_duration_seconds_bucket{le=\"0.005\"}", "7"},
      {"foreshock_commit_duration_seconds_bucket{le=\"+Inf\"}", "7"},
      {"foreshock_commit_duration_seconds_count", "7"},
      {"foreshock_notifications_total{notifier=\"log\",result=\"sent\"}", "2"},
      {"foreshock_notifications_pending{notifier=\"log\"}", "3"},
      {"foreshock_notifications_trouble{notifier=\"log\",trouble=\"told_twice\"}", "1"},
      {"foreshock_notifications_oldest_pending_seconds{notifier=\"log\"}", "1.5"},
      {"foreshock_notifications_last_success_timestamp_seconds{notifier=\"log\"}", "1800000000"},
      {"foreshock_notifications_last_failure_timestamp_seconds{notifier=\"log\"}", "1700000000"},
      {"foreshock_silences", "4"},
      {"process_cpu_seconds_total", "2.5"},
      {"foreshock_export_series_left_out", "0"},
  };
  for (const auto& [series, value] : expected) {
    ASSERT_EQ(page.count(series), 1u) << series;
    double got = 0, want = 0;
    ASSERT_TRUE(absl::SimpleAtod(page.at(series), &got));
    ASSERT_TRUE(absl::SimpleAtod(value, &want));
    EXPECT_DOUBLE_EQ(got, want) << series;
  }
}

TEST(ExporterTest, StepIsNeverALabelAndOnlyPendingOrResolvedAlertsAreZero) {
  PageMaker maker;
  FillEverything(&maker);
  EXPECT_THAT(maker.Page(), Not(HasSubstr("step=\"")));
  v1::Alert alert;
  alert.set_id("1");
  alert.set_run("exp-42");
  alert.set_rule("Delta2EntropyFalls");
  alert.set_severity("critical");
  alert.set_fault("low_precision_attention");
  alert.set_state(v1::ALERT_STATE_RESOLVED);
  maker.builder.SetAlert(alert);
  EXPECT_EQ(ReadPage(maker.Page())
                .at("foreshock_alert_firing{run=\"exp-42\",rule=\"Delta2EntropyFalls\","
                    "severity=\"critical\",fault=\"low_precision_attention\"}"),
            "0");
}

// Remote write and a scrape show the same.
TEST(ExporterTest, ReadGivesTheValuesOfThePage) {
  PageMaker maker;
  FillEverything(&maker);
  const auto page = ReadPage(maker.Page());
  size_t read = 0;
  for (const ExportedFamily& family : maker.exporter->Read()) {
    EXPECT_FALSE(family.help.empty()) << family.name;
    for (const ExportedSample& sample : family.samples) {
      const std::string labels =
          absl::StrJoin(sample.labels, ",", [](std::string* out, const auto& label) {
            absl::StrAppend(out, label.first, "=\"", label.second, "\"");
          });
      const std::string series = labels.empty() ? sample.name : sample.name + "{" + labels + "}";
      ASSERT_EQ(page.count(series), 1u) << series;
      double shown = 0;
      ASSERT_TRUE(absl::SimpleAtod(page.at(series), &shown));
      EXPECT_DOUBLE_EQ(sample.value, shown) << series;
      ++read;
    }
  }
  EXPECT_EQ(read, page.size());
}

TEST(ExporterTest, PassesPromtool) {
  PageMaker maker;
  FillEverything(&maker);
  v1::Alert strange;
  strange.set_run("run \"with\" quotes\\ and\nlines, ünïcode");
  strange.set_rule("r");
  maker.builder.SetAlert(strange);
  const auto [output, code] = CheckWithPromtool(maker.Page());
  EXPECT_EQ(code, 0) << output;
  EXPECT_EQ(output, "");
  PageMaker empty;
  EXPECT_EQ(CheckWithPromtool(empty.Page()), (std::pair<std::string, int>{"", 0}));
}

TEST(ExporterTest, PromtoolWouldHaveSaidSo) {
  EXPECT_NE(CheckWithPromtool("# TYPE x_count gauge\nx_count 1\n").second, 0);
}

TEST(ExporterTest, IsTheSameInALocaleWithDecimalComma) {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  PageMaker maker;
  FillEverything(&maker);
  const std::string plain = maker.Page();
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  const std::string comma = maker.Page();
  std::locale::global(before);
  EXPECT_EQ(plain, comma);
  EXPECT_THAT(plain, HasSubstr("1800000000"));
}

TEST(ExporterTest, NeverExportsWhatIsNotFinite) {
  PageMaker maker;
  maker.builder.Observe(MakeStep("a", 1,
                                 {MakeSample("train.loss", model::kNoLayer, model::Unit::kNone, 0,
                                             std::numeric_limits<double>::quiet_NaN()),
                                  MakeSample("train.lr", model::kNoLayer, model::Unit::kNone, 0,
                                             std::numeric_limits<double>::infinity())}));
  const auto page = ReadPage(maker.Page());
  EXPECT_EQ(page.count("foreshock_train_loss{run=\"a\"}"), 0u);
  EXPECT_EQ(page.count("foreshock_train_lr{run=\"a\"}"), 0u);
  EXPECT_EQ(page.at("foreshock_export_series_left_out"), "2");
  for (const auto& [series, value] : page) {
    EXPECT_THAT(value, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("Nan")))) << series;
  }
}

TEST(ExporterTest, CutsTheLeastTellingFirstAndSaysHowMuch) {
  constexpr int kLayers = 4, kHeads = 8;
  std::vector<model::Sample> samples;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int head = 0; head < kHeads; ++head) {
      samples.push_back(MakeSample("attn.logits.max", layer, model::Unit::kHead, head, head));
    }
  }
  const auto count = [](const std::map<std::string, std::string>& page, const char* aggregate) {
    return std::count_if(page.begin(), page.end(), [&](const auto& line) {
      return absl::StrContains(line.first, absl::StrCat("aggregate=\"", aggregate, "\""));
    });
  };
  PageMaker whole;
  whole.builder.Observe(MakeStep("a", 1, samples));
  const auto page = ReadPage(whole.Page());
  const int series = std::stoi(page.at("foreshock_export_series"));
  EXPECT_EQ(count(page, "top"), 3 * kLayers);
  struct Case {
    int less;
    int top, p10, max, mean;
  };
  for (const Case& c :
       {Case{0, 12, 4, 4, 4}, Case{1, 11, 4, 4, 4}, Case{12, 0, 4, 4, 4}, Case{13, 0, 3, 4, 4},
        Case{16, 0, 0, 4, 4}, Case{24, 0, 0, 0, 4}, Case{28, 0, 0, 0, 0}}) {
    PageMaker cut({}, {.series_max = static_cast<size_t>(series - c.less)});
    cut.builder.Observe(MakeStep("a", 1, samples));
    const auto got = ReadPage(cut.Page());
    EXPECT_EQ(count(got, "top"), c.top) << c.less;
    EXPECT_EQ(count(got, "p10"), c.p10) << c.less;
    EXPECT_EQ(count(got, "max"), c.max) << c.less;
    EXPECT_EQ(count(got, "mean"), c.mean) << c.less;
    EXPECT_EQ(got.at("foreshock_last_step{run=\"a\"}"), "1");
    EXPECT_EQ(got.at("foreshock_export_series"), absl::StrCat(series - c.less));
    EXPECT_EQ(got.at("foreshock_export_series_left_out"), absl::StrCat(c.less));
  }
}

TEST(ExporterTest, StaysBoundedForALargeModel) {
  PageMaker maker;
  std::vector<model::Sample> samples;
  for (int layer = 0; layer < 96; ++layer) {
    for (int expert = 0; expert < 512; ++expert) {
      samples.push_back(MakeSample("load.share", layer, model::Unit::kExpert, expert, expert));
    }
  }
  maker.builder.Observe(MakeStep("a", 1, samples));
  const auto page = ReadPage(maker.Page());
  // 4 aggregates and 3 units on each side per layer, and the few series of the run.
  EXPECT_LT(std::stoi(page.at("foreshock_export_series")), 96 * 10 + 30);
  EXPECT_EQ(page.at("foreshock_export_series_left_out"), "0");
}

TEST(ExporterTest, RefusesAPageThatNobodyCanScrape) {
  const Exporter::Deps deps = {.snapshot = [] { return std::make_shared<const Snapshot>(); },
                               .self = [] { return SelfStats(); },
                               .process = [] { return ProcessStats(); },
                               .clock = new base::SystemClock};
  EXPECT_OK(Exporter::Create({.series_max = 100'000}, deps));
  EXPECT_THAT(Exporter::Create({.series_max = 100'001}, deps),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 100000")));
  delete deps.clock;
}

TEST(ExporterTest, HidesARunWhoseTimeIsOverWithoutANewSnapshot) {
  PageMaker maker;
  maker.builder.SetRun({.run = "a", .state = v1::RUN_STATE_FINISHED});
  EXPECT_THAT(maker.Page(), HasSubstr("run=\"a\""));
  maker.clock.Advance(absl::Minutes(15));
  EXPECT_THAT(maker.exporter->Render(), Not(HasSubstr("run=\"a\"")));
}

// Rows of docs/metrics.md: | `name` | type | ...
std::map<std::string, std::string> DocumentedFamilies() {
  std::map<std::string, std::string> families;
  std::ifstream file(absl::StrCat(FORESHOCK_SOURCE_DIR, "/docs/metrics.md"));
  EXPECT_TRUE(file.is_open());
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() < 4 || !absl::StartsWith(cells[1], " `")) continue;
    const std::string name = cells[1].substr(2, cells[1].rfind('`') - 2);
    const std::string type(absl::StripAsciiWhitespace(cells[2]));
    EXPECT_TRUE(families.emplace(name, type).second) << "twice: " << name;
  }
  return families;
}

TEST(MetricsDocument, ListsExactlyTheMetricsThereAre) {
  PageMaker maker;
  FillEverything(&maker);
  const auto exported = FamiliesOf(maker.Page());
  const auto documented = DocumentedFamilies();
  for (const auto& [name, type] : exported) {
    EXPECT_EQ(documented.count(name), 1u) << "not in docs/metrics.md: " << name;
    if (documented.count(name) == 1) {
      EXPECT_EQ(documented.at(name), type) << name;
    }
  }
  for (const auto& [name, type] : documented) {
    EXPECT_EQ(exported.count(name), 1u) << "documented, never exported: " << name;
  }
}

TEST(ProcessStatsTest, SeesThisProcess) {
  const ProcessStats stats = ReadProcessStats();
  EXPECT_GT(stats.resident_bytes, uint64_t{1} << 20);
  EXPECT_GE(stats.open_files, 3u);
  EXPECT_GT(stats.start_unix_s, 1.6e9);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ReadProcessStats().start_unix_s, stats.start_unix_s);
  EXPECT_LT(stats.start_unix_s, absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + 1);
}

TEST(LatencyHistogramTest, PutsEachDurationInItsBucket) {
  LatencyHistogram histogram;
  histogram.Observe(absl::Microseconds(500));  // on the bound: inside
  histogram.Observe(absl::Microseconds(501));
  histogram.Observe(absl::Seconds(11));
  const LatencyHistogram::Values values = histogram.Read();
  EXPECT_EQ(values.counts[0], 1u);
  EXPECT_EQ(values.counts[1], 1u);
  EXPECT_EQ(values.counts.back(), 1u);
  EXPECT_NEAR(values.sum_s, 11.001001, 1e-9);
}

}  // namespace
}  // namespace foreshock::exporter
