#include "daemon/ingest/admission.h"

#include "absl/strings/str_cat.h"

namespace foreshock {

absl::StatusOr<Admission::Stream> Admission::Enter(absl::string_view run) {
  std::string name(run);
  {
    MutexLock lock(&mutex_);
    if (streams_ >= limits_.streams_max) {
      stats_->Refuse(Refusal::kStreams);
      return absl::ResourceExhaustedError(absl::StrCat("no place for another stream: ", streams_,
                                                       " are open, the limit (streams_max)"));
    }
    size_t& of_run = streams_of_run_[name];
    if (of_run >= limits_.streams_per_run_max) {
      stats_->Refuse(Refusal::kStreamsPerRun);
      return absl::ResourceExhaustedError(
          absl::StrCat("no place for another stream of this run: ", of_run,
                       " are open, the limit (streams_per_run_max)"));
    }
    ++of_run;
    ++streams_;
  }
  IngestStats::Add(stats_->streams_open);
  IngestStats::Add(stats_->streams_total);
  return Stream(this, std::move(name));
}

void Admission::LeaveRun(const std::string& run) {
  MutexLock lock(&mutex_);
  --streams_;
  const auto at = streams_of_run_.find(run);
  if (--at->second == 0) streams_of_run_.erase(at);
}

Admission::Stream& Admission::Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  admission_ = std::exchange(other.admission_, nullptr);
  run_ = std::move(other.run_);
  held_bytes_ = std::exchange(other.held_bytes_, 0);
  return *this;
}

bool Admission::Stream::Hold(size_t bytes) {
  Release();
  IngestStats::Counter& in_flight = admission_->stats_->bytes_in_flight;
  uint64_t now = in_flight.load(std::memory_order_relaxed);
  do {
    if (now != 0 && now + bytes > admission_->limits_.bytes_in_flight_max) return false;
  } while (!in_flight.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  held_bytes_ = bytes;
  return true;
}

void Admission::Stream::Release() {
  if (held_bytes_ == 0) return;
  IngestStats::Subtract(admission_->stats_->bytes_in_flight, held_bytes_);
  held_bytes_ = 0;
}

void Admission::Stream::Leave() {
  if (admission_ == nullptr) return;
  Release();
  admission_->LeaveRun(run_);
  IngestStats::Subtract(admission_->stats_->streams_open);
  admission_ = nullptr;
}

}  // namespace foreshock
