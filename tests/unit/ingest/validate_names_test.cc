#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "daemon/ingest/validate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wire_messages.h"

namespace foreshock::ingest {
namespace {

using ::foreshock::support::GoodHello;
using ::foreshock::support::GoodScalars;
using ::foreshock::support::GoodTensorStats;

class ValidateNamesTest : public ::testing::Test {
 protected:
  absl::Status Validate(const v1::Summary& summary) {
    return ValidateSummary(summary, {.model = model_, .step = 50, .index = 2}, &names_);
  }

  void ExpectRefused(const v1::Summary& summary, const std::string& message) {
    EXPECT_THAT(Validate(summary), support::StatusIs(absl::StatusCode::kInvalidArgument, message));
  }

  static v1::Summary Values(std::vector<uint32_t> ids) {
    v1::Summary summary;
    for (const uint32_t id : ids) {
      summary.mutable_scalars()->add_ids(id);
      summary.mutable_scalars()->add_values(1);
    }
    return summary;
  }

  const v1::ModelShape model_ = GoodHello().model();
  NameTable names_{IngestLimits{.scalars_per_stream_max = 3, .tensors_per_stream_max = 2}};
};

TEST_F(ValidateNamesTest, ADeclaredIdServesTheRestOfTheStream) {
  ASSERT_OK(Validate(GoodScalars()));
  EXPECT_OK(Validate(Values({1})));
  EXPECT_OK(Validate(GoodScalars()));  // declared again, word for word
  EXPECT_EQ(names_.names().scalars.at(1).name(), "loss");
}

TEST_F(ValidateNamesTest, AnUndeclaredIdIsRefused) {
  ASSERT_OK(Validate(GoodScalars()));
  ExpectRefused(
      Values({1, 9}),
      "summaries[2].scalars.ids[1]: found 9, never declared; allowed ids declared in this "
      "or an earlier report of the stream");
}

TEST_F(ValidateNamesTest, OneValuePerIdInABatch) {
  ASSERT_OK(Validate(GoodScalars()));
  ExpectRefused(Values({1, 1}),
                "summaries[2].scalars.ids[1]: found 1 again (first at index 0); allowed each id "
                "once");
}

TEST_F(ValidateNamesTest, AnIdKeepsItsMeaning) {
  ASSERT_OK(Validate(GoodScalars()));
  v1::Summary other = GoodScalars();
  other.mutable_scalars()->mutable_declare(0)->set_name("lr");
  ExpectRefused(other,
                "summaries[2].scalars.declare[0].id: found 1 for \"lr\"; allowed only \"loss\", "
                "which this id was declared as");
  other = GoodScalars();
  other.mutable_scalars()->mutable_declare(0)->set_reduction(v1::REDUCTION_SUM);
  ExpectRefused(other,
                "summaries[2].scalars.declare[0]: found another unit, reduction or scope for "
                "\"loss\"; allowed the ones it was declared with");
  other = GoodScalars();
  other.mutable_scalars()->mutable_declare(0)->set_id(2);
  ExpectRefused(other,
                "summaries[2].scalars.declare[0].id: found 2; allowed 1, which \"loss\" already "
                "has");
}

TEST_F(ValidateNamesTest, ANameMayStandOnceInEachScope) {
  ASSERT_OK(Validate(GoodScalars()));
  v1::Summary of_rank = GoodScalars();
  v1::ScalarDeclaration* declaration = of_rank.mutable_scalars()->mutable_declare(0);
  ASSERT_EQ(declaration->scope(), v1::SCOPE_GLOBAL);
  declaration->set_id(2);
  declaration->set_scope(v1::SCOPE_RANK);
  ASSERT_OK(Validate(of_rank));
  EXPECT_OK(Validate(Values({1, 2})));
}

TEST_F(ValidateNamesTest, BadDeclarations) {
  struct Bad {
    std::function<void(v1::ScalarDeclaration*)> spoil;
    std::string message;
  };
  const std::string name_rule = "allowed [a-z][a-z0-9_]*, at most 128 bytes";
  const std::vector<Bad> cases = {
      {[](auto* d) { d->clear_name(); }, "name: found \"\"; " + name_rule},
      {[](auto* d) { d->set_name("Loss"); }, "name: found \"Loss\"; " + name_rule},
      {[](auto* d) { d->set_name("1loss"); }, "name: found \"1loss\"; " + name_rule},
      {[](auto* d) { d->set_name("loss/x"); }, "name: found \"loss/x\"; " + name_rule},
      {[](auto* d) { d->set_name(std::string(129, 'a')); },
       "name: found \"" + std::string(64, 'a') + "...\"; " + name_rule},
      {[](auto* d) { d->set_unit(std::string(33, 'u')); },
       "unit: found 33 bytes; allowed 0..32 bytes"},
      {[](auto* d) { d->clear_reduction(); },
       "reduction: found 0; allowed LAST, SUM, MEAN, MAX, MIN"},
      {[](auto* d) { d->set_reduction(static_cast<v1::Reduction>(6)); },
       "reduction: found 6; allowed LAST, SUM, MEAN, MAX, MIN"},
      {[](auto* d) { d->clear_scope(); }, "scope: found 0; allowed GLOBAL, RANK"},
  };
  for (const Bad& bad : cases) {
    v1::Summary summary = GoodScalars();
    bad.spoil(summary.mutable_scalars()->mutable_declare(0));
    ExpectRefused(summary, "summaries[2].scalars.declare[0]." + bad.message);
  }
}

TEST_F(ValidateNamesTest, NamesAreLimitedPerStream) {
  for (uint32_t id = 1; id <= 3; ++id) {
    v1::Summary summary = GoodScalars();
    summary.mutable_scalars()->mutable_declare(0)->set_id(id);
    summary.mutable_scalars()->mutable_declare(0)->set_name("s" + std::to_string(id));
    summary.mutable_scalars()->set_ids(0, id);
    ASSERT_OK(Validate(summary));
  }
  v1::Summary fourth = GoodScalars();
  fourth.mutable_scalars()->mutable_declare(0)->set_id(4);
  ExpectRefused(fourth,
                "summaries[2].scalars.declare[0]: found one more scalar name than the stream may "
                "declare; allowed at most 3 a stream");
}

TEST_F(ValidateNamesTest, GoodDeclarationsOfARefusedBatchStay) {
  v1::Summary summary = GoodScalars();
  summary.mutable_scalars()->add_weights(-1);
  ExpectRefused(summary, "summaries[2].scalars.weights[0]: found -1; allowed finite, >= 0");
  EXPECT_OK(Validate(Values({1})));
}

TEST_F(ValidateNamesTest, CountsMustMatch) {
  v1::Summary summary = GoodScalars();
  summary.mutable_scalars()->add_values(1);
  ExpectRefused(summary, "summaries[2].scalars.values: found 2 values; allowed 1, one per id");
  summary = GoodScalars();
  summary.mutable_scalars()->add_weights(1);
  summary.mutable_scalars()->add_weights(1);
  ExpectRefused(summary,
                "summaries[2].scalars.weights: found 2 weights; allowed none, or 1, one per id");
  summary = GoodScalars();
  summary.mutable_scalars()->add_weights(std::numeric_limits<double>::quiet_NaN());
  ExpectRefused(summary, "summaries[2].scalars.weights[0]: found nan; allowed finite, >= 0");
}

TEST_F(ValidateNamesTest, TensorNamesAndMoments) {
  struct Bad {
    std::function<void(v1::TensorStatsBatch*)> spoil;
    std::string message;
  };
  const std::vector<Bad> cases = {
      {[](auto* b) { b->mutable_declare(0)->set_name("w_q"); },
       "declare[0].name: found \"w_q\"; allowed a name behind act/, grad/, param/, update/, "
       "adam_m/ "
       "or adam_v/"},
      {[](auto* b) { b->mutable_declare(0)->set_name("grad/"); },
       "declare[0].name: found \"grad/\"; allowed a name behind act/, grad/, param/, update/, "
       "adam_m/ or adam_v/"},
      {[](auto* b) { b->mutable_declare(0)->set_layer(4); },
       "declare[0].layer: found 4; allowed 0..3 (model.layers of the Hello)"},
      {[](auto* b) { b->mutable_stats(0)->set_id(6); },
       "stats[0].id: found 6, never declared; allowed ids declared in this or an earlier report of "
       "the stream"},
      {[](auto* b) { b->mutable_stats(0)->set_count(0); },
       "stats[0].count: found 0 and no non-finite elements; allowed a tensor with elements"},
      {[](auto* b) { b->mutable_stats(0)->set_min(3); },
       "stats[0].min: found 3; allowed at most max, 2"},
      {[](auto* b) { b->mutable_stats(0)->set_rms(0.4); },
       "stats[0].rms: found 0.4; allowed at least |mean|, 0.5"},
      {[](auto* b) { *b->add_stats() = b->stats(0); },
       "stats[1].id: found 5 again (first at index 0); allowed each id once"},
  };
  for (const Bad& bad : cases) {
    v1::Summary summary = GoodTensorStats();
    bad.spoil(summary.mutable_tensor_stats());
    ExpectRefused(summary, "summaries[2].tensor_stats." + bad.message);
  }
}

TEST_F(ValidateNamesTest, ATensorWithoutAFiniteElementNeedsNoMoments) {
  v1::Summary summary = GoodTensorStats();
  v1::TensorStats* stats = summary.mutable_tensor_stats()->mutable_stats(0);
  stats->Clear();
  stats->set_id(5);
  stats->set_nan_count(100);
  EXPECT_OK(Validate(summary));
}

TEST_F(ValidateNamesTest, OneTensorNameMayServeEachLayer) {
  ASSERT_OK(Validate(GoodTensorStats()));
  v1::Summary other = GoodTensorStats();
  other.mutable_tensor_stats()->mutable_declare(0)->set_layer(3);
  ExpectRefused(other,
                "summaries[2].tensor_stats.declare[0].id: found 5 for \"grad/w_q\"; allowed only "
                "\"grad/w_q\" in its layer, which this id was declared as");
  other.mutable_tensor_stats()->mutable_declare(0)->set_id(6);
  other.mutable_tensor_stats()->mutable_stats(0)->set_id(6);
  EXPECT_OK(Validate(other));
}

}  // namespace
}  // namespace foreshock::ingest
