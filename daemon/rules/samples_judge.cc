#include "daemon/rules/samples_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"

namespace foreshock::rules {

void SamplesJudge::JudgeStep(const StepView& view) {
  taken_.clear();
  for (const size_t index : fed()) {
    const std::optional<Taken> taken = Take(view, index);
    if (taken.has_value()) taken_.push_back(*taken);
  }
  if (rule().input.siblings) CompareSiblings(view.step);
  for (const Taken& taken : taken_) Push(view, taken);
}

std::optional<Baseline> SamplesJudge::GivenBaseline(const StepView& view,
                                                    const Subject& subject) const {
  const BaselineSpec& baseline = rule().baseline;
  if (baseline.kind == BaselineSpec::Kind::kPlateau && view.plateau.has_value()) {
    return Baseline{.median = *view.plateau, .spread = 0};
  }
  if (subject.curve == nullptr) return std::nullopt;
  if (baseline.band->align() == Band::Align::kStep) {
    return subject.curve->At(static_cast<double>(view.step));
  }
  if (!view.tokens.has_value()) return std::nullopt;
  return subject.curve->At(*view.tokens);
}

std::optional<double> SamplesJudge::ValueOf(const StepView& view, int64_t previous, int64_t base,
                                            Subject* subject) const {
  const Input& input = rule().input;
  const std::optional<double> value = subject->values.Value(input);
  if (!value.has_value() || input.divide_by.empty()) return value;
  // A run-wide value is divided by what the divisor is at the same step.
  const bool run_wide =
      subject->series.layer == model::kNoLayer && subject->series.unit == model::Unit::kNone;
  const bool know_window = run_wide || previous >= 0 || base < view.step - 1;
  if (!know_window) return std::nullopt;
  const std::optional<double> divisor =
      view.mean_since(input.divide_by, run_wide ? view.step - 1 : base);
  if (!divisor.has_value() || *divisor == 0) return std::nullopt;
  return *value / *divisor;
}

// Rows that stand for one step and rows that stand for hundreds are not each other's past. One long
// gap is no new cadence, two alike are.
bool SamplesJudge::CadenceChanged(int64_t interval, Subject* subject) const {
  if ((rule().rebase_on & kRebaseCadence) == 0) return false;
  constexpr int64_t kOther = 8;
  const bool other = subject->interval > 0 && (interval >= kOther * subject->interval ||
                                               subject->interval >= kOther * interval);
  const bool again =
      other && subject->gap > 0 && interval <= 2 * subject->gap && subject->gap <= 2 * interval;
  subject->gap = other && !again ? interval : 0;
  if (!other || again) subject->interval = interval;
  return again;
}

// Updates over ten steps and over fifty are not each other's past. One other window is a sample
// that was missed or a resume, two alike are a new cadence.
SamplesJudge::Window SamplesJudge::WindowOf(int64_t window, Subject* subject) const {
  if (window <= 0 || (rule().rebase_on & kRebaseWindow) == 0) return Window::kUsual;
  const auto alike = [window](int64_t other) {
    return 4 * other <= 5 * window && 4 * window <= 5 * other;
  };
  const bool usual = subject->window == 0 || alike(subject->window);
  const bool again = !usual && subject->other_window > 0 && alike(subject->other_window);
  subject->other_window = usual || again ? 0 : window;
  if (usual || again) subject->window = window;
  return usual ? Window::kUsual : again ? Window::kNew : Window::kOther;
}

std::optional<SamplesJudge::Taken> SamplesJudge::Take(const StepView& view, size_t index) {
  Subject* const subject = &subjects()[index];
  const int64_t previous = subject->last_step;
  const bool new_cadence = previous >= 0 && CadenceChanged(view.step - previous, subject);
  subject->last_step = view.step;
  subject->newest = std::numeric_limits<double>::quiet_NaN();

  int64_t base = previous >= 0 ? previous : view.step - 1;
  Window window = Window::kUsual;
  if (absl::StartsWith(rule().input.indicators[0], "attn.delta")) {
    const auto found = view.window_steps.find(subject->series.layer);
    if (found != view.window_steps.end()) {
      base = view.step - found->second;
      window = WindowOf(found->second, subject);
    }
  }
  const std::optional<double> value = ValueOf(view, previous, base, subject);
  if (!value.has_value() || !std::isfinite(*value)) {
    NoteNotJudged(rule().input.divide_by.empty() ? NotJudged::kNotAll : NotJudged::kNoDivisor);
    return std::nullopt;
  }
  if (!rule().judged_in_warm_up && !view.settled) {
    NoteNotJudged(NotJudged::kWarmUp);
    return std::nullopt;
  }
  if (window == Window::kOther) {
    NoteNotJudged(NotJudged::kOtherWindow);
    return std::nullopt;
  }
  const bool other_window = subject->flags != 0 && (rule().rebase_on & kRebaseWindow) != 0;
  if (other_window || new_cadence || window == Window::kNew) subject->judge.Rebase();
  subject->flags = 0;
  subject->newest = *value;
  return Taken{.subject = index, .previous = previous, .base = base, .value = *value};
}

// Layers may take turns, so a sibling counts by its newest value, if it has one since the sample
// before. Those without enough siblings are not judged.
void SamplesJudge::CompareSiblings(int64_t step) {
  int64_t since = step;
  for (const Taken& taken : taken_) since = std::min(since, taken.previous);
  siblings_.Clear();
  for (const Subject& subject : subjects()) {
    if (subject.last_step > since) siblings_.Add(subject.series, subject.newest);
  }
  size_t kept = 0;
  for (Taken& taken : taken_) {
    const std::optional<double> ratio =
        siblings_.Ratio(subjects()[taken.subject].series, taken.value);
    if (!ratio.has_value()) {
      NoteNotJudged(NotJudged::kFewSiblings);
      continue;
    }
    taken.value = *ratio;
    taken_[kept++] = taken;
  }
  taken_.resize(kept);
}

void SamplesJudge::Push(const StepView& view, const Taken& taken) {
  Subject& subject = subjects()[taken.subject];
  // A smoothed value reflects all that it is the median of.
  const int64_t base = taken.base - (rule().input.smooth - 1);
  Note(subject.judge.Push(view.step, base, taken.value, GivenBaseline(view, subject)));
  subject.judge.known() ? NoteVerdict() : NoteNotJudged(NotJudged::kLittleKnown);
}

}  // namespace foreshock::rules
