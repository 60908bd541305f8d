#include "proxy/safetensors.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace foreshock::proxy {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr size_t kDimensionsMax = 16;

struct DtypeRow {
  absl::string_view name;
  int bits;
};
constexpr DtypeRow kDtypes[] = {
    {"BOOL", 8},        {"U8", 8},         {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8},     {"I16", 16},       {"U16", 16}, {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},       {"F32", 32}, {"I64", 64},    {"U64", 64},
    {"F64", 64},        {"C64", 64},       {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};

absl::Status Wrong(absl::string_view file, absl::string_view tensor, uint64_t byte,
                   absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, tensor.empty() ? "" : absl::StrCat(": tensor '", tensor, "'"), ": byte ",
                   byte, ": ", what));
}

// Walks over the text and leaves in `*at` how far the parser has come.
class TrackedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* position, const char** at) : position_(position), at_(at) {}
  const char& operator*() const { return *position_; }
  TrackedIterator& operator++() {
    *at_ = ++position_;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackedIterator& other) const { return position_ == other.position_; }
  bool operator!=(const TrackedIterator& other) const { return position_ != other.position_; }

 private:
  const char* position_;
  const char** at_;
};

// Takes the header's events one by one: a header of 100 MB needs no tree in memory.
class HeaderEvents {
 public:
  using json = nlohmann::json;

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a truth value"); }
  bool number_integer(json::number_integer_t) { return Unexpected("a negative number"); }
  bool number_float(json::number_float_t, const std::string&) {
    return Unexpected("a number that is not whole or too large");
  }
  bool binary(json::binary_t&) { return Unexpected("binary"); }

  bool number_unsigned(json::number_unsigned_t value) {
    if (place_ == Place::kShape) {
      if (tensor_.shape.size() == kDimensionsMax) {
        return Fail(absl::StrCat("more than ", kDimensionsMax, " dimensions"));
      }
      tensor_.shape.push_back(value);
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) return Fail("data_offsets has more than two numbers");
      offsets_.push_back(value);
      return true;
    }
    return Unexpected("a number");
  }

  bool string(std::string& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata.emplace_back(field_, value);
      return true;
    }
    if (place_ == Place::kTensor && field_ == "dtype") {
      tensor_.dtype = value;
      return true;
    }
    return Unexpected("a text");
  }

  bool start_object(size_t) {
    switch (place_) {
      case Place::kBefore:
        place_ = Place::kNames;
        return true;
      case Place::kNames:
        fields_.clear();
        if (tensor_.name == "__metadata__") {
          place_ = Place::kMetadata;
        } else {
          place_ = Place::kTensor;
          offsets_.clear();
        }
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool key(std::string& name) {
    if (place_ == Place::kNames) {
      tensor_ = Tensor();
      tensor_.name = name;
      return names_.insert(name).second || Fail("the name comes twice");
    }
    field_ = name;
    if (!fields_.insert(name).second) return Fail(absl::StrCat("'", name, "' comes twice"));
    if (place_ == Place::kTensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      return Fail(
          absl::StrCat("unknown field '", name, "'; dtype, shape and data_offsets are allowed"));
    }
    return true;
  }

  bool end_object() {
    if (place_ == Place::kTensor) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!fields_.contains(field)) return Fail(absl::StrCat("has no ", field));
      }
      if (offsets_.size() != 2) return Fail("data_offsets needs two numbers");
      tensor_.begin = offsets_[0];
      tensor_.end = offsets_[1];
      header_.tensors.push_back(tensor_);
    }
    place_ = place_ == Place::kNames ? Place::kAfter : Place::kNames;
    return true;
  }

  bool start_array(size_t) {
    if (place_ != Place::kTensor || field_ == "dtype") return Unexpected("a list");
    place_ = field_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }
  bool end_array() {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t, const std::string&, const json::exception& error) {
    return Fail(absl::StrCat("the header is not JSON: ", error.what()));
  }

  const std::string& wrong() const { return wrong_; }
  const std::string& tensor_name() const { return tensor_.name; }
  Header TakeHeader() { return std::move(header_); }

 private:
  // Where in the header; a list can only be the value of shape or data_offsets.
  enum class Place { kBefore, kNames, kTensor, kShape, kOffsets, kMetadata, kAfter };

  bool Fail(absl::string_view what) {
    wrong_ = std::string(what);
    return false;
  }
  bool Unexpected(absl::string_view what) {
    switch (place_) {
      case Place::kBefore:
      case Place::kAfter:
        return Fail(absl::StrCat("the header is ", what, ", not an object"));
      case Place::kNames:
        return Fail(absl::StrCat("is ", what, ", not an object"));
      case Place::kMetadata:
        return Fail(absl::StrCat("'", field_, "' is ", what, "; metadata are texts"));
      default:
        return Fail(absl::StrCat("'", field_, "' has ", what));
    }
  }

  Place place_ = Place::kBefore;
  Header header_;
  Tensor tensor_;
  std::vector<uint64_t> offsets_;
  std::string field_;
  std::string wrong_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_set<std::string> fields_;
};

// Bytes of the tensor's data; none when they do not fit 64 bits or end inside a byte.
std::optional<uint64_t> DataBytes(const Tensor& tensor) {
  auto bits = static_cast<uint64_t>(DtypeBits(tensor.dtype));
  for (const uint64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(bits, dimension, &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

}  // namespace

int DtypeBits(absl::string_view dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == dtype) return row.bits;
  }
  return 0;
}

absl::StatusOr<Header> ParseHeader(absl::string_view file, uint64_t file_bytes,
                                   absl::string_view json) {
  const uint64_t data_begin = kLengthBytes + json.size();
  const char* at = json.data();
  HeaderEvents events;
  if (!nlohmann::json::sax_parse(TrackedIterator(json.data(), &at),
                                 TrackedIterator(json.data() + json.size(), &at), &events)) {
    return Wrong(file, events.tensor_name(), kLengthBytes + static_cast<uint64_t>(at - json.data()),
                 events.wrong());
  }
  if (data_begin > file_bytes) return Wrong(file, "", file_bytes, "the file ends in the header");
  Header header = events.TakeHeader();
  const uint64_t data_bytes = file_bytes - data_begin;
  for (Tensor& tensor : header.tensors) {
    const auto wrong = [&](absl::string_view what) {
      const uint64_t byte = tensor.begin <= data_bytes ? data_begin + tensor.begin : file_bytes;
      return Wrong(file, tensor.name, byte, what);
    };
    if (DtypeBits(tensor.dtype) == 0) {
      return wrong(absl::StrCat("unknown dtype '", tensor.dtype, "'"));
    }
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      return wrong(absl::StrCat("data_offsets [", tensor.begin, ", ", tensor.end,
                                "] do not lie in the ", data_bytes, " bytes of data"));
    }
    const std::optional<uint64_t> expected = DataBytes(tensor);
    if (expected != tensor.bytes()) {
      return wrong(absl::StrCat("data_offsets span ", tensor.bytes(), " bytes; ", tensor.dtype,
                                " of shape [", absl::StrJoin(tensor.shape, ", "), "] takes ",
                                expected ? absl::StrCat(*expected) : "no whole number that fits"));
    }
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const Tensor& a, const Tensor& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  uint64_t expected = data_begin;
  for (const Tensor& tensor : header.tensors) {
    if (tensor.begin < expected) {
      return Wrong(file, tensor.name, tensor.begin,
                   absl::StrCat("overlaps the tensor before it, which ends at ", expected));
    }
    if (tensor.begin > expected) {
      return Wrong(file, tensor.name, tensor.begin,
                   absl::StrCat("bytes from ", expected, " on belong to no tensor"));
    }
    expected = tensor.end;
  }
  if (expected != file_bytes) {
    return Wrong(file, "", expected, "bytes from here to the end of the file belong to no tensor");
  }
  return header;
}

absl::StatusOr<Header> ReadHeader(const InputFile& file) {
  if (file.bytes() < kLengthBytes) {
    return Wrong(file.path(), "", file.bytes(), "the file ends in the header's length");
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::string prefix, file.Read(0, kLengthBytes));
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(prefix[static_cast<size_t>(i)]);
  }
  if (length > kHeaderBytesMax) {
    return Wrong(
        file.path(), "", 0,
        absl::StrCat("the header's length is ", length, ", at most ", kHeaderBytesMax, " is read"));
  }
  if (length > file.bytes() - kLengthBytes) {
    return Wrong(
        file.path(), "", 0,
        absl::StrCat("the header's length is ", length, ", the file has ", file.bytes(), " bytes"));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const std::string json, file.Read(kLengthBytes, length));
  return ParseHeader(file.path(), file.bytes(), json);
}

std::string FormatHeader(const Header& header) {
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::vector<std::string> members;
  if (!header.metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [name, value] : header.metadata) {
      texts.push_back(absl::StrCat(quoted(name), ":", quoted(value)));
    }
    members.push_back(absl::StrCat("\"__metadata__\":{", absl::StrJoin(texts, ","), "}"));
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : header.tensors) {
    members.push_back(absl::StrCat(quoted(tensor.name), ":{\"dtype\":", quoted(tensor.dtype),
                                   ",\"shape\":[", absl::StrJoin(tensor.shape, ","),
                                   "],\"data_offsets\":[", offset, ",", offset + tensor.bytes(),
                                   "]}"));
    offset += tensor.bytes();
  }
  std::string json = absl::StrCat("{", absl::StrJoin(members, ","), "}");
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string text;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    text += static_cast<char>(json.size() >> (8 * i) & 0xFF);
  }
  return text + json;
}

}  // namespace foreshock::proxy
