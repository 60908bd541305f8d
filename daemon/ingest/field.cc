#include "daemon/ingest/field.h"

#include "absl/strings/str_cat.h"

namespace foreshock::ingest {

void Field::AppendTo(std::string* path) const {
  if (parent_ != nullptr) {
    parent_->AppendTo(path);
    path->push_back('.');
  }
  absl::StrAppend(path, name_);
  if (index_ >= 0) absl::StrAppend(path, "[", index_, "]");
}

std::string Field::Path() const {
  std::string path;
  AppendTo(&path);
  for (const Field* field = this; field != nullptr; field = field->parent_) {
    if (field->layer_ >= 0) {
      absl::StrAppend(&path, " (layer ", field->layer_, ")");
      break;
    }
  }
  return path;
}

absl::Status Field::Refuse(absl::string_view found, absl::string_view allowed) const {
  return absl::InvalidArgumentError(absl::StrCat(Path(), ": found ", found, "; allowed ", allowed));
}

absl::Status Field::Refuse(uint64_t found, absl::string_view allowed) const {
  return Refuse(absl::StrCat(found), allowed);
}

absl::Status Field::CheckRange(uint64_t found, uint64_t low, uint64_t high) const {
  if (found >= low && found <= high) return absl::OkStatus();
  return Refuse(found, absl::StrCat(low, "..", high));
}

}  // namespace foreshock::ingest
