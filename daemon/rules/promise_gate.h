// Holds the start of a rule's alert back until it keeps its promise: at most one false start in so
// many samples, over all its series. See daemon/detect/promise.h.
//
//   PromiseGate gate(100'000);
//   gate.Push(subject, firing);     // each judged sample of each series
//   if (gate.open()) Start();
//
// Samples of a series count in blocks of four. A rule with many series starts on the mean of their
// evidence, which keeps the promise whatever their dependence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/detect/promise.h"

namespace foreshock::base {
class Archive;
}  // namespace foreshock::base

namespace foreshock::rules {

// Thread-compatible.
class PromiseGate {
 public:
  explicit PromiseGate(int64_t samples) : samples_(samples) {}

  // True when the block of four is full, so that open() may have changed.
  bool Push(size_t subject, bool firing);
  bool open() const;

  void Fields(base::Archive* archive);

 private:
  struct Series {
    detect::Promise promise;
    uint8_t samples = 0;  // of the open block
    bool held = false;

    template <typename A>
    void serialize(A& archive) {
      archive(promise, samples, held);
    }
  };

  double Level() const;

  int64_t samples_;
  std::vector<Series> series_;
};

}  // namespace foreshock::rules
