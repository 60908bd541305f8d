// What a client shows of the files that its credentials name. TLS itself:
// tests/e2e/security_test.py.
#include "foreshock/credentials.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/unit/client/client_fixture.h"

namespace foreshock::client_internal {
namespace {

using ::testing::HasSubstr;

class CredentialsTest : public ClientTest {
 protected:
  ClientOptions WithToken() const {
    ClientOptions options = Options();
    options.credentials.token_file = directory_.File("token");
    return options;
  }
  void WriteToken(const std::string& text) const {
    std::ofstream(directory_.File("fresh")) << text;
    std::filesystem::rename(directory_.File("fresh"), directory_.File("token"));
  }

  support::TempDir directory_;
};

TEST_F(CredentialsTest, TheTokenIsReadAgainForEveryStream) {
  WriteToken("old\n");
  daemon_.OnStream([this](FakeStream& stream) {
    if (stream.authorization == "Bearer new") return daemon_.Serve(stream);
    EXPECT_EQ(stream.authorization, "Bearer old");
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "revoked");
  });
  MakeClient(WithToken());
  ASSERT_OK(PushStep(0));
  ASSERT_TRUE(daemon_.Await([&] { return daemon_.hellos() >= 2; }));
  EXPECT_THAT(client_->stats().last_error, HasSubstr("revoked"));
  EXPECT_FALSE(client_->stats().refused);  // the token may be put right
  WriteToken("new\n");
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  ExpectCommittedSteps(1);
}

TEST_F(CredentialsTest, AMissingFileIsWaitedForAndNamed) {
  MakeClient(WithToken());
  ASSERT_OK(PushStep(0));
  ASSERT_TRUE(daemon_.Await([&] { return !client_->stats().last_error.empty(); }));
  EXPECT_THAT(client_->stats().last_error,
              HasSubstr("token file " + directory_.File("token") + ": No such file"));
  EXPECT_EQ(daemon_.hellos(), 0);
  WriteToken("late");
  ASSERT_OK(client_->Close(v1::OUTCOME_FINISHED, kPatience));
  ExpectCommittedSteps(1);
}

TEST_F(CredentialsTest, AFileThatHoldsNoTokenIsNotShown) {
  for (const char* text : {"", "\n", "two words", "two\nlines", "caf\xc3\xa9"}) {
    WriteToken(text);
    MakeClient(WithToken());
    ASSERT_TRUE(daemon_.Await([&] { return !client_->stats().last_error.empty(); })) << text;
    EXPECT_THAT(client_->stats().last_error, HasSubstr("token file ")) << text;
    EXPECT_THAT(client_->stats().last_error, ::testing::Not(HasSubstr("two"))) << text;
  }
  EXPECT_EQ(daemon_.hellos(), 0);
}

TEST_F(CredentialsTest, WhatCanNeverWorkIsRefused) {
  for (const Credentials& wrong :
       {Credentials{.ca_file = "a", .cert_file = "b"}, Credentials{.ca_file = "a", .key_file = "c"},
        Credentials{.cert_file = "b", .key_file = "c"}}) {
    EXPECT_THAT(CheckCredentials(wrong), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                           HasSubstr("certificate file")));
    ClientOptions options = Options();
    options.credentials = wrong;
    EXPECT_FALSE(Client::Create(options).ok());
  }
  EXPECT_OK(CheckCredentials({.ca_file = "a", .cert_file = "b", .key_file = "c"}));
  EXPECT_OK(CheckCredentials({.token_file = "t"}));
}

TEST_F(CredentialsTest, ComeFromTheEnvironment) {
  EXPECT_EQ(CredentialsFromEnvironment().token_file, "");
  setenv("FORESHOCK_CA_FILE", "a", 1);
  setenv("FORESHOCK_TOKEN_FILE", "t", 1);
  EXPECT_EQ(CredentialsFromEnvironment().ca_file, "a");
  EXPECT_EQ(CredentialsFromEnvironment().token_file, "t");
  unsetenv("FORESHOCK_CA_FILE");
  unsetenv("FORESHOCK_TOKEN_FILE");
}

}  // namespace
}  // namespace foreshock::client_internal
