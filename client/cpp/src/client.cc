#include "foreshock/client.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/src/sender.h"
#include "daemon/base/status_macros.h"

namespace foreshock {
namespace {

std::string RandomInstance() {
  std::random_device random;
  std::string instance;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&instance, absl::Hex(random(), absl::kZeroPad8));
  return instance;
}

absl::Status Wrong(const char* option, const std::string& found, const char* allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("making a client: option ", option, " is ", found, ", allowed: ", allowed));
}

absl::Status Validate(const ClientOptions& options) {
  if (options.target.empty()) return Wrong("target", "empty", "host:port");
  FORESHOCK_RETURN_IF_ERROR(
      base::Annotate(CheckCredentials(options.credentials), "making a client"));
  if (options.run.empty()) return Wrong("run", "empty", "1 to 256 bytes");
  if (options.launch_id.empty()) return Wrong("launch_id", "empty", "1 to 256 bytes");
  if (options.rank >= options.world_size) {
    return Wrong("rank", absl::StrCat(options.rank), "less than world_size");
  }
  if (options.queue_bytes_max == 0) return Wrong("queue_bytes_max", "0", "at least 1");
  if (options.queue_reports_max == 0) return Wrong("queue_reports_max", "0", "at least 1");
  if (options.message_bytes_max == 0) return Wrong("message_bytes_max", "0", "at least 1");
  if (options.backoff_min <= absl::ZeroDuration() || options.backoff_max < options.backoff_min) {
    return Wrong("backoff_min", absl::FormatDuration(options.backoff_min),
                 "more than 0 and at most backoff_max");
  }
  if (options.hello_timeout <= absl::ZeroDuration()) {
    return Wrong("hello_timeout", absl::FormatDuration(options.hello_timeout), "more than 0");
  }
  if (options.keepalive_interval < absl::Seconds(30)) {
    return Wrong("keepalive_interval", absl::FormatDuration(options.keepalive_interval),
                 "at least 30s, the daemon ends the connection of a client that pings faster");
  }
  return absl::OkStatus();
}

}  // namespace

class Client::Impl : public client_internal::Sender {
 public:
  using Sender::Sender;
};

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (const absl::Status status = Validate(options); !status.ok()) return status;
  const bool random_instance = options.client_instance.empty();
  if (random_instance) options.client_instance = RandomInstance();
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(options, random_instance)));
}

ClientOptions Client::OptionsOf(const v1::Hello& hello) {
  ClientOptions options;
  options.run = hello.run();
  options.launch_id = hello.launch_id();
  options.client_instance = hello.client_instance();
  options.rank = hello.rank();
  options.coordinates = hello.coordinates();
  options.world_size = hello.world_size();
  options.model = hello.model();
  options.plan.assign(hello.plan().begin(), hello.plan().end());
  if (hello.has_parent_attempt()) options.parent_attempt = hello.parent_attempt();
  if (hello.has_resume_step()) options.resume_step = hello.resume_step();
  options.labels.insert(hello.labels().begin(), hello.labels().end());
  return options;
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<uint32_t> Client::DeclareScalar(const ScalarOptions& scalar) {
  return impl_->DeclareScalar(scalar);
}
absl::Status Client::Push(v1::Report report) { return impl_->Push(std::move(report)); }
bool Client::WaitForRoom(size_t bytes, absl::Duration timeout) {
  return impl_->WaitForRoom(bytes, timeout);
}
absl::Status Client::Flush(absl::Duration timeout) { return impl_->Flush(timeout); }
absl::Status Client::Close(v1::Outcome outcome, absl::Duration timeout) {
  return impl_->Close(outcome, timeout);
}
uint64_t Client::acked_seq() const { return impl_->acked_seq(); }
ClientStats Client::stats() const { return impl_->stats(); }

}  // namespace foreshock
