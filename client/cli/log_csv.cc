// CSV with a header row, RFC 4180, by libcsv. Fed byte by byte, because libcsv does not say where a
// cell was.
#include <csv.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/log_cells.h"
#include "client/cli/log_formats.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

struct CsvCell {
  std::string text;
  size_t byte = 0;
};

class CsvReader final : public LogReader {
 public:
  CsvReader(LogLines lines, const LogOptions& options, LogNotes* notes)
      : LogReader(std::move(lines), notes), columns_(options, notes) {
    csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI | CSV_APPEND_NULL);
  }
  ~CsvReader() override { csv_free(&parser_); }

  absl::Status ReadHeader() {
    FORESHOCK_ASSIGN_OR_RETURN(const bool more, ReadCells());
    if (!more) {
      return absl::InvalidArgumentError(
          absl::StrCat(lines_.path(), ": empty; the first row must name the columns"));
    }
    for (const CsvCell& cell : cells_) {
      const bool again = std::find(header_.begin(), header_.end(), cell.text) != header_.end();
      if (again) notes_.Skip(cell.text, "a second column of this name; the first one is taken");
      header_.push_back(again ? "" : cell.text);
    }
    return base::Annotate(columns_.FindStep(header_), lines_.At(first_line_, 0));
  }

  absl::StatusOr<bool> Next(LogRow* row) override {
    while (true) {
      FORESHOCK_ASSIGN_OR_RETURN(const bool more, ReadCells());
      if (!more) return false;
      row->where = lines_.At(first_line_, 0);
      if (cells_.size() != header_.size()) {
        notes_.NotUnderstood(row->where, absl::StrCat("the row has ", cells_.size(),
                                                      " cells, the header ", header_.size()));
        continue;
      }
      std::vector<LogCell> values;
      for (size_t i = 0; i < cells_.size(); ++i) {
        if (header_[i].empty()) continue;  // a row number, or a second column of a name
        values.push_back(CellOfText(header_[i], cells_[i].text, cells_[i].byte));
      }
      size_t byte = 0;
      const absl::Status filled = columns_.Fill(values, row, &byte);
      if (filled.ok()) return true;
      notes_.NotUnderstood(lines_.At(first_line_, byte), filled.message());
    }
  }

  const char* format_name() const override { return "CSV"; }

 private:
  // The next row into cells_, which begins in first_line_; false at the end.
  absl::StatusOr<bool> ReadCells() {
    cells_.clear();
    row_bytes_ = 0;
    row_ended_ = false;
    while (!row_ended_) {
      FORESHOCK_ASSIGN_OR_RETURN(const bool more, lines_.Next());
      if (!more) return Finish();
      if (row_bytes_ == 0) first_line_ = lines_.number();
      FORESHOCK_RETURN_IF_ERROR(FeedLine());
    }
    return true;
  }

  absl::Status FeedLine() {
    const std::string& line = lines_.line();
    if (lines_.cut() || row_bytes_ + line.size() > LogLines::kLineBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(lines_.At(first_line_, 0), ": the row is longer than ",
                       LogLines::kLineBytesMax, " bytes; is a quote not closed?"));
    }
    cell_byte_ = 0;
    for (size_t i = 0; i <= line.size(); ++i) {
      const char c = i < line.size() ? line[i] : '\n';
      const size_t cells = cells_.size();
      if (csv_parse(&parser_, &c, 1, &CsvReader::OnCell, &CsvReader::OnRow, this) != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(lines_.At(i), ": ", csv_strerror(csv_error(&parser_)),
                         ": a cell with a quote must be in quotes as a whole, with \"\" for \""));
      }
      if (cells_.size() > cells) cell_byte_ = i + 1;
    }
    // A blank line is no row.
    if (!row_ended_ && (!cells_.empty() || !line.empty())) row_bytes_ += line.size() + 1;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Finish() {
    if (csv_fini(&parser_, &CsvReader::OnCell, &CsvReader::OnRow, this) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          lines_.At(first_line_, 0), ": a quote in the row that begins here is not closed"));
    }
    return row_ended_;
  }

  static void OnCell(void* text, size_t size, void* self) {
    auto& reader = *static_cast<CsvReader*>(self);
    reader.cells_.push_back({std::string(static_cast<const char*>(text), size), reader.cell_byte_});
  }
  static void OnRow(int /*end*/, void* self) { static_cast<CsvReader*>(self)->row_ended_ = true; }

  LogColumns columns_;
  csv_parser parser_{};
  std::vector<std::string> header_;  // "": not taken
  std::vector<CsvCell> cells_;
  size_t cell_byte_ = 0;     // where the cell being read began
  size_t row_bytes_ = 0;     // of the lines of a row that goes on
  uint64_t first_line_ = 1;  // of the row
  bool row_ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogReader>> NewCsvReader(LogLines lines, const LogOptions& options,
                                                        LogNotes* notes) {
  auto reader = std::make_unique<CsvReader>(std::move(lines), options, notes);
  FORESHOCK_RETURN_IF_ERROR(reader->ReadHeader());
  return reader;
}

}  // namespace foreshock::cli
