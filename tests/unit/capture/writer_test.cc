#include "daemon/capture/writer.h"

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "daemon/capture/reader.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/capture/capture_records.h"

namespace foreshock::capture {
namespace {

using ::testing::HasSubstr;

size_t FilesIn(const support::TempDir& dir) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir.path()),
                                           std::filesystem::directory_iterator()));
}

TEST(CaptureWriterTest, TheFileAppearsOnlyWhenCommitted) {
  support::TempDir dir;
  const std::string path = dir.File("a.fscap");
  WriteFile(path, "what was there before");
  {
    ASSERT_OK_AND_ASSIGN(auto writer, CaptureWriter::Create(path));
    ASSERT_OK(writer->Write(HelloRecord(0)));
    EXPECT_EQ(ReadFile(path), "what was there before");
  }
  EXPECT_EQ(ReadFile(path), "what was there before");
  EXPECT_EQ(FilesIn(dir), 1u) << "the temporary file is gone";

  ASSERT_OK_AND_ASSIGN(auto writer, CaptureWriter::Create(path));
  ASSERT_OK(writer->Write(HelloRecord(0)));
  ASSERT_OK(writer->Commit());
  EXPECT_NE(ReadFile(path), "what was there before");
  EXPECT_EQ(FilesIn(dir), 1u);
  EXPECT_THAT(writer->Write(GoodbyeRecord(0)),
              support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("committed")));
  EXPECT_THAT(writer->Commit(),
              support::StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("committed")));
}

TEST(CaptureWriterTest, RefusedRecordsLeaveTheCaptureWhole) {
  support::TempDir dir;
  const std::string path = dir.File("a.fscap");
  ASSERT_OK_AND_ASSIGN(auto writer, CaptureWriter::Create(path, {.record_bytes_max = 1000}));
  EXPECT_THAT(
      writer->Write(ReportRecord(0, 1, 0)),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a hello is needed")));
  ASSERT_OK(writer->Write(HelloRecord(0)));
  v1::CaptureRecord big = ReportRecord(0, 1, 0);
  big.mutable_message()->mutable_report()->add_summaries()->mutable_event()->set_detail(
      std::string(1000, 'x'));
  EXPECT_THAT(writer->Write(big),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("allowed are 1000")));
  ASSERT_OK(writer->Write(GoodbyeRecord(0)));
  ASSERT_OK(writer->Commit());
  EXPECT_EQ(writer->records(), 2u);

  ASSERT_OK_AND_ASSIGN(auto reader, CaptureReader::Open(path));
  v1::CaptureRecord record;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(reader->Next(&record).value());
  EXPECT_FALSE(reader->Next(&record).value());
}

TEST(CaptureWriterTest, ManyFramesAreOneCapture) {
  support::TempDir dir;
  const std::string path = dir.File("a.fscap");
  ASSERT_OK_AND_ASSIGN(auto writer, CaptureWriter::Create(path, {.compression_level = 1}));
  ASSERT_OK(writer->Write(HelloRecord(0)));
  v1::CaptureRecord record = ReportRecord(0, 1, 0);
  record.mutable_message()
      ->mutable_report()
      ->add_summaries()
      ->mutable_router_gates()
      ->mutable_scores()
      ->set_data(std::string(1u << 20, '\7'));
  constexpr int kReports = 12;  // three frames of 4 MiB and a rest
  for (int i = 0; i < kReports; ++i) ASSERT_OK(writer->Write(record));
  ASSERT_OK(writer->Commit());

  ASSERT_OK_AND_ASSIGN(auto reader, CaptureReader::Open(path));
  v1::CaptureRecord got;
  ASSERT_TRUE(reader->Next(&got).value());
  for (int i = 0; i < kReports; ++i) {
    ASSERT_TRUE(reader->Next(&got).value());
    EXPECT_EQ(got.SerializeAsString(), record.SerializeAsString());
  }
  EXPECT_FALSE(reader->Next(&got).value());
}

TEST(CaptureWriterTest, WrongNamesLevelsAndFoldersAreRefused) {
  support::TempDir dir;
  EXPECT_THAT(CaptureWriter::Create(dir.File("a.bin")),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(".fscap or .jsonl")));
  EXPECT_THAT(
      CaptureWriter::Create(dir.File("a.fscap"), {.compression_level = 23}),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("allowed are 1 to 19")));
  EXPECT_THAT(CaptureWriter::Create(dir.File("missing/a.fscap")),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("creating capture")));
}

TEST(CaptureWriterTest, AFolderThatWentAwayIsReportedAndStaysReported) {
  auto dir = std::make_unique<support::TempDir>();
  ASSERT_OK_AND_ASSIGN(auto writer, CaptureWriter::Create(dir->File("a.jsonl")));
  ASSERT_OK(writer->Write(HelloRecord(0)));
  dir.reset();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(writer->Commit(),
                support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("naming capture")));
  }
}

}  // namespace
}  // namespace foreshock::capture
