// Any bytes as a capture file: the reader ends with an error or at the end, keeps to its limits,
// and hands out only records that have a message.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/capture/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("capture", 0);
  FORESHOCK_CHECK(file >= 0 && ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0);
  FORESHOCK_CHECK(write(file, data, size) == static_cast<ssize_t>(size));
  auto reader = foreshock::capture::CaptureReader::Open(absl::StrCat("/proc/self/fd/", file),
                                                        {.record_bytes_max = 1u << 16});
  if (!reader.ok()) return 0;
  foreshock::v1::CaptureRecord record;
  uint64_t records = 0;
  while (true) {
    const absl::StatusOr<bool> more = (*reader)->Next(&record);
    if (!more.ok() || !*more) break;
    FORESHOCK_CHECK(record.ByteSizeLong() <= 1u << 16);
    FORESHOCK_CHECK(record.message().message_case() != foreshock::v1::PushRequest::MESSAGE_NOT_SET);
    FORESHOCK_CHECK(++records <= size * (1u << 16));
  }
  FORESHOCK_CHECK((*reader)->progress().records == records);
  FORESHOCK_CHECK((*reader)->progress().bytes_read <= size);
  return 0;
}
