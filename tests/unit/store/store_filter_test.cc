#include <string>

#include "daemon/store/store.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

TEST(SeriesFilterTest, EveryConditionGivenMustHold) {
  const model::SeriesKey head{"attn.delta2.entropy", 3, model::Unit::kHead, 7, ""};
  struct Case {
    SeriesFilter filter;
    bool matches;
  };
  const Case cases[] = {
      {{}, true},
      {{.indicator = "attn.delta2.entropy"}, true},
      {{.indicator = "attn.delta2.entropy_ratio"}, false},
      {{.indicator = "attn.delta2.entrop"}, false},
      {{.indicator = "*"}, true},
      {{.indicator = "attn.delta2.entropy*"}, true},
      {{.indicator = "attn.delta3*"}, false},
      {{.layers = {1, 3}}, true},
      {{.layers = {1}}, false},
      {{.layers = {model::kNoLayer}}, false},
      {{.unit = model::Unit::kHead}, true},
      {{.unit = model::Unit::kNone}, false},
      {{.unit_ids = {7}}, true},
      {{.unit_ids = {0}}, false},
      {{.unit_name = "wq"}, false},
      {{.indicator = "attn.*", .layers = {3}, .unit = model::Unit::kHead, .unit_ids = {7}}, true},
      {{.indicator = "attn.*", .layers = {3}, .unit = model::Unit::kHead, .unit_ids = {8}}, false},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_EQ(cases[i].filter.Matches(head), cases[i].matches) << "case " << i;
  }
}

TEST(StoreBatchTest, IsEmptyWithoutRows) {
  EXPECT_TRUE(StoreBatch().empty());
  StoreBatch batch;
  batch.settled_steps.push_back({"exp", 1, 5});
  EXPECT_FALSE(batch.empty());
}

}  // namespace
}  // namespace foreshock::store
