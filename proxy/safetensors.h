// The safetensors format: 8 bytes of header length (little-endian), a JSON header
// {name: {dtype, shape, data_offsets}}, then the data. The header is not trusted: its length, every
// range against dtype x shape, gaps, overlaps and repeated names are checked before anything is
// used.
//
//   FORESHOCK_ASSIGN_OR_RETURN(const Header header, ReadHeader(file));
//   for (const Tensor& tensor : header.tensors) Use(tensor.name, tensor.begin, tensor.end);
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proxy/file.h"

namespace foreshock::proxy {

struct Tensor {
  std::string name;
  std::string dtype;            // as the file says it: "BF16"
  std::vector<uint64_t> shape;  // C order; empty for a scalar
  uint64_t begin = 0;           // bytes from the start of the file
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

struct Header {
  std::vector<Tensor> tensors;  // by `begin`
  std::vector<std::pair<std::string, std::string>> metadata;
};

constexpr uint64_t kHeaderBytesMax = 100'000'000;

// Bits of one element; 0 for a dtype that is not known.
int DtypeBits(absl::string_view dtype);

// `json` is the header of a file of `file_bytes`, which begins at byte 8. Errors are
// InvalidArgument and name the file, the tensor and the byte.
absl::StatusOr<Header> ParseHeader(absl::string_view file, uint64_t file_bytes,
                                   absl::string_view json);

absl::StatusOr<Header> ReadHeader(const InputFile& file);

// Length and JSON of a header for tensors that follow each other in this order, padded so that the
// data begin at a multiple of 8; `begin` and `end` are not read, only their difference.
std::string FormatHeader(const Header& header);

}  // namespace foreshock::proxy
