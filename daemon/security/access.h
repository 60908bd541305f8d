// Who may do what. With tokens, a call needs one whose roles allow it; without, everything is open,
// but for what only this machine may do.
//
//   AccessControl access;
//   access.SetTokens(std::make_shared<const std::vector<TokenGrant>>(grants));
//   FORESHOCK_ASSIGN_OR_RETURN(const Client client, access.Admit({peer, authorization},
//   Role::kRead));
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/base/label_matcher.h"
#include "daemon/base/mutex.h"
#include "daemon/security/token.h"

namespace foreshock::security {

// What a call needs; proto/foreshock/v1/ says which. kOperate allows what kRead does, kAdmin
// everything.
enum class Role : uint8_t { kPush, kRead, kOperate, kAdmin };

inline constexpr std::array<absl::string_view, 4> kRoleNames = {"push", "read", "operate", "admin"};

// One token of the tokens file.
struct TokenGrant {
  std::string name{};                      // for messages and the log
  TokenHash hash{};                        // of the token
  std::vector<Role> roles{};               // at least one
  std::vector<base::LabelMatcher> runs{};  // on `run`: all must hold for a push; none: any run

  bool Allows(Role role) const;
  bool AllowsRun(absl::string_view run) const;
};

// What a caller shows.
struct Caller {
  std::string peer{};           // as gRPC or HTTP names it
  std::string authorization{};  // the header; empty: none
};

// Who it turned out to be.
struct Client {
  std::string name{};  // of the token; without tokens the peer's host
  bool by_token = false;
};

// Why something was refused. The order is that of kAccessRefusalNames.
enum class AccessRefusal : uint8_t { kNoToken, kUnknownToken, kRole, kRun, kNotLocal, kCount };

inline constexpr size_t kAccessRefusals = static_cast<size_t>(AccessRefusal::kCount);
inline constexpr std::array<absl::string_view, kAccessRefusals> kAccessRefusalNames = {
    "no_token", "unknown_token", "role", "run", "not_local"};

// Thread-safe.
class AccessControl {
 public:
  using Grants = std::vector<TokenGrant>;

  // From now on calls need one of these. Null: no tokens are configured, and calls need none.
  void SetTokens(std::shared_ptr<const Grants> grants);

  // Unauthenticated: no token, or one that is not known. PermissionDenied: the token's roles do not
  // allow it; without tokens, kAdmin for a peer on another machine. Refusals are counted and
  // logged; no message holds a token.
  absl::StatusOr<Client> Admit(const Caller& caller, Role role) const;
  // For a push to `run`: PermissionDenied also when the token is for other runs.
  absl::StatusOr<Client> AdmitPush(const Caller& caller, absl::string_view run) const;

  // Grows with every SetTokens: who was admitted under an older one has to be asked again.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  std::array<uint64_t, kAccessRefusals> refused() const;

 private:
  absl::StatusOr<std::shared_ptr<const TokenGrant>> Find(const Caller& caller) const;
  absl::StatusOr<Client> Judge(const TokenGrant* grant, const Caller& caller, Role role) const;
  absl::Status Refuse(AccessRefusal reason, const Caller& caller, absl::Status status) const;

  mutable base::Mutex mutex_;
  std::shared_ptr<const Grants> grants_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> version_{0};
  mutable std::array<std::atomic<uint64_t>, kAccessRefusals> refused_{};
};

}  // namespace foreshock::security
