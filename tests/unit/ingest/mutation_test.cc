// Valid messages with a few fields set to something else: the checks must answer, and what they let
// pass must be safe to read.
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "daemon/ingest/stream.h"
#include "daemon/ingest/tensor_check.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "tests/support/wire_messages.h"

namespace foreshock::ingest {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  // Changes one field, somewhere in `message` or below it.
  void Mutate(Message* message) {
    const auto* descriptor = message->GetDescriptor();
    if (descriptor->field_count() == 0) return;
    const FieldDescriptor* field =
        descriptor->field(static_cast<int>(Below(descriptor->field_count())));
    const Reflection* reflection = message->GetReflection();
    if (field->is_map()) return;
    if (field->is_repeated()) return MutateRepeated(message, reflection, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      // Mostly what is there, sometimes a payload that is not.
      if (!reflection->HasField(*message, field) && Below(8) != 0) return Mutate(message);
      return Mutate(reflection->MutableMessage(message, field));
    }
    if (Below(8) == 0) return reflection->ClearField(message, field);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection->SetUInt32(message, field, Number());
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection->SetUInt64(message, field, Wide());
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection->SetInt32(message, field, static_cast<int32_t>(Number()));
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection->SetInt64(message, field, static_cast<int64_t>(Wide()));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return reflection->SetDouble(message, field, Real());
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection->SetBool(message, field, Below(2) == 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection->SetEnumValue(message, field, static_cast<int>(Below(20)) - 2);
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection->SetString(message, field, Text());
      default:
        return;
    }
  }

 private:
  void MutateRepeated(Message* message, const Reflection* reflection,
                      const FieldDescriptor* field) {
    const int size = reflection->FieldSize(*message, field);
    if (size > 0 && Below(4) == 0) return reflection->RemoveLast(message, field);
    const int at = size > 0 ? static_cast<int>(Below(size)) : 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Mutate(size > 0 ? reflection->MutableRepeatedMessage(message, field, at)
                               : reflection->AddMessage(message, field));
      case FieldDescriptor::CPPTYPE_UINT32:
        return size > 0 && Below(2) == 0
                   ? reflection->SetRepeatedUInt32(message, field, at, Number())
                   : reflection->AddUInt32(message, field, Number());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return size > 0 && Below(2) == 0 ? reflection->SetRepeatedDouble(message, field, at, Real())
                                         : reflection->AddDouble(message, field, Real());
      default:
        return;
    }
  }

  uint32_t Number() {
    constexpr uint32_t kEdges[] = {0,      1,       2,          3,          4,        5,         8,
                                   0xffff, 0x10000, 0x7fffffff, 0x80000000, 1u << 20, 0xffffffff};
    return Below(2) == 0 ? kEdges[Below(std::size(kEdges))] : static_cast<uint32_t>(random_());
  }
  uint64_t Wide() { return Below(2) == 0 ? Number() : random_(); }
  double Real() {
    const double edges[] = {0,
                            -0.0,
                            1,
                            -1,
                            0.5,
                            1e300,
                            -1e300,
                            5e-324,
                            std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
    return edges[Below(std::size(edges))];
  }
  std::string Text() {
    std::string text(Below(600), 'a');
    if (!text.empty() && Below(2) == 0) text[Below(text.size())] = static_cast<char>(Below(256));
    return text;
  }

  std::mt19937_64 random_;
};

// Every Tensor in `message` has as many bytes as its shape says.
void ExpectTensorsHold(const Message& message) {
  if (const auto* tensor = dynamic_cast<const v1::Tensor*>(&message)) {
    uint64_t bytes = model::ElementBytes(tensor->dtype());
    for (const uint32_t extent : tensor->shape()) bytes *= extent;
    ASSERT_EQ(bytes, tensor->data().size()) << tensor->ShortDebugString();
    ASSERT_GT(bytes, 0u);
    return;
  }
  std::vector<const FieldDescriptor*> fields;
  const Reflection* reflection = message.GetReflection();
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      ExpectTensorsHold(reflection->GetMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      ExpectTensorsHold(reflection->GetRepeatedMessage(message, field, i));
    }
  }
}

TEST(MutationTest, WhatPassesIsSafeToRead) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Mutator mutator(seed);
  const std::vector<v1::Summary> good = support::GoodSummaries();
  uint64_t kept = 0;
  uint64_t rejected = 0;
  for (int round = 0; round < 3000; ++round) {
    IngestStats stats;
    StreamState stream({.scalars_per_stream_max = 4, .tensors_per_stream_max = 4}, &stats);
    v1::Hello hello = support::GoodHello();
    if (mutator.Below(2) == 0) mutator.Mutate(hello.mutable_model());
    if (!stream.OnHello(hello).ok()) continue;
    v1::Report report = support::EmptyReport(1);
    for (int i = 0; i < 4; ++i) {
      v1::Summary* summary = report.add_summaries();
      *summary = good[mutator.Below(good.size())];
      for (uint64_t edits = 1 + mutator.Below(3); edits > 0; --edits) mutator.Mutate(summary);
    }
    const auto checked = stream.OnReport(&report);
    ASSERT_TRUE(checked.ok());
    for (const v1::Summary& summary : report.summaries()) {
      if (summary.payload_case() == v1::Summary::PAYLOAD_NOT_SET) continue;
      ++kept;
      ExpectTensorsHold(summary);
      if (::testing::Test::HasFatalFailure()) return;
    }
    rejected += checked->rejections.size();
  }
  // Both happen often, or the mutations test nothing.
  EXPECT_GT(kept, 500u);
  EXPECT_GT(rejected, 500u);
}

TEST(MutationTest, AReportCutAtAnyByteIsAnsweredToo) {
  v1::Report whole = support::EmptyReport(1);
  for (const v1::Summary& summary : support::GoodSummaries()) {
    *whole.add_summaries() = summary;
  }
  const std::string bytes = whole.SerializeAsString();
  uint64_t parsed = 0;
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    v1::Report report;
    if (!report.ParseFromArray(bytes.data(), static_cast<int>(cut))) continue;
    ++parsed;
    IngestStats stats;
    StreamState stream(IngestLimits{}, &stats);
    ASSERT_TRUE(stream.OnHello(support::GoodHello()).ok());
    // Cut between two summaries, what is left is whole and good.
    const auto checked = stream.OnReport(&report);
    if (!checked.ok()) continue;  // cut before the seq
    EXPECT_TRUE(checked->rejections.empty()) << cut;
  }
  EXPECT_GE(parsed, support::GoodSummaries().size());
}

}  // namespace
}  // namespace foreshock::ingest
