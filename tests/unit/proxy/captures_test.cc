// What ranks pushed, as a calibration.
#include "proxy/captures.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "daemon/capture/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy/synthetic.h"

namespace foreshock::proxy {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kTopK = 2;

template <typename T>
v1::Tensor MakePushed(v1::DType dtype, const std::vector<T>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.add_shape(static_cast<uint32_t>(values.size()));
  tensor.set_data(values.data(), values.size() * sizeof(T));
  return tensor;
}

// Random choices of `tokens` tokens, as a rank counts them.
struct Choices {
  std::vector<int64_t> counts = std::vector<int64_t>(kExperts);
  std::vector<int64_t> pairs = std::vector<int64_t>(kExperts * (kExperts - 1) / 2);
  std::vector<double> gates = std::vector<double>(kExperts);
  int64_t tokens = 0;

  Choices(int64_t token_count, unsigned seed) : tokens(token_count) {
    std::mt19937 random(seed);
    for (int64_t t = 0; t < tokens; ++t) {
      const auto a = random() % kExperts;
      const auto b = (a + 1 + random() % (kExperts - 1)) % kExperts;
      ++counts[a];
      ++counts[b];
      gates[a] += 0.75;
      gates[b] += 0.25;
      const auto i = std::max(a, b);
      ++pairs[i * (i - 1) / 2 + std::min(a, b)];
    }
  }
};

v1::Summary LoadOf(const Choices& choices, uint32_t layer, uint32_t begin = 0,
                   uint32_t end = kExperts) {
  v1::Summary summary;
  v1::RouterLoad& load = *summary.mutable_router_load();
  load.set_layer(layer);
  load.set_expert_offset(begin);
  *load.mutable_counts() = MakePushed<int64_t>(
      v1::DTYPE_I64, {choices.counts.begin() + begin, choices.counts.begin() + end});
  return summary;
}

v1::Summary PairsOf(const Choices& choices, uint32_t layer) {
  v1::Summary summary;
  v1::RouterCoactivation& pairs = *summary.mutable_router_coactivation();
  pairs.set_layer(layer);
  pairs.set_experts(kExperts);
  *pairs.mutable_pair_counts() = MakePushed(v1::DTYPE_I64, choices.pairs);
  *pairs.mutable_gate_mass() = MakePushed(v1::DTYPE_F64, choices.gates);
  pairs.set_tokens(static_cast<uint64_t>(choices.tokens));
  return summary;
}

class CapturesTest : public ::testing::Test {
 protected:
  CapturesTest() {
    std::filesystem::create_directory(dir_.File("model"));
    Write(MakeModel("qwen3_moe"), dir_.File("model"), 1);
  }

  // A rank's stream in a file of its own.
  std::string Capture(const std::string& name, uint32_t data_rank,
                      const std::vector<std::pair<int64_t, v1::Summary>>& pushed,
                      const std::function<void(v1::Hello&, v1::Report&)>& change = {}) {
    const std::string path = dir_.File(name + ".jsonl");
    auto writer = capture::CaptureWriter::Create(path);
    EXPECT_OK(writer.status());
    v1::CaptureRecord record;
    v1::Hello& hello = *record.mutable_message()->mutable_hello();
    hello.set_run("r");
    hello.set_launch_id("l");
    hello.set_client_instance(name);
    hello.set_world_size(8);
    hello.set_rank(data_rank);
    hello.mutable_coordinates()->set_data(data_rank);
    hello.mutable_model()->set_experts(kExperts);
    hello.mutable_model()->set_top_k(kTopK);
    v1::Report report;
    if (change) change(hello, report);
    EXPECT_OK((*writer)->Write(record));
    uint64_t seq = 0;
    for (const auto& [step, summary] : pushed) {
      v1::CaptureRecord next;
      *next.mutable_message()->mutable_report() = report;
      next.mutable_message()->mutable_report()->set_seq(++seq);
      next.mutable_message()->mutable_report()->set_step(step);
      *next.mutable_message()->mutable_report()->add_summaries() = summary;
      EXPECT_OK((*writer)->Write(next));
    }
    EXPECT_OK((*writer)->Commit());
    return path;
  }

  absl::StatusOr<Pushed> Gather(const std::vector<std::string>& paths,
                                const GatherOptions& options = {}) {
    absl::StatusOr<Families> families = Families::Builtin();
    if (!families.ok()) return families.status();
    absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(dir_.File("model"));
    if (!checkpoint.ok()) return checkpoint.status();
    absl::StatusOr<Model> model = Recognise(*checkpoint, *families);
    if (!model.ok()) return model.status();
    model_ = *model;
    return GatherCaptures(paths, *model, options);
  }

  support::TempDir dir_;
  Model model_;
};

TEST_F(CapturesTest, RanksAndStepsAddAndReplicasDoNot) {
  const Choices a(50, 1);
  const Choices b(70, 2);
  const Choices c(30, 3);
  const std::string first = Capture("first", 0, {{5, PairsOf(a, 0)}, {9, PairsOf(b, 0)}});
  const std::string replica = Capture("replica", 0, {{5, PairsOf(a, 0)}});
  const std::string second = Capture("second", 1, {{5, PairsOf(c, 0)}, {5, LoadOf(c, 1)}});
  ASSERT_OK_AND_ASSIGN(const Pushed pushed, Gather({first, replica, second}));
  const LayerStats& stats = pushed.layers.at(0);
  EXPECT_EQ(stats.tokens, 150);
  for (int e = 0; e < kExperts; ++e) {
    const auto at = static_cast<size_t>(e);
    EXPECT_EQ(stats.frequency(e), static_cast<double>(a.counts[at] + b.counts[at] + c.counts[at]));
    EXPECT_EQ((*stats.coactivation)(e, e), stats.frequency(e));
    EXPECT_EQ((*stats.gate_sum)(e), a.gates[at] + b.gates[at] + c.gates[at]);
  }
  EXPECT_EQ((*stats.coactivation)(3, 1), static_cast<double>(a.pairs[4] + b.pairs[4] + c.pairs[4]));
  EXPECT_EQ(pushed.layers.at(1).tokens, 30);
  EXPECT_FALSE(pushed.layers.at(1).coactivation.has_value());
  // What is written is a calibration like any other.
  ASSERT_OK(WriteCalibration(dir_.File("c"), model_, pushed.layers));
  ASSERT_OK_AND_ASSIGN(const Calibration calibration, Calibration::Open({dir_.File("c")}, model_));
  ASSERT_OK_AND_ASSIGN(const LayerStats again, calibration.Load(0));
  EXPECT_EQ(again.frequency, stats.frequency);
  EXPECT_EQ(*again.coactivation, *stats.coactivation);
  EXPECT_EQ(*again.gate_sum, *stats.gate_sum);
}

TEST_F(CapturesTest, ExpertParallelLoadsMakeOneVector) {
  const Choices a(40, 4);
  const std::string path = Capture("a", 0, {{1, LoadOf(a, 0, 0, 4)}, {1, LoadOf(a, 0, 4, 8)}});
  ASSERT_OK_AND_ASSIGN(const Pushed pushed, Gather({path}));
  EXPECT_EQ(pushed.layers.at(0).tokens, 40);
  EXPECT_THAT(pushed.warnings, Contains("layer 1: nothing was pushed of its router"));
}

TEST_F(CapturesTest, OnlyTheTrainingStepsAskedForCount) {
  const Choices a(40, 5);
  const Choices b(60, 6);
  const std::string path = Capture("a", 0, {{1, LoadOf(a, 0)}, {2, LoadOf(b, 0)}});
  GatherOptions options;
  options.first_step = 2;
  ASSERT_OK_AND_ASSIGN(const Pushed late, Gather({path}, options));
  EXPECT_EQ(late.layers.at(0).tokens, 60);
  const std::string both = Capture("both", 0, {{1, PairsOf(a, 0)}, {2, LoadOf(b, 0)}});
  ASSERT_OK_AND_ASSIGN(const Pushed pairs, Gather({both}));
  EXPECT_EQ(pairs.layers.at(0).tokens, 40);
  options.loads_only = true;
  ASSERT_OK_AND_ASSIGN(const Pushed loads, Gather({both}, options));
  EXPECT_EQ(loads.layers.at(0).tokens, 60);
  for (const auto& change : std::vector<std::function<void(v1::Hello&, v1::Report&)>>{
           [](v1::Hello&, v1::Report& report) { report.set_phase(v1::PHASE_EVAL); },
           [](v1::Hello&, v1::Report& report) { report.set_recomputed(true); }}) {
    EXPECT_THAT(Gather({Capture("none", 0, {{1, LoadOf(a, 0)}}, change)}),
                support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("no RouterLoad")));
  }
}

TEST_F(CapturesTest, WhatContradictsItselfOrTheModelIsRefused) {
  const Choices a(40, 7);
  const auto expect_error = [&](const std::string& path, const std::string& message) {
    EXPECT_THAT(Gather({path}),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  v1::Summary pairs = PairsOf(a, 0);
  pairs.mutable_router_coactivation()->set_tokens(41);
  expect_error(Capture("tokens", 0, {{1, pairs}}), "layer 0: the pair counts are not those of 41");
  pairs = PairsOf(a, 0);
  pairs.mutable_router_coactivation()->set_experts(9);
  expect_error(Capture("experts", 0, {{1, pairs}}),
               "step 1, layer 0: RouterCoactivation is of 9 experts, the checkpoint has 8");
  pairs = PairsOf(a, 0);
  pairs.mutable_router_coactivation()->mutable_pair_counts()->mutable_data()->resize(16);
  expect_error(Capture("short", 0, {{1, pairs}}), "pair_counts has 2 numbers of DTYPE_I64, must");
  v1::Summary load = LoadOf(a, 0);
  load.mutable_router_load()->set_expert_offset(1);
  expect_error(Capture("offset", 0, {{1, load}}), "RouterLoad is of experts from 1 to 9");
  *load.mutable_router_load() = LoadOf(a, 0).router_load();
  load.mutable_router_load()->mutable_counts()->set_dtype(v1::DTYPE_F64);
  expect_error(Capture("float", 0, {{1, load}}), "counts has 0 numbers of DTYPE_F64");
  Choices odd = a;
  ++odd.counts[0];
  expect_error(Capture("odd", 0, {{1, LoadOf(odd, 0)}}),
               "the loads add to 81, no multiple of top-k");
  odd.counts[0] = -1;
  expect_error(Capture("negative", 0, {{1, LoadOf(odd, 0)}}), "counts has -1");
  expect_error(Capture("other", 0, {{1, LoadOf(a, 0)}},
                       [](v1::Hello& hello, v1::Report&) { hello.mutable_model()->set_top_k(4); }),
               "run 'r' says top_k 4, the checkpoint has 2");
}

}  // namespace
}  // namespace foreshock::proxy
