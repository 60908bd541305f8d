// An IngestService on a real loopback socket that behaves as a test tells it.
//
//   FakeDaemon daemon;                      // honest: commits, acknowledges, remembers
//   daemon.OnStream([](FakeStream& stream) { ...; return grpc::Status::OK; });   // or scripted
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "daemon/base/mutex.h"
#include "foreshock/v1/ingest.grpc.pb.h"

namespace foreshock::client_internal {

struct FakeStream {
  grpc::ServerReaderWriter<v1::PushResponse, v1::PushRequest>& call;
  v1::Hello hello;
  int number = 0;               // of the stream, from 1, over the daemon's life
  std::string authorization{};  // of the call's metadata

  void HelloAck(uint64_t last_committed_seq);
  void Ack(uint64_t seq);
  void Send(const v1::PushResponse& response) { call.Write(response); }
};

class FakeDaemon final : private v1::IngestService::Service {
 public:
  using Script = std::function<grpc::Status(FakeStream&)>;

  FakeDaemon();  // started on a free port
  ~FakeDaemon();

  void Start();  // on the port it had
  void Stop();   // ends every stream without a word; what was committed stays

  // What happens on a stream after its Hello; {} is the honest behaviour, Serve.
  void OnStream(Script script);
  // HelloAck, then commits and acknowledges until the rank says goodbye.
  grpc::Status Serve(FakeStream& stream);

  std::string target() const { return target_; }

  // Of all clients together, by seq; how often a seq came in, committed or not.
  std::map<uint64_t, v1::Report> committed() const;
  int hellos() const;
  std::vector<v1::Goodbye> goodbyes() const;
  std::vector<std::string> faults() const;  // how clients broke the contract
  void Commit(const v1::Report& report);

  // Waits until `condition` holds for the daemon; false after 20 s.
  bool Await(const std::function<bool()>& condition) const;

  void set_limits(v1::Limits limits);

 private:
  grpc::Status Push(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<v1::PushResponse, v1::PushRequest>* call) override;

  std::string target_ = "127.0.0.1:0";
  std::unique_ptr<grpc::Server> server_;

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  v1::Limits limits_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, v1::Report> committed_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Goodbye> goodbyes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> faults_ ABSL_GUARDED_BY(mutex_);
  int hellos_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace foreshock::client_internal
