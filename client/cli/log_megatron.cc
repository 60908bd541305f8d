// Lines of Megatron-LM's training log:
//
//   iteration      100/    5000 | learning rate 1.5E-04 | lm loss 5.682E+00 | loss scale 1.0 |
//   [2026-03-01 14:02:31] iteration      100/    5000 | consumed samples:  25600 | lm loss: ... |
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/log_cells.h"
#include "client/cli/log_formats.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

constexpr absl::string_view kIteration = "iteration";
constexpr int64_t kIterationMax = int64_t{1} << 53;

// Takes blanks, digits and blanks off the front; the digits, empty if there are none.
absl::string_view TakeDigits(absl::string_view* text) {
  *text = absl::StripLeadingAsciiWhitespace(*text);
  const auto end = std::find_if_not(text->begin(), text->end(), absl::ascii_isdigit);
  const absl::string_view digits = text->substr(0, end - text->begin());
  *text = absl::StripLeadingAsciiWhitespace(text->substr(digits.size()));
  return digits;
}

// "[2026-03-01 14:02:31" before the iteration, in UTC for want of a zone; 0: not there.
int64_t TimeBefore(absl::string_view prefix) {
  constexpr size_t kTimeBytes = 19;
  const size_t open = prefix.rfind('[');
  absl::Time time;
  if (open == absl::string_view::npos ||
      !absl::ParseTime("%Y-%m-%d %H:%M:%S", prefix.substr(open + 1, kTimeBytes), &time, nullptr)) {
    return 0;
  }
  return std::max<int64_t>(absl::ToUnixNanos(time), 0);
}

// "grad norm: 1.2" or "grad norm 1.2".
LogCell CellOfPart(absl::string_view part, size_t byte) {
  part = absl::StripTrailingAsciiWhitespace(part);
  const size_t colon = part.rfind(':');
  double number = 0;
  size_t split = colon;
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtod(absl::StripAsciiWhitespace(part.substr(colon + 1)), &number)) {
    split = colon == absl::string_view::npos ? part.find_last_of(" \t") : part.find(':');
  }
  if (split == absl::string_view::npos) return CellOfText(std::string(part), "no value", byte);
  const absl::string_view name = absl::StripAsciiWhitespace(part.substr(0, split));
  return CellOfText(std::string(name), part.substr(split + 1), byte);
}

class MegatronReader final : public LogReader {
 public:
  MegatronReader(LogLines lines, LogNotes* notes) : LogReader(std::move(lines), notes) {}

  absl::StatusOr<bool> Next(LogRow* row) override {
    while (true) {
      FORESHOCK_ASSIGN_OR_RETURN(const bool more, lines_.Next());
      if (!more) return false;
      if (ReadRow(row)) return true;
    }
  }

  const char* format_name() const override { return "Megatron-LM log"; }

 private:
  // False if the line is no row; it is then noted.
  bool ReadRow(LogRow* row) {
    const absl::string_view line = lines_.line();
    for (size_t at = line.find(kIteration); at != absl::string_view::npos;
         at = line.find(kIteration, at + 1)) {
      absl::string_view rest = line.substr(at + kIteration.size());
      const absl::string_view step = TakeDigits(&rest);
      if (step.empty() || !absl::ConsumePrefix(&rest, "/")) continue;
      const absl::string_view last = TakeDigits(&rest);
      if (last.empty() || !absl::ConsumePrefix(&rest, "|") || !absl::SimpleAtoi(step, &row->step) ||
          row->step > kIterationMax) {
        notes_.NotUnderstood(lines_.At(step.data() - line.data()),
                             "no `iteration STEP/ STEPS |` with whole numbers up to 2^53");
        return false;
      }
      row->time_unix_ns = TimeBefore(line.substr(0, at));
      row->where = lines_.At(at);
      FillValues(Cells(rest, rest.data() - line.data()), row, &notes_);
      return true;
    }
    ++notes_.other_lines;
    return false;
  }

  // `text` begins at `byte` of the line.
  std::vector<LogCell> Cells(absl::string_view text, size_t byte) {
    std::vector<LogCell> cells;
    while (true) {
      const absl::string_view blank = text;
      text = absl::StripLeadingAsciiWhitespace(text);
      byte += blank.size() - text.size();
      const size_t end = text.find('|');
      if (end == absl::string_view::npos) break;
      if (end > 0) cells.push_back(CellOfPart(text.substr(0, end), byte));
      text.remove_prefix(end + 1);
      byte += end + 1;
    }
    if (!text.empty()) {
      notes_.NotUnderstood(lines_.At(byte),
                           "the line is cut off: a value must end with `|`; this one is left out");
    }
    return cells;
  }
};

}  // namespace

std::unique_ptr<LogReader> NewMegatronReader(LogLines lines, LogNotes* notes) {
  return std::make_unique<MegatronReader>(std::move(lines), notes);
}

}  // namespace foreshock::cli
