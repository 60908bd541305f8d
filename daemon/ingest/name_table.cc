#include "daemon/ingest/name_table.h"

#include <array>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/ingest/text.h"

namespace foreshock::ingest {
namespace {

constexpr size_t kScalarNameBytesMax = 128;
constexpr size_t kTensorNameBytesMax = 256;
constexpr size_t kUnitBytesMax = 32;

absl::Status CheckScalarName(const Field& field, absl::string_view name) {
  bool good =
      !name.empty() && name.size() <= kScalarNameBytesMax && name[0] >= 'a' && name[0] <= 'z';
  for (const char c : name) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_');
  }
  if (good) return absl::OkStatus();
  return field.Refuse(Quote(name), "[a-z][a-z0-9_]*, at most 128 bytes");
}

absl::Status CheckTensorName(const Field& field, absl::string_view name) {
  constexpr std::array<absl::string_view, 6> kPrefixes = {"act/",    "grad/",   "param/",
                                                          "update/", "adam_m/", "adam_v/"};
  FORESHOCK_RETURN_IF_ERROR(CheckName(field, name, 1, kTensorNameBytesMax));
  for (const absl::string_view prefix : kPrefixes) {
    if (absl::StartsWith(name, prefix) && name.size() > prefix.size()) return absl::OkStatus();
  }
  return field.Refuse(Quote(name),
                      "a name behind act/, grad/, param/, update/, adam_m/ or adam_v/");
}

absl::Status TooMany(const Field& field, const char* what, uint32_t limit) {
  return field.Refuse(absl::StrCat("one more ", what, " name than the stream may declare"),
                      absl::StrCat("at most ", limit, " a stream"));
}

}  // namespace

absl::Status NameTable::Declare(const Field& field, const v1::ScalarDeclaration& declaration) {
  const auto by_id = names_.scalars.find(declaration.id());
  if (by_id != names_.scalars.end()) {
    const v1::ScalarDeclaration& old = by_id->second;
    if (old.name() != declaration.name()) {
      return Field(field, "id")
          .Refuse(absl::StrCat(declaration.id(), " for ", Quote(declaration.name())),
                  absl::StrCat("only ", Quote(old.name()), ", which this id was declared as"));
    }
    if (old.unit() != declaration.unit() || old.reduction() != declaration.reduction() ||
        old.scope() != declaration.scope()) {
      return field.Refuse(absl::StrCat("another unit, reduction or scope for ", Quote(old.name())),
                          "the ones it was declared with");
    }
    return absl::OkStatus();
  }
  FORESHOCK_RETURN_IF_ERROR(CheckScalarName(Field(field, "name"), declaration.name()));
  FORESHOCK_RETURN_IF_ERROR(CheckName(Field(field, "unit"), declaration.unit(), 0, kUnitBytesMax));
  if (declaration.reduction() < v1::REDUCTION_LAST || declaration.reduction() > v1::REDUCTION_MIN) {
    return Field(field, "reduction").Refuse(declaration.reduction(), "LAST, SUM, MEAN, MAX, MIN");
  }
  if (declaration.scope() < v1::SCOPE_GLOBAL || declaration.scope() > v1::SCOPE_RANK) {
    return Field(field, "scope").Refuse(declaration.scope(), "GLOBAL, RANK");
  }
  // One name may be given per rank and for the whole job: "loss" often is.
  const std::pair<std::string, int> key(declaration.name(), declaration.scope());
  if (const auto by_name = scalar_ids_.find(key); by_name != scalar_ids_.end()) {
    return Field(field, "id")
        .Refuse(declaration.id(), absl::StrCat(by_name->second, ", which ",
                                               Quote(declaration.name()), " already has"));
  }
  if (names_.scalars.size() >= scalars_max_) return TooMany(field, "scalar", scalars_max_);
  scalar_ids_.emplace(key, declaration.id());
  names_.scalars.emplace(declaration.id(), declaration);
  return absl::OkStatus();
}

absl::Status NameTable::Declare(const Field& field, const v1::TensorDeclaration& declaration) {
  const auto layer_of = [](const v1::TensorDeclaration& d) {
    return d.has_layer() ? int64_t{d.layer()} : -1;
  };
  const auto by_id = names_.tensors.find(declaration.id());
  if (by_id != names_.tensors.end()) {
    const v1::TensorDeclaration& old = by_id->second;
    if (old.name() == declaration.name() && layer_of(old) == layer_of(declaration)) {
      return absl::OkStatus();
    }
    return Field(field, "id")
        .Refuse(absl::StrCat(declaration.id(), " for ", Quote(declaration.name())),
                absl::StrCat("only ", Quote(old.name()),
                             " in its layer, which this id was declared as"));
  }
  FORESHOCK_RETURN_IF_ERROR(CheckTensorName(Field(field, "name"), declaration.name()));
  std::pair<std::string, int64_t> key(declaration.name(), layer_of(declaration));
  if (const auto by_name = tensor_ids_.find(key); by_name != tensor_ids_.end()) {
    return Field(field, "id")
        .Refuse(declaration.id(), absl::StrCat(by_name->second, ", which ",
                                               Quote(declaration.name()), " already has"));
  }
  if (names_.tensors.size() >= tensors_max_) return TooMany(field, "tensor", tensors_max_);
  tensor_ids_.emplace(std::move(key), declaration.id());
  names_.tensors.emplace(declaration.id(), declaration);
  return absl::OkStatus();
}

}  // namespace foreshock::ingest
