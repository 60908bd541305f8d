#include "daemon/rules/promise_gate.h"

#include "daemon/base/archive.h"

namespace foreshock::rules {
namespace {

constexpr uint8_t kBlock = 4;

}  // namespace

double PromiseGate::Level() const { return static_cast<double>(samples_) / kBlock; }

bool PromiseGate::Push(size_t subject, bool firing) {
  while (series_.size() <= subject) series_.push_back({.promise = detect::Promise(Level())});
  Series& series = series_[subject];
  series.held = series.held || firing;
  if (++series.samples < kBlock) return false;
  series.promise.Push(series.held);
  series.samples = 0;
  series.held = false;
  return true;
}

bool PromiseGate::open() const {
  double evidence = 0;
  for (const Series& series : series_) evidence += series.promise.evidence();
  return !series_.empty() && evidence >= Level() * static_cast<double>(series_.size());
}

void PromiseGate::Fields(base::Archive* archive) {
  uint64_t count = series_.size();
  archive->Take(&count);
  for (size_t i = 0; i < count && archive->ok(); ++i) {
    if (i == series_.size()) series_.push_back({.promise = detect::Promise(Level())});
    archive->Take(&series_[i]);
  }
}

}  // namespace foreshock::rules
