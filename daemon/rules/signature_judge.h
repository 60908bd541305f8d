// One signature against a run: which alerts must fire, which must not, when it starts and ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/rules/condition.h"
#include "daemon/rules/contest.h"
#include "daemon/rules/movers.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/rule_judge.h"

namespace foreshock::rules {

// Thread-compatible.
class SignatureJudge {
 public:
  explicit SignatureJudge(std::shared_ptr<const Signature> signature)
      : signature_(std::move(signature)) {}

  const Signature& signature() const { return *signature_; }
  const std::shared_ptr<const Signature>& shared_signature() const { return signature_; }
  // The same signature in a set where the alerts that it names have other places.
  void Rebind(std::shared_ptr<const Signature> signature) { signature_ = std::move(signature); }

  // `self`: its place among the signatures. True when it began, ended, or its severity, layers,
  // ranks or evidence changed.
  bool Judge(const AlertsView& view, const Contest& contest, size_t self);

  void Silence();
  void Resume(int64_t step);  // a new attempt: what was only waiting is forgotten

  const LiveAlert& alert() const { return alert_; }
  LiveAlert& alert() { return alert_; }
  bool flapping() const { return alert_.active && limit_.flapping(); }
  const std::string& severity() const { return severity_; }
  const std::string& confidence() const { return confidence_; }
  std::optional<int64_t> last_resolved() const { return last_resolved_; }
  // Whether this term of the score has held since the alert began.
  bool Shown(size_t term) const { return alert_.active && term < shown_.size() && shown_[term]; }

  // Evidence, value, baseline and place, from the alerts that support it: of Movers::First. Returns
  // the MeasureText of that value.
  std::string Describe(const AlertsView& view, v1::Alert* out) const;

  // What of its evidence has moved by now, and what it lacks to fire. `self` as for Judge.
  void Explain(const AlertsView& view, const Contest& contest, size_t self,
               v1::ExplainResponse* out) const;

  // As those of RuleJudge.
  void SaveState(base::Archive* archive);
  bool Restore(const v1::Alert& alert, base::Archive* stored, bool replayed);
  template <typename A>
  void serialize(A& archive) {
    archive(alert_, limit_, severity_, confidence_, evidence_, shown_, movers_, since_,
            samples_since_, waited_samples_, held_step_, last_resolved_);
  }

 private:
  bool Starts(const AlertsView& view, bool told_instead);
  // Whether all conditions to start hold, but for `for` and `wait`.
  bool MayStart(const AlertsView& view) const;
  bool Waits(const AlertsView& view) const;
  void Start(const AlertsView& view);
  bool Confirm(const AlertsView& view);
  bool Collect(const AlertsView& view);
  void NoteTerms(const AlertsView& view);
  std::vector<AlertRef> Present(const AlertsView& view, Parts parts = Parts::kAll) const;

  std::shared_ptr<const Signature> signature_;
  LiveAlert alert_;
  RateLimit limit_;
  std::string severity_;
  std::string confidence_;
  std::vector<bool> evidence_;    // which alerts of signature.evidence and .against fire
  Movers movers_;                 // of them, since the alert began
  std::vector<bool> shown_;       // which terms of the score have held since it began
  std::optional<int64_t> since_;  // all but `for` and `wait` holds since
  int64_t samples_since_ = 0;     // of the alerts that make it hold
  int64_t waited_samples_ = 0;
  int64_t held_step_ = 0;  // an alert of `when` was last present
  std::optional<int64_t> last_resolved_;
};

}  // namespace foreshock::rules
