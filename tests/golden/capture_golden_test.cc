// The committed files of tests/golden/capture: v1.jsonl and v1.fscap hold the same records,
// v1.content is what v1.fscap holds after inflation (zstd's own bytes may change with its version).
#include <zstd.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "daemon/capture/reader.h"
#include "daemon/capture/writer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::golden {
namespace {

const std::string kFolder = FORESHOCK_SOURCE_DIR "/tests/golden/capture/";

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

void Copy(const std::string& from, const std::string& to) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<capture::CaptureReader> reader,
                       capture::CaptureReader::Open(from));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<capture::CaptureWriter> writer,
                       capture::CaptureWriter::Create(to));
  v1::CaptureRecord record;
  while (true) {
    ASSERT_OK_AND_ASSIGN(const bool more, reader->Next(&record));
    if (!more) break;
    ASSERT_OK(writer->Write(record));
  }
  ASSERT_OK(writer->Commit());
}

std::string Inflate(const std::string& frame) {
  std::string content(1 << 16, '\0');
  const size_t size = ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size());
  EXPECT_FALSE(ZSTD_isError(size)) << ZSTD_getErrorName(size);
  return content.substr(0, ZSTD_isError(size) != 0 ? 0 : size);
}

TEST(CaptureGoldenTest, CompressedAndTextFormSayTheSame) {
  support::TempDir dir;
  Copy(kFolder + "v1.fscap", dir.File("copy.jsonl"));
  EXPECT_EQ(ReadFile(dir.File("copy.jsonl")), ReadFile(kFolder + "v1.jsonl"));
}

TEST(CaptureGoldenTest, TheBytesOfVersion1AreWrittenAsEver) {
  support::TempDir dir;
  Copy(kFolder + "v1.jsonl", dir.File("copy.fscap"));
  const std::string file = ReadFile(dir.File("copy.fscap"));
  EXPECT_EQ(file.substr(0, 8), std::string("FSCAP\r\n\x01", 8));
  EXPECT_EQ(Inflate(file.substr(8)), ReadFile(kFolder + "v1.content"));
}

}  // namespace
}  // namespace foreshock::golden
