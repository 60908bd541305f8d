#include "daemon/security/tls_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/certificates.h"
#include "tests/support/fake_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::security {
namespace {

using ::testing::HasSubstr;

// A pair in files, and the time at which they are looked at.
class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest()
      : clock_(absl::Now()),
        options_{.cert_file = dir_.File("server.pem"), .key_file = dir_.File("server.key")} {
    Write(first_);
  }
  void Write(const support::TestCertificate& pair) {
    support::WriteFile(options_.cert_file, pair.cert);
    support::WriteFile(options_.key_file, pair.key);
  }
  // By renaming, as a rotation should.
  void Replace(const std::string& path, const std::string& text) {
    support::WriteFile(path + ".new", text);
    std::filesystem::rename(path + ".new", path);
  }
  std::unique_ptr<TlsFiles> Open() {
    auto files = TlsFiles::Open(options_, &clock_);
    EXPECT_OK(files.status());
    return *std::move(files);
  }
  // What a connection is given after the files may be looked at again.
  std::string Served(TlsFiles* files) {
    clock_.Advance(absl::Seconds(1));
    const auto current = files->Current();
    EXPECT_NE(current->context, nullptr);
    const bool whole = (current->cert_chain == first_.cert && current->key == first_.key) ||
                       (current->cert_chain == second_.cert && current->key == second_.key);
    EXPECT_TRUE(whole) << "a certificate and a key that do not belong together";
    return current->cert_chain == first_.cert ? "first" : "second";
  }

  const support::TempDir dir_;
  support::FakeClock clock_;
  TlsOptions options_;
  const support::TestCertificate first_ = support::MakeCertificate("localhost");
  const support::TestCertificate second_ =
      support::MakeCertificate("localhost", {.not_after_s = 7200});
};

TEST_F(TlsFilesTest, AGoodPairIsTakenWithItsExpiry) {
  const std::unique_ptr<TlsFiles> files = Open();
  EXPECT_EQ(Served(files.get()), "first");
  const absl::Duration left = files->expires() - absl::Now();
  EXPECT_GT(left, absl::Minutes(50));
  EXPECT_LE(left, absl::Hours(1));
  EXPECT_EQ(files->failures(), 0u);
}

TEST_F(TlsFilesTest, WhatIsWrongIsNamedWithItsFileAndHasNoSecretInIt) {
  struct Case {
    const char* name;
    TlsFile at_fault;
    std::string text;
    absl::StatusCode code;
    const char* message;
  };
  const std::string garbage = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  const std::vector<Case> cases = {
      {"empty", TlsFile::kCert, "", invalid, "server.pem: is empty"},
      {"no PEM", TlsFile::kCert, "hello\n", invalid, "server.pem: no certificate in PEM"},
      {"cut", TlsFile::kCert, garbage, invalid, "could be read at its place number 1"},
      {"cut behind a good one", TlsFile::kCert, first_.cert + garbage, invalid,
       "could be read at its place number 2"},
      {"a key", TlsFile::kCert, first_.key, invalid, "server.pem: no certificate in PEM"},
      {"too long", TlsFile::kCert, std::string((1 << 20) + 1, '\n'), invalid,
       "more than 1048576 bytes"},
      {"empty", TlsFile::kKey, "", invalid, "server.key: is empty"},
      {"a certificate", TlsFile::kKey, first_.cert, invalid, "server.key: no private key in PEM"},
      {"a passphrase", TlsFile::kKey, support::WithPassphrase(first_.key), invalid,
       "server.key: no private key in PEM without a passphrase"},
      {"of another certificate", TlsFile::kKey, second_.key, invalid,
       "server.key: is not the key of the certificate in"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    Write(first_);
    support::WriteFile(test.at_fault == TlsFile::kCert ? options_.cert_file : options_.key_file,
                       test.text);
    TlsFile at_fault = TlsFile::kClientCa;
    const absl::Status status = ReadTls(options_, &at_fault).status();
    EXPECT_THAT(status, support::StatusIs(test.code, HasSubstr(test.message)));
    EXPECT_EQ(at_fault, test.at_fault);
    EXPECT_EQ(status.message().find("BEGIN"), std::string::npos);
  }
}

TEST_F(TlsFilesTest, FilesThatAreNotThereOrCannotBeReadAreNamed) {
  options_.key_file = dir_.File("none");
  EXPECT_THAT(TlsFiles::Open(options_, &clock_).status(),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr("none: No such file")));
  options_.key_file = dir_.path();
  EXPECT_THAT(TlsFiles::Open(options_, &clock_).status(),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(absl::StrCat(dir_.path(), ": Is a directory"))));
  if (geteuid() == 0) return;  // whom no mode keeps out
  options_.key_file = dir_.File("server.key");
  ASSERT_EQ(chmod(options_.key_file.c_str(), 0), 0);
  EXPECT_THAT(TlsFiles::Open(options_, &clock_).status(),
              support::StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("server.key")));
}

TEST_F(TlsFilesTest, AChainIsTakenWholeAndAClientAuthorityIsChecked) {
  const support::TestCertificate ca = support::MakeCertificate("ca");
  const support::TestCertificate leaf = support::MakeCertificate("localhost", {.issuer = &ca});
  Write({leaf.cert + ca.cert, leaf.key});
  options_.client_ca_file = dir_.File("ca.pem");
  support::WriteFile(options_.client_ca_file, ca.cert + second_.cert);
  ASSERT_OK_AND_ASSIGN(const TlsMaterial material, ReadTls(options_, nullptr));
  EXPECT_EQ(material.cert_chain, leaf.cert + ca.cert);
  EXPECT_EQ(material.client_ca, ca.cert + second_.cert);
  support::WriteFile(options_.client_ca_file, "nothing\n");
  TlsFile at_fault = TlsFile::kCert;
  EXPECT_THAT(
      ReadTls(options_, &at_fault).status(),
      support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ca.pem: no certificate")));
  EXPECT_EQ(at_fault, TlsFile::kClientCa);
}

// A daemon that does not start would not even record.
TEST_F(TlsFilesTest, AnExpiredCertificateIsServedAndSaysSo) {
  const support::TestCertificate expired =
      support::MakeCertificate("localhost", {.not_before_s = -7200, .not_after_s = -3600});
  Write(expired);
  const std::unique_ptr<TlsFiles> files = Open();
  EXPECT_LT(files->expires(), absl::Now());
  EXPECT_EQ(files->Current()->cert_chain, expired.cert);
}

TEST_F(TlsFilesTest, ARotationHalfWayKeepsTheOldPairWhicheverFileComesFirst) {
  for (const bool cert_first : {true, false}) {
    SCOPED_TRACE(cert_first);
    Write(first_);
    const std::unique_ptr<TlsFiles> files = Open();
    const std::pair cert(options_.cert_file, second_.cert);
    const std::pair key(options_.key_file, second_.key);
    const auto& [one, other] = cert_first ? std::pair(cert, key) : std::pair(key, cert);
    Replace(one.first, one.second);
    EXPECT_EQ(Served(files.get()), "first");
    EXPECT_EQ(files->failures(), 1u);
    EXPECT_EQ(Served(files.get()), "first");
    EXPECT_EQ(files->failures(), 1u);  // the same half is not counted again
    Replace(other.first, other.second);
    EXPECT_EQ(Served(files.get()), "second");
    EXPECT_EQ(files->failures(), 1u);
  }
}

TEST_F(TlsFilesTest, FilesThatGoAwayOrBreakWhileItRunsLeaveWhatWasThere) {
  const std::unique_ptr<TlsFiles> files = Open();
  std::filesystem::remove(options_.key_file);
  EXPECT_EQ(Served(files.get()), "first");
  Replace(options_.key_file, "");
  EXPECT_EQ(Served(files.get()), "first");
  Replace(options_.cert_file, second_.cert.substr(0, 100));
  EXPECT_EQ(Served(files.get()), "first");
  EXPECT_EQ(files->failures(), 3u);
  EXPECT_FALSE(files->Reload().ok());
  EXPECT_EQ(Served(files.get()), "first");
  Write(second_);
  EXPECT_OK(files->Reload());
  EXPECT_EQ(Served(files.get()), "second");
}

TEST_F(TlsFilesTest, TheFilesAreLookedAtOnceASecondAndWhoHasAConnectionKeepsItsPair) {
  const std::unique_ptr<TlsFiles> files = Open();
  EXPECT_EQ(Served(files.get()), "first");
  const auto held = files->Current();
  Replace(options_.cert_file, second_.cert);
  Replace(options_.key_file, second_.key);
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_EQ(files->Current(), held);
  EXPECT_EQ(Served(files.get()), "second");
  EXPECT_EQ(held->cert_chain, first_.cert);
}

// As Kubernetes swaps a mounted secret: the names stay, a link in their path changes.
TEST_F(TlsFilesTest, ASecretThatIsSwappedByALinkIsSeen) {
  for (const auto& [name, pair] : {std::pair("one", first_), std::pair("two", second_)}) {
    std::filesystem::create_directory(dir_.File(name));
    support::WriteFile(absl::StrCat(dir_.File(name), "/server.pem"), pair.cert);
    support::WriteFile(absl::StrCat(dir_.File(name), "/server.key"), pair.key);
  }
  std::filesystem::create_symlink("one", dir_.File("data"));
  options_ = {.cert_file = dir_.File("data/server.pem"), .key_file = dir_.File("data/server.key")};
  const std::unique_ptr<TlsFiles> files = Open();
  EXPECT_EQ(Served(files.get()), "first");
  std::filesystem::create_symlink("two", dir_.File("data.new"));
  std::filesystem::rename(dir_.File("data.new"), dir_.File("data"));
  EXPECT_EQ(Served(files.get()), "second");
  EXPECT_EQ(files->failures(), 0u);
}

}  // namespace
}  // namespace foreshock::security
