#include "daemon/rules/promise_gate.h"

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
  size_t count = series_.size();
  archive->Count(&count);
  while (series_.size() < count) series_.push_back({.promise = detect::Promise(Level())});
  for (Series& series : series_) archive->Take(&series);
}

}  // namespace foreshock::rules
