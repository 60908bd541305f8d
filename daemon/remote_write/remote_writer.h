// Pushes what /metrics shows to a receiver of Prometheus remote write 1.0, every interval.
//
//   FORESHOCK_ASSIGN_OR_RETURN(auto writer, RemoteWriter::Create(options, {.read = ..., ...}));
//   writer->Start();
//
//   writer->Stop(absl::Seconds(2));   // a last time, then stale markers: nobody else ends the
//   series
//
// Two threads: one reads and encodes, one sends, so that a receiver that hangs leaves no gaps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/exporter/exporter.h"
#include "daemon/remote_write/encoder.h"
#include "daemon/remote_write/options.h"
#include "daemon/remote_write/send_queue.h"

namespace foreshock::remote_write {

// Thread-safe.
class RemoteWriter {
 public:
  struct Deps {
    std::function<std::vector<exporter::ExportedFamily>()> read;
    const base::Clock* clock = nullptr;
  };

  // Reads the secrets. Errors: what ReadSecret says; InvalidArgument for a secret URL that is none.
  // Messages name the receiver.
  static absl::StatusOr<std::unique_ptr<RemoteWriter>> Create(const RemoteWriteOptions& options,
                                                              Deps deps);
  ~RemoteWriter();  // as Stop(0)

  void Start();
  // Pushes what waits, what is shown now and the end of every series, as far as the receiver takes
  // it at once and within `grace`; the rest is lost. Safe to repeat.
  void Stop(absl::Duration grace);

  const std::string& name() const { return name_; }
  RemoteWriteStats stats() const { return queue_.stats(); }

 private:
  RemoteWriter(const RemoteWriteOptions& options, Deps deps, RemoteSendQueue::Options queue,
               std::unique_ptr<notify::HttpPoster> poster);
  void ReadLoop();
  void SendLoop();

  const std::string name_;
  const absl::Duration interval_;
  const Deps deps_;
  SampleEncoder encoder_;  // on the reading thread
  RemoteSendQueue queue_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;    // the reader has not ended
  bool sent_all_ ABSL_GUARDED_BY(mutex_) = false;  // the sender has ended
  bool added_ ABSL_GUARDED_BY(mutex_) = false;     // something was, since the last Turn
  std::thread reader_;
  std::thread sender_;
};

// What Create would say of any of them.
absl::Status CheckRemoteWrites(const std::vector<RemoteWriteOptions>& all);

}  // namespace foreshock::remote_write
