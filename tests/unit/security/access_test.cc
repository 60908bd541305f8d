#include "daemon/security/access.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace foreshock::security {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHere[] = "ipv4:127.0.0.1:5000";
constexpr char kElsewhere[] = "ipv4:10.0.0.9:5000";

Caller With(const std::string& token, const char* peer = kElsewhere) {
  return {.peer = peer, .authorization = "Bearer " + token};
}

TokenGrant Grant(const std::string& token, std::vector<Role> roles,
                 const std::vector<std::string>& runs = {}) {
  TokenGrant grant{.name = token + "-name", .hash = HashToken(token), .roles = std::move(roles)};
  for (const std::string& text : runs) grant.runs.push_back(*base::LabelMatcher::Parse(text));
  return grant;
}

void Set(AccessControl* access, std::vector<TokenGrant> grants) {
  access->SetTokens(std::make_shared<const AccessControl::Grants>(std::move(grants)));
}

uint64_t Refused(const AccessControl& access, AccessRefusal reason) {
  return access.refused()[static_cast<size_t>(reason)];
}

TEST(AccessTest, WithoutTokensAllIsOpenButAdminFromElsewhere) {
  const AccessControl access;
  for (const Role role : {Role::kPush, Role::kRead, Role::kOperate}) {
    EXPECT_OK(access.Admit({.peer = kElsewhere}, role));
  }
  EXPECT_OK(access.Admit({.peer = kHere}, Role::kAdmin));
  EXPECT_THAT(
      access.Admit({.peer = kElsewhere}, Role::kAdmin),
      support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("access.tokens_file")));
  EXPECT_EQ(Refused(access, AccessRefusal::kNotLocal), 1u);
  ASSERT_OK_AND_ASSIGN(const Client client, access.AdmitPush({.peer = kElsewhere}, "any"));
  EXPECT_EQ(client.name, "10.0.0.9");
}

TEST(AccessTest, EachRoleAllowsWhatItSays) {
  const Role kRoles[] = {Role::kPush, Role::kRead, Role::kOperate, Role::kAdmin};
  // Held by row, needed by column.
  const bool kAllows[4][4] = {{true, false, false, false},
                              {false, true, false, false},
                              {false, true, true, false},
                              {true, true, true, true}};
  for (int held = 0; held < 4; ++held) {
    AccessControl access;
    Set(&access, {Grant("other", {Role::kAdmin}), Grant("t", {kRoles[held]})});
    for (int needed = 0; needed < 4; ++needed) {
      EXPECT_EQ(access.Admit(With("t"), kRoles[needed]).ok(), kAllows[held][needed])
          << kRoleNames[held] << " for " << kRoleNames[needed];
    }
  }
}

TEST(AccessTest, NoTokenAndAnUnknownOneAreUnauthenticatedAlsoFromHere) {
  AccessControl access;
  Set(&access, {Grant("known", {Role::kRead})});
  EXPECT_THAT(access.Admit({.peer = kHere}, Role::kRead),
              support::StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("none was sent")));
  EXPECT_THAT(access.Admit(With("secret", kHere), Role::kRead),
              support::StatusIs(absl::StatusCode::kUnauthenticated, Not(HasSubstr("secret"))));
  EXPECT_EQ(Refused(access, AccessRefusal::kNoToken), 1u);
  EXPECT_EQ(Refused(access, AccessRefusal::kUnknownToken), 1u);
}

TEST(AccessTest, AnEmptyListLetsNobodyIn) {
  AccessControl access;
  Set(&access, {});
  EXPECT_THAT(access.Admit({.peer = kHere}, Role::kRead),
              support::StatusIs(absl::StatusCode::kUnauthenticated, ::testing::_));
}

TEST(AccessTest, PushIsForTheRunsThatMatch) {
  AccessControl access;
  Set(&access,
      {Grant("t", {Role::kPush}, {"run=~\"exp-.*\"", "run!=exp-9"}), Grant("all", {Role::kPush})});
  EXPECT_OK(access.AdmitPush(With("t"), "exp-1"));
  EXPECT_OK(access.AdmitPush(With("all"), "prod"));
  for (const char* run : {"exp-9", "prod", "an-exp-1", "exp-1\n", ""}) {
    EXPECT_THAT(access.AdmitPush(With("t"), run),
                support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("may not push")))
        << run;
  }
  EXPECT_EQ(Refused(access, AccessRefusal::kRun), 5u);
}

TEST(AccessTest, ARevokedTokenIsUnknownAndTheVersionTells) {
  AccessControl access;
  Set(&access, {Grant("t", {Role::kPush})});
  const uint64_t version = access.version();
  ASSERT_OK_AND_ASSIGN(const Client client, access.AdmitPush(With("t"), "r"));
  EXPECT_EQ(client.name, "t-name");
  Set(&access, {});
  EXPECT_NE(access.version(), version);
  EXPECT_THAT(access.AdmitPush(With("t"), "r"),
              support::StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("revoked")));
}

}  // namespace
}  // namespace foreshock::security
