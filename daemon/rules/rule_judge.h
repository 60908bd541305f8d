// One rule against a run: its series, the quorum over them, and the one alert it may have.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "daemon/base/archive.h"
#include "daemon/model/step.h"
#include "daemon/rules/band.h"
#include "daemon/rules/coverage.h"
#include "daemon/rules/progress.h"
#include "daemon/rules/rule.h"
#include "daemon/rules/series_judge.h"

namespace foreshock {

struct JudgedSeries;

// What all rules see of the step that is judged.
struct StepView {
  const StepRow& row;
  absl::Span<const Finding> findings;
  int64_t step = 0;
  bool settled = false;
  uint32_t model_layers = 0;  // 0: unknown
  uint8_t rebase_causes = 0;  // RebaseCause bits
  std::optional<double> plateau;
  std::optional<double> tokens = {};  // of all steps of the lineage up to this one; absent: unknown
  // Steps between the two weight snapshots of this step's attn.delta* values of a layer; 0: none.
  const absl::flat_hash_map<int32_t, int64_t>& window_steps;
  // Mean of a run-wide indicator over the steps in (base, step]; nullopt if none was seen.
  std::function<std::optional<double>(const std::string& indicator, int64_t base)> mean_since;
  // Ranks that have sent the per-rank scalar `name` in this attempt.
  const absl::flat_hash_map<std::string, absl::flat_hash_set<int64_t>>& rank_scalars;
  const Progress& progress;
  const Coverage& coverage;
  const std::vector<uint32_t>& silent_ranks;
};

// The alert of a rule or signature while it fires.
struct LiveAlert {
  bool active = false;
  bool reported = false;  // a row of it was returned, or restored
  std::string id;
  uint32_t attempt = 0;
  int64_t pending_step = 0;
  int64_t firing_step = 0;
  int64_t base_step = 0;  // last healthy step of the earliest mover
  std::vector<uint32_t> layers;
  bool all_layers = false;
  std::vector<uint32_t> ranks;

  // All but `reported`, which the stored rows say.
  void Fields(Archive* archive) {
    archive->Take(&active, &id, &attempt, &pending_step, &firing_step, &base_step, &layers,
                  &all_layers, &ranks);
  }
};

// What a stored row says of an alert that fires.
LiveAlert LiveAlertOf(const v1::Alert& alert, const rules::AlertState& state);

// Thread-compatible. `rule` must be the same, or an equal one, in every call.
class RuleJudge {
 public:
  RuleJudge() = default;
  RuleJudge(RuleJudge&&) = default;  // its series are not copied
  RuleJudge& operator=(RuleJudge&&) = default;

  // The place of a series in this rule, made if it is new; kNotFed if the rule does not take it.
  static constexpr size_t kNotFed = static_cast<size_t>(-1);
  size_t SubjectOf(const Rule& rule, const SeriesKey& series);

  // One value of the step for that place; `component` is its position among the rule's indicators.
  void Feed(const Rule& rule, size_t subject, size_t component, double value, uint32_t flags);

  // Judges what was fed. After it `alert().active` says whether the rule fires; true when the alert
  // began, ended, or holds in more or other layers or ranks than before.
  bool Judge(const Rule& rule, const StepView& view);

  // Between two steps, for hang and restarts; `hindmost` says which ranks are farthest back.
  // Returns as Judge.
  bool Tick(const Rule& rule, const StepView& view, Life life,
            const std::function<std::vector<uint32_t>()>& hindmost);
  // What was fed is of a step that an earlier attempt reached and this one has not yet.
  void TakeOvertaken(const Rule& rule, int64_t step);

  void Resume(const Rule& rule, int64_t step);
  // Ends the alert without a word; its series keep their past.
  void Silence();

  LiveAlert& alert() { return alert_; }
  const LiveAlert& alert() const { return alert_; }
  bool flapping() const { return alert_.active && limit_.flapping(); }
  size_t layers_known() const { return layers_known_; }
  bool judged() const { return judged_; }  // at least one sample at the last step
  bool Brewing(const Rule& rule) const;    // a quorum breaches at its newest samples
  std::optional<int64_t> last_fired() const { return last_fired_; }
  std::optional<int64_t> last_resolved() const { return last_resolved_; }

  // The series that were judged at `step`.
  std::vector<JudgedSeries> Judged(const Rule& rule, int64_t step) const;

  // The fields that say what is abnormal where: of the worst series that fires.
  void Describe(const Rule& rule, v1::Alert* out) const;
  // What a run-level rule has found, in words; "" for others.
  std::string RunSentence(const Rule& rule) const;

  void Save(rules::AlertState* state) const;
  // `replayed`: priming has brought this alert about as well, so only what was reported of it is
  // taken from the row.
  void Restore(const Rule& rule, const v1::Alert& alert, const rules::AlertState& state,
               bool replayed);
  // Between two steps. Reads into a judge that has not seen a series yet.
  void Fields(const Rule& rule, Archive* archive);

 private:
  struct Subject {
    int32_t layer = kNoLayer;
    Unit unit = Unit::kNone;
    int64_t unit_id = 0;
    std::string unit_name;
    SeriesJudge judge;
    // The values of this step.
    uint32_t fed = 0;
    uint32_t flags = 0;
    double sum = 0;
    double low = 0;
    double high = 0;
    std::vector<double> values;              // p10, combine
    std::shared_ptr<const BandCurve> curve;  // of a reference; null: it does not have the series
    // Of its samples, judged or not.
    int64_t last_step = -1;
    int64_t gap = 0;       // between its newest two
    int64_t interval = 0;  // expected between two, 0: not known yet
  };

  size_t FindOrAdd(const Rule& rule, const SeriesKey& key);
  std::optional<Baseline> GivenBaseline(const Rule& rule, const StepView& view,
                                        const Subject& subject) const;
  std::optional<double> Aggregate(const Rule& rule, Subject* subject) const;
  void JudgeSubject(const Rule& rule, const StepView& view, Subject* subject);
  void JudgeNoData(const Rule& rule, const StepView& view);
  void JudgeFindings(const Rule& rule, const StepView& view);
  void JudgeRunLevel(const Rule& rule, const StepView& view);
  void JudgeCoverage(const Rule& rule, const StepView& view);
  struct RunVerdict {
    bool breach = false;
    double value = 0;
    std::optional<double> baseline{};
    int64_t base_step = 0;
  };
  void PushRunVerdict(const Rule& rule, const StepView& view, size_t subject,
                      const RunVerdict& verdict);
  bool Quorate(const Rule& rule, bool brewing, std::vector<uint32_t>* layers) const;
  void FindWorst(const Rule& rule);
  bool UpdateAlert(const Rule& rule, const StepView& view);

  std::vector<Subject> subjects_;
  absl::flat_hash_map<SeriesKey, size_t> by_key_;  // indicator is left empty in the keys
  size_t layers_known_ = 0;                        // layers of its series
  std::vector<size_t> fed_;
  LiveAlert alert_;
  RateLimit limit_;
  size_t worst_ = kNotFed;               // the series the alert speaks of
  std::vector<uint32_t> finding_ranks_;  // of this step
  std::vector<uint32_t> finding_layers_;
  std::string finding_name_;
  int32_t finding_head_ = -1;
  bool judged_ = false;
  bool changed_ = false;                   // a series began or ceased to fire at this step
  std::vector<size_t> track_subjects_;     // kCoverage: of the plan's tracks, in their order
  std::optional<uint64_t> track_version_;  // the plan they are of
  std::optional<int64_t> last_fired_;
  std::optional<int64_t> last_resolved_;
};

}  // namespace foreshock
