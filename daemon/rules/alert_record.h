// What an alert showed where it was worst: kept while it fires and when it is over, so that the row
// of a resolved alert still says what raised it.
//
//   AlertRecord record;
//   record.Take({.series = series, .step = 420, .value = 6.97, .baseline = 2.0, .distance = 4.97});
//   record.ShowIn(&alert);
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/model/series.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::rules {

// Head, rank, expert or tensor of a series, as an alert shows it.
void ShowUnit(const model::SeriesKey& series, v1::Alert* out);

// Thread-compatible.
class AlertRecord {
 public:
  // One series at one step of the alert.
  struct Moment {
    const model::SeriesKey& series;
    int64_t step = 0;
    double value = 0;
    std::optional<double> baseline{};
    double distance = 0;  // from health, larger is worse
  };

  // Keeps the moment if it is worse than what is kept. The first step is that at which the alert
  // began to fire; the worst value there is its first value.
  void Take(const Moment& moment);
  // Takes over a record of the same alert, or of an earlier one of the same rule, that is worse.
  void Worsen(const AlertRecord& other);

  bool empty() const { return worst_step_ < 0; }
  int64_t worst_step() const { return worst_step_; }
  // What a rule without an indicator has found, in words.
  const std::string& sentence() const { return sentence_; }
  void set_sentence(std::string sentence) { sentence_ = std::move(sentence); }

  // Values, step and unit; nothing of an empty record.
  void ShowIn(v1::Alert* out) const;

  template <typename A>
  void serialize(A& archive) {
    archive(first_step_, first_value_, worst_step_, value_, baseline_, distance_, unit_.unit,
            unit_.unit_id, unit_.unit_name, sentence_);
  }

 private:
  int64_t first_step_ = -1;
  double first_value_ = 0;
  int64_t worst_step_ = -1;
  double value_ = 0;
  std::optional<double> baseline_;
  double distance_ = 0;
  model::SeriesKey unit_;  // neither indicator nor layer
  std::string sentence_;
};

}  // namespace foreshock::rules
