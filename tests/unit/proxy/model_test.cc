#include "proxy/model.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy/synthetic.h"

namespace foreshock::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<Model> RecogniseIn(const std::string& directory, const std::string& more = "") {
  absl::StatusOr<Families> families = Families::Builtin();
  if (!families.ok()) return families.status();
  if (!more.empty()) {
    if (absl::Status added = families->Add("more.json", more); !added.ok()) return added;
  }
  absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(directory);
  if (!checkpoint.ok()) return checkpoint.status();
  return Recognise(*checkpoint, *families);
}

absl::StatusOr<Model> RecogniseModel(const SyntheticModel& model, const std::string& more = "") {
  support::TempDir dir;
  Write(model, dir.path(), 3);
  return RecogniseIn(dir.path(), more);
}

TEST(Recognise, EveryFamily) {
  for (const std::string& kind : ModelKinds()) {
    SCOPED_TRACE(kind);
    const SyntheticModel synthetic = MakeModel(kind);
    ASSERT_OK_AND_ASSIGN(const Model model, RecogniseModel(synthetic));
    EXPECT_EQ(model.experts, kExperts);
    EXPECT_EQ(model.hidden, kHidden);
    EXPECT_EQ(model.top_k, 2);
    EXPECT_EQ(model.moe.size(), 2u);
    EXPECT_EQ(model.shared_experts, kind == "qwen2_moe" || absl::StartsWith(kind, "deepseek"));
    EXPECT_EQ(model.fused, kind == "gpt_oss" || kind == "qwen3_fused");
    EXPECT_EQ(model.renormalised, kind != "olmoe");
    EXPECT_EQ(model.correction_bias, kind == "deepseek_v3");
    EXPECT_EQ(model.groups, kind == "deepseek_v3" ? 4 : 1);
    uint64_t bytes = 0;
    for (const SyntheticTensor& tensor : synthetic.tensors) bytes += tensor.data.size();
    EXPECT_EQ(model.bytes(), bytes);
    EXPECT_EQ(model.BytesWith(kExperts), bytes);
  }
}

TEST(Recognise, LayersAreWhatConfigAndTensorsAgreeOn) {
  ASSERT_OK_AND_ASSIGN(const Model model, RecogniseModel(MakeModel("deepseek_v3")));
  EXPECT_EQ(model.moe[0].layer, 1);
  EXPECT_FALSE(model.moe[0].prediction);
  EXPECT_EQ(model.moe[1].layer, 2);
  EXPECT_TRUE(model.moe[1].prediction);
  EXPECT_EQ(model.Routing(),
            "sigmoid, top 2 within 2 of 4 groups, correction bias, gates renormalised");
  SyntheticModel other = MakeModel("deepseek_v3");
  other.config["first_k_dense_replace"] = 0;
  EXPECT_THAT(RecogniseModel(other), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("layer 0: config.json says")));
}

TEST(Recognise, UnknownTensorWithTheNumberOfExpertsIsAnErrorUntilAFamilyNamesIt) {
  SyntheticModel model = MakeModel("qwen3_moe");
  model.tensors.push_back(MakeTensor("model.layers.1.mlp.stats.load", "F32", {1, kExperts}));
  EXPECT_THAT(
      RecogniseModel(model),
      support::StatusIs(absl::StatusCode::kInvalidArgument,
                        ::testing::AllOf(HasSubstr("tensor 'model.layers.1.mlp.stats.load': byte "),
                                         HasSubstr("has a dimension of 8"))));
  ASSERT_OK_AND_ASSIGN(const Model known, RecogniseModel(model, R"({"families": [
      {"name": "mine", "model_types": ["qwen3_moe"], "experts": "num_experts",
       "router": "mlp.gate.weight", "expert": ["mlp.experts.{e}.*"],
       "axis_1": ["mlp.stats.load"]}]})"));
  EXPECT_EQ(known.family.name, "mine");
  bool sliced = false;
  for (const auto& roles : known.roles) {
    for (const Role& role : roles) sliced |= role.action == Action::kSliceAxis1 && role.layer == 1;
  }
  EXPECT_TRUE(sliced);
}

TEST(Recognise, BadModelsSayWhatIsWrong) {
  const auto expect_error = [](const SyntheticModel& model, const std::string& message) {
    EXPECT_THAT(RecogniseModel(model),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  SyntheticModel model = MakeModel("mixtral");
  model.config["model_type"] = "llama";
  expect_error(model, "model_type 'llama' is not known; known are mixtral, ");
  model = MakeModel("mixtral");
  model.config.erase("num_local_experts");
  expect_error(model, "has no num_local_experts");
  model = MakeModel("mixtral");
  model.config["num_experts_per_tok"] = 9;
  expect_error(model, "num_experts_per_tok is 9; allowed are 1 to 8");
  model = MakeModel("mixtral");
  model.config["num_local_experts"] = 9;
  expect_error(model, "axis 0 must be 9");
  model = MakeModel("olmoe");
  model.config["num_redundant_experts"] = 2;
  expect_error(model, "replicas refer to the old experts");
  model = MakeModel("mixtral");
  for (SyntheticTensor& tensor : model.tensors) {
    if (absl::EndsWith(tensor.name, "layers.1.block_sparse_moe.experts.3.w2.weight")) {
      tensor = MakeTensor(tensor.name, "F16", tensor.shape);
    }
  }
  expect_error(model, "is F16 [3, 6], but ");
  model = MakeModel("mixtral");
  std::erase_if(model.tensors, [](const SyntheticTensor& tensor) {
    return absl::EndsWith(tensor.name, "layers.1.block_sparse_moe.experts.3.w2.weight");
  });
  expect_error(model, "layer 1: expert 3 has no '.w2.weight'");
  std::erase_if(model.tensors, [](const SyntheticTensor& tensor) {
    return absl::StrContains(tensor.name, "block_sparse_moe");
  });
  expect_error(model, "this is not an MoE model");
}

TEST(Checkpoint, BadDirectoriesSayWhatIsWrong) {
  const std::string index = "model.safetensors.index.json";
  const auto expect_error = [&](auto change, const std::string& message) {
    support::TempDir dir;
    Write(MakeModel("mixtral"), dir.path(), 2);
    auto json = nlohmann::json::parse(ReadText(dir.File(index)));
    change(dir, json["weight_map"]);
    if (!json.is_null()) WriteText(dir.File(index), json.dump());
    const absl::StatusOr<Checkpoint> opened = OpenCheckpoint(dir.path());
    ASSERT_FALSE(opened.ok()) << message;
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(message));
  };
  const std::string first = "model.embed_tokens.weight";
  expect_error([&](auto&, auto& map) { map[first] = "../model.safetensors"; },
               "is not the name of a .safetensors file in the same directory");
  expect_error([&](auto&, auto& map) { map[first] = "model-00002-of-00002.safetensors"; },
               "the index says that it is in model-00002-of-00002.safetensors");
  expect_error([&](auto&, auto& map) { map.erase(first); }, "the index does not name it");
  expect_error([&](auto&, auto& map) { map["ghost"] = "model-00002-of-00002.safetensors"; },
               "tensor 'ghost': model-00002-of-00002.safetensors does not have it");
  expect_error(
      [&](auto& dir, auto&) {
        std::filesystem::remove(dir.File("model-00002-of-00002.safetensors"));
      },
      "cannot open");
  expect_error([&](auto& dir, auto&) { WriteText(dir.File("config.json"), R"({"a": 1, "a": 2})"); },
               "the name 'a' comes twice");
  expect_error([&](auto& dir, auto&) { std::filesystem::remove(dir.File("config.json")); },
               "config.json");
}

TEST(CheckKeep, LimitsAndWarnings) {
  ASSERT_OK_AND_ASSIGN(Model model, RecogniseModel(MakeModel("qwen3_moe")));
  EXPECT_THAT(CheckKeep(model, 4, 2).errors, IsEmpty());
  EXPECT_THAT(CheckKeep(model, 4, 2).warnings, IsEmpty());
  EXPECT_THAT(CheckKeep(model, 1, 1).errors, ElementsAre("1 experts are fewer than top-k, 2"));
  EXPECT_THAT(CheckKeep(model, 2, 1).warnings, ElementsAre(HasSubstr("takes every expert")));
  EXPECT_THAT(CheckKeep(model, 9, 1).errors, ElementsAre("9 experts cannot be kept of 8"));
  EXPECT_THAT(CheckKeep(model, 4, 3).errors,
              ElementsAre("expert-parallel size 3 does not divide 4"));
  model.groups = 4;
  model.groups_chosen = 2;
  EXPECT_THAT(CheckKeep(model, 6, 1).errors, ElementsAre("n_group 4 does not divide 6"));
  EXPECT_THAT(CheckKeep(model, 4, 1).warnings, ElementsAre(HasSubstr("the groups alone decide")));
  model.top2_groups = true;
  EXPECT_THAT(CheckKeep(model, 4, 1).errors, ElementsAre(HasSubstr("its two best experts")));
  model.groups_chosen = 1;
  model.top2_groups = false;
  EXPECT_THAT(CheckKeep(model, 4, 1).errors, ElementsAre(HasSubstr("fewer than top-k")));
}

TEST(Families, BadTablesNameTheRow) {
  ASSERT_OK_AND_ASSIGN(Families families, Families::Builtin());
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"{", "f: byte"},
           {"{}", "one list, 'families'"},
           {R"({"families": [{"name": "a", "rooter": "b"}]})", "family 0 (from 0): unknown key"},
           {R"({"families": [{"name": "a"}]})", "needs name, model_types, experts and router"}}) {
    EXPECT_THAT(families.Add("f", text),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

}  // namespace
}  // namespace foreshock::proxy
