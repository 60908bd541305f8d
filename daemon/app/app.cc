#include "daemon/app/app.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/app/alert_actions.h"
#include "daemon/app/backtester.h"
#include "daemon/app/cleanups.h"
#include "daemon/app/http_roles.h"
#include "daemon/app/listener.h"
#include "daemon/app/live_state.h"
#include "daemon/app/reloader.h"
#include "daemon/app/version.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/exporter/exporter.h"
#include "daemon/http/management.h"
#include "daemon/ingest/service.h"
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

namespace foreshock::app {
namespace {

// How long a stop waits for calls and connections to end by themselves, if its deadline allows.
constexpr absl::Duration kCallsGrace = absl::Seconds(2);
// How long it waits until people are told.
constexpr absl::Duration kNotifyGrace = absl::Seconds(3);
// How long it pushes the last values.
constexpr absl::Duration kRemoteWriteGrace = absl::Seconds(2);
constexpr absl::Duration kHttpGrace = absl::Seconds(1);

// For a part whose failure loses nothing: it is told, and the stop succeeds.
absl::Status OnlyTell(const char* part, const absl::Status& status) {
  if (!status.ok()) base::LogInfo("app", absl::StrCat(part, ": ", status.message()));
  return absl::OkStatus();
}

}  // namespace

// The parts in the order in which they are destroyed, backwards. Each one that has threads or
// connections adds its cleanup when it exists.
class App::Parts {
 public:
  explicit Parts(config::Config config) : config_(std::move(config)) {}

  absl::Status Start(LoadFn load);
  absl::Status Reload();
  std::string Summary() const;
  // Once; for a start that failed as well.
  absl::Status Stop();
  // Whether a part could not be stopped: threads still use all of them.
  bool hung() const { return cleanups_.hung(); }

  std::string grpc_address;
  std::string http_address;

 private:
  absl::Status StartCore();
  absl::Status StartPipeline(std::shared_ptr<const rules::RuleSet> rules);
  void MakeAnswers();
  absl::Status MakeExport();
  absl::Status StartHttp();
  absl::Status StartGrpc();
  rpc::AdminActions MakeAdminActions();
  absl::Status Ready() const;
  absl::StatusOr<std::pair<std::string, store::BackupInfo>> Backup(const std::string& name) const;

  const config::Config config_;  // as it was at the start
  const base::SystemClock clock_;
  AppState state_;
  Cleanups cleanups_;

  security::AccessControl access_;
  std::unique_ptr<security::TlsFiles> tls_;  // null: both ports are plain
  std::unique_ptr<store::DiskStore> store_;
  std::unique_ptr<notify::Silences> silences_;
  std::unique_ptr<notify::Outbox> outbox_;
  std::unique_ptr<exporter::SnapshotBuilder> snapshots_;
  std::unique_ptr<AppListener> listener_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  ingest::IngestStats ingest_stats_;
  std::vector<std::unique_ptr<remote_write::RemoteWriter>>
      remote_writers_;  // fixed once HTTP is served
  std::unique_ptr<http::HttpServer> http_;
  std::unique_ptr<AppLiveState> live_;
  std::unique_ptr<Backtester> backtester_;
  std::unique_ptr<query::Answers> answers_;
  std::unique_ptr<AlertActions> actions_;
  std::unique_ptr<exporter::Exporter> exporter_;
  std::unique_ptr<Reloader> reloader_;
  std::unique_ptr<ingest::IngestService> ingest_;
  std::unique_ptr<query::QueryService> query_;
  std::unique_ptr<rpc::AdminService> admin_;
  std::unique_ptr<rpc::GrpcServer> grpc_;
  std::unique_ptr<store::RetentionWorker> retention_;
};

absl::Status App::Parts::Start(LoadFn load) {
  FORESHOCK_RETURN_IF_ERROR(base::SetLogLevel(config_.log_level));
  SetTokens(config_.access, &access_);
  FORESHOCK_ASSIGN_OR_RETURN(const std::string open, config::CheckExposure(config_));
  if (!open.empty()) base::LogWarning("app", absl::StrCat("insecure: ", open));
  if (config_.tls.given()) {
    FORESHOCK_ASSIGN_OR_RETURN(tls_, security::TlsFiles::Open(config_.tls, &clock_));
  }
  FORESHOCK_RETURN_IF_ERROR(StartCore());
  MakeAnswers();
  FORESHOCK_RETURN_IF_ERROR(MakeExport());
  FORESHOCK_RETURN_IF_ERROR(StartHttp());
  FORESHOCK_RETURN_IF_ERROR(
      outbox_->SetNotifiers(config_.notifiers, ExternalUrl(config_, http_address)));
  reloader_ = std::make_unique<Reloader>(config_, std::move(load),
                                         Reloader::Deps{.tls = tls_.get(),
                                                        .access = &access_,
                                                        .pipeline = pipeline_.get(),
                                                        .outbox = outbox_.get(),
                                                        .state = &state_,
                                                        .clock = &clock_,
                                                        .http_address = http_address});
  FORESHOCK_RETURN_IF_ERROR(StartGrpc());
  retention_ = std::make_unique<store::RetentionWorker>(
      store_.get(), config_.retention, &clock_,
      [this](const std::string& run) { return pipeline_->DeleteRun(run).status(); });
  cleanups_.Add("retention", {}, [this](absl::Duration) {
    retention_.reset();
    return absl::OkStatus();
  });
  state_.ready = true;
  for (const auto& writer : remote_writers_) writer->Start();
  base::LogInfo("app", "ready",
                {{"version", kVersion},
                 {"grpc", grpc_address},
                 {"http", http_address},
                 {"data", config_.store.directory},
                 {"rules", absl::StrCat(state_.rules()->infos().size())}});
  return absl::OkStatus();
}

absl::Status App::Parts::StartCore() {
  FORESHOCK_ASSIGN_OR_RETURN(std::shared_ptr<const rules::RuleSet> rules,
                             rules::LoadRules(config_.rules));
  if (rules->infos().empty()) {
    base::LogWarning(
        "app",
        "no rules: nothing will ever warn; none were given, and no default pack is installed in "
        "the program's " FORESHOCK_RULES_DIR
        ". From a clone: --rules rules/default.yaml rules/signatures.yaml");
  }
  state_.SetRules(rules);
  state_.reload_unix_s = absl::ToUnixSeconds(clock_.Now());
  FORESHOCK_ASSIGN_OR_RETURN(store_, store::OpenDiskStore(config_.store));

  silences_ = std::make_unique<notify::Silences>(&clock_, [this](const model::SilencesRow& row) {
    store::StoreBatch batch;
    batch.silences = row;
    return store_->Write(batch);
  });
  FORESHOCK_ASSIGN_OR_RETURN(const model::SilencesRow silences, store_->Silences());
  silences_->Load(silences);

  // HTTP and remote write show the end of everything else, so they are the last to end.
  http_ = std::make_unique<http::HttpServer>(config_.http, tls_.get());
  cleanups_.Add("HTTP", {.share = 1, .at_most = kHttpGrace},
                [this](absl::Duration allowed) { return OnlyTell("HTTP", http_->Stop(allowed)); });
  cleanups_.Add("remote write", {}, [this](absl::Duration allowed) {
    const absl::Time until = base::SteadyNow() + allowed;
    for (const auto& writer : remote_writers_) {
      writer->Stop(std::clamp(until - base::SteadyNow(), absl::ZeroDuration(), kRemoteWriteGrace));
    }
    return absl::OkStatus();
  });
  return StartPipeline(std::move(rules));
}

absl::Status App::Parts::StartPipeline(std::shared_ptr<const rules::RuleSet> rules) {
  outbox_ = std::make_unique<notify::Outbox>(
      notify::Outbox::Options{},
      notify::Outbox::Deps{
          .clock = &clock_,
          .update =
              [this](const std::string& run, const std::string& id,
                     const std::function<void(model::AlertRow*)>& change) {
                return pipeline_->UpdateAlert(run, id, /*tell=*/false, change);
              },
          .silenced = [this](const v1::Alert& alert) { return silences_->Longest(alert); }});
  FORESHOCK_RETURN_IF_ERROR(FillOutbox(*store_, config_.snapshot, clock_.Now(), outbox_.get()));
  snapshots_ = std::make_unique<exporter::SnapshotBuilder>(config_.snapshot, &clock_);
  listener_ = std::make_unique<AppListener>(config_.snapshot, snapshots_.get(), outbox_.get(),
                                            store_.get(), &clock_);
  pipeline::Pipeline::Options options = config_.pipeline;
  options.limits = ingest::ToProto(config_.ingest.limits);
  options.version = kVersion;
  pipeline_ = std::make_unique<pipeline::Pipeline>(
      options, pipeline::Pipeline::Deps{.store = store_.get(),
                                        .clock = &clock_,
                                        .rules = std::move(rules),
                                        .listener = listener_.get()});
  cleanups_.Add("pipeline", {.share = 0.8},
                [this](absl::Duration allowed) { return pipeline_->Stop(allowed); });
  // What the last reports brought about is told while it can still be written down that it was: a
  // daemon that ends with its job may never start again.
  cleanups_.Add("notifiers", {}, [this](absl::Duration allowed) {
    const absl::Time until = base::SteadyNow() + allowed;
    (void)OnlyTell("pipeline", pipeline_->Flush(allowed / 2));
    outbox_->Stop(std::clamp(until - base::SteadyNow(), absl::ZeroDuration(), kNotifyGrace));
    return absl::OkStatus();
  });
  return pipeline_->Start();
}

// What the API, /metrics and the page are answered from.
void App::Parts::MakeAnswers() {
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
  answers_ = std::make_unique<query::Answers>(
      store_.get(), live_.get(),
      [this](const auto& request, const auto& cancelled) {
        return backtester_->Run(request, cancelled);
      },
      [this](const auto& request, const auto& cancelled) {
        return backtester_->Explain(request, cancelled);
      });
  actions_ = std::make_unique<AlertActions>(AlertActions::Deps{.answers = answers_.get(),
                                                               .pipeline = pipeline_.get(),
                                                               .silences = silences_.get(),
                                                               .outbox = outbox_.get(),
                                                               .clock = &clock_});
}

absl::Status App::Parts::MakeExport() {
  FORESHOCK_ASSIGN_OR_RETURN(
      exporter_, exporter::Exporter::Create(
                     config_.exporter,
                     exporter::Exporter::Deps{.snapshot = [this] { return snapshots_->Latest(); },
                                              .self = [this] { return live_->Self(); },
                                              .clock = &clock_}));
  for (const remote_write::RemoteWriteOptions& options : config_.remote_writes) {
    FORESHOCK_ASSIGN_OR_RETURN(
        auto writer,
        remote_write::RemoteWriter::Create(
            options, remote_write::RemoteWriter::Deps{.read = [this] { return exporter_->Read(); },
                                                      .clock = &clock_}));
    remote_writers_.push_back(std::move(writer));
  }
  return absl::OkStatus();
}

absl::Status App::Parts::StartHttp() {
  http_->Guard([this](const http::HttpRequest& request) { return AdmitHttp(access_, request); });
  http_->Handle("GET", "/metrics", [this](const http::HttpRequest&) {
    return http::HttpResponse{.content_type = exporter::Exporter::kContentType,
                              .body = exporter_->Render()};
  });
  query::AddJsonRoutes(answers_.get(), http_.get());
  if (config_.actions_over_http) {
    query::AddJsonActions(
        {.acknowledge = [this](const auto& request) { return actions_->Acknowledge(request); },
         .accept = [this](const auto& request) { return actions_->Accept(request); },
         .silence = [this](const auto& request) { return actions_->Silence(request); },
         .expire_silence = [this](const auto& id) { return actions_->ExpireSilence(id); }},
        http_.get());
  } else {
    query::RefuseJsonActions(http_.get());
  }
  web::AddPageRoutes(http_.get());
  http::ManagementHooks hooks;
  hooks.ready = [this] { return Ready(); };
  if (config_.reload_over_http) hooks.reload = [this] { return Reload(); };
  http::AddManagementRoutes(std::move(hooks), http_.get());
  absl::StatusOr<std::string> bound = http_->Start();
  FORESHOCK_RETURN_IF_ERROR(base::Annotate(bound.status(), "HTTP"));
  http_address = *std::move(bound);
  return absl::OkStatus();
}

absl::Status App::Parts::Ready() const {
  if (state_.draining) return absl::UnavailableError("shutting down");
  if (!state_.ready) return absl::UnavailableError("starting");
  if (!pipeline_->stats().store_writable) {
    return absl::UnavailableError("the store cannot be written (disk full or read-only?)");
  }
  return absl::OkStatus();
}

absl::Status App::Parts::Reload() {
  if (!state_.ready) return absl::UnavailableError("starting");
  return reloader_->Reload();
}

rpc::AdminActions App::Parts::MakeAdminActions() {
  return {.reload = [this]() -> absl::StatusOr<uint32_t> {
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
          .acknowledge = [this](const auto& request) { return actions_->Acknowledge(request); },
          .accept = [this](const auto& request) { return actions_->Accept(request); },
          .silence = [this](const auto& request) { return actions_->Silence(request); },
          .expire_silence = [this](const auto& id) { return actions_->ExpireSilence(id); },
          .store_usage = [this] { return store_->Usage(); },
          .verify_store =
              [this](const store::VerifyCallbacks& callbacks) { return store_->Verify(callbacks); },
          .backup_store = [this](const std::string& name) { return Backup(name); }};
}

absl::Status App::Parts::StartGrpc() {
  ingest_ = std::make_unique<ingest::IngestService>(
      config_.ingest, ingest::IngestService::Deps{
                          .sink = pipeline_.get(), .stats = &ingest_stats_, .access = &access_});
  query_ = std::make_unique<query::QueryService>(query::QueryService::Options{}, answers_.get(),
                                                 &access_);
  admin_ = std::make_unique<rpc::AdminService>(MakeAdminActions(), &access_);
  grpc_ = std::make_unique<rpc::GrpcServer>(
      rpc::GrpcServer::Options{.address = config_.grpc_listen,
                               .message_bytes_max = config_.ingest.limits.message_bytes_max,
                               .memory_bytes_max = config_.grpc_memory_bytes_max,
                               .tls = tls_.get()});
  // Streams end once what they sent is acknowledged.
  cleanups_.Add("gRPC", {.at_most = kCallsGrace}, [this](absl::Duration allowed) {
    ingest_->Drain();
    pipeline_->Drain();
    return OnlyTell("gRPC", grpc_->Shutdown(allowed));
  });
  grpc_->Add(v1::IngestService::service_full_name(), ingest_.get());
  grpc_->Add(v1::QueryService::service_full_name(), query_->grpc());
  grpc_->Add(v1::AdminService::service_full_name(), admin_.get());
  absl::StatusOr<std::string> bound = grpc_->Start();
  FORESHOCK_RETURN_IF_ERROR(base::Annotate(bound.status(), "gRPC"));
  grpc_address = *std::move(bound);
  return absl::OkStatus();
}

absl::StatusOr<std::pair<std::string, store::BackupInfo>> App::Parts::Backup(
    const std::string& name) const {
  if (config_.backup_directory.empty()) {
    return absl::FailedPreconditionError(
        "no backup directory is configured (store.backup_directory)");
  }
  std::string directory = absl::StrCat(config_.backup_directory, "/", name);
  FORESHOCK_ASSIGN_OR_RETURN(const store::BackupInfo info, store_->Backup(directory));
  base::LogInfo("app", "backup made", {{"directory", directory}, {"id", absl::StrCat(info.id)}});
  return std::pair(std::move(directory), info);
}

std::string App::Parts::Summary() const {
  const v1::GetStatusResponse status = live_->Status();
  return absl::StrCat("serving ", status.runs(), " runs, ", status.streams(), " streams, ",
                      status.alerts_firing(), " alerts fire",
                      pipeline_->stats().store_writable ? "" : "; the store cannot be written",
                      status.config_last_reload_successful() ? "" : "; the last reload failed");
}

absl::Status App::Parts::Stop() {
  if (state_.draining.exchange(true)) return absl::OkStatus();
  if (grpc_ != nullptr) grpc_->SetNotServing();
  const absl::Status stopped = cleanups_.Run(config_.shutdown_deadline);
  if (stopped.ok() && state_.ready) base::LogInfo("app", "stopped");
  return stopped;
}

App::App(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

App::~App() {
  const absl::Status stopped = parts_->Stop();
  if (!stopped.ok()) base::LogWarning("app", std::string(stopped.message()));
  // A thread that could not be ended still uses the parts; the process ends without destroying
  // them.
  if (parts_->hung()) (void)parts_.release();
}

absl::StatusOr<std::unique_ptr<App>> App::Start(config::Config config, LoadFn load) {
  std::unique_ptr<App> app(new App(std::make_unique<Parts>(std::move(config))));
  FORESHOCK_RETURN_IF_ERROR(app->parts_->Start(std::move(load)));
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

}  // namespace foreshock::app
