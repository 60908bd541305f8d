#include "client/cpp/src/names.h"

#include "tests/support/status_matchers.h"

namespace foreshock::client_internal {
namespace {

using ::testing::HasSubstr;

v1::ScalarDeclaration Scalar(uint32_t id, const std::string& name,
                             v1::Scope scope = v1::SCOPE_GLOBAL) {
  v1::ScalarDeclaration declaration;
  declaration.set_id(id);
  declaration.set_name(name);
  declaration.set_reduction(v1::REDUCTION_LAST);
  declaration.set_scope(scope);
  return declaration;
}

v1::Report Using(uint32_t id) {
  v1::Report report;
  v1::ScalarBatch* batch = report.add_summaries()->mutable_scalars();
  batch->add_ids(id);
  batch->add_values(1);
  return report;
}

TEST(NamesTest, AScalarKeepsItsIdAndAScopeIsAnotherScalar) {
  Names names;
  ASSERT_OK_AND_ASSIGN(const uint32_t loss, names.DeclareScalar(Scalar(0, "loss")));
  ASSERT_OK_AND_ASSIGN(const uint32_t again, names.DeclareScalar(Scalar(0, "loss")));
  ASSERT_OK_AND_ASSIGN(const uint32_t rank_loss,
                       names.DeclareScalar(Scalar(0, "loss", v1::SCOPE_RANK)));
  EXPECT_EQ(loss, again);
  EXPECT_NE(loss, rank_loss);
  v1::ScalarDeclaration other = Scalar(0, "loss");
  other.set_unit("bits");
  EXPECT_THAT(names.DeclareScalar(other), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                            HasSubstr("declared otherwise")));
}

TEST(NamesTest, EveryStreamIsToldANameOnceWhenItFirstNeedsIt) {
  Names names;
  v1::Report first = Using(7);
  *first.mutable_summaries(0)->mutable_scalars()->add_declare() = Scalar(7, "loss");
  ASSERT_OK(names.Absorb(&first));
  EXPECT_EQ(first.summaries(0).scalars().declare_size(), 0);

  for (int stream = 0; stream < 2; ++stream) {
    StreamIds known;
    for (const int expected : {1, 0}) {
      v1::Report report = Using(7);
      names.DeclareFor(&report, &known);
      ASSERT_EQ(report.summaries(0).scalars().declare_size(), expected);
      if (expected == 1) {
        EXPECT_EQ(report.summaries(0).scalars().declare(0).name(), "loss");
      }
    }
  }
}

TEST(NamesTest, TensorsAreInternedLikeScalarsButApart) {
  Names names;
  v1::Report report;
  v1::TensorStatsBatch* batch = report.add_summaries()->mutable_tensor_stats();
  v1::TensorDeclaration* declaration = batch->add_declare();
  declaration->set_id(1);
  declaration->set_name("act/out");
  batch->add_stats()->set_id(1);
  ASSERT_OK(names.Absorb(&report));
  StreamIds known;
  names.DeclareFor(&report, &known);
  EXPECT_EQ(report.summaries(0).tensor_stats().declare(0).name(), "act/out");

  v1::Report scalar = Using(1);
  EXPECT_THAT(names.Absorb(&scalar),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("scalar id 1 was never declared")));
  v1::Report clash;
  declaration = clash.add_summaries()->mutable_tensor_stats()->add_declare();
  declaration->set_id(1);
  declaration->set_name("act/in");
  EXPECT_THAT(names.Absorb(&clash), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                      HasSubstr("it stands for \"act/out\"")));
}

TEST(NamesTest, ChosenIdsAndGivenIdsDoNotCollide) {
  Names names;
  v1::Report report = Using(5);
  *report.mutable_summaries(0)->mutable_scalars()->add_declare() = Scalar(5, "lr");
  ASSERT_OK(names.Absorb(&report));
  ASSERT_OK_AND_ASSIGN(const uint32_t loss, names.DeclareScalar(Scalar(0, "loss")));
  EXPECT_NE(loss, 5u);
  ASSERT_OK_AND_ASSIGN(const uint32_t lr, names.DeclareScalar(Scalar(0, "lr")));
  EXPECT_EQ(lr, 5u);
}

}  // namespace
}  // namespace foreshock::client_internal
