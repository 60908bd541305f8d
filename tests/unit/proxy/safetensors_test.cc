#include "proxy/safetensors.h"

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

absl::StatusOr<Header> HeaderOf(const std::string& bytes) {
  support::TempDir dir;
  WriteText(dir.File("f"), bytes);
  absl::StatusOr<InputFile> file = InputFile::Open(dir.File("f"));
  if (!file.ok()) return file.status();
  return ReadHeader(*file);
}

TEST(Safetensors, HeaderOfAGoodFile) {
  const std::string bytes =
      Encode({MakeTensor("a", "BF16", {2, 3}), MakeTensor("s", "F32", {}),
              MakeTensor("none", "F32", {0, 4}), MakeTensor("half", "F4", {2, 4})});
  ASSERT_OK_AND_ASSIGN(const Header header, HeaderOf(bytes));
  ASSERT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, "BF16");
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(header.tensors[0].bytes(), 12u);
  EXPECT_EQ(header.tensors[1].bytes(), 4u);
  EXPECT_EQ(header.tensors[2].bytes(), 0u);
  EXPECT_EQ(header.tensors[3].end, bytes.size());
  EXPECT_THAT(header.metadata, ElementsAre(std::make_pair("format", "pt")));
}

TEST(Safetensors, WhatIsWrittenReadsBackTheSame) {
  ASSERT_OK_AND_ASSIGN(
      const Header header,
      HeaderOf(Encode({MakeTensor("b\"\n", "F64", {1}), MakeTensor("a", "I8", {7})})));
  const std::string text = FormatHeader(header);
  EXPECT_EQ(text.size() % 8, 0u);
  ASSERT_OK_AND_ASSIGN(const Header again, HeaderOf(text + std::string(15, 'x')));
  ASSERT_EQ(again.tensors.size(), 2u);
  EXPECT_EQ(again.tensors[0].name, "b\"\n");
  EXPECT_EQ(again.tensors[1].begin, text.size() + 8);
  EXPECT_EQ(again.metadata, header.metadata);
}

struct BadCase {
  std::string header;
  size_t data;
  std::string message;
};

TEST(Safetensors, BadHeadersNameTensorAndByte) {
  const std::string good = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  const BadCase cases[] = {
      {"", 0, "byte 8: the header is not JSON"},
      {"[]", 0, "the header is a list, not an object"},
      {R"({"a":3})", 0, "tensor 'a': byte 15: is a number, not an object"},
      {R"({"a":{"dtype":"U8","shape":[4]}})", 4, "tensor 'a': byte 39: has no data_offsets"},
      {R"({"a":{)" + good + R"(,"more":1}})", 4, "unknown field 'more'"},
      {R"({"a":{"dtype":"U8",)" + good + "}}", 4, "'dtype' comes twice"},
      {R"({"a":{)" + good + R"(},"a":{)" + good + "}}", 4,
       "tensor 'a': byte 64: the name comes twice"},
      {R"({"a":{"dtype":"U9","shape":[4],"data_offsets":[0,4]}})", 4, "unknown dtype 'U9'"},
      {R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4, "'shape' has a negative"},
      {R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4, "not whole"},
      {R"({"a":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})", 4, "'shape' has a list"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0]}})", 4, "needs two numbers"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,1,4]}})", 4, "more than two numbers"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4, "do not lie in the 4 bytes"},
      {R"({"a":{)" + good + "}}", 3,
       "tensor 'a': byte 61: data_offsets [0, 4] do not lie in the 3"},
      {R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,4]}})", 4, "F16 of shape [4] takes 8"},
      {R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1, "takes no whole number"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "takes no whole number"},
      {R"({"a":{)" + good + R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6,
       "tensor 'b': byte 115: overlaps the tensor before it"},
      {R"({"a":{)" + good + R"(},"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", 6,
       "belong to no tensor"},
      {R"({"a":{)" + good + "}}", 5, "to the end of the file belong to no tensor"},
      {R"({"__metadata__":{"format":1}})", 0, "metadata are texts"},
      {R"({"__metadata__":{"a":{}}})", 0, "'a' is an object"},
  };
  for (const BadCase& bad : cases) {
    EXPECT_THAT(HeaderOf(EncodeRaw(bad.header, std::string(bad.data, 'x'))),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)))
        << bad.header;
  }
}

TEST(Safetensors, ALengthThatCannotBeIsRefusedBeforeItIsRead) {
  EXPECT_THAT(HeaderOf("1234567"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("byte 7: the file ends in the header's")));
  EXPECT_THAT(HeaderOf(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("the header's length is 3, the file has 10 bytes")));
  EXPECT_THAT(HeaderOf(std::string(8, '\xFF')),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("at most 100000000 is read")));
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string bytes = Encode({MakeTensor("a", "BF16", {2, 3}), MakeTensor("b", "U8", {5})});
  ASSERT_OK(HeaderOf(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(HeaderOf(bytes.substr(0, size)).ok()) << size;
  }
}

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  support::TempDir dir;
  WriteText(dir.File("in"), "0123456789");
  ASSERT_OK_AND_ASSIGN(const InputFile in, InputFile::Open(dir.File("in")));
  {
    ASSERT_OK_AND_ASSIGN(OutputFile out, OutputFile::Create(dir.File("out")));
    ASSERT_OK(out.Append("x"));
    EXPECT_TRUE(std::filesystem::exists(dir.File("out.tmp")));
  }
  EXPECT_FALSE(std::filesystem::exists(dir.File("out")));
  EXPECT_FALSE(std::filesystem::exists(dir.File("out.tmp")));
  ASSERT_OK_AND_ASSIGN(OutputFile out, OutputFile::Create(dir.File("out")));
  ASSERT_OK(out.Append("x"));
  ASSERT_OK(out.AppendRange(in, 3, 4));
  EXPECT_THAT(out.AppendRange(in, 8, 4),
              support::StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("in")));
  ASSERT_OK(out.Commit());
  EXPECT_EQ(ReadText(dir.File("out")).substr(0, 5), "x3456");
  EXPECT_FALSE(std::filesystem::exists(dir.File("out.tmp")));
}

}  // namespace
}  // namespace foreshock::proxy
