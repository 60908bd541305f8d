// Which scalar a column of a log becomes: what --map says, else the canonical name for the usual
// ones, else the column's own name in the letters that a scalar may have.
//
//   ASSIGN_OR_RETURN(ScalarNames names, ScalarNames::Create({"Value=loss"}));
//   names.Find("Value")->name;          // "loss"
//   names.Find("learning rate")->name;  // "lr"
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/log_reader.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock::cli {

// The usual columns of logs and the scalar that each is; docs/import.md has the same table.
struct ColumnAlias {
  absl::string_view column;  // as SanitisedName spells it, without train_
  absl::string_view scalar;
};
absl::Span<const ColumnAlias> ColumnAliases();

// "Grad-Norm (L2)" -> "grad_norm_l2": lower case, any run of other characters one '_'.
std::string SanitisedName(absl::string_view column);

// Thread-compatible.
class ScalarNames {
 public:
  // `map` holds COLUMN=NAME. InvalidArgument with what is allowed.
  static absl::StatusOr<ScalarNames> Create(const std::vector<std::string>& map);

  // What the column is; null if it is left out, which is then noted with the reason.
  const v1::ScalarDeclaration* Find(const std::string& column, LogNotes* notes);

  // (column, scalar), in the order in which they came.
  const std::vector<std::pair<std::string, std::string>>& found() const { return found_; }
  // The columns of --map that no row had.
  std::vector<std::string> NotFound() const;

  static constexpr size_t kScalarsMax = 1024;  // what the daemon takes of a stream
  static constexpr size_t kNameBytesMax = 128;

 private:
  std::string NameOf(const std::string& column, std::string* why) const;

  std::vector<std::pair<std::string, std::string>> map_;  // column, name
  std::vector<std::pair<std::string, std::string>> found_;
  std::vector<v1::ScalarDeclaration> declarations_;  // of found_
  static constexpr size_t kLeftOut = static_cast<size_t>(-1);
  static constexpr size_t kColumnsKept = 16 * kScalarsMax;
  absl::flat_hash_map<std::string, size_t> of_column_;  // index into found_, or kLeftOut
};

}  // namespace foreshock::cli
