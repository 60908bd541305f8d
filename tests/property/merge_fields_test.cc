// How every field of every statistics message merges. The messages are walked by their
// descriptors: a field that has no law here fails the test, and so does a law that the merge does
// not follow. A new field gets a line in FieldLaws() and a line in daemon/merge/step_merger.cc.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/merge/step_merger.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace foreshock::property {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;
using ::testing::IsEmpty;

enum class Law {
  kKey,        // tells shards apart: they stay two
  kSame,       // shards in which it differs do not add
  kSources,    // who contributed: known to the merger, not kept in the total
  kSum,        // repeated fields: element by element
  kSumOfBoth,  // the same, and nothing where one side knows nothing
  kSparse,     // bins and their counts
  kMost,
  kLeast,
  kAny,
  kAll,
  kFirst,  // the first source's stays
  kWhole,  // covers all rows: nothing is added to it
};

// By message and field; fields of nested messages follow their field's name.
const std::map<std::string, Law>& FieldLaws() {
  static const std::map<std::string, Law> laws = {
      {"LogitShard.layer", Law::kKey},
      {"LogitShard.head", Law::kKey},
      {"LogitShard.sources", Law::kSources},
      {"LogitShard.max", Law::kMost},
      {"LogitShard.has_max", Law::kAny},
      {"LogitShard.max_exact", Law::kAll},
      {"LogitShard.sampled", Law::kAny},
      {"LogitShard.rows", Law::kSum},
      {"LogitShard.entropy_sum", Law::kSum},
      {"LogitShard.entropy_ratio_sum", Law::kSum},
      {"LogitShard.top_probability_sum", Law::kSum},
      {"LogitShard.sink_rows", Law::kSum},
      {"LogitShard.sink_weight_sum", Law::kSum},
      {"LogitShard.effective_rank", Law::kFirst},

      {"QkShard.layer", Law::kKey},
      {"QkShard.head", Law::kKey},
      {"QkShard.window_steps", Law::kSame},
      {"QkShard.base_step", Law::kSame},
      {"QkShard.sources", Law::kSources},
      {"QkShard.finished", Law::kWhole},
      {"QkShard.partial.head_dim", Law::kSame},
      {"QkShard.partial.rows_total", Law::kSame},
      {"QkShard.partial.rows_covered", Law::kSum},
      {"QkShard.partial.significand_bits", Law::kLeast},
      {"QkShard.partial.gram32", Law::kAny},
      {"QkShard.partial.gram_a", Law::kSum},
      {"QkShard.partial.gram_b", Law::kSum},

      {"GateShard.layer", Law::kKey},
      {"GateShard.sources", Law::kSources},
      {"GateShard.tokens", Law::kSum},
      {"GateShard.entropy_sum", Law::kSum},
      {"GateShard.entropy_square_sum", Law::kSum},
      {"GateShard.entropy_min", Law::kLeast},
      {"GateShard.p_sum", Law::kSum},
      {"GateShard.counts", Law::kSum},
      {"GateShard.top_k", Law::kSame},
      {"GateShard.top_k_mass_sum", Law::kSum},
      {"GateShard.margin_count", Law::kSum},
      {"GateShard.margin_sum", Law::kSum},
      {"GateShard.margin_min", Law::kLeast},
      {"GateShard.margin_bin", Law::kSparse},
      {"GateShard.margin_bin_count", Law::kSparse},
      {"GateShard.logit_count", Law::kSum},
      {"GateShard.logit_sum", Law::kSum},
      {"GateShard.logit_square_sum", Law::kSum},
      {"GateShard.logit_absmax", Law::kMost},
      {"GateShard.z_sum", Law::kSum},
      {"GateShard.overlap_tokens", Law::kSum},
      {"GateShard.overlap_sum", Law::kSum},
      {"GateShard.rejected_rows", Law::kSum},

      {"LoadShard.layer", Law::kKey},
      {"LoadShard.expert_offset", Law::kKey},
      {"LoadShard.sources", Law::kSources},
      {"LoadShard.counts", Law::kSum},
      {"LoadShard.dropped", Law::kSumOfBoth},
      {"LoadShard.gate_mass", Law::kSumOfBoth},

      {"RouterWeightShard.layer", Law::kKey},
      {"RouterWeightShard.experts", Law::kSame},
      {"RouterWeightShard.rows_total", Law::kSame},
      {"RouterWeightShard.rows_covered", Law::kSum},
      {"RouterWeightShard.sources", Law::kSources},
      {"RouterWeightShard.gram", Law::kSum},
      {"RouterWeightShard.norm_square", Law::kSum},
      {"RouterWeightShard.has_delta", Law::kAll},
      {"RouterWeightShard.delta_square", Law::kSum},
      {"RouterWeightShard.window_steps", Law::kSame},
      {"RouterWeightShard.significand_bits", Law::kLeast},

      {"CoactivationShard.layer", Law::kKey},
      {"CoactivationShard.experts", Law::kSame},
      {"CoactivationShard.sources", Law::kSources},
      {"CoactivationShard.pair_counts", Law::kSum},
      {"CoactivationShard.gate_mass", Law::kSumOfBoth},
      {"CoactivationShard.tokens", Law::kSum},

      {"PolicyShard.sources", Law::kSources},
      {"PolicyShard.pairs", Law::kSum},
      {"PolicyShard.weight_sum", Law::kSum},
      {"PolicyShard.delta_sum", Law::kSum},
      {"PolicyShard.delta_abs_sum", Law::kSum},
      {"PolicyShard.k3_sum", Law::kSum},
      {"PolicyShard.ratio_sum", Law::kSum},
      {"PolicyShard.ratio_square_sum", Law::kSum},
      {"PolicyShard.tail_sum", Law::kSum},
      {"PolicyShard.p_trainer_sum", Law::kSum},
      {"PolicyShard.p_rollout_sum", Law::kSum},
      {"PolicyShard.p_trainer_square_sum", Law::kSum},
      {"PolicyShard.p_rollout_square_sum", Law::kSum},
      {"PolicyShard.p_cross_sum", Law::kSum},
      {"PolicyShard.p_diff_sum", Law::kSum},
      {"PolicyShard.p_diff_max", Law::kMost},
      {"PolicyShard.clamped", Law::kSum},
      {"PolicyShard.routes_compared", Law::kSum},
      {"PolicyShard.routes_mismatched", Law::kSum},
      {"PolicyShard.tokens_compared", Law::kSum},
      {"PolicyShard.tokens_mismatched", Law::kSum},

      {"ScalarShard.name", Law::kKey},
      {"ScalarShard.scope", Law::kKey},
      {"ScalarShard.reduction", Law::kFirst},
      {"ScalarShard.rank", Law::kKey},
      {"ScalarShard.value", Law::kFirst},
      {"ScalarShard.weight", Law::kFirst},

      {"TensorShard.name", Law::kKey},
      {"TensorShard.layer", Law::kKey},
      {"TensorShard.rank", Law::kKey},
      {"TensorShard.count", Law::kFirst},
      {"TensorShard.min", Law::kFirst},
      {"TensorShard.max", Law::kFirst},
      {"TensorShard.mean", Law::kFirst},
      {"TensorShard.rms", Law::kFirst},
      {"TensorShard.nan_count", Law::kFirst},
      {"TensorShard.inf_count", Law::kFirst},
      {"TensorShard.stable_rank", Law::kFirst},
      {"TensorShard.input_rms", Law::kFirst},

      {"UndefinedShard.indicator", Law::kKey},
      {"UndefinedShard.reason", Law::kKey},
      {"UndefinedShard.count", Law::kSum},
  };
  return laws;
}

// One field of a shard, maybe of a message nested in it.
struct FieldPath {
  std::string name;  // as in FieldLaws()
  std::vector<const FieldDescriptor*> fields;

  const FieldDescriptor* leaf() const { return fields.back(); }
};

// Every field of `type`, those of nested messages too, but for what the laws take as one.
void Walk(const Descriptor& type, const FieldPath& prefix, std::vector<FieldPath>* paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    FieldPath path = prefix;
    path.fields.push_back(type.field(i));
    path.name += absl::StrCat(".", type.field(i)->name());
    const bool nested = type.field(i)->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
                        !FieldLaws().contains(path.name);
    if (nested && !type.field(i)->is_repeated()) {
      Walk(*type.field(i)->message_type(), path, paths);
    } else {
      paths->push_back(std::move(path));
    }
  }
}

std::vector<FieldPath> PathsOf(const Descriptor& type) {
  std::vector<FieldPath> paths;
  Walk(type, {type.name(), {}}, &paths);
  return paths;
}

// The message that holds the last field of `path`.
Message* Holder(const FieldPath& path, Message* message) {
  for (size_t i = 0; i + 1 < path.fields.size(); ++i) {
    message = message->GetReflection()->MutableMessage(message, path.fields[i]);
  }
  return message;
}
const Message& Holder(const FieldPath& path, const Message& message) {
  const Message* holder = &message;
  for (size_t i = 0; i + 1 < path.fields.size(); ++i) {
    holder = &holder->GetReflection()->GetMessage(*holder, path.fields[i]);
  }
  return *holder;
}

void SetNumber(const FieldDescriptor* field, double number, Message* message) {
  const Reflection* reflection = message->GetReflection();
  const auto set = [&](auto value, auto set_one, auto add_one) {
    if (field->is_repeated()) {
      (reflection->*add_one)(message, field, value);
    } else {
      (reflection->*set_one)(message, field, value);
    }
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(number, &Reflection::SetDouble, &Reflection::AddDouble);
    case FieldDescriptor::CPPTYPE_UINT32:
      return set(static_cast<uint32_t>(number), &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_INT32:
      return set(static_cast<int32_t>(number), &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return set(static_cast<uint64_t>(number), &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_INT64:
      return set(static_cast<int64_t>(number), &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(number != 0, &Reflection::SetBool, &Reflection::AddBool);
    case FieldDescriptor::CPPTYPE_ENUM:
      return set(static_cast<int>(number), &Reflection::SetEnumValue, &Reflection::AddEnumValue);
    case FieldDescriptor::CPPTYPE_STRING:
      return set(absl::StrCat("name", number), &Reflection::SetString, &Reflection::AddString);
    default:
      FAIL() << field->full_name() << ": no number; give the field a law of its own";
  }
}

// The numbers of a field, one or many; what is absent is empty.
std::vector<double> Numbers(const FieldDescriptor* field, const Message& message) {
  const Reflection* reflection = message.GetReflection();
  std::vector<double> numbers;
  const auto get = [&](auto get_one, auto get_element) {
    if (field->is_repeated()) {
      for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
        numbers.push_back(static_cast<double>((reflection->*get_element)(message, field, i)));
      }
    } else if (!field->has_presence() || reflection->HasField(message, field)) {
      numbers.push_back(static_cast<double>((reflection->*get_one)(message, field)));
    }
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
      break;
    default:
      ADD_FAILURE() << field->full_name() << " is no number";
  }
  return numbers;
}

bool Adds(Law law) { return law != Law::kKey && law != Law::kSame && law != Law::kSources; }

// The lists of StepShards; `tokens` and its sources are tested by themselves.
std::vector<const FieldDescriptor*> Lists() {
  std::vector<const FieldDescriptor*> lists;
  const Descriptor& type = *model::StepShards::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& name = type.field(i)->name();
    if (name != "tokens" && name != "token_sources") lists.push_back(type.field(i));
  }
  return lists;
}

// A shard of `list` whose every field has a value of its own, small enough for any sum of two to
// be exact. `which` (0 or 1) sets all that merges; keys and shapes are alike.
class ShardMaker {
 public:
  explicit ShardMaker(const FieldDescriptor* list)
      : list_(list), paths_(PathsOf(*list->message_type())) {}

  const std::vector<FieldPath>& paths() const { return paths_; }

  // What is true or false is true.
  model::ShardReport Make(int which) const {
    model::ShardReport report;
    Message* shard = Mutable(&report);
    for (size_t i = 0; i < paths_.size(); ++i) {
      const auto law = FieldLaws().find(paths_[i].name);
      if (law == FieldLaws().end()) continue;  // EveryFieldHasALaw says so
      const FieldDescriptor* leaf = paths_[i].leaf();
      Message* holder = Holder(paths_[i], shard);
      if (law->second == Law::kSources) {
        AddSource(which, leaf, holder);
      } else if (law->second == Law::kWhole) {
        continue;  // the other form of a oneof
      } else if (leaf->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
        SetNumber(leaf, 1, holder);
      } else {
        const int seed = static_cast<int>(i) + (Adds(law->second) ? 100 * which : 0);
        for (int element = 0; element < (leaf->is_repeated() ? 3 : 1); ++element) {
          SetNumber(leaf, 2 + seed % 89 + 10 * element, holder);
        }
      }
    }
    return report;
  }

  // The only shard of a report.
  Message* Mutable(model::ShardReport* report) const {
    model::StepShards* shards = report->mutable_shards();
    const Reflection* reflection = shards->GetReflection();
    return reflection->FieldSize(*shards, list_) == 0
               ? reflection->AddMessage(shards, list_)
               : reflection->MutableRepeatedMessage(shards, list_, 0);
  }
  int SizeIn(const model::StepShards& shards) const {
    return shards.GetReflection()->FieldSize(shards, list_);
  }
  const Message& In(const model::StepShards& shards, int i = 0) const {
    return shards.GetReflection()->GetRepeatedMessage(shards, list_, i);
  }
  // Whether a merge adds such shards, or keeps each rank's.
  bool Sourced() const {
    return std::any_of(paths_.begin(), paths_.end(), [](const FieldPath& path) {
      const auto law = FieldLaws().find(path.name);
      return law != FieldLaws().end() && law->second == Law::kSources;
    });
  }

 private:
  static void AddSource(int which, const FieldDescriptor* field, Message* holder) {
    auto* source = static_cast<model::Source*>(holder->GetReflection()->AddMessage(holder, field));
    source->set_id(static_cast<uint64_t>(7 + which));
    source->set_fingerprint(static_cast<uint64_t>(70 + which));
  }

  const FieldDescriptor* list_;
  std::vector<FieldPath> paths_;
};

// What the law makes of two values, in this order.
std::vector<double> Expected(Law law, const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> expected = a;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    switch (law) {
      case Law::kSum:
      case Law::kSumOfBoth:
        expected[i] = a[i] + b[i];
        break;
      case Law::kMost:
      case Law::kAny:
        expected[i] = std::max(a[i], b[i]);
        break;
      case Law::kLeast:
      case Law::kAll:
        expected[i] = std::min(a[i], b[i]);
        break;
      default:
        break;
    }
  }
  return expected;
}

void ExpectLaw(const ShardMaker& maker, const FieldPath& path, const Message& a, const Message& b,
               const Message& total) {
  const auto law = FieldLaws().find(path.name);
  if (law == FieldLaws().end() || law->second == Law::kWhole) return;
  const FieldDescriptor* leaf = path.leaf();
  const Message& holder = Holder(path, total);
  if (law->second == Law::kSources) {
    EXPECT_EQ(holder.GetReflection()->FieldSize(holder, leaf), 0) << path.name;
  } else if (law->second != Law::kSparse) {
    EXPECT_EQ(Numbers(leaf, holder),
              Expected(law->second, Numbers(leaf, Holder(path, a)), Numbers(leaf, Holder(path, b))))
        << path.name;
  }
}

// Merges the two and holds the fields of the only shard to their laws; null: all of them.
void ExpectLaws(const ShardMaker& maker, const model::ShardReport& first,
                const model::ShardReport& second, const FieldPath* only = nullptr) {
  merge::StepMerger merger;
  merger.Add(first);
  merger.Add(second);
  ASSERT_EQ(maker.SizeIn(merger.train()), 1);
  EXPECT_THAT(merger.train().findings(), IsEmpty());
  for (const FieldPath& path : maker.paths()) {
    if (only != nullptr && only->name != path.name) continue;
    ExpectLaw(maker, path, maker.In(first.shards()), maker.In(second.shards()),
              maker.In(merger.train()));
  }
}

TEST(MergeFieldsTest, EveryFieldHasALaw) {
  std::map<std::string, Law> left = FieldLaws();
  for (const FieldDescriptor* list : Lists()) {
    // What went wrong in a rank is kept as it is said: the lists need no law for their fields.
    if (list->name() == "findings") continue;
    for (const FieldPath& path : PathsOf(*list->message_type())) {
      EXPECT_EQ(left.erase(path.name), 1u)
          << path.name << ": say in FieldLaws() how it merges, and do so in step_merger.cc";
    }
  }
  EXPECT_THAT(left, IsEmpty()) << "laws of fields that are no more";
}

TEST(MergeFieldsTest, ShardsOfDifferentSourcesMergeFieldByField) {
  for (const FieldDescriptor* list : Lists()) {
    const ShardMaker maker(list);
    if (!maker.Sourced()) continue;
    SCOPED_TRACE(list->message_type()->name());
    ExpectLaws(maker, maker.Make(0), maker.Make(1));
    ExpectLaws(maker, maker.Make(1), maker.Make(0));
    for (const FieldPath& path : maker.paths()) {
      if (path.leaf()->cpp_type() != FieldDescriptor::CPPTYPE_BOOL) continue;
      for (const bool a : {false, true}) {
        for (const bool b : {false, true}) {
          model::ShardReport first = maker.Make(0), second = maker.Make(1);
          SetNumber(path.leaf(), a ? 1 : 0, Holder(path, maker.Mutable(&first)));
          SetNumber(path.leaf(), b ? 1 : 0, Holder(path, maker.Mutable(&second)));
          ExpectLaws(maker, first, second, &path);
        }
      }
    }
  }
}

TEST(MergeFieldsTest, ASourceThatIsInDoesNotCountAgain) {
  for (const FieldDescriptor* list : Lists()) {
    const ShardMaker maker(list);
    if (!maker.Sourced()) continue;
    SCOPED_TRACE(list->message_type()->name());
    merge::StepMerger once, again;
    for (const int which : {0, 1}) once.Add(maker.Make(which));
    for (const int which : {0, 0, 1, 0, 1}) again.Add(maker.Make(which));
    EXPECT_TRUE(MessageDifferencer::Equals(once.train(), again.train()))
        << again.train().DebugString();
    EXPECT_EQ(once.bytes(), again.bytes());
  }
}

TEST(MergeFieldsTest, KeysKeepShardsApart) {
  for (const FieldDescriptor* list : Lists()) {
    const ShardMaker maker(list);
    for (const FieldPath& path : maker.paths()) {
      const auto law = FieldLaws().find(path.name);
      if (law == FieldLaws().end() || law->second != Law::kKey) continue;
      SCOPED_TRACE(path.name);
      const model::ShardReport first = maker.Make(0);
      model::ShardReport second = maker.Make(1);
      SetNumber(path.leaf(), 1, Holder(path, maker.Mutable(&second)));
      merge::StepMerger merger;
      merger.Add(first);
      merger.Add(second);
      ASSERT_EQ(maker.SizeIn(merger.train()), 2);
      for (model::ShardReport report : {first, second}) {
        Message* expected = maker.Mutable(&report);
        const FieldDescriptor* sources = expected->GetDescriptor()->FindFieldByName("sources");
        if (sources != nullptr) expected->GetReflection()->ClearField(expected, sources);
        EXPECT_TRUE(MessageDifferencer::Equals(maker.In(merger.train(), 0), *expected) ||
                    MessageDifferencer::Equals(maker.In(merger.train(), 1), *expected));
      }
    }
  }
}

TEST(MergeFieldsTest, ShardsThatDisagreeDoNotAdd) {
  for (const FieldDescriptor* list : Lists()) {
    const ShardMaker maker(list);
    for (const FieldPath& path : maker.paths()) {
      const auto law = FieldLaws().find(path.name);
      if (law == FieldLaws().end() || law->second != Law::kSame) continue;
      SCOPED_TRACE(path.name);
      const model::ShardReport first = maker.Make(0);
      model::ShardReport second = maker.Make(1);
      SetNumber(path.leaf(), 1, Holder(path, maker.Mutable(&second)));
      merge::StepMerger alone, merger;
      alone.Add(first);
      merger.Add(first);
      merger.Add(second);
      ASSERT_EQ(maker.SizeIn(merger.train()), 1);
      EXPECT_TRUE(MessageDifferencer::Equals(maker.In(merger.train()), maker.In(alone.train())));
      ASSERT_EQ(merger.train().undefined_size(), 1);
      EXPECT_EQ(merger.train().undefined(0).reason(), "shards_disagree");
      EXPECT_EQ(merger.train().undefined(0).count(), 1u);
      // Such a shard is no source: the next one like it disagrees again, and takes no more memory.
      const size_t bytes = merger.bytes();
      merger.Add(second);
      ASSERT_EQ(merger.train().undefined_size(), 1);
      EXPECT_EQ(merger.train().undefined(0).count(), 2u);
      EXPECT_EQ(merger.bytes(), bytes);
      EXPECT_GT(bytes, alone.bytes());
    }
  }
}

TEST(MergeFieldsTest, WhatARankSaysOfItselfIsKeptAsItIsFirstSaid) {
  for (const FieldDescriptor* list : Lists()) {
    const ShardMaker maker(list);
    if (maker.Sourced() || list->name() == "findings" || list->name() == "undefined") continue;
    SCOPED_TRACE(list->message_type()->name());
    merge::StepMerger merger;
    merger.Add(maker.Make(0));
    merger.Add(maker.Make(1));
    ASSERT_EQ(maker.SizeIn(merger.train()), 1);
    EXPECT_TRUE(
        MessageDifferencer::Equals(maker.In(merger.train()), maker.In(maker.Make(0).shards())));
  }
}

TEST(MergeFieldsTest, UndefinedReasonsAreCounted) {
  const ShardMaker maker(model::StepShards::descriptor()->FindFieldByName("undefined"));
  merge::StepMerger merger;
  merger.Add(maker.Make(0));
  merger.Add(maker.Make(1));
  ASSERT_EQ(merger.train().undefined_size(), 1);
  EXPECT_EQ(merger.train().undefined(0).count(), maker.Make(0).shards().undefined(0).count() +
                                                     maker.Make(1).shards().undefined(0).count());
}

TEST(MergeFieldsTest, FindingsAreKeptAsTheyAreSaid) {
  model::ShardReport report;
  const Descriptor& type = *model::FindingShard::descriptor();
  for (const int which : {1, 2}) {
    model::FindingShard* finding = report.mutable_shards()->add_findings();
    for (int i = 0; i < type.field_count(); ++i) SetNumber(type.field(i), 10 * which + i, finding);
  }
  merge::StepMerger merger;
  merger.Add(report);
  EXPECT_TRUE(MessageDifferencer::Equals(merger.train(), report.shards()));
}

// A finished shard covers all rows, so that nothing can be added to it, nor to part of the rows.
TEST(MergeFieldsTest, FinishedSpectraStayAsTheyAre) {
  model::ShardReport finished, partial;
  for (model::ShardReport* report : {&finished, &partial}) {
    report->mutable_shards()->add_qk()->set_window_steps(10);
  }
  finished.mutable_shards()->mutable_qk(0)->add_sources()->set_id(1);
  finished.mutable_shards()->mutable_qk(0)->mutable_finished()->set_q_norm(3);
  partial.mutable_shards()->mutable_qk(0)->add_sources()->set_id(2);
  partial.mutable_shards()->mutable_qk(0)->mutable_partial()->set_rows_covered(3);
  model::ShardReport other = finished;
  other.mutable_shards()->mutable_qk(0)->mutable_sources(0)->set_id(3);
  other.mutable_shards()->mutable_qk(0)->mutable_finished()->set_q_norm(4);
  merge::StepMerger merger;
  merger.Add(finished);
  merger.Add(partial);
  EXPECT_EQ(merger.train().undefined_size(), 1);
  merger.Add(other);
  ASSERT_EQ(merger.train().qk_size(), 1);
  EXPECT_EQ(merger.train().qk(0).finished().q_norm(), 3);
}

// What a report says beside its statistics. A field that is new here is merged and tested, or named
// as one that the merge does not read.
TEST(MergeFieldsTest, EveryFieldOfAReportIsMergedOrNotTheMergesBusiness) {
  const std::map<std::string, std::string> fields = {
      {"rank", "StepMerger::ranks"},
      {"client_instance", "only the stored row's"},
      {"seq", "only the stored row's"},
      {"step", "OpenSteps"},
      {"time_unix_ns", "StepMerger::time_unix_ns"},
      {"last_of_step", "OpenSteps"},
      {"skipped", "StepMerger::skipped"},
      {"eval", "StepMerger::eval"},
      {"shards", "this file"},
      {"events", "StepMerger::events"},
  };
  const Descriptor& type = *model::ShardReport::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    EXPECT_TRUE(fields.contains(type.field(i)->name())) << type.field(i)->full_name();
  }
  EXPECT_EQ(static_cast<size_t>(type.field_count()), fields.size());
}

}  // namespace
}  // namespace foreshock::property
