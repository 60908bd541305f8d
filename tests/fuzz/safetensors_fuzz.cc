// Any bytes as a safetensors file: an error that names the file, or tensors that lie side by side
// in it and survive being written again.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "proxy/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreshock::proxy;  // NOLINT
  static const int file = memfd_create("safetensors", 0);
  FORESHOCK_CHECK(file >= 0 && ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0);
  FORESHOCK_CHECK(write(file, data, size) == static_cast<ssize_t>(size));
  const std::string path = absl::StrCat("/proc/self/fd/", file);
  const auto input = InputFile::Open(path);
  FORESHOCK_CHECK(input.ok());
  const auto header = ReadHeader(*input);
  if (!header.ok()) {
    FORESHOCK_CHECK(header.status().code() == absl::StatusCode::kInvalidArgument);
    FORESHOCK_CHECK(absl::StartsWith(header.status().message(), path));
    return 0;
  }
  uint64_t bytes = 0;
  for (const Tensor& tensor : header->tensors) {
    FORESHOCK_CHECK(tensor.begin <= tensor.end && tensor.end <= size);
    bytes += tensor.bytes();
  }
  FORESHOCK_CHECK(bytes <= size);
  const std::string text = FormatHeader(*header);
  const auto again = ParseHeader("again", text.size() + bytes, absl::string_view(text).substr(8));
  FORESHOCK_CHECK(again.ok() && again->tensors.size() == header->tensors.size());
  return 0;
}
