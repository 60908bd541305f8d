#include "daemon/ingest/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"

namespace foreshock::ingest {

namespace {

constexpr absl::Duration kRunsRemembered = absl::Hours(24);
// Addresses come and go: of more clients than this those without a stream are forgotten.
constexpr size_t kClientsMax = 4096;

}  // namespace

absl::Status Admission::CheckClient(const std::string& client, const std::string& run) {
  if (clients_.size() >= kClientsMax) {
    absl::erase_if(clients_, [](const auto& entry) { return entry.second.streams == 0; });
  }
  const absl::Time now = clock_->Steady();
  const auto [at, fresh] = clients_.try_emplace(client);
  ClientUse& use = at->second;
  if (fresh) {
    use.bytes_left = static_cast<double>(limits_.client_bytes_per_second_max);
    use.filled = now;
  }
  if (limits_.client_streams_max > 0 && use.streams >= limits_.client_streams_max) {
    stats_->Refuse(Refusal::kClientStreams);
    return absl::ResourceExhaustedError(absl::StrCat("client '", client, "' has ", use.streams,
                                                     " streams, the limit of each client "
                                                     "(client_streams_max)"));
  }
  if (limits_.client_runs_max > 0) {
    absl::erase_if(use.runs, [now](const auto& entry) {
      return entry.second.streams == 0 && now - entry.second.last > kRunsRemembered;
    });
    if (!use.runs.contains(run) && use.runs.size() >= limits_.client_runs_max) {
      stats_->Refuse(Refusal::kClientRuns);
      return absl::ResourceExhaustedError(
          absl::StrCat("client '", client, "' has pushed to ", use.runs.size(),
                       " runs within a day, the limit of each client (client_runs_max)"));
    }
    RunUse& of_run = use.runs[run];
    ++of_run.streams;
    of_run.last = now;
  }
  ++use.streams;
  return absl::OkStatus();
}

absl::StatusOr<Admission::Stream> Admission::Enter(absl::string_view run,
                                                   absl::string_view client) {
  std::string name(run);
  std::string client_name(client);
  {
    base::MutexLock lock(&mutex_);
    if (streams_ >= limits_.streams_max) {
      stats_->Refuse(Refusal::kStreams);
      return absl::ResourceExhaustedError(absl::StrCat("no place for another stream: ", streams_,
                                                       " are open, the limit (streams_max)"));
    }
    const auto found = streams_of_run_.find(name);
    const size_t of_run = found == streams_of_run_.end() ? 0 : found->second;
    if (of_run >= limits_.streams_per_run_max) {
      stats_->Refuse(Refusal::kStreamsPerRun);
      return absl::ResourceExhaustedError(
          absl::StrCat("no place for another stream of this run: ", of_run,
                       " are open, the limit (streams_per_run_max)"));
    }
    if (client_limits()) FORESHOCK_RETURN_IF_ERROR(CheckClient(client_name, name));
    ++streams_of_run_[name];
    ++streams_;
  }
  IngestStats::Add(stats_->streams_open);
  IngestStats::Add(stats_->streams_total);
  return Stream(this, std::move(name), std::move(client_name));
}

void Admission::LeaveRun(const std::string& run, const std::string& client) {
  base::MutexLock lock(&mutex_);
  --streams_;
  const auto at = streams_of_run_.find(run);
  if (--at->second == 0) streams_of_run_.erase(at);
  const auto of_client = clients_.find(client);
  if (of_client == clients_.end()) return;
  ClientUse& use = of_client->second;
  --use.streams;
  if (const auto of_run = use.runs.find(run); of_run != use.runs.end()) {
    --of_run->second.streams;
    of_run->second.last = clock_->Steady();
  }
}

bool Admission::Stream::Spend(size_t bytes) {
  const auto rate = static_cast<double>(admission_->limits_.client_bytes_per_second_max);
  if (rate == 0) return true;
  return admission_->Spend(client_, static_cast<double>(bytes), rate);
}

bool Admission::Spend(const std::string& client, double bytes, double rate) {
  base::MutexLock lock(&mutex_);
  ClientUse& use = clients_[client];
  const absl::Time now = clock_->Steady();
  use.bytes_left = std::min(rate, use.bytes_left + rate * absl::ToDoubleSeconds(now - use.filled));
  use.filled = now;
  if (use.bytes_left <= 0) return false;
  use.bytes_left -= bytes;
  return true;
}

Admission::Stream& Admission::Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  admission_ = std::exchange(other.admission_, nullptr);
  run_ = std::move(other.run_);
  client_ = std::move(other.client_);
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
  admission_->LeaveRun(run_, client_);
  IngestStats::Subtract(admission_->stats_->streams_open);
  admission_ = nullptr;
}

}  // namespace foreshock::ingest
