// Every case of tests/data/reference.json (computed with 120 digits) through summarise and finish.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/unit/indicators/harness.h"

namespace foreshock::indicators {
namespace {

using nlohmann::json;

double NumberOf(const json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::nan("");
  return text[0] == '-' ? -INFINITY : INFINITY;
}

// [rows][columns] by columns, which is how head weights travel ([r, d] by rows).
std::vector<double> ByColumns(const json& matrix) {
  std::vector<double> values;
  for (size_t c = 0; c < matrix[0].size(); ++c) {
    for (const json& row : matrix) values.push_back(NumberOf(row[c]));
  }
  return values;
}

std::vector<double> ByRows(const json& matrix) {
  std::vector<double> values;
  for (const json& row : matrix) {
    for (const json& value : row) values.push_back(NumberOf(value));
  }
  return values;
}

struct Named {
  const char* reference;
  const char* suffix;
};
constexpr Named kSpectrumNames[] = {
    {"H1", "entropy_l1"},     {"h1", "entropy_ratio_l1"}, {"erank1", "effective_rank_l1"},
    {"H2", "entropy"},        {"h2", "entropy_ratio"},    {"erank2", "effective_rank"},
    {"srank", "stable_rank"},
};

void ExpectSpectrum(const Samples& samples, const std::string& family, const json& expected) {
  for (const Named& name : kSpectrumNames) {
    SCOPED_TRACE(family + "." + name.suffix);
    const json& value = expected.contains(name.reference) ? expected[name.reference] : json();
    if (value.is_null()) {
      EXPECT_FALSE(samples.Has(family + "." + name.suffix));
    } else {
      EXPECT_THAT(samples(family + "." + name.suffix), Near(value.get<double>()));
    }
  }
}

v1::Summary Factors(const std::vector<double>& q, const std::vector<double>& k, uint32_t d,
                    uint32_t r) {
  v1::Summary summary;
  v1::QkFactors* factors = summary.mutable_qk_factors();
  factors->add_heads(0);
  *factors->mutable_q()->mutable_dense() = F64Tensor({1, r, d}, q);
  *factors->mutable_k()->mutable_dense() = F64Tensor({1, r, d}, k);
  return summary;
}

// A matrix as the change of W_Q: its spectrum is attn.delta_q.
void TestMatrix(const json& test) {
  const std::vector<double> a = ByColumns(test["A"]);
  const auto d = static_cast<uint32_t>(test["A"].size());
  const auto r = static_cast<uint32_t>(test["A"][0].size());
  Rank rank;
  const std::vector<double> zero(a.size());
  rank.SendAndClose(Factors(zero, zero, d, r), 0);
  const Samples samples = rank.SendAndClose(Factors(a, zero, d, r), 10);
  const json& expected = test["expected"];
  ExpectSpectrum(samples, "attn.delta_q", expected);
  if (expected["status"] == "nonfinite") {
    EXPECT_THAT(samples("train.nonfinite", 0, "qk_factors.q"), 1);
    EXPECT_EQ(samples.Reason("attn.delta2"), "nonfinite");
  } else if (expected["status"] == "zero") {
    EXPECT_EQ(samples.Reason("attn.delta_q"), "zero_update");
  }
}

void TestQk(const json& test) {
  const auto d = static_cast<uint32_t>(test["Q0"].size());
  const auto r = static_cast<uint32_t>(test["Q0"][0].size());
  Rank rank;
  rank.SendAndClose(Factors(ByColumns(test["Q0"]), ByColumns(test["K0"]), d, r), 0);
  const Samples samples =
      rank.SendAndClose(Factors(ByColumns(test["Q1"]), ByColumns(test["K1"]), d, r), 10);
  ExpectSpectrum(samples, "attn.delta2", test["expected"]["first"]);
  ExpectSpectrum(samples, "attn.delta3", test["expected"]["second"]);
  if (test["expected"]["first"]["status"] == "zero") {
    EXPECT_EQ(samples.Reason("attn.delta2"), "zero_update");
  }
}

void ExpectValue(const Samples& samples, const std::string& id, const json& expected,
                 double scale = 1) {
  SCOPED_TRACE(id);
  if (expected.is_null()) {
    EXPECT_FALSE(samples.Has(id));
  } else {
    EXPECT_THAT(scale * samples(id), Near(expected.get<double>()));
  }
}

void TestRouterWeights(const json& test) {
  const auto experts = static_cast<uint32_t>(test["W"].size());
  const auto d = static_cast<uint32_t>(test["W"][0].size());
  v1::Summary summary;
  *summary.mutable_router_weights()->mutable_weights() = F64Tensor({experts, d}, ByRows(test["W"]));
  Rank rank;
  const Samples samples = rank.SendAndClose(summary, 0);
  json expected = test["expected"]["weights"];
  if (test["name"] == "router_zero_row") {  // our definition: undefined, not left out
    expected["mean_cos"] = expected["cond_rel"] = nullptr;
  }
  if (experts < 3) expected["cond_centred"] = nullptr;  // ours: undefined below 3 experts
  ExpectValue(samples, "router.weight_similarity", expected["mean_cos"]);
  ExpectValue(samples, "router.centred_conditioning", expected["cond_rel"]);
  ExpectValue(samples, "router.centred_kappa", expected["cond_centred"]);
}

void TestGates(const json& test) {
  const auto tokens = static_cast<uint32_t>(test["P"].size());
  const auto experts = static_cast<uint32_t>(test["P"][0].size());
  v1::Summary summary;
  summary.mutable_router_gates()->set_score_kind(v1::SCORE_KIND_SOFTMAX);
  *summary.mutable_router_gates()->mutable_scores() =
      F64Tensor({tokens, experts}, ByRows(test["P"]));
  Rank rank;
  const Samples samples = rank.SendAndClose(summary, 0);
  json expected = test["expected"]["probs"];
  if (experts == 1) expected["mi"] = nullptr;  // ours: a ratio to ln E
  ExpectValue(samples, "router.token_entropy_ratio", expected["tok_ent"]);
  ExpectValue(samples, "router.mutual_information", expected["mi"], std::log(experts));
}

void TestLoad(const json& test) {
  const std::vector<int64_t> counts = test["counts"];
  const auto experts = static_cast<uint32_t>(counts.size());
  v1::Summary summary;
  *summary.mutable_router_load()->mutable_counts() = I64Tensor({experts}, counts);
  Rank rank;
  for (int64_t step = 0; step < 199; ++step) rank.SendAndClose(summary, step);
  const Samples samples = rank.SendAndClose(summary, 199);
  const json& expected = test["expected"]["load"];
  ExpectValue(samples, "load.entropy_ratio", expected["load_ent"]);
  ExpectValue(samples, "load.max_violation", expected["maxvio"]);
  ExpectValue(samples, "load.dead_fraction", expected["dead"], experts);
}

TEST(ReferenceValues, EveryCaseAgreesTo1e9) {
  std::ifstream file(FORESHOCK_SOURCE_DIR "/tests/data/reference.json");
  const json reference = json::parse(file);
  size_t tested = 0;
  for (const json& test : reference["cases"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    ++tested;
    if (test["type"] == "matrix") {
      TestMatrix(test);
    } else if (test["type"] == "qk") {
      TestQk(test);
    } else {
      TestRouterWeights(test);
      if (test.contains("P")) TestGates(test);
      if (test.contains("counts")) TestLoad(test);
    }
  }
  EXPECT_EQ(tested, 34u);
}

}  // namespace
}  // namespace foreshock::indicators
