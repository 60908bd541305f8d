#include "daemon/security/access.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/security/address.h"

namespace foreshock::security {
namespace {

absl::string_view NameOf(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

std::string RolesOf(const TokenGrant& grant) {
  return absl::StrJoin(grant.roles, ", ",
                       [](std::string* out, Role role) { absl::StrAppend(out, NameOf(role)); });
}

}  // namespace

bool TokenGrant::Allows(Role role) const {
  return std::any_of(roles.begin(), roles.end(), [role](Role held) {
    return held == role || held == Role::kAdmin || (held == Role::kOperate && role == Role::kRead);
  });
}

bool TokenGrant::AllowsRun(absl::string_view run) const {
  return std::all_of(runs.begin(), runs.end(),
                     [run](const base::LabelMatcher& matcher) { return matcher.Matches(run); });
}

void AccessControl::SetTokens(std::shared_ptr<const Grants> grants) {
  base::MutexLock lock(&mutex_);
  grants_ = std::move(grants);
  version_.fetch_add(1, std::memory_order_release);
}

absl::Status AccessControl::Refuse(AccessRefusal reason, const Caller& caller,
                                   absl::Status status) const {
  const auto index = static_cast<size_t>(reason);
  refused_[index].fetch_add(1, std::memory_order_relaxed);
  base::LogEvery(absl::StrCat("access.", kAccessRefusalNames[index]), base::LogLevel::kWarning,
                 "access", "refused",
                 {{"peer", caller.peer}, {"reason", std::string(status.message())}});
  return status;
}

// Null: no tokens are configured.
absl::StatusOr<std::shared_ptr<const TokenGrant>> AccessControl::Find(const Caller& caller) const {
  std::shared_ptr<const Grants> grants;
  {
    base::MutexLock lock(&mutex_);
    grants = grants_;
  }
  if (grants == nullptr) return std::shared_ptr<const TokenGrant>();
  const absl::string_view token = BearerToken(caller.authorization);
  if (token.empty()) {
    return Refuse(AccessRefusal::kNoToken, caller,
                  absl::UnauthenticatedError("this daemon wants a token, and none was sent "
                                             "(authorization: Bearer TOKEN)"));
  }
  const TokenHash hash = HashToken(token);
  const TokenGrant* found = nullptr;
  for (const TokenGrant& grant : *grants) {  // all of them, wherever it stands
    if (SameHash(grant.hash, hash)) found = &grant;
  }
  if (found == nullptr) {
    return Refuse(AccessRefusal::kUnknownToken, caller,
                  absl::UnauthenticatedError("the token is not known to this daemon: revoked, "
                                             "mistyped, or of another daemon"));
  }
  return std::shared_ptr<const TokenGrant>(grants, found);
}

// `grant` is null where there are no tokens.
absl::StatusOr<Client> AccessControl::Judge(const TokenGrant* grant, const Caller& caller,
                                            Role role) const {
  if (grant != nullptr && grant->Allows(role)) return Client{grant->name, true};
  if (grant != nullptr) {
    return Refuse(
        AccessRefusal::kRole, caller,
        absl::PermissionDeniedError(absl::StrCat("token '", grant->name, "' has no role ",
                                                 NameOf(role), ", only ", RolesOf(*grant))));
  }
  if (role == Role::kAdmin && !IsLocalPeer(caller.peer)) {
    return Refuse(AccessRefusal::kNotLocal, caller,
                  absl::PermissionDeniedError(
                      "without tokens only the daemon's own machine may do this; configure tokens "
                      "(access.tokens_file), or ask from there"));
  }
  return Client{std::string(PeerHost(caller.peer)), false};
}

absl::StatusOr<Client> AccessControl::Admit(const Caller& caller, Role role) const {
  FORESHOCK_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenGrant> grant, Find(caller));
  return Judge(grant.get(), caller, role);
}

absl::StatusOr<Client> AccessControl::AdmitPush(const Caller& caller, absl::string_view run) const {
  FORESHOCK_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenGrant> grant, Find(caller));
  FORESHOCK_ASSIGN_OR_RETURN(Client client, Judge(grant.get(), caller, Role::kPush));
  if (grant == nullptr || grant->AllowsRun(run)) return client;
  return Refuse(AccessRefusal::kRun, caller,
                absl::PermissionDeniedError(
                    absl::StrCat("token '", client.name, "' may not push to run '", run, "'")));
}

std::array<uint64_t, kAccessRefusals> AccessControl::refused() const {
  std::array<uint64_t, kAccessRefusals> counts{};
  for (size_t i = 0; i < counts.size(); ++i) {
    counts[i] = refused_[i].load(std::memory_order_relaxed);
  }
  return counts;
}

}  // namespace foreshock::security
