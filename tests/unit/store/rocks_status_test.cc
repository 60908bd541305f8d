#include "daemon/store/rocks_status.h"

#include <cerrno>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::store {
namespace {

using ::testing::HasSubstr;

TEST(RocksStatusTest, SaysWhatTheCallerCanDo) {
  struct Case {
    rocksdb::Status status;
    absl::StatusCode code;
  };
  const Case cases[] = {
      {rocksdb::Status::OK(), absl::StatusCode::kOk},
      {rocksdb::Status::NoSpace("full"), absl::StatusCode::kResourceExhausted},
      {rocksdb::Status::SpaceLimit("full"), absl::StatusCode::kResourceExhausted},
      {rocksdb::Status::IOError("append", "Disk quota exceeded"),
       absl::StatusCode::kResourceExhausted},
      {rocksdb::Status::IOError("append", "File too large"), absl::StatusCode::kResourceExhausted},
      // While RocksDB recovers, it repeats the first failure as text.
      {rocksdb::Status::Incomplete("IO error: No space left on device"),
       absl::StatusCode::kResourceExhausted},
      {rocksdb::Status::Incomplete("IO error: Input/output error"), absl::StatusCode::kUnavailable},
      {rocksdb::Status::IOError("append", "Input/output error"), absl::StatusCode::kUnavailable},
      {rocksdb::Status::IOError("append", "Read-only file system"), absl::StatusCode::kUnavailable},
      {rocksdb::Status::Corruption("checksum mismatch"), absl::StatusCode::kDataLoss},
      {rocksdb::Status::InvalidArgument("what"), absl::StatusCode::kInternal},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(FromRocks(c.status, "store: x").code(), c.code) << c.status.ToString();
  }
  EXPECT_THAT(FromRocks(rocksdb::Status::Corruption("checksum mismatch"), "store: cannot scan"),
              support::StatusIs(absl::StatusCode::kDataLoss,
                                "store: cannot scan: Corruption: checksum mismatch"));
}

TEST(RocksStatusTest, NamesTheErrno) {
  EXPECT_OK(FromErrno(0, "x"));
  EXPECT_THAT(FromErrno(ENOSPC, "store: cannot write in /d"),
              support::StatusIs(absl::StatusCode::kResourceExhausted,
                                "store: cannot write in /d: No space left on device"));
  EXPECT_THAT(FromErrno(EROFS, "x"),
              support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("x")));
  EXPECT_THAT(FromErrno(ENOENT, "x"),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("x")));
  EXPECT_THAT(FromErrno(EIO, "x"),
              support::StatusIs(absl::StatusCode::kUnavailable, HasSubstr("x")));
}

TEST(RocksStatusTest, ACorruptRowShowsTheBeginningOfALongKey) {
  EXPECT_THAT(
      CorruptRow("points", std::string("\x01\xab", 2), "point", "xyz"),
      support::StatusIs(absl::StatusCode::kDataLoss,
                        "store: corrupt point in family points, key 01ab (2 bytes), value of 3 "
                        "bytes"));
  EXPECT_THAT(CorruptRow("default", std::string(70, 'a'), "row", ""),
              support::StatusIs(absl::StatusCode::kDataLoss, HasSubstr("6161... (70 bytes)")));
}

}  // namespace
}  // namespace foreshock::store
