#include "daemon/app/app.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/app/backtester.h"
#include "daemon/app/listener.h"
#include "daemon/app/live_state.h"
#include "daemon/app/version.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/exporter/exporter.h"
#include "daemon/http/management.h"
#include "daemon/ingest/service.h"
#include "daemon/notify/make_notifier.h"
#include "daemon/notify/outbox.h"
#include "daemon/notify/silences.h"
#include "daemon/query/answers.h"
#include "daemon/query/json_actions.h"
#include "daemon/query/json_api.h"
#include "daemon/query/service.h"
#include "daemon/remote_write/remote_writer.h"
#include "daemon/rpc/admin_service.h"
#include "daemon/rpc/server.h"
#include "daemon/store/disk_store.h"
#include "daemon/store/retention_worker.h"
#include "daemon/web/page.h"
#include "foreshock/v1/query.grpc.pb.h"

namespace foreshock {
namespace {

// How long a stop waits for calls and connections to end by themselves, if its deadline allows.
constexpr absl::Duration kCallsGrace = absl::Seconds(2);
// And how long for what people are still to be told.
constexpr absl::Duration kNotifyGrace = absl::Seconds(3);
// And for the last values that are pushed.
constexpr absl::Duration kRemoteWriteGrace = absl::Seconds(2);

// Null: no tokens.
std::shared_ptr<const AccessControl::Grants> GrantsOf(const AccessOptions& options) {
  if (options.tokens_file.empty()) return nullptr;
  return std::make_shared<const AccessControl::Grants>(options.tokens);
}

// What tells or does something is below /api/ or /-/, or is /metrics. The rest is the page's own
// files, which hold no data: a browser that opens a page shows no token. Nor do supervisors.
bool IsOpen(const HttpRequest& request) {
  if (request.path == "/-/healthy" || request.path == "/-/ready") return true;
  return request.path != "/metrics" && !absl::StartsWith(request.path, "/api/") &&
         !absl::StartsWith(request.path, "/-/");
}

// What a page or a script changes below /api takes who may operate; what has no line here can be
// read, or is not there.
Role RoleFor(const HttpRequest& request) {
  if (request.path == "/-/reload") return Role::kAdmin;
  if (request.path == "/api/v1/rules/backtest") return Role::kRead;  // it changes nothing
  return request.method == "GET" || request.method == "HEAD" ? Role::kRead : Role::kOperate;
}

absl::Status AdmitHttp(const AccessControl& access, const HttpRequest& request) {
  if (IsOpen(request)) return absl::OkStatus();
  return access
      .Admit({.peer = request.remote_address, .authorization = request.authorization},
             RoleFor(request))
      .status();
}

absl::string_view HttpScheme(const Config& config) { return config.tls.given() ? "https" : "http"; }

}  // namespace

// The parts in the order in which they are made. Stopping goes backwards by name (StopParts);
// destruction goes backwards by itself.
class App::Parts {
 public:
  Parts(Config config, LoadFn load) : config_(std::move(config)), load_(std::move(load)) {}

  absl::Status Start();
  absl::Status Reload();
  std::string Summary() const;
  absl::Status Stop();

  std::string grpc_address;
  std::string http_address;

 private:
  absl::Status StartCore();
  absl::Status FillOutbox();
  absl::StatusOr<v1::Alert> Acknowledge(const v1::AcknowledgeAlertRequest& request);
  absl::StatusOr<v1::Silence> Silence(const v1::SilenceAlertsRequest& request);
  absl::StatusOr<v1::Silence> ExpireSilence(const std::string& id);
  std::string ExternalUrl(const Config& config) const;
  absl::Status StartHttp();
  absl::Status StartGrpc();
  absl::StatusOr<std::pair<std::string, BackupInfo>> Backup(const std::string& name) const;
  void KeepWithoutRestart(const Config& fresh) const;

  Config config_;
  const LoadFn load_;
  const SystemClock clock_;
  AppState state_;
  Mutex reload_mutex_;  // one reload at a time

  AccessControl access_;
  std::unique_ptr<TlsFiles> tls_;  // null: both ports are plain
  std::unique_ptr<DiskStore> store_;
  std::unique_ptr<Silences> silences_;
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<SnapshotBuilder> snapshots_;
  std::unique_ptr<AppListener> listener_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<RetentionWorker> retention_;
  IngestStats ingest_stats_;
  std::vector<std::unique_ptr<RemoteWriter>> remote_writers_;  // fixed once HTTP is served
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<AppLiveState> live_;
  std::unique_ptr<Backtester> backtester_;
  std::unique_ptr<Answers> answers_;
  std::unique_ptr<Exporter> exporter_;
  std::unique_ptr<IngestService> ingest_;
  std::unique_ptr<QueryService> query_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<GrpcServer> grpc_;
  bool stopped_ = false;
};

absl::Status App::Parts::Start() {
  FORESHOCK_RETURN_IF_ERROR(SetLogLevel(config_.log_level));
  if (!config_.access.tokens_file.empty()) access_.SetTokens(GrantsOf(config_.access));
  FORESHOCK_ASSIGN_OR_RETURN(const std::string open, CheckExposure(config_));
  if (!open.empty()) LogWarning("app", absl::StrCat("insecure: ", open));
  if (config_.tls.given()) {
    FORESHOCK_ASSIGN_OR_RETURN(tls_, TlsFiles::Open(config_.tls, &clock_));
  }
  FORESHOCK_RETURN_IF_ERROR(StartCore());
  FORESHOCK_RETURN_IF_ERROR(StartHttp());
  FORESHOCK_RETURN_IF_ERROR(outbox_->SetNotifiers(config_.notifiers, ExternalUrl(config_)));
  FORESHOCK_RETURN_IF_ERROR(StartGrpc());
  state_.ready = true;
  for (const auto& writer : remote_writers_) writer->Start();
  LogInfo("app", "ready",
          {{"version", kVersion},
           {"grpc", grpc_address},
           {"http", http_address},
           {"data", config_.store.directory},
           {"rules", absl::StrCat(state_.rules()->infos().size())}});
  return absl::OkStatus();
}

absl::Status App::Parts::StartCore() {
  FORESHOCK_ASSIGN_OR_RETURN(std::shared_ptr<const RuleSet> rules, LoadRules(config_.rules));
  if (rules->infos().empty()) {
    LogWarning(
        "app",
        "no rules: nothing will ever warn; none were given, and no default pack is installed in "
        "the program's " FORESHOCK_RULES_DIR
        ". From a clone: --rules rules/default.yaml rules/signatures.yaml");
  }
  state_.SetRules(rules);
  state_.reload_unix_s = absl::ToUnixSeconds(clock_.Now());
  FORESHOCK_ASSIGN_OR_RETURN(store_, OpenDiskStore(config_.store));

  silences_ = std::make_unique<Silences>(&clock_, [this](const model::SilencesRow& row) {
    StoreBatch batch;
    batch.silences = row;
    return store_->Write(batch);
  });
  FORESHOCK_ASSIGN_OR_RETURN(const model::SilencesRow silences, store_->Silences());
  silences_->Load(silences);
  outbox_ = std::make_unique<Outbox>(
      Outbox::Options{},
      Outbox::Deps{
          .clock = &clock_,
          .update =
              [this](const std::string& run, const std::string& id,
                     const std::function<void(model::AlertRow*)>& change) {
                return pipeline_->UpdateAlert(run, id, /*tell=*/false, change);
              },
          .silenced =
              [this](const v1::Alert& alert) { return !silences_->Matching(alert).empty(); }});
  FORESHOCK_RETURN_IF_ERROR(FillOutbox());
  snapshots_ = std::make_unique<SnapshotBuilder>(config_.snapshot, &clock_);
  listener_ = std::make_unique<AppListener>(
      config_.snapshot, snapshots_.get(), outbox_.get(),
      [this](const auto& run) { return store_->Alerts(run); }, &clock_);
  Pipeline::Options options = config_.pipeline;
  options.limits = ToProto(config_.ingest.limits);
  options.version = kVersion;
  pipeline_ = std::make_unique<Pipeline>(options, Pipeline::Deps{.store = store_.get(),
                                                                 .clock = &clock_,
                                                                 .rules = std::move(rules),
                                                                 .listener = listener_.get()});
  FORESHOCK_RETURN_IF_ERROR(pipeline_->Start());
  retention_ = std::make_unique<RetentionWorker>(
      store_.get(), config_.retention, &clock_,
      [this](const std::string& run) { return pipeline_->DeleteRun(run).status(); });
  return absl::OkStatus();
}

// What the process before this one had not told, or not to the end.
absl::Status App::Parts::FillOutbox() {
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::RunRow> runs, store_->Runs());
  for (const model::RunRow& run : runs) {
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AttemptRow> attempts,
                               store_->Attempts(run.name()));
    FORESHOCK_ASSIGN_OR_RETURN(const std::vector<model::AlertRow> rows, store_->Alerts(run.name()));
    const v1::RunState state = attempts.empty() ? v1::RUN_STATE_FINISHED : attempts.back().state();
    const bool ended = state != v1::RUN_STATE_UNSPECIFIED;
    for (const model::AlertRow& row : rows) {
      const bool goes_on = row.alert().state() == v1::ALERT_STATE_FIRING && !ended;
      if (row.undelivered() || goes_on) outbox_->Offer(row);
    }
    if (ended) outbox_->SetRunEnd(run.name(), RunEndOf(state, config_.snapshot, clock_.Now()));
  }
  return absl::OkStatus();
}

std::string App::Parts::ExternalUrl(const Config& config) const {
  return config.external_url.empty() ? absl::StrCat(HttpScheme(config), "://", http_address)
                                     : config.external_url;
}

absl::Status App::Parts::StartHttp() {
  http_ = std::make_unique<HttpServer>(config_.http, tls_.get());
  http_->Guard([this](const HttpRequest& request) { return AdmitHttp(access_, request); });
  live_ = std::make_unique<AppLiveState>(
      AppLiveState::Deps{.state = &state_,
                         .pipeline = pipeline_.get(),
                         .store = store_.get(),
                         .ingest = &ingest_stats_,
                         .http = http_.get(),
                         .tls = tls_.get(),
                         .access = &access_,
                         .snapshot = [this] { return snapshots_->Latest(); },
                         .outbox = outbox_.get(),
                         .silences = silences_.get(),
                         .remote_writers = &remote_writers_,
                         .data_directory = config_.store.directory,
                         .store_bytes_max = config_.retention.bytes_max,
                         .started_unix_ns = absl::ToUnixNanos(clock_.Now())});
  backtester_ = std::make_unique<Backtester>(
      Backtester::Deps{.store = store_.get(),
                       .in_force = [this] { return state_.rules(); },
                       .stopping = [this] { return state_.draining.load(); }});
  answers_ = std::make_unique<Answers>(store_.get(), live_.get(),
                                       [this](const auto& request, const auto& cancelled) {
                                         return backtester_->Run(request, cancelled);
                                       });
  FORESHOCK_ASSIGN_OR_RETURN(
      exporter_,
      Exporter::Create(config_.exporter,
                       Exporter::Deps{.snapshot = [this] { return snapshots_->Latest(); },
                                      .self = [this] { return live_->Self(); },
                                      .clock = &clock_}));
  for (const RemoteWriteOptions& options : config_.remote_writes) {
    FORESHOCK_ASSIGN_OR_RETURN(
        auto writer, RemoteWriter::Create(
                         options, RemoteWriter::Deps{.read = [this] { return exporter_->Read(); },
                                                     .clock = &clock_}));
    remote_writers_.push_back(std::move(writer));
  }
  http_->Handle("GET", "/metrics", [this](const HttpRequest&) {
    return HttpResponse{.content_type = Exporter::kContentType, .body = exporter_->Render()};
  });
  AddJsonRoutes(answers_.get(), http_.get());
  if (config_.actions_over_http) {
    AddJsonActions({.acknowledge = [this](const auto& request) { return Acknowledge(request); },
                    .silence = [this](const auto& request) { return Silence(request); },
                    .expire_silence = [this](const auto& id) { return ExpireSilence(id); }},
                   http_.get());
  } else {
    RefuseJsonActions(http_.get());
  }
  AddPageRoutes(http_.get());
  ManagementHooks hooks;
  hooks.ready = [this]() -> absl::Status {
    if (state_.draining) return absl::UnavailableError("shutting down");
    if (!state_.ready) return absl::UnavailableError("starting");
    if (!pipeline_->stats().store_writable) {
      return absl::UnavailableError("the store cannot be written (disk full or read-only?)");
    }
    return absl::OkStatus();
  };
  if (config_.reload_over_http) hooks.reload = [this] { return Reload(); };
  AddManagementRoutes(std::move(hooks), http_.get());
  absl::StatusOr<std::string> bound = http_->Start();
  FORESHOCK_RETURN_IF_ERROR(Annotate(bound.status(), "HTTP"));
  http_address = *std::move(bound);
  return absl::OkStatus();
}

absl::Status App::Parts::StartGrpc() {
  ingest_ = std::make_unique<IngestService>(
      config_.ingest,
      IngestService::Deps{.sink = pipeline_.get(), .stats = &ingest_stats_, .access = &access_});
  query_ = std::make_unique<QueryService>(QueryService::Options{}, answers_.get(), &access_);
  admin_ = std::make_unique<AdminService>(
      AdminActions{
          .reload = [this]() -> absl::StatusOr<uint32_t> {
            FORESHOCK_RETURN_IF_ERROR(Reload());
            return static_cast<uint32_t>(state_.rules()->infos().size());
          },
          .declare_event =
              [this](const std::string& run, const v1::Event& event) {
                return pipeline_->DeclareEvent(run, event);
              },
          .pin_run = [this](const std::string& run,
                            bool pinned) { return pipeline_->PinRun(run, pinned); },
          .delete_run = [this](const std::string& run) { return pipeline_->DeleteRun(run); },
          .acknowledge = [this](const v1::AcknowledgeAlertRequest& request)
              -> absl::StatusOr<v1::Alert> { return Acknowledge(request); },
          .silence = [this](const v1::SilenceAlertsRequest& request) { return Silence(request); },
          .expire_silence = [this](const std::string& id) { return ExpireSilence(id); },
          .store_usage = [this] { return store_->Usage(); },
          .verify_store =
              [this](const VerifyCallbacks& callbacks) { return store_->Verify(callbacks); },
          .backup_store = [this](const std::string& name) { return Backup(name); }},
      &access_);
  grpc_ = std::make_unique<GrpcServer>(
      GrpcServer::Options{.address = config_.grpc_listen,
                          .message_bytes_max = config_.ingest.limits.message_bytes_max,
                          .memory_bytes_max = config_.grpc_memory_bytes_max,
                          .tls = tls_.get()});
  grpc_->Add(v1::IngestService::service_full_name(), ingest_.get());
  grpc_->Add(v1::QueryService::service_full_name(), query_->grpc());
  grpc_->Add(v1::AdminService::service_full_name(), admin_.get());
  absl::StatusOr<std::string> bound = grpc_->Start();
  FORESHOCK_RETURN_IF_ERROR(Annotate(bound.status(), "gRPC"));
  grpc_address = *std::move(bound);
  return absl::OkStatus();
}

absl::StatusOr<v1::Alert> App::Parts::Acknowledge(const v1::AcknowledgeAlertRequest& request) {
  FORESHOCK_RETURN_IF_ERROR(CheckBy(request.by()));
  FORESHOCK_RETURN_IF_ERROR(CheckWhy(request.why()));
  if (request.id().empty()) return absl::InvalidArgumentError("no alert's id is given");
  v1::ListAlertsRequest all;
  all.set_limit(Answers::kAlertsMax);
  FORESHOCK_ASSIGN_OR_RETURN(const v1::ListAlertsResponse known, answers_->ListAlerts(all));
  std::vector<const v1::Alert*> meant;
  for (const v1::Alert& alert : known.alerts()) {
    if (absl::StartsWith(alert.id(), request.id())) meant.push_back(&alert);
  }
  if (meant.size() != 1) {
    return absl::NotFoundError(absl::StrCat(meant.empty() ? "no alert" : "more than one alert",
                                            " has an id that begins with '", request.id(),
                                            "'; `foreshock alerts` shows them"));
  }
  if (meant[0]->state() != v1::ALERT_STATE_FIRING) {
    return absl::FailedPreconditionError(
        absl::StrCat("alert ", meant[0]->id(), " is over: there is nothing to take on"));
  }
  v1::Alert acknowledged;
  FORESHOCK_RETURN_IF_ERROR(pipeline_->UpdateAlert(
      meant[0]->run(), meant[0]->id(), /*tell=*/true, [&](model::AlertRow* row) {
        v1::Acknowledgement* acknowledgement = row->mutable_alert()->mutable_acknowledgement();
        acknowledgement->set_by(request.by());
        acknowledgement->set_why(request.why());
        acknowledgement->set_time_unix_ns(absl::ToUnixNanos(clock_.Now()));
        acknowledgement->set_severity(row->alert().severity());
        row->set_undelivered(true);
        acknowledged = row->alert();
      }));
  return acknowledged;
}

absl::StatusOr<v1::Silence> App::Parts::Silence(const v1::SilenceAlertsRequest& request) {
  absl::StatusOr<v1::Silence> silence = silences_->Add(request);
  outbox_->LookAgain();
  return silence;
}

absl::StatusOr<v1::Silence> App::Parts::ExpireSilence(const std::string& id) {
  absl::StatusOr<v1::Silence> silence = silences_->Expire(id);
  outbox_->LookAgain();
  return silence;
}

absl::StatusOr<std::pair<std::string, BackupInfo>> App::Parts::Backup(
    const std::string& name) const {
  if (config_.backup_directory.empty()) {
    return absl::FailedPreconditionError(
        "no backup directory is configured (store.backup_directory)");
  }
  std::string directory = absl::StrCat(config_.backup_directory, "/", name);
  FORESHOCK_ASSIGN_OR_RETURN(const BackupInfo info, store_->Backup(directory));
  LogInfo("app", "backup made", {{"directory", directory}, {"id", absl::StrCat(info.id)}});
  return std::pair(std::move(directory), info);
}

// Settings that differ from those in force but wait for a restart are named in the log.
void App::Parts::KeepWithoutRestart(const Config& fresh) const {
  Config reloadable = fresh;
  reloadable.rules = config_.rules;
  reloadable.notifiers = config_.notifiers;
  reloadable.access = config_.access;
  reloadable.external_url = config_.external_url;
  reloadable.log_level = config_.log_level;
  const std::vector<std::string> waiting = ChangedKeys(config_, reloadable);
  if (!waiting.empty()) {
    LogWarning("app",
               "the configuration changed in settings that need a restart; they stay as "
               "they were (reloaded are rules, notifiers, tokens, external_url and log_level)",
               {{"keys", absl::StrJoin(waiting, ", ")}});
  }
}

absl::Status App::Parts::Reload() {
  MutexLock lock(&reload_mutex_);
  const auto apply = [this]() -> absl::Status {
    FORESHOCK_ASSIGN_OR_RETURN(const Config fresh, load_());
    FORESHOCK_RETURN_IF_ERROR(CheckExposure(fresh).status());
    FORESHOCK_ASSIGN_OR_RETURN(std::shared_ptr<const RuleSet> rules, LoadRules(fresh.rules));
    FORESHOCK_RETURN_IF_ERROR(CheckNotifiers(fresh.notifiers));
    FORESHOCK_RETURN_IF_ERROR(CheckRemoteWrites(fresh.remote_writes));
    if (tls_ != nullptr) FORESHOCK_RETURN_IF_ERROR(tls_->Reload());
    FORESHOCK_RETURN_IF_ERROR(SetLogLevel(fresh.log_level));
    FORESHOCK_RETURN_IF_ERROR(pipeline_->ReplaceRules(rules));
    FORESHOCK_RETURN_IF_ERROR(outbox_->SetNotifiers(fresh.notifiers, ExternalUrl(fresh)));
    access_.SetTokens(GrantsOf(fresh.access));
    KeepWithoutRestart(fresh);
    config_.rules = fresh.rules;
    config_.notifiers = fresh.notifiers;
    config_.access = fresh.access;
    config_.external_url = fresh.external_url;
    config_.log_level = fresh.log_level;
    state_.SetRules(std::move(rules));
    return absl::OkStatus();
  };
  const absl::Status status = apply();
  state_.reload_successful = status.ok();
  if (status.ok()) {
    state_.reload_unix_s = absl::ToUnixSeconds(clock_.Now());
    LogInfo("app", "reloaded", {{"rules", absl::StrCat(state_.rules()->infos().size())}});
  }
  return status;
}

std::string App::Parts::Summary() const {
  const v1::GetStatusResponse status = live_->Status();
  return absl::StrCat("serving ", status.runs(), " runs, ", status.streams(), " streams, ",
                      status.alerts_firing(), " alerts fire",
                      pipeline_->stats().store_writable ? "" : "; the store cannot be written",
                      status.config_last_reload_successful() ? "" : "; the last reload failed");
}

// Only what was not committed makes it fail: a peer that is cut off has lost nothing.
absl::Status App::Parts::Stop() {
  if (std::exchange(stopped_, true)) return absl::OkStatus();
  const absl::Time deadline = SteadyNow() + config_.shutdown_deadline;
  const auto left = [deadline] { return std::max(absl::ZeroDuration(), deadline - SteadyNow()); };
  state_.draining = true;

  const auto tell = [](const char* part, const absl::Status& status) {
    if (!status.ok()) LogInfo("app", absl::StrCat(part, ": ", status.message()));
  };
  if (grpc_ != nullptr) grpc_->SetNotServing();
  retention_.reset();
  if (ingest_ != nullptr) ingest_->Drain();
  if (pipeline_ != nullptr) pipeline_->Drain();
  // Streams end once they are acknowledged; the rest of the time is the pipeline's.
  if (grpc_ != nullptr) {
    tell("gRPC", grpc_->Shutdown(std::min(kCallsGrace, config_.shutdown_deadline / 2)));
  }
  // What the last reports brought about is told while what was told can still be written down: a
  // daemon that ends with its job may never start again.
  if (pipeline_ != nullptr) {
    tell("pipeline", pipeline_->Flush());
    outbox_->Stop(std::min(kNotifyGrace, left() / 2));
  }
  absl::Status committed;
  if (pipeline_ != nullptr) committed = Annotate(pipeline_->Stop(left()), "pipeline");
  for (const auto& writer : remote_writers_) {
    writer->Stop(std::min(kRemoteWriteGrace, left() / 2));
  }
  if (http_ != nullptr) tell("HTTP", http_->Stop(std::min(left(), absl::Seconds(1))));
  if (committed.ok() && state_.ready) LogInfo("app", "stopped");
  return committed;
}

App::App(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

App::~App() {
  const absl::Status stopped = parts_->Stop();
  if (!stopped.ok()) LogWarning("app", std::string(stopped.message()));
}

absl::StatusOr<std::unique_ptr<App>> App::Start(Config config, LoadFn load) {
  std::unique_ptr<App> app(new App(std::make_unique<Parts>(std::move(config), std::move(load))));
  FORESHOCK_RETURN_IF_ERROR(app->parts_->Start());
  return app;
}

const std::string& App::grpc_address() const { return parts_->grpc_address; }
const std::string& App::http_address() const { return parts_->http_address; }
absl::Status App::Reload() { return parts_->Reload(); }
std::string App::Summary() const { return parts_->Summary(); }
absl::Status App::Stop() { return parts_->Stop(); }

absl::Status App::WriteAddresses(const std::string& path) const {
  const std::string fresh = absl::StrCat(path, ".", getpid());
  std::ofstream file(fresh);
  file << "grpc=" << grpc_address() << "\nhttp=" << http_address() << "\n";
  file.close();
  std::error_code error;
  if (file.good()) std::filesystem::rename(fresh, path, error);
  if (!file.good() || error) {
    return absl::PermissionDeniedError(absl::StrCat(
        "--address-file ", path,
        " cannot be written: ", error ? error.message() : "is its directory there and writable?"));
  }
  return absl::OkStatus();
}

std::vector<std::string> InstalledRules() {
  std::vector<std::string> files;
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  for (const char* name : {"default.yaml", "signatures.yaml"}) {
    const std::filesystem::path path =
        (program.parent_path() / FORESHOCK_RULES_DIR / name).lexically_normal();
    if (std::filesystem::exists(path, ignored)) files.push_back(path.string());
  }
  return files;
}

}  // namespace foreshock
