// One connection to a daemon, and what its errors mean for the person who typed the command.
//
//   Connection daemon(program.settings);
//   v1::ListRunsResponse response;
//   auto context = daemon.Context();
//   const absl::Status status =
//       FromGrpc(daemon.query().ListRuns(context.get(), request, &response));
//   if (!status.ok()) return daemon.Report(status);
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/cli/cli.h"
#include "foreshock/v1/admin.grpc.pb.h"
#include "foreshock/v1/ingest.grpc.pb.h"
#include "foreshock/v1/query.grpc.pb.h"

namespace foreshock::cli {

absl::Status FromGrpc(const grpc::Status& status);

// Thread-safe.
class Connection {
 public:
  explicit Connection(const Settings& settings);

  v1::QueryService::Stub& query() { return *query_; }
  v1::IngestService::Stub& ingest() { return *ingest_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const std::string& server() const { return settings_.server; }

  // For one call, with the deadline of --timeout.
  std::unique_ptr<grpc::ClientContext> Context() const;

  // Why the files of the credentials cannot be read; then no call leaves this machine.
  const absl::Status& credentials() const { return secrets_; }

  // Prints what failed and how to mend it on stderr; returns the exit code for it.
  int Report(const absl::Status& status) const;

 private:
  const Settings settings_;
  absl::Status secrets_;  // whether the credentials' files could be read
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::QueryService::Stub> query_;
  std::unique_ptr<v1::IngestService::Stub> ingest_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

// The exit code for a failed call: kUnreachable, kUsage (the daemon refused the arguments) or
// kFinding.
int ExitCodeFor(const absl::Status& status);

}  // namespace foreshock::cli
