#include "daemon/store/head_codec.h"

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

const model::StepRow kStep{0, -5, 1'800'000'000'000'000'000, 4'194'304, 8, false, true, false};
const std::vector<HeadPoint> kPoints = {{1, 2.5, 0, model::Storage::kF32},
                                        {2, 1e300, model::kFlagPartial, model::Storage::kF64},
                                        {300, 7, 0xffffffff, model::Storage::kI64},
                                        {0xfffffffe, -0.0, 1, model::Storage::kF32}};

// Reads all points; none if the row is not whole.
std::vector<HeadPoint> ReadAll(absl::string_view bytes, model::StepRow* row) {
  std::vector<HeadPoint> points;
  HeadReader head;
  if (!head.Open(bytes)) return {};
  *row = head.row();
  HeadPoint point;
  while (head.Next(&point)) points.push_back(point);
  return head.whole() && points.size() == head.points() ? points : std::vector<HeadPoint>();
}

TEST(HeadCodecTest, StepAndPointsComeBack) {
  model::StepRow row;
  const std::vector<HeadPoint> points = ReadAll(EncodeHead(kStep, kPoints), &row);
  EXPECT_EQ(row, kStep);
  ASSERT_EQ(points.size(), kPoints.size());
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].series, kPoints[i].series);
    EXPECT_EQ(points[i].value, kPoints[i].value);
    EXPECT_EQ(points[i].flags, kPoints[i].flags);
  }
}

TEST(HeadCodecTest, AStepWithoutPointsComesBack) {
  HeadReader head;
  const std::string bytes = EncodeHead(kStep, {});
  ASSERT_TRUE(head.Open(bytes));
  EXPECT_EQ(head.row(), kStep);
  EXPECT_EQ(head.points(), 0u);
  HeadPoint point;
  EXPECT_FALSE(head.Next(&point));
  EXPECT_TRUE(head.whole());
}

TEST(HeadCodecTest, TruncatedAndProlongedRowsAreRefused) {
  const std::string bytes = EncodeHead(kStep, kPoints);
  model::StepRow row;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(ReadAll(bytes.substr(0, length), &row).empty()) << length;
  }
  EXPECT_TRUE(ReadAll(bytes + '\0', &row).empty());
}

TEST(HeadCodecTest, ASeriesTwiceAndOneBeyondTheLastIdAreRefused) {
  model::StepRow row;
  const std::vector<HeadPoint> twice = {{1, 2.5, 0, model::Storage::kF32},
                                        {1, 2.5, 0, model::Storage::kF32}};
  EXPECT_TRUE(ReadAll(EncodeHead(kStep, twice), &row).empty());
  // The difference wraps to 0xffffffff.
  const std::vector<HeadPoint> back = {{2, 2.5, 0, model::Storage::kF32},
                                       {1, 2.5, 0, model::Storage::kF32}};
  EXPECT_TRUE(ReadAll(EncodeHead(kStep, back), &row).empty());
}

}  // namespace
}  // namespace foreshock::store
