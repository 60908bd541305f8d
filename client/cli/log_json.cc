// One JSON document: a list of rows, or an object that holds one, such as the trainer_state.json of
// Hugging Face with its log_history. Rows of one step become one row. A row that only sums up the
// run (train_runtime) is left out.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/log_cells.h"
#include "client/cli/log_formats.h"
#include "client/cli/log_json_cells.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

constexpr absl::string_view kRowLists[] = {"log_history", "history", "logs", "metrics", "data"};
constexpr absl::string_view kSummary = "train_runtime";

class JsonLogReader final : public LogReader {
 public:
  JsonLogReader(LogLines lines, const LogOptions& options, LogNotes* notes)
      : LogReader(std::move(lines), notes), columns_(options, notes) {}

  absl::Status Load() {
    FORESHOCK_ASSIGN_OR_RETURN(const std::string text, lines_.Rest());
    try {
      document_ = LogJson::parse(QuoteNonFinite(text).text);
    } catch (const LogJson::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(lines_.path(), ": no JSON: ", error.what()));
    }
    if (document_.is_array()) {
      rows_ = &document_;
      return absl::OkStatus();
    }
    for (const absl::string_view name : kRowLists) {
      const auto found = document_.find(std::string(name));
      if (found == document_.end() || !found->is_array()) continue;
      rows_ = &*found;
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat(lines_.path(),
                     ": a JSON document without rows; allowed are a list of objects, "
                     "or an object with one, as log_history in trainer_state.json"));
  }

  absl::StatusOr<bool> Next(LogRow* row) override {
    bool any = false;
    for (; next_ < rows_->size(); ++next_) {
      const LogJson& object = (*rows_)[next_];
      if (object.is_object() && object.contains(std::string(kSummary))) continue;
      LogRow part;
      const absl::Status status = ReadRow(object, &part);
      if (!status.ok()) {
        notes_.NotUnderstood(part.where, status.message());
        continue;
      }
      if (!any) {
        *row = std::move(part);
        any = true;
      } else if (part.step == row->step) {
        row->values.insert(row->values.end(), part.values.begin(), part.values.end());
      } else {
        break;
      }
    }
    return any;
  }

  const char* format_name() const override { return "JSON"; }

 private:
  absl::Status ReadRow(const LogJson& object, LogRow* row) {
    row->where = absl::StrCat(lines_.path(), ": row ", next_ + 1);
    if (!object.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the row is ", object.type_name(), "; allowed is an object"));
    }
    const std::vector<LogCell> cells = CellsOf(object, "");
    std::vector<std::string> columns;
    for (const LogCell& cell : cells) columns.push_back(cell.column);
    FORESHOCK_RETURN_IF_ERROR(columns_.FindStep(columns));
    size_t byte = 0;
    return columns_.Fill(cells, row, &byte);
  }

  LogColumns columns_;
  LogJson document_;
  const LogJson* rows_ = nullptr;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogReader>> NewJsonLogReader(LogLines lines,
                                                            const LogOptions& options,
                                                            LogNotes* notes) {
  auto reader = std::make_unique<JsonLogReader>(std::move(lines), options, notes);
  FORESHOCK_RETURN_IF_ERROR(reader->Load());
  return reader;
}

}  // namespace foreshock::cli
