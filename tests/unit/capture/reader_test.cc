#include "daemon/capture/reader.h"

#include <zstd.h>

#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "daemon/capture/writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/capture/capture_records.h"

namespace foreshock::capture {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Outcome {
  std::vector<v1::CaptureRecord> records;
  absl::Status status;
  CaptureProgress progress;
};

Outcome ReadAll(const std::string& path, CaptureReaderOptions options = {}) {
  Outcome outcome;
  auto reader = CaptureReader::Open(path, options);
  if (!reader.ok()) {
    outcome.status = reader.status();
    return outcome;
  }
  v1::CaptureRecord record;
  while (true) {
    const absl::StatusOr<bool> more = (*reader)->Next(&record);
    if (!more.ok()) {
      outcome.status = more.status();
      // An error stays.
      EXPECT_EQ((*reader)->Next(&record).status(), more.status());
      break;
    }
    if (!*more) {
      EXPECT_EQ((*reader)->Next(&record).value(), false);
      break;
    }
    outcome.records.push_back(record);
  }
  outcome.progress = (*reader)->progress();
  return outcome;
}

std::string WriteAll(const std::vector<v1::CaptureRecord>& records, const std::string& path) {
  auto writer = CaptureWriter::Create(path);
  EXPECT_OK(writer);
  for (const v1::CaptureRecord& record : records) EXPECT_OK((*writer)->Write(record));
  EXPECT_OK((*writer)->Commit());
  return ReadFile(path);
}

bool Same(const v1::CaptureRecord& a, const v1::CaptureRecord& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

void ExpectPrefix(const std::vector<v1::CaptureRecord>& got,
                  const std::vector<v1::CaptureRecord>& all) {
  ASSERT_LE(got.size(), all.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(Same(got[i], all[i])) << "record " << i;
}

// A .fscap whose frames hold `contents`, whatever they are.
std::string Fscap(const std::vector<std::string>& contents, bool checksum = true) {
  std::string file(kFscapMagic);
  file.push_back(static_cast<char>(kFscapVersion));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  for (const std::string& content : contents) {
    std::string frame(ZSTD_compressBound(content.size()), '\0');
    frame.resize(
        ZSTD_compress2(context, frame.data(), frame.size(), content.data(), content.size()));
    file += frame;
  }
  ZSTD_freeCCtx(context);
  return file;
}

std::string Framed(const v1::CaptureRecord& record) {
  const std::string bytes = record.SerializeAsString();
  FORESHOCK_CHECK(bytes.size() < 0x80);
  return absl::StrCat(std::string(1, static_cast<char>(bytes.size())), bytes);
}

class CaptureFormTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CaptureFormTest, GivesBackWhatWasWritten) {
  support::TempDir dir;
  std::vector<v1::CaptureRecord> records = SmallCapture(3);
  const double kOdd[] = {std::numeric_limits<double>::quiet_NaN(),
                         -std::numeric_limits<double>::infinity(), 0.1, 5e-324,
                         1.7976931348623157e308};
  for (double value : kOdd) records.insert(records.end() - 2, ReportRecord(0, 9, value));
  const std::string path = dir.File(absl::StrCat("a.", GetParam()));
  const std::string bytes = WriteAll(records, path);

  const Outcome outcome = ReadAll(path);
  ASSERT_OK(outcome.status);
  ASSERT_EQ(outcome.records.size(), records.size());
  ExpectPrefix(outcome.records, records);
  EXPECT_EQ(outcome.progress.records, records.size());
  EXPECT_EQ(outcome.progress.bytes_read, bytes.size());
  EXPECT_EQ(outcome.progress.bytes_total, bytes.size());
}

TEST_P(CaptureFormTest, IsToldByContentNotByName) {
  support::TempDir dir;
  const std::vector<v1::CaptureRecord> records = SmallCapture(1);
  WriteFile(dir.File("renamed"), WriteAll(records, dir.File(absl::StrCat("a.", GetParam()))));
  const Outcome outcome = ReadAll(dir.File("renamed"));
  EXPECT_OK(outcome.status);
  EXPECT_EQ(outcome.records.size(), records.size());
}

INSTANTIATE_TEST_SUITE_P(Forms, CaptureFormTest, ::testing::Values("fscap", "jsonl"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FscapTest, CutOffAtEveryByteIsAnErrorAfterTheGoodRecords) {
  support::TempDir dir;
  const std::vector<v1::CaptureRecord> records = SmallCapture(4);
  // One frame per record, so that cuts fall between frames, inside them and inside the header.
  std::vector<std::string> contents;
  for (size_t i = 1; i < records.size(); ++i) contents.push_back(Framed(records[i]));
  contents.push_back(std::string(1, '\0'));
  contents.insert(contents.begin(), Framed(records[0]));
  const std::string whole = Fscap(contents);
  size_t most = 0;
  for (size_t size = 1; size < whole.size(); ++size) {
    WriteFile(dir.File("cut"), whole.substr(0, size));
    const Outcome outcome = ReadAll(dir.File("cut"));
    EXPECT_THAT(outcome.status,
                support::StatusIs(absl::StatusCode::kDataLoss,
                                  HasSubstr(absl::StrCat("the file ends at byte ", size))));
    ExpectPrefix(outcome.records, records);
    EXPECT_GE(outcome.records.size(), most);
    most = outcome.records.size();
  }
  EXPECT_EQ(most, records.size());
  WriteFile(dir.File("cut"), whole);
  EXPECT_OK(ReadAll(dir.File("cut")).status);
}

TEST(FscapTest, AnyFlippedBitIsAnErrorAndNoWrongRecordIsHandedOut) {
  support::TempDir dir;
  const std::vector<v1::CaptureRecord> records = SmallCapture(2);
  const std::string whole = WriteAll(records, dir.File("a.fscap"));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      WriteFile(dir.File("bad"), bad);
      const Outcome outcome = ReadAll(dir.File("bad"));
      ExpectPrefix(outcome.records, records);
      // A few bits of a frame header mean the same either way; then nothing at all was lost.
      if (outcome.status.ok()) {
        EXPECT_EQ(outcome.records.size(), records.size()) << at;
      }
    }
  }
}

TEST(FscapTest, BadFilesAreNamedWithWhereAndWhy) {
  const std::string hello = Framed(HelloRecord(0));
  const std::string end(1, '\0');
  std::string version = Fscap({hello, end});
  version[kFscapHeaderBytes - 1] = 7;
  v1::CaptureRecord empty;
  empty.set_stream(3);
  struct Case {
    const char* what;
    std::string file;
    absl::StatusCode code;
    const char* message;
  };
  const Case kCases[] = {
      {"newer version", version, absl::StatusCode::kInvalidArgument,
       "format version 7, this build reads version 1"},
      {"no checksum", Fscap({hello + end}, false), absl::StatusCode::kDataLoss,
       "no content checksum"},
      {"not zstd", absl::StrCat(kFscapMagic, "\x01", "rubbish rubbish"),
       absl::StatusCode::kDataLoss, "zstd says"},
      {"after the end mark, same frame", Fscap({hello + end + hello}), absl::StatusCode::kDataLoss,
       "bytes follow the end mark inside its frame"},
      {"after the end mark, next frame", Fscap({hello + end, hello}), absl::StatusCode::kDataLoss,
       "bytes follow the end mark; the 1 records before it are good"},
      {"record longer than its frame",
       Fscap({hello,
              "\x05"
              "ab",
              end}),
       absl::StatusCode::kDataLoss, "record 2 (frame at byte "},
      {"length cut off", Fscap({hello, "\x80", end}), absl::StatusCode::kDataLoss,
       "the length of the record is cut off"},
      {"length of six bytes", Fscap({hello, "\x80\x80\x80\x80\x80\x01", end}),
       absl::StatusCode::kDataLoss, "longer than 5 bytes"},
      {"over the limit", Fscap({hello, "\xff\xff\xff\xff\x0f", end}), absl::StatusCode::kDataLoss,
       "the record has 4294967295 bytes, allowed are 67108864"},
      {"no message", Fscap({Framed(empty) + end}), absl::StatusCode::kInvalidArgument,
       "stream 3: no message"},
      {"not a record", Fscap({hello, "\x02\xff\xff", end}), absl::StatusCode::kDataLoss,
       "are no CaptureRecord"},
      {"report before hello", Fscap({Framed(ReportRecord(1, 1, 0)) + end}),
       absl::StatusCode::kInvalidArgument, "stream 1: its first message is a report"},
      {"two hellos", Fscap({hello + hello + end}), absl::StatusCode::kInvalidArgument,
       "a second hello"},
      {"report after goodbye",
       Fscap({hello + Framed(GoodbyeRecord(0)) + Framed(ReportRecord(0, 1, 0)) + end}),
       absl::StatusCode::kInvalidArgument, "after its goodbye"},
  };
  support::TempDir dir;
  for (const Case& c : kCases) {
    WriteFile(dir.File("bad.fscap"), c.file);
    EXPECT_THAT(
        ReadAll(dir.File("bad.fscap")).status,
        support::StatusIs(c.code, AllOf(HasSubstr(dir.File("bad.fscap")), HasSubstr(c.message))))
        << c.what;
  }
}

TEST(FscapTest, AFrameThatInflatesWithoutBoundIsRefused) {
  support::TempDir dir;
  WriteFile(dir.File("bomb"), Fscap({std::string(32u << 20, '\1')}));
  EXPECT_THAT(
      ReadAll(dir.File("bomb"), {.record_bytes_max = 1u << 20}).status,
      support::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the frame holds more than")));
}

TEST(JsonlTest, IsForgivingAboutBlanksAndTheLastLineEnd) {
  support::TempDir dir;
  WriteFile(dir.File("a"),
            "\n  {\"stream\": 4, \"message\": {\"hello\": {\"run\": \"r\"}}}  \r\n\n"
            "{\"stream\":4,\"message\":{\"report\":{\"seq\":\"1\",\"last_of_step\":true}}}");
  const Outcome outcome = ReadAll(dir.File("a"));
  ASSERT_OK(outcome.status);
  ASSERT_EQ(outcome.records.size(), 2u);
  EXPECT_EQ(outcome.records[0].message().hello().run(), "r");
  EXPECT_TRUE(outcome.records[1].message().report().last_of_step());
}

TEST(JsonlTest, BadLinesAreNamedByFileAndLine) {
  const std::string hello = "{\"stream\":1,\"message\":{\"hello\":{}}}\n";
  struct Case {
    std::string file;
    const char* message;
  };
  const Case kCases[] = {
      {hello + "\n{\"stream\":1,", ":3: no CaptureRecord in JSON"},
      {hello + "{\"streem\":1}\n", ":2: no CaptureRecord in JSON"},
      {hello + "rubbish\n", ":2: no CaptureRecord in JSON"},
      {hello + "{\"stream\":-1}\n", ":2: no CaptureRecord in JSON"},
      {hello + "{\"stream\":1}\n", ":2: stream 1: no message"},
      {hello + hello, ":2: stream 1: a second hello"},
      {hello + "{\"stream\":2,\"message\":{\"goodbye\":{}}}\n",
       ":2: stream 2: its first message is a goodbye, a hello is needed; the 1 records"},
  };
  support::TempDir dir;
  for (const Case& c : kCases) {
    WriteFile(dir.File("bad.jsonl"), c.file);
    const Outcome outcome = ReadAll(dir.File("bad.jsonl"));
    EXPECT_THAT(outcome.status,
                support::StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr(absl::StrCat(dir.File("bad.jsonl"), c.message))));
    EXPECT_EQ(outcome.records.size(), 1u);
  }
}

TEST(JsonlTest, LinesAndRecordsOverTheLimitAreRefused) {
  support::TempDir dir;
  WriteFile(dir.File("long"),
            absl::StrCat("{\"stream\":1,", std::string(5000, ' '), "\"message\":{\"hello\":{}}}"));
  EXPECT_THAT(
      ReadAll(dir.File("long"), {.record_bytes_max = 1000}).status,
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer than 4000 bytes")));
  WriteFile(dir.File("big"),
            absl::StrCat("{\"message\":{\"hello\":{\"run\":\"", std::string(2000, 'r'), "\"}}}"));
  EXPECT_THAT(ReadAll(dir.File("big"), {.record_bytes_max = 1000}).status,
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("allowed are 1000")));
}

TEST(CaptureReaderTest, FilesThatAreNoCaptureAreRefusedAtOnce) {
  support::TempDir dir;
  WriteFile(dir.File("empty"), "");
  WriteFile(dir.File("other"), "#!/bin/sh\n");
  EXPECT_THAT(CaptureReader::Open(dir.File("missing")),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("opening capture")));
  EXPECT_THAT(CaptureReader::Open(dir.path()),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a directory")));
  EXPECT_THAT(CaptureReader::Open(dir.File("empty")),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it is empty")));
  EXPECT_THAT(CaptureReader::Open(dir.File("other")),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("neither .fscap")));
}

}  // namespace
}  // namespace foreshock::capture
