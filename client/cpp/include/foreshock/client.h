// Sends the summaries of one training rank to foreshockd.
//
//   auto client = foreshock::Client::Create({.target = "monitor:7317", .run = "my-run",
//       .launch_id = launch_id, .rank = rank, .world_size = world, .model = shape});
//   const uint32_t loss_id = *(*client)->DeclareScalar({.name = "loss", .unit = "nats"});
//   for (...) {
//     foreshock::StepReport report(step);
//     report.Tokens(tokens).Scalar(loss_id, loss);
//     (*client)->Push(std::move(report).Take()).IgnoreError();  // never waits; drops are counted
//   }
//   (*client)->Close(v1::OUTCOME_FINISHED, absl::Seconds(10)).IgnoreError();
//
// The daemon may be down, slow or restarting at any time, also when the client is made: reports
// wait in a queue that is bounded in bytes, are sent by a background thread over one stream, are
// kept until the daemon has committed them and are sent again after a reconnect. What does not fit
// is dropped and counted, newest first. Thread-safe, apart from the destructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "foreshock/credentials.h"
#include "foreshock/step_report.h"
#include "foreshock/v1/ingest.pb.h"

namespace foreshock {

struct ClientOptions {
  std::string target{};           // host:port of the daemon's gRPC listener
  Credentials credentials{};      // none: plain, without a token
  std::string run{};              // the job's name
  std::string launch_id{};        // same on all ranks of one launch, new on a restart
  std::string client_instance{};  // absent: random. Set only to repeat what a process sent before
  uint32_t rank = 0;              // < world_size
  v1::Coordinates coordinates{};
  uint32_t world_size = 1;
  v1::ModelShape model{};
  std::vector<v1::PlanEntry> plan{};
  std::optional<uint32_t> parent_attempt{};
  std::optional<int64_t> resume_step{};
  std::map<std::string, std::string> labels{};

  size_t queue_bytes_max = 64u << 20;  // reports that are not yet committed, serialised
  size_t queue_reports_max = 16384;
  size_t message_bytes_max = 16u << 20;  // a larger report is split between its summaries
  absl::Duration backoff_min = absl::Milliseconds(200);   // first wait after a lost stream, doubled
  absl::Duration backoff_max = absl::Seconds(15);         // each time; every wait is jittered
  absl::Duration hello_timeout = absl::Seconds(10);       // for the daemon's first answer
  absl::Duration keepalive_interval = absl::Seconds(30);  // >= the daemon's minimum of 30 s
};

struct ScalarOptions {
  std::string name{};  // [a-z][a-z0-9_]*, at most 128 bytes
  std::string unit = "1";
  v1::Reduction reduction = v1::REDUCTION_LAST;
  v1::Scope scope = v1::SCOPE_GLOBAL;
};

struct ClientStats {
  uint64_t pushed = 0;              // reports taken into the queue (parts, where one was split)
  uint64_t dropped = 0;             // reports not taken, or given up: no room, too large, refused
  uint64_t committed = 0;           // reports the daemon acknowledged
  uint64_t duplicates = 0;          // of them it had before
  uint64_t rejected_reports = 0;    // refused by the daemon for good, or for now (sent again)
  uint64_t rejected_summaries = 0;  // refused out of a report that stands
  uint64_t resent = 0;              // reports written to a second or later stream
  uint64_t streams = 0;             // streams on which the daemon said HelloAck
  uint64_t queue_bytes = 0;
  uint64_t queue_reports = 0;
  uint64_t acked_seq = 0;
  uint32_t attempt = 0;  // that the daemon gave; 0: none yet
  bool connected = false;
  bool refused = false;    // the daemon said INVALID_ARGUMENT: nothing is sent any more
  std::string last_error;  // why the last stream ended; empty: none has
  std::vector<std::string> rejections;  // reasons, the newest kRejectionsMax

  static constexpr size_t kRejectionsMax = 8;
};

class Client {
 public:
  // Starts the background thread; does not wait for the daemon.
  // Errors: InvalidArgument, naming the option.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);

  // The options that make a client speak as `hello` does.
  static ClientOptions OptionsOf(const v1::Hello& hello);

  // Without Close: ends the stream at once, without a Goodbye; what is queued is lost.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The id by which StepReport::Scalar names the scalar. The same options give the same id.
  // Errors: InvalidArgument if another scalar of that name and scope exists.
  absl::StatusOr<uint32_t> DeclareScalar(const ScalarOptions& scalar);

  // Queues the report; never waits for the network or the daemon. `seq` is set by the client.
  // Declarations inside are remembered and repeated on every new stream.
  // Errors, each counted in stats().dropped: ResourceExhausted without room; InvalidArgument if it
  // alone is over a limit or uses an undeclared id; FailedPrecondition after Close or a refusal.
  absl::Status Push(v1::Report report);

  // Waits until a report of `bytes` fits into the queue. False when the time ran out, the client is
  // closed or refused. For senders that would rather wait than drop.
  bool WaitForRoom(size_t bytes, absl::Duration timeout);

  // Waits until everything pushed before is committed.
  // Errors: DeadlineExceeded; FailedPrecondition after a refusal.
  absl::Status Flush(absl::Duration timeout);

  // Flushes, says Goodbye, waits for the end of the stream; then the client is of no more use.
  // Errors: DeadlineExceeded with how many reports are lost; FailedPrecondition after a refusal.
  absl::Status Close(v1::Outcome outcome, absl::Duration timeout);

  // Everything up to this seq is committed or was given up. Reports are numbered from 1 in the
  // order of Push; each part of a split one and each dropped one takes a number.
  uint64_t acked_seq() const;
  ClientStats stats() const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock
