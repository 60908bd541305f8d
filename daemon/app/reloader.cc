#include "daemon/app/reloader.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/notify/make_notifier.h"
#include "daemon/remote_write/remote_writer.h"
#include "daemon/rules/rule_set.h"

namespace foreshock::app {
namespace {

// The settings that a reload changes.
void CopyReloadable(const config::Config& from, config::Config* to) {
  to->rules = from.rules;
  to->notifiers = from.notifiers;
  to->access = from.access;
  to->external_url = from.external_url;
  to->log_level = from.log_level;
}

}  // namespace

void SetTokens(const config::AccessOptions& options, security::AccessControl* access) {
  access->SetTokens(options.tokens_file.empty()
                        ? nullptr
                        : std::make_shared<const security::AccessControl::Grants>(options.tokens));
}

std::string ExternalUrl(const config::Config& config, const std::string& http_address) {
  if (!config.external_url.empty()) return config.external_url;
  return absl::StrCat(config.tls.given() ? "https" : "http", "://", http_address);
}

absl::Status Reloader::Reload() {
  base::MutexLock lock(&mutex_);
  const absl::Status status = Apply();
  deps_.state->reload_successful = status.ok();
  if (status.ok()) {
    deps_.state->reload_unix_s = absl::ToUnixSeconds(deps_.clock->Now());
    base::LogInfo("app", "reloaded",
                  {{"rules", absl::StrCat(deps_.state->rules()->infos().size())}});
  }
  return status;
}

absl::Status Reloader::Apply() {
  FORESHOCK_ASSIGN_OR_RETURN(const config::Config fresh, load_());
  FORESHOCK_RETURN_IF_ERROR(config::CheckExposure(fresh).status());
  FORESHOCK_ASSIGN_OR_RETURN(std::shared_ptr<const rules::RuleSet> rules,
                             rules::LoadRules(fresh.rules));
  FORESHOCK_RETURN_IF_ERROR(notify::CheckNotifiers(fresh.notifiers));
  FORESHOCK_RETURN_IF_ERROR(remote_write::CheckRemoteWrites(fresh.remote_writes));
  if (deps_.tls != nullptr) FORESHOCK_RETURN_IF_ERROR(deps_.tls->Reload());
  FORESHOCK_RETURN_IF_ERROR(base::SetLogLevel(fresh.log_level));
  FORESHOCK_RETURN_IF_ERROR(deps_.pipeline->ReplaceRules(rules));
  FORESHOCK_RETURN_IF_ERROR(
      deps_.outbox->SetNotifiers(fresh.notifiers, ExternalUrl(fresh, deps_.http_address)));
  SetTokens(fresh.access, deps_.access);
  TellWhatWaits(fresh);
  CopyReloadable(fresh, &in_force_);
  deps_.state->SetRules(std::move(rules));
  return absl::OkStatus();
}

void Reloader::TellWhatWaits(const config::Config& fresh) const {
  config::Config reloaded = fresh;
  CopyReloadable(in_force_, &reloaded);
  const std::vector<std::string> waiting = config::ChangedKeys(in_force_, reloaded);
  if (waiting.empty()) return;
  base::LogWarning(
      "app",
      "the configuration changed in settings that need a restart; they stay as they were "
      "(reloaded are rules, notifiers, tokens, external_url and log_level)",
      {{"keys", absl::StrJoin(waiting, ", ")}});
}

}  // namespace foreshock::app
