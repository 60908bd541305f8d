#include "client/cli/log_cells.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/cli/scalar_names.h"

namespace foreshock::cli {
namespace {

constexpr double kStepMax = 9007199254740992.0;  // 2^53
// The usual names, in the spelling of ScalarName, the first that is there is taken.
constexpr std::array<absl::string_view, 14> kStepNames = {"step",
                                                          "global_step",
                                                          "iteration",
                                                          "iter",
                                                          "train_global_step",
                                                          "trainer_global_step",
                                                          "training_global_step",
                                                          "current_steps",
                                                          "global_steps",
                                                          "train_step",
                                                          "training_step",
                                                          "trainer_step",
                                                          "steps",
                                                          "num_updates"};
constexpr std::array<absl::string_view, 3> kTimeNames = {"timestamp", "wall_time", "time_unix"};
constexpr std::array<absl::string_view, 3> kSkippedNames = {"skipped", "skipped_iterations",
                                                            "number_of_skipped_iterations"};
constexpr size_t kColumnsShown = 12;

template <size_t kCount>
bool IsOneOf(const std::array<absl::string_view, kCount>& names, absl::string_view column) {
  return std::find(names.begin(), names.end(), SanitisedName(column)) != names.end();
}

// Unix nanoseconds of seconds since 1970 or of a date, UTC unless it says otherwise; 0: neither.
int64_t UnixNs(const LogCell& cell) {
  // From 1973 to 5138: seconds of a clock that runs, not since the start of the job, nor in ms.
  if (cell.kind == LogCell::Kind::kNumber) {
    if (!(cell.number >= 1e8 && cell.number < 9.2e9)) return 0;
    return static_cast<int64_t>(cell.number * 1e6) * 1000;
  }
  absl::Time time;
  for (const char* format : {absl::RFC3339_full, "%Y-%m-%d%ET%H:%M:%E*S", "%Y-%m-%d %H:%M:%E*S"}) {
    if (absl::ParseTime(format, cell.text, &time, nullptr)) return absl::ToUnixNanos(time);
  }
  return 0;
}

std::string Shown(const LogCell& cell) {
  if (cell.kind == LogCell::Kind::kNumber) return absl::StrCat(cell.number);
  return absl::StrCat("`", cell.text.substr(0, 40), "`");
}

}  // namespace

LogCell CellOfText(std::string column, absl::string_view text, size_t byte) {
  LogCell cell;
  cell.column = std::move(column);
  cell.byte = byte;
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return cell;
  if (absl::SimpleAtod(text, &cell.number)) {
    cell.kind = LogCell::Kind::kNumber;
  } else {
    cell.kind = LogCell::Kind::kText;
    cell.text = std::string(text);
  }
  return cell;
}

bool IsStepName(absl::string_view column) { return IsOneOf(kStepNames, column); }

absl::Status LogColumns::FindStep(const std::vector<std::string>& columns) {
  if (!step_.empty()) {
    if (std::find(columns.begin(), columns.end(), step_) != columns.end()) return {};
  } else {
    for (const absl::string_view name : kStepNames) {
      for (const std::string& column : columns) {
        if (SanitisedName(column) != name) continue;
        step_ = column;
        return {};
      }
    }
  }
  const size_t shown = std::min(columns.size(), kColumnsShown);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no step: ",
                   step_.empty() ? absl::StrCat("none of ", absl::StrJoin(kStepNames, ", "))
                                 : absl::StrCat("no `", step_, "`"),
                   " among `", absl::StrJoin(columns.begin(), columns.begin() + shown, "`, `"), "`",
                   shown < columns.size() ? ", ..." : "", "; --step-key names it"));
}

absl::Status LogColumns::Fill(const std::vector<LogCell>& cells, LogRow* row, size_t* byte) {
  *byte = 0;
  row->time_unix_ns = 0;
  std::vector<LogCell> values;
  const LogCell* step = nullptr;
  for (const LogCell& cell : cells) {
    if (time_.empty() && IsOneOf(kTimeNames, cell.column)) time_ = cell.column;
    if (cell.column == step_) {
      step = &cell;
    } else if (cell.column == time_) {
      if (cell.kind == LogCell::Kind::kNone) continue;
      row->time_unix_ns = UnixNs(cell);
      if (row->time_unix_ns <= 0) {
        row->time_unix_ns = 0;
        notes_.Skip(cell.column, absl::StrCat(Shown(cell),
                                              " is no time: seconds since 1970, or a date such as "
                                              "2026-03-01T14:02:31Z"));
      }
    } else {
      values.push_back(cell);
    }
  }
  if (step == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the row has no step, `", step_, "`"));
  }
  *byte = step->byte;
  // "10/500" is step 10 of 500.
  LogCell whole = *step;
  const std::vector<absl::string_view> of = absl::StrSplit(step->text, '/');
  double last = 0;
  if (of.size() == 2 && absl::SimpleAtod(of[0], &whole.number) && absl::SimpleAtod(of[1], &last)) {
    whole.kind = LogCell::Kind::kNumber;
    step = &whole;
  }
  if (step->kind != LogCell::Kind::kNumber || !(step->number >= 0 && step->number <= kStepMax) ||
      step->number != std::floor(step->number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the step `", step_, "` is ", step->kind == LogCell::Kind::kNone ? "empty" : Shown(*step),
        "; allowed is a whole number from 0 to 2^53"));
  }
  row->step = static_cast<int64_t>(step->number);
  FillValues(values, row, &notes_);
  return absl::OkStatus();
}

void FillValues(const std::vector<LogCell>& cells, LogRow* row, LogNotes* notes) {
  row->values.clear();
  row->skipped_steps = 0;
  for (const LogCell& cell : cells) {
    if (cell.kind == LogCell::Kind::kNumber) {
      if (IsOneOf(kSkippedNames, cell.column)) row->skipped_steps = cell.number;
      row->values.push_back({cell.column, cell.number});
    } else if (cell.kind == LogCell::Kind::kText) {
      notes->Skip(cell.column,
                  cell.why.empty() ? absl::StrCat(Shown(cell), " is no number") : cell.why);
    }
  }
}

}  // namespace foreshock::cli
