// What has moved while a signature fires: kept when it is over, so that the row of a resolved alert
// still shows its evidence.
//
//   Movers movers;
//   movers.Note(view, signature, present);          // at each step while the alert fires
//   movers.ShowIn(view, signature, &alert);
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/rules/alert_record.h"
#include "daemon/rules/condition.h"
#include "daemon/rules/rule.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::rules {

// A rule of the evidence whose alert fired.
struct Mover {
  int64_t step = 0;             // the condition first held
  std::optional<int64_t> over;  // its alert ended, and has not begun again
  std::vector<uint32_t> layers;
  AlertRecord record;
  bool named = false;  // by `when`, which held or was present

  template <typename A>
  void serialize(A& archive) {
    archive(step, over, layers, record, named);
  }
};

// Thread-compatible.
class Movers {
 public:
  // `present`: the alerts of the signature's `when` that are there.
  void Note(const AlertsView& view, const Signature& signature,
            const std::vector<AlertRef>& present);

  // The rule of `when` that moved first, one that names layers if there is any; of a signature that
  // fires, one that still fires if there is any. nullopt: none has moved.
  std::optional<AlertRef> First(const AlertsView& view, const Signature& signature,
                                bool fires) const;
  // Of a rule that First has returned.
  const AlertRecord& RecordOf(const AlertsView& view, AlertRef rule) const {
    return Find(view, rule)->record;
  }

  // What moved, in the order in which it did, then what did not.
  void ShowIn(const AlertsView& view, const Signature& signature, v1::Alert* out) const;

  template <typename A>
  void serialize(A& archive) {
    archive(movers_);
  }

 private:
  const Mover* Find(const AlertsView& view, AlertRef rule) const;

  std::map<std::string, Mover> movers_;  // by rule
};

}  // namespace foreshock::rules
