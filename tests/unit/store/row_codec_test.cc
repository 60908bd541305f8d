#include "daemon/store/row_codec.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

using Limits = std::numeric_limits<double>;
using FloatLimits = std::numeric_limits<float>;

std::string PointRow(model::Storage storage, double value, uint32_t flags) {
  std::string row;
  AppendPoint(StoredAs(storage, value), value, flags, &row);
  return row;
}

bool WholePoint(absl::string_view row, double* value, uint32_t* flags) {
  return TakePoint(&row, value, flags) && row.empty();
}

std::string StepText(const model::StepRow& step) {
  std::string row;
  AppendStep(step, &row);
  return row;
}

bool WholeStep(absl::string_view row, model::StepRow* step) {
  return TakeStep(&row, step) && row.empty();
}

TEST(RowCodecTest, PointsKeepTheirTypesPrecision) {
  struct Case {
    model::Storage storage;
    double value;
    double stored;  // what comes back
    size_t bytes;   // of type, flags (0: one byte) and payload
  };
  constexpr double kThird = 1.0 / 3;
  const Case cases[] = {
      {model::Storage::kF32, 0.0, 0.0, 6},
      {model::Storage::kF32, 1.25, 1.25, 6},
      {model::Storage::kF32, kThird, static_cast<double>(static_cast<float>(kThird)), 6},
      {model::Storage::kF32, FloatLimits::max(), FloatLimits::max(), 6},
      {model::Storage::kF32, FloatLimits::min(), FloatLimits::min(), 6},
      // Beyond a float's range, or below its full precision: kept as a double.
      {model::Storage::kF32, 1e39, 1e39, 10},
      {model::Storage::kF32, -Limits::max(), -Limits::max(), 10},
      {model::Storage::kF32, 1e-39, 1e-39, 10},
      {model::Storage::kF32, Limits::denorm_min(), Limits::denorm_min(), 10},
      // Rounds to infinity although it is less than the next power of two.
      {model::Storage::kF32, std::nextafter(double{FloatLimits::max()}, Limits::max()),
       std::nextafter(double{FloatLimits::max()}, Limits::max()), 10},
      {model::Storage::kF64, kThird, kThird, 10},
      {model::Storage::kF64, -Limits::max(), -Limits::max(), 10},
      {model::Storage::kI64, 0, 0, 10},
      {model::Storage::kI64, -0x1p63, -0x1p63, 10},
      {model::Storage::kI64, 0x1p53 - 1, 0x1p53 - 1, 10},
      // No integer of 64 bits: kept as a double.
      {model::Storage::kI64, 0x1p63, 0x1p63, 10},
      {model::Storage::kI64, 0.5, 0.5, 10},
      {model::Storage::kI64, 1e300, 1e300, 10},
  };
  for (const Case& c : cases) {
    const std::string row = PointRow(c.storage, c.value, 0);
    EXPECT_EQ(row.size(), c.bytes) << c.value;
    double value = -1;
    uint32_t flags = 1;
    ASSERT_TRUE(WholePoint(row, &value, &flags)) << c.value;
    EXPECT_EQ(value, c.stored);
    EXPECT_EQ(flags, 0u);
  }
  double value = 1;
  uint32_t flags = 0;
  for (const model::Storage storage :
       {model::Storage::kF32, model::Storage::kF64, model::Storage::kI64}) {
    ASSERT_TRUE(WholePoint(PointRow(storage, -0.0, 0), &value, &flags));
    EXPECT_TRUE(value == 0 && std::signbit(value));
  }
}

TEST(RowCodecTest, FlagsComeBack) {
  for (const uint32_t flags : {0u, 1u, 127u, 128u, 0xffffu, 0xffffffffu}) {
    double value = 0;
    uint32_t decoded = ~flags;
    ASSERT_TRUE(WholePoint(PointRow(model::Storage::kF32, 2.0, flags), &value, &decoded));
    EXPECT_EQ(decoded, flags);
  }
}

TEST(RowCodecTest, PointsThatAreNotWhatWasWrittenAreRefused) {
  double value = 0;
  uint32_t flags = 0;
  for (const model::Storage storage :
       {model::Storage::kF32, model::Storage::kF64, model::Storage::kI64}) {
    const std::string row = PointRow(storage, 3.0, 300);
    for (size_t length = 0; length < row.size(); ++length) {
      EXPECT_FALSE(WholePoint(row.substr(0, length), &value, &flags)) << length;
    }
    EXPECT_FALSE(WholePoint(row + '\0', &value, &flags));
  }
  const std::string bad[] = {
      std::string("\x00\x00\x00\x00\x80\x3f", 6),              // type 0
      std::string("\x04\x00\x00\x00\x80\x3f", 6),              // type 4
      std::string("\x01\x00\x00\x00\x80\x7f", 6),              // infinity
      std::string("\x01\x00\x00\x00\xc0\x7f", 6),              // NaN
      std::string("\x01\x80\x00\x00\x00\x80\x3f", 7),          // flags in a longer form
      std::string("\x01\xff\xff\xff\xff\x1f\0\0\x80\x3f", 10)  // flags beyond 32 bits
  };
  for (const std::string& row : bad) EXPECT_FALSE(WholePoint(row, &value, &flags));
}

TEST(RowCodecTest, StepsComeBackAndTruncatedOnesAreRefused) {
  model::StepRow step{3,     1200, 1'800'000'000'123'456'789, uint64_t{1} << 40, 4096, true,
                      false, true};
  const std::string row = StepText(step);
  model::StepRow decoded;
  decoded.attempt = 3;
  decoded.step = 1200;
  ASSERT_TRUE(WholeStep(row, &decoded));
  EXPECT_EQ(decoded, step);
  for (size_t length = 0; length < row.size(); ++length) {
    EXPECT_FALSE(WholeStep(row.substr(0, length), &decoded)) << length;
  }
  EXPECT_FALSE(WholeStep(row + '\0', &decoded));
  std::string unknown_bit = row;
  unknown_bit.back() = '\x08';
  EXPECT_FALSE(WholeStep(unknown_bit, &decoded));
  step = {};
  ASSERT_TRUE(WholeStep(StepText(step), &decoded));
  EXPECT_EQ(decoded.tokens, 0u);
}

TEST(RowCodecTest, RunSeriesAndFormatRowsComeBackAndTruncatedOnesAreRefused) {
  model::RunRow run;
  run.set_name("exp");
  uint32_t id = 0;
  model::RunRow decoded;
  const std::string run_row = EncodeRun(0x01020304, run);
  ASSERT_TRUE(DecodeRun(run_row, &id, &decoded));
  EXPECT_EQ(id, 0x01020304u);
  EXPECT_EQ(decoded.name(), "exp");
  for (size_t length = 0; length < 4; ++length) {
    EXPECT_FALSE(DecodeRun(run_row.substr(0, length), &id, &decoded));
  }
  EXPECT_FALSE(DecodeRun(EncodeRun(0, run), &id, &decoded));  // run 0 is the store itself

  ASSERT_TRUE(DecodeSeriesId(EncodeSeriesId(77), &id));
  EXPECT_EQ(id, 77u);
  EXPECT_FALSE(DecodeSeriesId("\1\2\3", &id));
  EXPECT_FALSE(DecodeSeriesId("\1\2\3\4\5", &id));

  const std::string format_row = EncodeFormat(5);
  ASSERT_TRUE(DecodeFormat(format_row, &id));
  EXPECT_EQ(id, 5u);
  for (size_t length = 0; length < format_row.size(); ++length) {
    EXPECT_FALSE(DecodeFormat(format_row.substr(0, length), &id)) << length;
  }
  EXPECT_FALSE(DecodeFormat("another store" + std::string(10, '\0'), &id));
}

TEST(RowCodecTest, RetentionRows) {
  const RetentionRow row{4'096, 2'048, -1, 7};
  const std::string bytes = EncodeRetention(row);
  EXPECT_EQ(bytes, std::string("\x00\x10\0\0\0\0\0\0\x00\x08\0\0\0\0\0\0"
                               "\xff\xff\xff\xff\xff\xff\xff\xff\x07\0\0\0\0\0\0\0",
                               32));
  RetentionRow back;
  ASSERT_TRUE(DecodeRetention(bytes, &back));
  EXPECT_EQ(back, row);
  EXPECT_FALSE(DecodeRetention(bytes.substr(1), &back));
  EXPECT_FALSE(DecodeRetention(bytes + "x", &back));
}

}  // namespace
}  // namespace foreshock::store
