// The state machine once more, slow and obvious: it keeps every sample of the episode and counts in
// the lists.
#pragma once

#include <algorithm>
#include <vector>

#include "daemon/rules/state_machine.h"

namespace foreshock::rules {

class ReferenceMachine {
 public:
  explicit ReferenceMachine(MachineParams params) : params_(params) {}

  Transition Push(int64_t step, Judgement judgement) {
    const Entry entry{step, judgement};
    if (firing_) return PushFiring(entry);
    if (before_.empty() && !judgement.breach) return Transition::kNone;
    before_.push_back(entry);

    const size_t newest = std::min(before_.size(), static_cast<size_t>(params_.of));
    int hits = 0;
    for (size_t i = before_.size() - newest; i < before_.size(); ++i) {
      if (before_[i].judgement.breach) ++hits;
    }
    if (hits == 0) {
      before_.clear();
      return Transition::kFalseStart;
    }
    const int64_t length = params_.pending_for.in_samples ? static_cast<int64_t>(before_.size())
                                                          : step - before_.front().step;
    if (hits >= params_.hits && length >= params_.pending_for.count) {
      firing_ = true;
      return Transition::kFired;
    }
    return before_.size() == 1 ? Transition::kPending : Transition::kNone;
  }

  // `step` and those after it run again: clear samples before do not count as in a row with those
  // that come, and a breach was at the latest at `step`.
  void Resume(int64_t step) {
    clear_from_ = during_.size();
    for (std::vector<Entry>* entries : {&before_, &during_}) {
      for (Entry& entry : *entries) entry.step = std::min(entry.step, step);
    }
  }

  Phase phase() const {
    if (firing_) return Phase::kFiring;
    return before_.empty() ? Phase::kInactive : Phase::kPending;
  }

 private:
  struct Entry {
    int64_t step;
    Judgement judgement;
  };

  Transition PushFiring(const Entry& entry) {
    during_.push_back(entry);
    int clear_run = 0;
    while (clear_run < static_cast<int>(during_.size() - clear_from_) &&
           during_[during_.size() - 1 - clear_run].judgement.clear) {
      ++clear_run;
    }
    std::vector<Entry> all = before_;
    all.insert(all.end(), during_.begin(), during_.end());
    size_t last_breach = all.size() - 1;
    while (last_breach > 0 && !all[last_breach].judgement.breach) --last_breach;
    // Samples count from the one after it fired: what fired is itself a breach or stands for one.
    const size_t since = std::min(all.size() - 1 - last_breach, during_.size());
    const int64_t quiet = params_.keep_firing_for.in_samples ? static_cast<int64_t>(since)
                                                             : entry.step - all[last_breach].step;
    const bool resolved =
        clear_run >= params_.clear_samples && quiet >= params_.keep_firing_for.count;
    if (!resolved) return Transition::kNone;
    firing_ = false;
    before_.clear();
    during_.clear();
    clear_from_ = 0;
    return Transition::kResolved;
  }

  MachineParams params_;
  bool firing_ = false;
  std::vector<Entry> before_;  // from the first breach to the firing one
  std::vector<Entry> during_;
  size_t clear_from_ = 0;
};

}  // namespace foreshock::rules
