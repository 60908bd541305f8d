#include "tests/unit/client/fake_daemon.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/base/check.h"

namespace foreshock::client_internal {

void FakeStream::HelloAck(uint64_t last_committed_seq) {
  v1::PushResponse response;
  response.mutable_hello_ack()->set_attempt(1);
  response.mutable_hello_ack()->set_last_committed_seq(last_committed_seq);
  call.Write(response);
}

void FakeStream::Ack(uint64_t seq) {
  v1::PushResponse response;
  response.mutable_ack()->set_seq(seq);
  call.Write(response);
}

FakeDaemon::FakeDaemon() { Start(); }
FakeDaemon::~FakeDaemon() { Stop(); }

void FakeDaemon::Start() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(target_, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  FORESHOCK_CHECK(server_ != nullptr && port != 0);
  target_ = absl::StrCat("127.0.0.1:", port);
}

void FakeDaemon::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void FakeDaemon::OnStream(Script script) {
  base::MutexLock lock(&mutex_);
  script_ = std::move(script);
}

void FakeDaemon::set_limits(v1::Limits limits) {
  base::MutexLock lock(&mutex_);
  limits_ = std::move(limits);
}

grpc::Status FakeDaemon::Push(grpc::ServerContext* context,
                              grpc::ServerReaderWriter<v1::PushResponse, v1::PushRequest>* call) {
  v1::PushRequest request;
  if (!call->Read(&request)) return grpc::Status::OK;
  FakeStream stream{.call = *call, .hello = request.hello()};
  const auto& metadata = context->client_metadata();
  if (const auto at = metadata.find("authorization"); at != metadata.end()) {
    stream.authorization.assign(at->second.data(), at->second.size());
  }
  Script script;
  {
    base::MutexLock lock(&mutex_);
    if (!request.has_hello()) faults_.push_back("the first message is no hello");
    stream.number = ++hellos_;
    script = script_;
    changed_.NotifyAll();
  }
  return script ? script(stream) : Serve(stream);
}

grpc::Status FakeDaemon::Serve(FakeStream& stream) {
  {
    v1::PushResponse response;
    base::MutexLock lock(&mutex_);
    response.mutable_hello_ack()->set_attempt(1);
    response.mutable_hello_ack()->set_last_committed_seq(
        committed_.empty() ? 0 : committed_.rbegin()->first);
    *response.mutable_hello_ack()->mutable_limits() = limits_;
    stream.call.Write(response);
  }
  std::set<uint32_t> declared;
  v1::PushRequest request;
  while (stream.call.Read(&request)) {
    if (request.has_goodbye()) {
      base::MutexLock lock(&mutex_);
      goodbyes_.push_back(request.goodbye());
      changed_.NotifyAll();
      return grpc::Status::OK;
    }
    const v1::Report& report = request.report();
    for (const v1::Summary& summary : report.summaries()) {
      for (const auto& declaration : summary.scalars().declare()) {
        declared.insert(declaration.id());
      }
      for (const uint32_t id : summary.scalars().ids()) {
        if (declared.count(id) > 0) continue;
        base::MutexLock lock(&mutex_);
        faults_.push_back(absl::StrCat("seq ", report.seq(), ": id ", id, " is undeclared"));
      }
    }
    Commit(report);
    stream.Ack(report.seq());
  }
  return grpc::Status::OK;
}

void FakeDaemon::Commit(const v1::Report& report) {
  base::MutexLock lock(&mutex_);
  if (!committed_.emplace(report.seq(), report).second) {
    faults_.push_back(absl::StrCat("seq ", report.seq(), " came again after its commit"));
  }
  changed_.NotifyAll();
}

std::map<uint64_t, v1::Report> FakeDaemon::committed() const {
  base::MutexLock lock(&mutex_);
  return committed_;
}

int FakeDaemon::hellos() const {
  base::MutexLock lock(&mutex_);
  return hellos_;
}

std::vector<v1::Goodbye> FakeDaemon::goodbyes() const {
  base::MutexLock lock(&mutex_);
  return goodbyes_;
}

std::vector<std::string> FakeDaemon::faults() const {
  base::MutexLock lock(&mutex_);
  return faults_;
}

bool FakeDaemon::Await(const std::function<bool()>& condition) const {
  const absl::Time until = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    if (absl::Now() > until) return false;
    // Woken by what the daemon sees; what only the client knows is looked at again soon.
    base::MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, absl::Milliseconds(5));
  }
  return true;
}

}  // namespace foreshock::client_internal
