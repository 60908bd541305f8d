// The gRPC IngestService: admits streams, checks every message, hands good reports to a ReportSink
// and sends back its acks. See proto/foreshock/v1/ingest.proto for what senders may rely on.
//
//   IngestService service({.limits = limits}, {.sink = &pipeline, .stats = &stats});
//   server.Add(&service);
//   ...
//   service.Drain();               // UNAVAILABLE to new streams, old ones end once acknowledged
//   server.Shutdown(deadline);     // must come before the service is destroyed
//
// A stream is read one message at a time: the next one only after the sink has taken the last,
// which is how a full queue reaches the sender. Small reports are worked through on gRPC's threads,
// those with weights on a few threads of their own, so that they do not hold up the others.
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/limits.h"
#include "daemon/ingest/sink.h"
#include "daemon/security/access.h"
#include "foreshock/v1/ingest.grpc.pb.h"

namespace foreshock::ingest {

class ServiceCore;

class IngestService final : public v1::IngestService::CallbackService {
 public:
  struct Options {
    IngestLimits limits = {};
    absl::Duration submit_wait_max = absl::Seconds(5);  // for room in the sink, then refused
    absl::Duration submit_retry_interval = absl::Milliseconds(20);
    absl::Duration retry_delay = absl::Seconds(1);  // told to refused senders
    int heavy_threads = 2;                          // for reports with QkFactors or QkGram
    size_t heavy_tasks_max = 1024;
    int open_threads = 4;  // wait for the sink's writer while a stream opens
    size_t open_tasks_max = 16384;
    int once_threads = 4;          // PushOnce calls served at a time
    size_t once_tasks_max = 1024;  // and waiting
  };
  struct Deps {
    ReportSink* sink = nullptr;
    IngestStats* stats = nullptr;
    const security::AccessControl* access = nullptr;  // null: everyone may push
  };

  IngestService(Options options, Deps deps);
  ~IngestService() override;

  // New streams and calls are refused with UNAVAILABLE; open streams end with UNAVAILABLE once what
  // they have submitted is acknowledged. Returns at once; Server::Shutdown waits for the streams.
  void Drain();

  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* PushOnce(grpc::CallbackServerContext* context,
                                     const v1::PushOnceRequest* request,
                                     v1::PushOnceResponse* response) override;

 private:
  std::unique_ptr<ServiceCore> core_;
};

}  // namespace foreshock::ingest
