#include "proxy/report.h"

#include <cmath>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proxy/select.h"
#include "proxy/slice.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy/synthetic.h"

namespace foreshock::proxy {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Sums of at most 8 rounded terms of size 1.
constexpr double kSmall = 1e-14;

TEST(ShapeOfLoad, IsWhatTheIndicatorsDefine) {
  Vector counts(4);
  counts << 4, 2, 1, 1;
  const LoadShape shape = ShapeOfLoad(counts, 2);
  EXPECT_NEAR(shape.entropy_ratio, 1.75 * std::log(2) / std::log(4), kSmall);
  EXPECT_NEAR(shape.variation, std::sqrt((4. + 0 + 1 + 1) / 4) / 2, kSmall);
  ASSERT_TRUE(shape.max_violation_ratio.has_value());
  EXPECT_NEAR(*shape.max_violation_ratio, 1, kSmall);  // half of all choices: the most there can be
  EXPECT_FALSE(ShapeOfLoad(counts, 4).max_violation_ratio.has_value());
  EXPECT_EQ(ShapeOfLoad(Vector::Zero(4), 2).entropy_ratio, 0);
}

TEST(ShapeOfRows, IsWhatTheIndicatorsDefine) {
  Matrix rows(3, 2);
  rows << 1, 0, 0, 2, 3, 3;
  // Cosines 0, 1/sqrt(2), 1/sqrt(2).
  EXPECT_NEAR(*ShapeOfRows(rows).weight_similarity, std::sqrt(2.) / 3, kSmall);
  // Mean (4/3, 5/3); the farthest row is (3, 3).
  EXPECT_NEAR(*ShapeOfRows(rows).centred_conditioning,
              std::sqrt(25. / 9 + 16. / 9) / std::sqrt(16. / 9 + 25. / 9), kSmall);
  rows.row(1).setZero();
  EXPECT_FALSE(ShapeOfRows(rows).weight_similarity.has_value());
}

class ReportTest : public ::testing::Test {
 protected:
  void Build(const SyntheticModel& model, const std::vector<int>& kept,
             const SliceOptions& options = {}) {
    std::filesystem::create_directory(dir_.File("in"));
    Write(model, dir_.File("in"), 2);
    ASSERT_OK_AND_ASSIGN(const Source source, OpenAt("in"));
    plan_ = Plan();
    plan_.model_type = source.model.model_type;
    plan_.experts = kExperts;
    plan_.top_k = source.model.top_k;
    plan_.keep = static_cast<int>(kept.size());
    plan_.selector = "by hand";
    plan_.settings = nlohmann::json::object();
    plan_.source_sha256 = source.checkpoint.sha256;
    for (const MoeLayer& moe : source.model.moe) {
      LayerPlan layer;
      layer.layer = moe.layer;
      layer.kept = layer.medoids = kept;
      for (int e = 0; e < kExperts; ++e) layer.cluster.push_back(e / 2);
      plan_.layers.push_back(layer);
    }
    ASSERT_OK_AND_ASSIGN(const Cut cut, Slice(source.checkpoint, source.model, plan_, options));
    ASSERT_OK(
        Assemble(source.checkpoint, plan_, cut, dir_.File("out"), [](uint64_t, const std::string&) {
        }).status());
  }
  absl::StatusOr<Source> OpenAt(const std::string& name) {
    Program program;
    program.checkpoint = dir_.File(name);
    return OpenSource(program);
  }
  absl::StatusOr<Report> Make(const std::vector<std::string>& calibration = {}) {
    absl::StatusOr<Source> source = OpenAt("in");
    if (!source.ok()) return source.status();
    absl::StatusOr<Source> proxy = OpenAt("out");
    if (!proxy.ok()) return proxy.status();
    absl::StatusOr<Calibration> opened = Calibration::Open(calibration, source->model);
    if (!opened.ok()) return opened.status();
    return MakeReport(*source, *proxy, plan_, *opened, [](uint64_t, const std::string&) {});
  }

  support::TempDir dir_;
  Plan plan_;
};

TEST_F(ReportTest, SizesAndBytes) {
  Build(MakeModel("qwen3_moe"), {0, 2, 4, 6});
  ASSERT_OK_AND_ASSIGN(const Report report, Make());
  ASSERT_OK_AND_ASSIGN(const Source source, OpenAt("in"));
  EXPECT_EQ(report.bytes_before, source.model.bytes());
  EXPECT_EQ(report.bytes_after, source.model.BytesWith(4));
  // All tensors are BF16 but the two routers.
  const uint64_t routers = 2 * kExperts * kHidden;
  EXPECT_EQ(report.parameters_before, (report.bytes_before - 4 * routers) / 2 + routers);
  uint64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("out"))) {
    if (entry.path().extension() == ".safetensors") files += entry.file_size();
  }
  EXPECT_EQ(report.bytes_compared, files);
  EXPECT_THAT(report.config_changes, ElementsAre("replace /num_experts 4"));
  EXPECT_FALSE(report.survival.has_value());
  EXPECT_THAT(report.notes, Contains(HasSubstr("no calibration was given")));
}

TEST_F(ReportTest, WhatACalibrationSays) {
  Build(MakeModel("qwen3_moe"), {0, 2, 4, 6});
  ASSERT_OK_AND_ASSIGN(const Source source, OpenAt("in"));
  LayerStats stats;
  stats.tokens = 100;
  stats.frequency = Vector(kExperts);
  stats.frequency << 40, 10, 30, 20, 50, 0, 25, 25;
  stats.gate_sum = Vector::Constant(kExperts, 12.5);
  stats.probability_sum = Vector(kExperts);
  *stats.probability_sum << 20, 5, 15, 10, 25, 5, 10, 10;
  stats.entropy_sum = 100 * std::log(2);
  stats.margin_histogram = Vector::Zero(kMarginBins);
  (*stats.margin_histogram)(50) = 9;
  (*stats.margin_histogram)(56) = 91;
  ASSERT_OK(WriteCalibration(dir_.File("c"), source.model, {{1, stats}}));
  ASSERT_OK_AND_ASSIGN(const Report report, Make({dir_.File("c")}));
  EXPECT_FALSE(report.layers[0].survival.has_value());
  const LayerReport& layer = report.layers[1];
  EXPECT_EQ(*layer.survival, 145. / 200);
  EXPECT_EQ(*report.survival, *layer.survival);
  EXPECT_NEAR(*layer.kept_probability, 0.7, kSmall);
  EXPECT_EQ(*layer.gate_sum, 1);
  EXPECT_EQ(*layer.margin_p10, 0.125);
  EXPECT_NEAR(*layer.token_entropy_ratio, 1. / 3, kSmall);
  Vector shares = *stats.probability_sum / 100;
  const double entropy = -(shares.array() * shares.array().log()).sum();
  EXPECT_NEAR(*layer.mutual_information, (entropy - std::log(2)) / std::log(8), kSmall);
  EXPECT_EQ(layer.load_before->entropy_ratio, ShapeOfLoad(stats.frequency, 2).entropy_ratio);
  Vector clusters(4);
  clusters << 50, 50, 50, 50;
  EXPECT_EQ(layer.load_expected->entropy_ratio, ShapeOfLoad(clusters, 2).entropy_ratio);
}

TEST_F(ReportTest, OptionsOfTheCutAreSeenInTheConfig) {
  SyntheticModel model = MakeModel("deepseek_v3");
  model.config["n_group"] = 2;
  SliceOptions options;
  options.drop_prediction = true;
  Build(model, {0, 2, 4, 6}, options);
  EXPECT_OK(Make().status());
}

TEST_F(ReportTest, AProxyThatIsNotWhatThePlanGivesIsNamedByByte) {
  Build(MakeModel("mixtral"), {0, 2, 4, 6});
  const std::string path = dir_.File("out/model-00001-of-00002.safetensors");
  const std::string good = ReadText(path);
  ASSERT_OK_AND_ASSIGN(const Source proxy, OpenAt("out"));
  const Tensor tensor = proxy.checkpoint.shards[0].header.tensors[3];
  std::string bad = good;
  bad[tensor.begin] ^= 1;
  WriteText(path, bad);
  EXPECT_THAT(Make(),
              support::StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr(absl::StrCat("tensor '", tensor.name, "': byte ",
                                                       tensor.begin, ": is not what the source"))));
  WriteText(path, good);
  EXPECT_OK(Make().status());
  const std::string config = ReadText(dir_.File("out/config.json"));
  WriteText(dir_.File("out/config.json"), config + " ");
  EXPECT_THAT(Make(), support::StatusIs(absl::StatusCode::kDataLoss,
                                        HasSubstr("config.json: is not what")));
}

}  // namespace
}  // namespace foreshock::proxy
