// What a proxy's files hold, against a slow and obvious cut of the same tensors.
#include "proxy/slice.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proxy/assemble.h"
#include "proxy/select.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy/synthetic.h"

namespace foreshock::proxy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Opened {
  Checkpoint checkpoint;
  Model model;
};

absl::StatusOr<Opened> Open(const std::string& directory) {
  absl::StatusOr<Families> families = Families::Builtin();
  if (!families.ok()) return families.status();
  absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(directory);
  if (!checkpoint.ok()) return checkpoint.status();
  absl::StatusOr<Model> model = Recognise(*checkpoint, *families);
  if (!model.ok()) return model.status();
  return Opened{*std::move(checkpoint), *std::move(model)};
}

Plan MakePlan(const Opened& source, const std::vector<int>& kept) {
  Plan plan;
  plan.model_type = source.model.model_type;
  plan.experts = source.model.experts;
  plan.top_k = source.model.top_k;
  plan.keep = static_cast<int>(kept.size());
  plan.selector = "by hand";
  plan.settings = nlohmann::json::object();
  plan.source_sha256 = source.checkpoint.sha256;
  for (const MoeLayer& moe : source.model.moe) {
    plan.layers.emplace_back();
    plan.layers.back().layer = moe.layer;
    plan.layers.back().kept = kept;
  }
  return plan;
}

// Two groups, so that half of the experts can be kept with noaux_tc.
SyntheticModel MakeCuttable(const std::string& kind) {
  SyntheticModel model = MakeModel(kind);
  if (kind == "deepseek_v3") model.config["n_group"] = 2;
  return model;
}

absl::StatusOr<Assembled> SliceTo(const std::string& directory, const std::string& out,
                                  const std::vector<int>& kept, const SliceOptions& options = {}) {
  absl::StatusOr<Opened> source = Open(directory);
  if (!source.ok()) return source.status();
  const Plan plan = MakePlan(*source, kept);
  absl::StatusOr<Cut> cut = Slice(source->checkpoint, source->model, plan, options);
  if (!cut.ok()) return cut.status();
  return Assemble(source->checkpoint, plan, *cut, out, [](uint64_t, const std::string&) {});
}

struct Found {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string data;
  bool operator==(const Found&) const = default;
};
using Tensors = std::map<std::string, Found>;

Tensors Contents(const Checkpoint& checkpoint) {
  Tensors tensors;
  for (const Shard& shard : checkpoint.shards) {
    for (const Tensor& tensor : shard.header.tensors) {
      tensors[tensor.name] = {tensor.dtype, tensor.shape,
                              *shard.file.Read(tensor.begin, tensor.bytes())};
    }
  }
  return tensors;
}

// The cut as people would describe it: by the names alone.
Tensors SlowCut(const SyntheticModel& model, const std::vector<int>& kept) {
  Tensors tensors;
  for (const SyntheticTensor& tensor : model.tensors) {
    const size_t at = tensor.name.find(".experts.");
    const std::string tail = at == std::string::npos ? "" : tensor.name.substr(at + 9);
    Found found{tensor.dtype, tensor.shape, tensor.data};
    if (!tail.empty() && std::isdigit(static_cast<unsigned char>(tail[0])) != 0) {
      for (size_t i = 0; i < kept.size(); ++i) {
        const std::string number = absl::StrCat(kept[i], ".");
        if (!absl::StartsWith(tail, number)) continue;
        tensors[absl::StrCat(tensor.name.substr(0, at + 9), i, ".", tail.substr(number.size()))] =
            found;
      }
      continue;
    }
    const bool router =
        absl::StrContains(tensor.name, ".gate.") || absl::StrContains(tensor.name, ".router.");
    if (router || !tail.empty()) {
      const size_t row = tensor.data.size() / kExperts;
      found.shape[0] = kept.size();
      found.data.clear();
      for (const int e : kept) {
        found.data += tensor.data.substr(static_cast<size_t>(e) * row, row);
      }
    }
    tensors[tensor.name] = found;
  }
  return tensors;
}

std::map<std::string, std::string> Files(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files[entry.path().filename().string()] = ReadText(entry.path().string());
  }
  return files;
}

TEST(Slice, EveryFamilyKeepsTheBytesOfTheKeptExperts) {
  const std::vector<int> kept = {1, 3, 6, 7};
  for (const std::string& kind : ModelKinds()) {
    for (const size_t shards : {1u, 3u}) {
      SCOPED_TRACE(absl::StrCat(kind, " in ", shards));
      support::TempDir dir;
      std::filesystem::create_directory(dir.File("in"));
      const SyntheticModel synthetic = MakeCuttable(kind);
      Write(synthetic, dir.File("in"), shards);
      const auto before = Files(dir.File("in"));
      ASSERT_OK(SliceTo(dir.File("in"), dir.File("out"), kept).status());
      ASSERT_OK_AND_ASSIGN(const Opened proxy, Open(dir.File("out")));
      EXPECT_EQ(proxy.model.experts, 4);
      EXPECT_EQ(proxy.model.top_k, 2);
      EXPECT_EQ(Contents(proxy.checkpoint), SlowCut(synthetic, kept));
      EXPECT_EQ(Files(dir.File("in")), before);
      EXPECT_EQ(ReadText(dir.File("out/tokenizer.json")), before.at("tokenizer.json"));
      EXPECT_FALSE(std::filesystem::exists(dir.File("out.partial")));
      // Nothing but the number of experts differs in the config.
      nlohmann::ordered_json config = synthetic.config;
      (proxy.model.config_section.empty()
           ? config
           : config[proxy.model.config_section])[proxy.model.family.experts] = 4;
      EXPECT_EQ(proxy.checkpoint.config, config);
      for (const Shard& shard : proxy.checkpoint.shards) {
        for (const Tensor& tensor : shard.header.tensors) {
          EXPECT_EQ(tensor.begin * 8 % static_cast<uint64_t>(DtypeBits(tensor.dtype)), 0u)
              << tensor.name;
        }
      }
    }
  }
}

TEST(Slice, AllExpertsGiveTheSourceByteForByte) {
  for (const std::string& kind : ModelKinds()) {
    SCOPED_TRACE(kind);
    support::TempDir dir;
    std::filesystem::create_directory(dir.File("in"));
    Write(MakeModel(kind), dir.File("in"), 2);
    ASSERT_OK(SliceTo(dir.File("in"), dir.File("out"), {0, 1, 2, 3, 4, 5, 6, 7}).status());
    auto files = Files(dir.File("out"));
    EXPECT_EQ(files.erase("plan.json"), 1u);
    EXPECT_EQ(files, Files(dir.File("in")));
  }
}

TEST(Slice, AShardWithoutExpertsIsTheSameFileAndOneOfDroppedExpertsIsGone) {
  SyntheticModel model = MakeModel("mixtral");
  support::TempDir dir;
  std::filesystem::create_directory(dir.File("in"));
  // By what the tensors are: no expert, experts 0 to 3, experts 4 to 7.
  std::vector<SyntheticTensor> parts[3];
  nlohmann::json map;
  const std::string names[3] = {"a.safetensors", "b.safetensors", "c.safetensors"};
  for (const SyntheticTensor& tensor : model.tensors) {
    const size_t at = tensor.name.find("experts.");
    const size_t part = absl::StrContains(tensor.name, "gate") ? 1
                        : at == std::string::npos              ? 0
                                                  : 1 + (tensor.name[at + 8] >= '4' ? 1 : 0);
    parts[part].push_back(tensor);
    map[tensor.name] = names[part];
  }
  for (size_t p = 0; p < 3; ++p) WriteText(dir.File("in/" + names[p]), Encode(parts[p]));
  WriteText(dir.File("in/config.json"), model.config.dump());
  WriteText(
      dir.File(std::string("in/") + kIndexName),
      nlohmann::json{{"metadata", {{"total_size", 1}, {"more", 2}}}, {"weight_map", map}}.dump());
  ASSERT_OK(SliceTo(dir.File("in"), dir.File("out"), {0, 2}).status());
  EXPECT_EQ(ReadText(dir.File("out/a.safetensors")), ReadText(dir.File("in/a.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(dir.File("out/c.safetensors")));
  const auto index = nlohmann::json::parse(ReadText(dir.File(std::string("out/") + kIndexName)));
  ASSERT_OK_AND_ASSIGN(const Opened proxy, Open(dir.File("out")));
  EXPECT_EQ(index["metadata"]["total_size"], proxy.checkpoint.bytes());
  EXPECT_EQ(index["metadata"]["more"], 2);
  EXPECT_EQ(proxy.checkpoint.shards.size(), 2u);
}

TEST(Slice, NamesInTheQuantisationFollowTheExperts) {
  SyntheticModel model = MakeModel("qwen3_moe");
  model.config["quantization_config"] = {
      {"modules_to_not_convert",
       {"lm_head", "model.layers.0.mlp.gate", "model.layers.0.mlp.experts.1.up_proj",
        "model.layers.0.mlp.experts.2", "model.layers.1.mlp.experts.7.down_proj"}},
      {"bits", {{"model.layers.1.mlp.experts.3.up_proj", 8}, {"model.layers.1.mlp.experts.0", 4}}},
      {"pattern", {"re:.*experts.5.*"}}};
  support::TempDir dir;
  std::filesystem::create_directory(dir.File("in"));
  Write(model, dir.File("in"), 1);
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir.File("in")));
  ASSERT_OK_AND_ASSIGN(const Cut cut,
                       Slice(source.checkpoint, source.model, MakePlan(source, {1, 3, 7}), {}));
  ASSERT_EQ(cut.texts[0].first, "config.json");
  const auto config = nlohmann::json::parse(cut.texts[0].second)["quantization_config"];
  EXPECT_EQ(
      config["modules_to_not_convert"],
      (nlohmann::json{"lm_head", "model.layers.0.mlp.gate", "model.layers.0.mlp.experts.0.up_proj",
                      "model.layers.1.mlp.experts.2.down_proj"}));
  EXPECT_EQ(config["bits"], (nlohmann::json{{"model.layers.1.mlp.experts.1.up_proj", 8}}));
  EXPECT_EQ(config["pattern"], (nlohmann::json{"re:.*experts.5.*"}));
  EXPECT_THAT(cut.warnings, Contains(HasSubstr("names 're:.*experts.5.*'")));
}

TEST(Slice, PredictionLayersMayBeLeftOut) {
  support::TempDir dir;
  std::filesystem::create_directory(dir.File("in"));
  Write(MakeCuttable("deepseek_v3"), dir.File("in"), 2);
  SliceOptions options;
  options.drop_prediction = true;
  ASSERT_OK(SliceTo(dir.File("in"), dir.File("out"), {0, 1, 4, 5}, options).status());
  ASSERT_OK_AND_ASSIGN(const Opened proxy, Open(dir.File("out")));
  EXPECT_EQ(proxy.checkpoint.config["num_nextn_predict_layers"], 0);
  EXPECT_EQ(proxy.model.moe.size(), 1u);
  for (const auto& [name, found] : Contents(proxy.checkpoint)) {
    EXPECT_THAT(name, Not(HasSubstr("layers.2.")));
  }
}

TEST(Slice, GateScalesAreWrittenWhereGatesGrow) {
  support::TempDir dir;
  std::filesystem::create_directory(dir.File("in"));
  Write(MakeModel("olmoe"), dir.File("in"), 1);
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir.File("in")));
  Plan plan = MakePlan(source, {0, 1, 2, 3});
  SliceOptions options;
  options.gate_rescale = true;
  EXPECT_THAT(
      Slice(source.checkpoint, source.model, plan, options),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no kept_probability")));
  plan.layers[0].kept_probability = 0.75;
  plan.layers[1].kept_probability = 0.5;
  ASSERT_OK_AND_ASSIGN(const Cut cut, Slice(source.checkpoint, source.model, plan, options));
  EXPECT_EQ(nlohmann::json::parse(cut.texts[0].second)["foreshock_gate_scale"],
            (nlohmann::json{{"0", 0.75}, {"1", 0.5}}));
  support::TempDir other;
  Write(MakeModel("mixtral"), other.path(), 1);
  ASSERT_OK_AND_ASSIGN(const Opened mixtral, Open(other.path()));
  EXPECT_THAT(
      Slice(mixtral.checkpoint, mixtral.model, MakePlan(mixtral, {0, 1, 2, 3}), options),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not renormalised grow")));
}

TEST(Slice, RowsThatEndInsideAByteAreRefused) {
  const Tensor tensor{"t", "F4", {8, 3}, 100, 112};
  EXPECT_THAT(RowRanges(tensor, 8, {0}), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                           HasSubstr("no whole number of bytes")));
  ASSERT_OK_AND_ASSIGN(const auto ranges, RowRanges({"t", "F4", {8, 4}, 100, 116}, 8, {1, 2, 5}));
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, 102u);
  EXPECT_EQ(ranges[0].bytes, 4u);
  EXPECT_EQ(ranges[1].begin, 110u);
}

TEST(Slice, APlanOfAnotherCheckpointIsRefused) {
  support::TempDir dir;
  Write(MakeCuttable("deepseek_v3"), dir.path(), 1);
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir.path()));
  const Plan good = MakePlan(source, {0, 1, 4, 5});
  const auto expect_error = [&](auto change, const std::string& message) {
    Plan plan = good;
    change(plan);
    EXPECT_THAT(Slice(source.checkpoint, source.model, plan, {}),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect_error([](Plan& p) { p.model_type = "mixtral"; }, "its model_type is mixtral");
  expect_error([](Plan& p) { p.experts = 16; }, "its experts is 16");
  expect_error([](Plan& p) { p.top_k = 1; }, "its top_k is 1");
  expect_error([](Plan& p) { p.source_sha256 = "0"; }, "its source_sha256 is 0");
  expect_error([](Plan& p) { p.layers.pop_back(); }, "its list of layers is 1, ");
  expect_error([](Plan& p) { p.layers[0].kept = {0, 1, 2, 5}; }, "keeps 3 experts of group 0");
  expect_error(
      [](Plan& p) {
        p.keep = 2;
        for (LayerPlan& layer : p.layers) layer.kept = {0, 4};
      },
      "its two best experts");
}

TEST(Plan, WhatIsWrittenReadsBackTheSame) {
  support::TempDir dir;
  Write(MakeModel("qwen3_moe"), dir.path(), 1);
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir.path()));
  ASSERT_OK_AND_ASSIGN(const Calibration none, Calibration::Open({}, source.model));
  for (const char* selector : {"router-only", "random"}) {
    SelectOptions options;
    options.keep = 4;
    options.selector = selector;
    ASSERT_OK_AND_ASSIGN(Plan plan, Select(source.checkpoint, source.model, none, options));
    plan.layers[0].kept_probability = 0.3;
    const std::string text = FormatPlan(plan);
    ASSERT_OK_AND_ASSIGN(const Plan again, ParsePlan("p", text));
    EXPECT_EQ(FormatPlan(again), text);
    for (size_t size = 0; size + 1 < text.size(); ++size) {  // the last is a line feed
      ASSERT_FALSE(ParsePlan("p", text.substr(0, size)).ok()) << size;
    }
  }
}

TEST(Plan, BadPlansNameTheKey) {
  const std::string good = R"({"format": "foreshock.plan.v1", "model_type": "m", "experts": 4,
    "keep": 2, "top_k": 1, "selector": "cluster", "settings": {}, "source_sha256": "a",
    "calibration_sha256": [], "warnings": [], "layers": [{"layer": 3, "kept": [0, 2],
    "cluster": [0, 0, 1, 1], "medoids": [1, 3], "representatives": [0, 2],
    "scales": {"router": 0.5}, "unseen": []}]})";
  ASSERT_OK(ParsePlan("p", good));
  for (const auto& [from, to, message] : std::vector<std::array<std::string, 3>>{
           {"plan.v1", "plan.v2", "p: 'format' is 'foreshock.plan.v2'"},
           {R"("settings": {},)", "", "'settings' is missing"},
           {R"("settings")", R"("more": 1, "settings")", "'more' is not known"},
           {R"("keep": 2)", R"("keep": 5)", "'keep' is 5; allowed are 1 to 4"},
           {R"("keep": 2)", R"("keep": 1e9)", "'keep' is 1000000000.0"},
           {R"("keep": 2)", R"("keep": 3)", "element 0 (from 0): 'kept' has 2 elements, must"},
           {R"("kept": [0, 2])", R"("kept": [2, 0])", "'kept' is not in ascending order"},
           {R"("kept": [0, 2])", R"("kept": [0, 4])", "'kept' is 4; allowed are 0 to 3"},
           {R"("kept": [0, 2])", R"("kept": "all")", "'kept' is not a list"},
           {R"([0, 0, 1, 1])", R"([0, 0, 1, 2])", "'cluster' is 2; allowed are 0 to 1"},
           {R"([0, 0, 1, 1])", R"([0, 1, 1, 1])", "puts expert 1 into cluster 1, which rep"},
           {R"("representatives": [0, 2])", R"("representatives": [1, 2])", "the same as 'kept'"},
           {R"("cluster": [0, 0, 1, 1],)", "", "'cluster' is missing"},
           {R"("router": 0.5)", R"("router": -1)", "'scales' is -1"},
           {R"("layer": 3)", R"("layer": -1)", "'layer' is -1"},
           {R"("layers": [)", R"("layers": [7, )", "layers: element 0 (from 0): is not an object"},
           {R"("unseen": []}])", R"("unseen": []}, {"layer": 3, "kept": [0, 1], "unseen": []}])",
            "has layer 3 after layer 3"},
           {R"("warnings": [])", R"("warnings": [1])", "'warnings' has an element"}}) {
    const std::string bad = absl::StrReplaceAll(good, {{from, to}});
    ASSERT_NE(bad, good) << from;
    EXPECT_THAT(ParsePlan("p", bad),
                support::StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(::testing::StartsWith("p: "), HasSubstr(message))))
        << bad;
  }
}

class AssembleTest : public ::testing::Test {
 protected:
  AssembleTest() {
    std::filesystem::create_directory(dir_.File("in"));
    Write(MakeModel("qwen3_moe"), dir_.File("in"), 3);
  }
  absl::StatusOr<Assembled> Run(const std::string& out) {
    return SliceTo(dir_.File("in"), dir_.File(out), {0, 2, 4});
  }
  // How far an attempt gets that may not write a file of more than `bytes`.
  absl::Status RunWithLimit(const std::string& out, rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    const absl::Status status = Run(out).status();
    setrlimit(RLIMIT_FSIZE, &before);
    return status;
  }

  support::TempDir dir_;
};

TEST_F(AssembleTest, AFailedWriteLeavesNoOutputAndTheNextAttemptGoesOn) {
  ASSERT_OK(Run("whole").status());
  uint64_t largest = 0;
  for (const auto& [name, text] : Files(dir_.File("whole"))) {
    largest = std::max<uint64_t>(largest, text.size());
  }
  for (rlim_t limit = 0; limit < largest; limit += largest / 40) {
    SCOPED_TRACE(limit);
    const absl::Status status = RunWithLimit("out", limit);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write "));
    EXPECT_FALSE(std::filesystem::exists(dir_.File("out")));
    for (const auto& [name, text] : Files(dir_.File("out.partial"))) {
      if (name == "slice.identity") continue;
      EXPECT_EQ(text, Files(dir_.File("whole"))[name]) << name;
    }
  }
  ASSERT_OK_AND_ASSIGN(const Assembled done, Run("out"));
  EXPECT_EQ(done.shards_kept + done.shards_written, 3u);
  EXPECT_EQ(Files(dir_.File("out")), Files(dir_.File("whole")));
}

TEST_F(AssembleTest, ShardsOfAnEarlierAttemptAreNotWrittenAgain) {
  ASSERT_OK(Run("out").status());
  const auto whole = Files(dir_.File("out"));
  ASSERT_FALSE(RunWithLimit("again", 0).ok());
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir_.File("in")));
  ASSERT_OK_AND_ASSIGN(const Cut cut,
                       Slice(source.checkpoint, source.model, MakePlan(source, {0, 2, 4}), {}));
  WriteText(dir_.File("again.partial/slice.identity"), cut.identity);
  // As a kill would leave it: one shard whole, one cut short, one under its temporary name.
  std::vector<std::string> shards;
  for (const auto& [name, text] : whole) {
    if (absl::EndsWith(name, ".safetensors")) shards.push_back(name);
  }
  ASSERT_EQ(shards.size(), 3u);
  WriteText(dir_.File("again.partial/" + shards[0]), whole.at(shards[0]));
  WriteText(dir_.File("again.partial/" + shards[1]), whole.at(shards[1]).substr(0, 100));
  WriteText(dir_.File("again.partial/" + shards[2] + ".tmp"), "half");
  ASSERT_OK_AND_ASSIGN(const Assembled done, Run("again"));
  EXPECT_EQ(done.shards_kept, 1u);
  EXPECT_EQ(done.shards_written, 2u);
  EXPECT_EQ(Files(dir_.File("again")), whole);
}

TEST_F(AssembleTest, AnOutputThatLacksTheLastStepIsFinished) {
  ASSERT_OK(Run("whole").status());
  const auto whole = Files(dir_.File("whole"));
  ASSERT_FALSE(RunWithLimit("out", 0).ok());
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir_.File("in")));
  ASSERT_OK_AND_ASSIGN(const Cut cut,
                       Slice(source.checkpoint, source.model, MakePlan(source, {0, 2, 4}), {}));
  // As a kill right after the renaming would leave it.
  WriteText(dir_.File("whole/slice.identity"), cut.identity);
  ASSERT_OK_AND_ASSIGN(const Assembled done, Run("whole"));
  EXPECT_EQ(done.shards_kept, 3u);
  EXPECT_EQ(Files(dir_.File("whole")), whole);
  // Of another cut it is somebody's proxy.
  WriteText(dir_.File("whole/slice.identity"), "another");
  EXPECT_THAT(Run("whole").status(), support::StatusIs(absl::StatusCode::kAlreadyExists,
                                                       HasSubstr("exists; a proxy is written")));
}

TEST_F(AssembleTest, WhatIsInTheWayIsNamed) {
  const auto expect_error = [](const absl::Status& status, const std::string& message) {
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  expect_error(Run("in").status(), "exists; a proxy is written into a new directory");
  expect_error(Run("in/proxy").status(), "lies inside the source");
  expect_error(Run("none/proxy").status(), "is no directory");
  EXPECT_THAT(Files(dir_.File("in")), Not(Contains(::testing::Key("proxy.partial"))));
  std::filesystem::create_directory(dir_.File("out.partial"));
  WriteText(dir_.File("out.partial/mine.txt"), "do not lose me");
  expect_error(Run("out").status(), "is in the way");
  WriteText(dir_.File("out.partial/slice.identity"), "another");
  expect_error(Run("out").status(), "of another plan, source or option");
  EXPECT_EQ(ReadText(dir_.File("out.partial/mine.txt")), "do not lose me");
}

TEST_F(AssembleTest, OtherWeightsUnderTheSameHeadersAreAnotherSource) {
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir_.File("in")));
  ASSERT_OK_AND_ASSIGN(const Cut before,
                       Slice(source.checkpoint, source.model, MakePlan(source, {0, 2, 4}), {}));
  const std::string shard = source.checkpoint.shards[0].file.path();
  const std::string text = ReadText(shard);
  std::filesystem::rename(shard, shard + ".old");
  WriteText(shard, text);
  ASSERT_OK_AND_ASSIGN(const Opened newer, Open(dir_.File("in")));
  EXPECT_EQ(newer.checkpoint.sha256, source.checkpoint.sha256);
  ASSERT_OK_AND_ASSIGN(const Cut after,
                       Slice(newer.checkpoint, newer.model, MakePlan(newer, {0, 2, 4}), {}));
  EXPECT_NE(before.identity, after.identity);
}

TEST_F(AssembleTest, FoldersHiddenFilesAndOtherWeightsStayBehind) {
  std::filesystem::create_directory(dir_.File("in/original"));
  WriteText(dir_.File("in/pytorch_model.bin"), "old");
  WriteText(dir_.File("in/.gitattributes"), "x");
  WriteText(dir_.File("in/merges.txt"), "a b");
  ASSERT_OK_AND_ASSIGN(const Opened source, Open(dir_.File("in")));
  ASSERT_OK_AND_ASSIGN(const Cut cut,
                       Slice(source.checkpoint, source.model, MakePlan(source, {0, 2, 4}), {}));
  EXPECT_THAT(cut.side_files, ElementsAre("merges.txt", "tokenizer.json"));
  EXPECT_THAT(cut.warnings, Contains(HasSubstr("original, pytorch_model.bin")));
}

}  // namespace
}  // namespace foreshock::proxy
