// Laws of siblings: among layers that drift together, the one that differs is named, and nothing is
// told while none does.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rules/siblings.h"
#include "tests/unit/rules/steps.h"

namespace foreshock::property {
namespace {

using rules::MakeSample;
using rules::Siblings;
using rules::TestRun;

constexpr int kRows = 200;
constexpr int kOnset = 120;

model::SeriesKey Layer(int32_t layer) {
  return {.indicator = "x", .layer = layer, .unit = model::Unit::kNone, .unit_name = ""};
}

TEST(SiblingsPropertyTest, TheRatioIsToTheMedianOfTheOthers) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> draw(0.5, 2);
  for (const int layers : {4, 5, 32, 129}) {
    Siblings siblings;
    std::vector<double> values;
    for (int32_t layer = 0; layer < layers; ++layer) {
      values.push_back(draw(random));
      siblings.Add(Layer(layer), values.back());
    }
    for (int32_t layer = 0; layer < layers; ++layer) {
      std::vector<double> others = values;
      others.erase(others.begin() + layer);
      std::sort(others.begin(), others.end());
      const size_t n = others.size();
      const double median = 0.5 * (others[(n - 1) / 2] + others[n / 2]);
      const double value = values[static_cast<size_t>(layer)];
      EXPECT_DOUBLE_EQ(*siblings.Ratio(Layer(layer), value), value / median);
    }
  }
}

TEST(SiblingsPropertyTest, FewAndNotPositiveValuesAreNotCompared) {
  Siblings siblings;
  for (int32_t layer = 0; layer < 3; ++layer) siblings.Add(Layer(layer), 1);
  siblings.Add(Layer(3), 0);
  siblings.Add(Layer(4), NAN);
  EXPECT_FALSE(siblings.Ratio(Layer(0), 1).has_value());
  siblings.Add(Layer(5), 2);
  EXPECT_EQ(siblings.Ratio(Layer(5), 2), 2);
  EXPECT_FALSE(siblings.Ratio(Layer(3), 0).has_value());
}

TEST(SiblingsPropertyTest, RanksOfALayerAndUnitsOverLayersAreSiblings) {
  const auto rank = [](int32_t layer, int64_t id) {
    model::SeriesKey key = Layer(layer);
    key.unit = model::Unit::kRank;
    key.unit_id = id;
    return key;
  };
  Siblings siblings;
  for (int64_t id = 0; id < 5; ++id) {
    siblings.Add(rank(0, id), 1);
    siblings.Add(rank(1, id), 10);
  }
  EXPECT_EQ(siblings.Ratio(rank(0, 2), 1), 1);
  EXPECT_EQ(siblings.Ratio(rank(1, 2), 10), 1);
}

// Layers with levels of their own, one random walk and one fall that they share, and noise of their
// own.
class Layers {
 public:
  Layers(int layers, int seed) : random_(seed) {
    for (int i = 0; i < layers; ++i) levels_.push_back(0.6 + 0.3 * i / layers);
  }
  // `ill`: the layer that loses a tenth from the onset on; -1: none.
  std::vector<model::Sample> Row(int row, int ill) {
    std::normal_distribution<double> normal;
    shared_ *= std::exp(0.01 * normal(random_));
    if (row >= kOnset && row < kOnset + 5) shared_ *= 0.97;
    std::vector<model::Sample> samples;
    for (size_t i = 0; i < levels_.size(); ++i) {
      double value = levels_[i] * shared_ * std::exp(0.01 * normal(random_));
      if (static_cast<int>(i) == ill && row >= kOnset) value *= 0.9;
      samples.push_back(MakeSample("attn.delta2.entropy_ratio_l1", value, static_cast<int32_t>(i)));
    }
    return samples;
  }

 private:
  std::mt19937 random_;
  std::vector<double> levels_;
  double shared_ = 1;
};

// The layers that the rule names over a run. Of `turns` layers one is sampled at a step.
std::set<uint32_t> Named(bool siblings, int layers, int seed, int ill, size_t turns = 1) {
  TestRun run(rules::OneRule({"indicator: attn.delta2.entropy_ratio_l1",
                              absl::StrCat("siblings: ", siblings ? "true" : "false"),
                              "level: {fall: 0.05, noises: 3}"}),
              static_cast<uint32_t>(layers));
  Layers model(layers, seed);
  for (int row = 0; row < kRows; ++row) {
    const std::vector<model::Sample> samples = model.Row(row, ill);
    for (size_t turn = 0; turn < turns; ++turn) {
      std::vector<model::Sample> due;
      for (size_t i = turn; i < samples.size(); i += turns) due.push_back(samples[i]);
      run.Step(row * static_cast<int64_t>(turns) + static_cast<int64_t>(turn), due);
    }
  }
  std::set<uint32_t> named;
  for (const model::AlertRow& row : run.rows) {
    named.insert(row.alert().layers().begin(), row.alert().layers().end());
  }
  return named;
}

TEST(SiblingsPropertyTest, LayersMayTakeTurns) {
  for (const size_t turns : {2, 5, 8}) {
    for (int seed = 0; seed < 5; ++seed) {
      EXPECT_EQ(Named(true, 8, seed, 3, turns), std::set<uint32_t>{3}) << turns << " " << seed;
      EXPECT_TRUE(Named(true, 8, seed, -1, turns).empty()) << turns << " turns, seed " << seed;
    }
  }
}

TEST(SiblingsPropertyTest, TheLayerThatDiffersIsNamedAndNoOther) {
  int named_by_time = 0;
  int runs = 0;
  for (const int layers : {4, 32, 128}) {
    const int seeds = layers == 128 ? 3 : 10;
    for (int seed = 0; seed < seeds; ++seed) {
      const int ill = (7 * seed + 1) % layers;
      EXPECT_EQ(Named(true, layers, seed, ill), std::set<uint32_t>{static_cast<uint32_t>(ill)})
          << layers << " layers, seed " << seed;
      EXPECT_TRUE(Named(true, layers, seed, -1).empty()) << layers << " layers, seed " << seed;
      // The control: each layer against its own past alone takes the shared drift for a fault.
      named_by_time += Named(false, layers, seed, -1).empty() ? 0 : 1;
      ++runs;
    }
  }
  EXPECT_GT(2 * named_by_time, runs);
}

}  // namespace
}  // namespace foreshock::property
