// One rule against a run: its series, the quorum over them, and the one alert it may have. What is
// abnormal is said by the classes that derive from it, one for a detector or for a family of them.
//
//   const std::unique_ptr<RuleJudge> judge = NewJudge(rule);
//   judge->Feed(judge->SubjectOf(series), /*component=*/0, value, flags);
//   if (judge->Judge(view)) Report(judge->alert());
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/rules/judged_rows.h"
#include "daemon/rules/live_alert.h"
#include "daemon/rules/promise_gate.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/step_view.h"
#include "daemon/rules/subject.h"

namespace foreshock::base {
class Archive;
}  // namespace foreshock::base

namespace foreshock::rules {
struct JudgedSeries;

// Thread-compatible.
class RuleJudge {
 public:
  explicit RuleJudge(std::shared_ptr<const Rule> rule);
  virtual ~RuleJudge() = default;
  RuleJudge(const RuleJudge&) = delete;
  RuleJudge& operator=(const RuleJudge&) = delete;

  const Rule& rule() const { return *rule_; }
  const std::shared_ptr<const Rule>& shared_rule() const { return rule_; }

  // The place of a series in this rule, made if it is new; kNotFed if the rule does not take it.
  static constexpr size_t kNotFed = static_cast<size_t>(-1);
  size_t SubjectOf(const model::SeriesKey& series);

  // One value of the step for that place; `component` is its position among the rule's indicators.
  void Feed(size_t subject, size_t component, double value, uint32_t flags);

  // Judges what was fed. After it `alert().active` says whether the rule fires; true when the alert
  // began, ended, or holds in more or other layers or ranks than before.
  bool Judge(const StepView& view);

  // Where its series fire, what they are now is their new level. The alert ends at the next step.
  void Accept();

  // Whether it is judged between two steps, too. Tick returns as Judge.
  virtual bool NeedsClock() const { return false; }
  bool Tick(const StepView& view, const ClockView& clock);

  // What was fed is of a step that an earlier attempt reached and this one has not yet.
  void TakeOvertaken(int64_t step);
  // A new attempt runs again from `step`.
  void Resume(int64_t step);
  // Ends the alert without a word; its series keep their past.
  void Silence();

  LiveAlert& alert() { return alert_; }
  const LiveAlert& alert() const { return alert_; }
  bool flapping() const { return alert_.active && limit_.flapping(); }
  size_t layers_known() const { return layers_known_; }
  bool judged() const { return judged_; }  // at least one sample at the last step
  bool Brewing() const;                    // a quorum breaches at its newest samples
  std::optional<int64_t> last_fired() const { return last_fired_; }
  std::optional<int64_t> last_resolved() const { return last_resolved_; }

  // How far it has judged the run.
  v1::RuleJudging Judging() const { return RuleJudgingOf(*rule_, rows_, subjects_.size()); }
  bool has_judged() const { return rows_.judged > 0; }
  bool has_verdict() const { return has_verdict_; }  // on at least one value of the last step
  // What it compared at the newest step, and what it lacks to fire.
  void Explain(v1::ExplainResponse* out) const;

  // The series that were judged at `step`.
  std::vector<JudgedSeries> Judged(int64_t step) const;

  // The fields that say what is abnormal where: of the worst series that fires, as it is now; of an
  // alert that is over as it was at its worst.
  void Describe(v1::Alert* out) const;
  // The same from a record of one of its alerts.
  void DescribeRecord(const AlertRecord& record, v1::Alert* out) const;
  // What a rule without an indicator has found, in words; "" for others.
  std::string Said() const { return alert_.active ? Sentence() : alert_.record.sentence(); }

  // What is stored with the alert, and an alert that fires and its stored state taken over: false,
  // and no alert, if the state is not readable. `replayed`: priming has brought this alert about as
  // well, so only what was reported of it is taken.
  void SaveState(base::Archive* archive);
  bool Restore(const v1::Alert& alert, base::Archive* state, bool replayed);
  // All that is remembered, between two steps. Reads into a judge that has not seen a series yet.
  void Fields(base::Archive* archive);

 protected:
  struct Verdict {
    bool breach = false;
    double value = 0;
    std::optional<double> baseline{};
    int64_t base_step = 0;
  };

  // Judges the step: what was fed, or what the view has.
  virtual void JudgeStep(const StepView& view) = 0;
  virtual void JudgeClock(const StepView& /*view*/, const ClockView& /*clock*/) {}
  // The indicator of the alert, and a place that no series has.
  virtual void DescribeSource(v1::Alert* out) const;
  virtual void RestoreSource(const v1::Alert& /*alert*/) {}
  // Of an alert that fires.
  virtual std::string Sentence() const { return ""; }
  // Changes the layers in which series fire into those of the alert.
  virtual void PlaceAlert(std::vector<uint32_t>* /*layers*/) const {}
  // What is remembered besides the series and the alert.
  virtual void OwnFields(base::Archive* /*archive*/) {}

  size_t FindOrAdd(const model::SeriesKey& key);
  // Takes the verdict on a subject that is judged without a value.
  void PushVerdict(const StepView& view, size_t subject, const Verdict& verdict);
  // A subject was judged.
  void Note(Transition transition) {
    judged_ = true;
    if (transition != Transition::kNone) changed_ = true;
  }
  // A value of the step has a verdict; it has none, and why.
  void NoteVerdict() { has_verdict_ = true; }
  void NoteNotJudged(NotJudged why) { rows_.why = why; }

  std::vector<Subject>& subjects() { return subjects_; }
  const std::vector<Subject>& subjects() const { return subjects_; }
  const std::vector<size_t>& fed() const { return fed_; }
  // Ranks that the step shows to be concerned; a firing alert adds them to its own.
  std::vector<uint32_t>& ranks_now() { return ranks_now_; }
  // The series that the alert speaks of; null: none.
  const Subject* worst() const { return worst_ < subjects_.size() ? &subjects_[worst_] : nullptr; }
  double worst_value() const { return worst() != nullptr ? worst()->judge.value() : 0; }

 private:
  bool Quorate(bool brewing, std::vector<uint32_t>* layers) const;
  std::string SeriesMissing(const Subject& subject) const;
  std::string Missing() const;
  double DistanceOf(const SeriesJudge& judge) const;
  void FindWorst();
  void KeepRecord(int64_t step, bool told);
  bool UpdateAlert(const StepView& view);
  void PushPromise();
  void StartAlert(const StepView& view);
  void ClearFed();
  enum class Remembered : uint8_t { kAll, kFiring };
  void SeriesFields(Remembered which, base::Archive* archive);

  const std::shared_ptr<const Rule> rule_;
  std::vector<Subject> subjects_;
  absl::flat_hash_map<model::SeriesKey, size_t> by_key_;
  size_t layers_known_ = 0;  // layers of its series
  std::vector<size_t> fed_;
  std::vector<uint32_t> ranks_now_;
  LiveAlert alert_;
  RateLimit limit_;
  std::optional<PromiseGate> promise_;  // of a rule that makes one
  size_t worst_ = kNotFed;
  JudgedRows rows_;
  bool judged_ = false;
  bool has_verdict_ = false;
  bool accepted_ = false;  // since the last step
  bool changed_ = false;   // a series began or ceased to fire at this step
  std::optional<int64_t> last_fired_;
  std::optional<int64_t> last_resolved_;
};

}  // namespace foreshock::rules
