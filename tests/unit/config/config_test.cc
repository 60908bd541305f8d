#include "daemon/config/config.h"

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ConfigTest, AnEmptyFileGivesTheDefaults) {
  ASSERT_OK_AND_ASSIGN(const Config config, ParseConfig("empty.yaml", ""));
  EXPECT_EQ(config.grpc_listen, "127.0.0.1:7317");
  EXPECT_EQ(config.http.listen, "127.0.0.1:7318");
  EXPECT_EQ(config.ingest.limits.message_bytes_max, 64u << 20);
  EXPECT_FALSE(config.reload_over_http);
  EXPECT_FALSE(config.retention.any());
  EXPECT_EQ(config.pipeline.sync_interval, absl::Seconds(1));
}

TEST(ConfigTest, ReadsEveryModule) {
  ASSERT_OK_AND_ASSIGN(const Config config, ParseConfig("full.yaml", R"(
data_directory: /var/lib/foreshock
grpc: {listen: "0.0.0.0:1", message_max: 8MiB, memory_max: 256MiB, streams_max: 10}
http: {listen: "[::1]:2", threads: 2, reload: true}
store: {sync_interval: 250ms, block_cache: 32MiB, write_buffer: 4MiB, log_max: 64MiB, open_files_max: 64, open_points: 5000,
        precision: declared}
retention: {raw_for: 168h, raw_steps: 50000, bytes_max: 20GiB, interval: 1m}
merge: {lateness: 5s, open_steps_max: 9, kept_steps: 3, bytes_max: 16MiB, rank_bytes_max: 2MiB,
        all_bytes_max: 5GiB, steps_ahead_max: 77}
limits: {runs_max: 4, queue_bytes_max: 2MiB, snapshot_bytes_max: 3MiB}
metrics: {top_k: 2, series_max: 500, ended_runs_for: 10m}
rules: [a.yaml, b.yaml]
log_level: debug
shutdown_deadline: 3s
)"));
  EXPECT_EQ(config.store.directory, "/var/lib/foreshock");
  EXPECT_EQ(config.grpc_listen, "0.0.0.0:1");
  EXPECT_EQ(config.ingest.limits.streams_max, 10u);
  EXPECT_EQ(config.grpc_memory_bytes_max, 256u << 20);
  EXPECT_TRUE(config.reload_over_http);
  EXPECT_EQ(config.store.write_buffer_bytes, 4u << 20);
  EXPECT_EQ(config.retention.raw_for, absl::Hours(168));
  EXPECT_EQ(config.retention.raw_steps, 50'000);
  EXPECT_EQ(config.retention.bytes_max, uint64_t{20} << 30);
  EXPECT_EQ(config.retention.interval, absl::Minutes(1));
  EXPECT_EQ(config.store.open_points, 5000u);
  EXPECT_EQ(config.store.precision, store::Precision::kDeclared);
  EXPECT_EQ(config.pipeline.run.open_steps.lateness, absl::Seconds(5));
  EXPECT_EQ(config.pipeline.run.open_steps.rank_bytes_max, 2u << 20);
  EXPECT_EQ(config.pipeline.run.open_steps.gate.ahead_max, 77);
  EXPECT_EQ(config.pipeline.open_bytes_max, uint64_t{5} << 30);
  EXPECT_EQ(config.pipeline.run.open_steps.kept_steps, 3);
  EXPECT_EQ(config.pipeline.run.snapshots.bytes_max, 3u << 20);
  EXPECT_EQ(config.snapshot.finished_stay, absl::Minutes(10));
  EXPECT_THAT(config.rules, ElementsAre("a.yaml", "b.yaml"));
  EXPECT_EQ(config.shutdown_deadline, absl::Seconds(3));
}

TEST(ConfigTest, ReportsEveryMistakeWithItsPlace) {
  EXPECT_THAT(ParseConfig("bad.yaml", "grcp:\n  listen: x\nhttp:\n  threads: 0\nlog_level: loud\n"),
              support::StatusIs(
                  absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr("bad.yaml:1:1"), HasSubstr("grcp"), HasSubstr("bad.yaml:4:12"),
                        HasSubstr("bad.yaml:5:12"), HasSubstr("debug"))));
}

TEST(ConfigTest, BuffersHaveRoomForTwoMessages) {
  ASSERT_OK_AND_ASSIGN(const Config none, ParseConfig("c.yaml", ""));
  EXPECT_EQ(none.grpc_memory_bytes_max, uint64_t{1} << 30);
  ASSERT_OK_AND_ASSIGN(const Config large, ParseConfig("c.yaml", "grpc: {message_max: 1GiB}"));
  EXPECT_EQ(large.grpc_memory_bytes_max, uint64_t{2} << 30);
  EXPECT_THAT(ParseConfig("c.yaml", "grpc: {memory_max: 100MiB}"),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("c.yaml:1:20"), HasSubstr("128MiB"))));
}

TEST(ConfigTest, ChangedKeysAreNamedAsTheDocumentNamesThem) {
  const auto config = [](const std::string& text) { return *ParseConfig("c.yaml", text); };
  const Config before = config("remote_write: [{url: 'http://a/w'}]");
  EXPECT_THAT(ChangedKeys(before, before), IsEmpty());
  EXPECT_THAT(ChangedKeys(before, config("grpc: {listen: ':1'}\nhttp: {threads: 9}\n"
                                         "rules: [a.yaml]\nlog_level: debug")),
              ElementsAre("grpc.listen", "http.threads", "log_level", "remote_write", "rules"));
  EXPECT_THAT(ChangedKeys(before, config("remote_write: [{url: 'http://b/w'}]")),
              ElementsAre("remote_write"));
}

TEST(ConfigTest, WhatIsWrittenIsReadBack) {
  ASSERT_OK_AND_ASSIGN(
      Config config,
      ParseConfig("some.yaml", "rules: [x.yaml]\nmerge: {lateness: 1h30m}\nlog_level: error\n"));
  config.store.directory = "/tmp/a";
  const std::string text = FormatConfig(config);
  ASSERT_OK_AND_ASSIGN(const Config again, ParseConfig("again.yaml", text));
  EXPECT_EQ(FormatConfig(again), text);
  EXPECT_EQ(again.pipeline.run.open_steps.lateness, absl::Minutes(90));
}

TEST(ConfigTest, NamesAFileThatIsNotThere) {
  support::TempDir dir;
  EXPECT_THAT(LoadConfig(dir.File("none.yaml")),
              support::StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir.File("none.yaml"))));
}

constexpr absl::string_view kNotifiers = R"(
notifiers:
  - type: log
    severity_min: warning
  - type: alertmanager
    name: am
    urls: ["http://a:9093", "http://b:9093/prefix"]
    resend: 30s
    match: ["run=~exp-.*", "team!=\"x\""]
    bearer_token_file: /etc/foreshock/am.token
  - type: pagerduty
    routing_key_env: PD_KEY
    group_wait: 1m
  - type: webhook
    name: hook
    url: https://h/x
    hmac_secret_file: /etc/foreshock/hook.key
    ca_file: /etc/foreshock/ca.pem
    proxy: http://proxy:3128
    timeout: 3s
    template_file: /etc/foreshock/teams.mustache
    messages_per_hour_max: 7
  - type: slack
    url_file: /etc/foreshock/slack.url
external_url: https://foreshock.example
)";

TEST(ConfigTest, ReadsNotifiers) {
  ASSERT_OK_AND_ASSIGN(const Config config,
                       ParseConfig("n.yaml", absl::StrCat("data_directory: /tmp/a", kNotifiers)));
  ASSERT_EQ(config.notifiers.size(), 5u);
  EXPECT_EQ(config.notifiers[0].severity_min, notify::Severity::kWarning);
  const notify::NotifierOptions& am = config.notifiers[1];
  EXPECT_EQ(am.name, "am");
  EXPECT_THAT(am.urls, ElementsAre("http://a:9093", "http://b:9093/prefix"));
  EXPECT_EQ(am.resend, absl::Seconds(30));
  EXPECT_EQ(am.group_wait, absl::ZeroDuration());
  EXPECT_EQ(am.match.size(), 2u);
  EXPECT_EQ(am.severity_min, notify::Severity::kWarning);
  const notify::NotifierOptions& pagerduty = config.notifiers[2];
  EXPECT_EQ(pagerduty.name, "pagerduty");
  EXPECT_EQ(pagerduty.severity_min, notify::Severity::kCritical);
  EXPECT_EQ(pagerduty.routing_key.env, "PD_KEY");
  EXPECT_EQ(pagerduty.messages_per_hour_max, 60);
  EXPECT_TRUE(pagerduty.change_events);
  const notify::NotifierOptions& hook = config.notifiers[3];
  EXPECT_EQ(hook.template_file, "/etc/foreshock/teams.mustache");
  EXPECT_EQ(hook.content_type, "application/json");
  EXPECT_EQ(hook.http.proxy, "http://proxy:3128");
  EXPECT_EQ(hook.http.timeout, absl::Seconds(3));
  EXPECT_EQ(hook.messages_per_hour_max, 7);
  EXPECT_EQ(config.notifiers[4].url.file, "/etc/foreshock/slack.url");
  EXPECT_EQ(config.external_url, "https://foreshock.example");
  // And what is written is read back.
  const std::string text = FormatConfig(config);
  ASSERT_OK_AND_ASSIGN(const Config again, ParseConfig("again.yaml", text));
  EXPECT_EQ(FormatConfig(again), text);
}

TEST(ConfigTest, WithoutNotifiersTheLogIsTold) {
  ASSERT_OK_AND_ASSIGN(const Config config, ParseConfig("n.yaml", ""));
  ASSERT_EQ(config.notifiers.size(), 1u);
  EXPECT_EQ(config.notifiers[0].type, notify::NotifierType::kLog);
  ASSERT_OK_AND_ASSIGN(const Config none, ParseConfig("n.yaml", "notifiers: []"));
  EXPECT_TRUE(none.notifiers.empty());
}

TEST(ConfigTest, BadNotifiersSayWhatIsAllowedAndShowNoUrl) {
  struct Case {
    const char* item;
    const char* says;
  };
  for (const Case& c : {
           Case{"{name: x}", "`type`"},
           Case{"{type: pigeon}", "alertmanager"},
           Case{"{type: log, url: x}", "`url`"},
           Case{"{type: log, name: 'a b'}", "letters"},
           Case{"{type: log, severity_min: loud}", "critical"},
           Case{"{type: log, match: [run]}", "LABEL=VALUE"},
           Case{"{type: alertmanager}", "`urls`"},
           Case{"{type: alertmanager, urls: []}", "every replica"},
           Case{"{type: alertmanager, urls: ['http://u:hunter2@h']}", "url_file"},
           Case{"{type: alertmanager, urls: ['http://h'], group_wait: 1s}", "group_wait"},
           Case{"{type: pagerduty}", "routing_key_file"},
           Case{"{type: pagerduty, routing_key: hunter2}", "routing_key"},
           Case{"{type: pagerduty, routing_key_file: a, routing_key_env: B}", "not both"},
           Case{"{type: webhook}", "url, url_file and url_env"},
           Case{"{type: webhook, url: 'https://h/?token=hunter2'}", "url_file"},
           Case{"{type: webhook, url: 'http://h', url_file: f}", "url, url_file and url_env"},
           Case{"{type: webhook, url: 'http://h', proxy: 'http://u:hunter2@p'}", "HOST:PORT"},
           Case{"{type: pagerduty, routing_key_env: K, url: 'http://h', change_events: true}",
                "/enqueue"},
           Case{"{type: webhook, url: 'http://h', content_type: text/plain}", "template_file"},
           Case{"{type: webhook, url: 'http://h', template_file: t, content_type: text}",
                "text/plain"},
           Case{"{type: slack, url: 'https://hooks/hunter2'}", "url_file"},
           Case{"{type: log}, {type: log}", "names are unique"},
       }) {
    const auto config = ParseConfig("n.yaml", absl::StrCat("notifiers: [", c.item, "]"));
    ASSERT_FALSE(config.ok()) << c.item;
    EXPECT_THAT(std::string(config.status().message()),
                AllOf(HasSubstr(c.says), HasSubstr("n.yaml:1:"), Not(HasSubstr("hunter2"))))
        << c.item;
  }
}

TEST(ConfigTest, ReadsRemoteWritesAndWritesThemBack) {
  ASSERT_OK_AND_ASSIGN(const Config config, ParseConfig("r.yaml", R"(
data_directory: /tmp/a
remote_write:
  - url: http://prometheus:9090/api/v1/write
  - name: mimir
    url_file: /etc/foreshock/mimir.url
    username: "12345"
    password_env: MIMIR_PASSWORD
    headers: {X-Scope-OrgID: "team \"a\""}
    external_labels: {cluster: east, instance: job-1}
    interval: 30s
    queue_bytes_max: 1MiB
    ca_file: /etc/foreshock/ca.pem
    timeout: 3s
)"));
  ASSERT_EQ(config.remote_writes.size(), 2u);
  EXPECT_EQ(config.remote_writes[0].name, "remote");
  EXPECT_EQ(config.remote_writes[0].interval, absl::Seconds(15));
  const remote_write::RemoteWriteOptions& mimir = config.remote_writes[1];
  EXPECT_EQ(mimir.url_source.file, "/etc/foreshock/mimir.url");
  EXPECT_EQ(mimir.password.env, "MIMIR_PASSWORD");
  EXPECT_EQ(mimir.headers.at("X-Scope-OrgID"), "team \"a\"");
  EXPECT_EQ(mimir.external_labels.at("cluster"), "east");
  EXPECT_EQ(mimir.queue_bytes_max, 1u << 20);
  EXPECT_EQ(mimir.http.timeout, absl::Seconds(3));
  const std::string text = FormatConfig(config);
  ASSERT_OK_AND_ASSIGN(const Config again, ParseConfig("again.yaml", text));
  EXPECT_EQ(FormatConfig(again), text);
}

TEST(ConfigTest, BadRemoteWritesSayWhatIsAllowedAndShowNoSecret) {
  struct Case {
    const char* item;
    const char* says;
  };
  for (const Case& c : {
           Case{"{name: x}", "url, url_file and url_env"},
           Case{"{url: 'http://h', url_env: U}", "url, url_file and url_env"},
           Case{"{url: 'http://u:hunter2@h'}", "url_file"},
           Case{"{url: 'http://h', username: u}", "belong together"},
           Case{"{url: 'http://h', password_file: f}", "belong together"},
           Case{"{url: 'http://h', password: hunter2}", "password"},
           Case{"{url: 'http://h', username: u, password_file: f, bearer_token_file: t}",
                "not both"},
           Case{"{url: 'http://h', username: 'u:x', password_file: f}", "no ':'"},
           Case{"{url: 'http://h', headers: {Authorization: hunter2}}", "bearer_token_file"},
           Case{"{url: 'http://h', headers: {'a b': c}}", "letters, digits"},
           Case{"{url: 'http://h', headers: {A: \"c\\nd\"}}", "one line"},
           Case{"{url: 'http://h', external_labels: {1a: c}}", "no name of a label"},
           Case{"{url: 'http://h', external_labels: {__name__: c}}", "no name of a label"},
           Case{"{url: 'http://h', interval: 10ms}", "interval"},
           Case{"{url: 'http://h'}, {url: 'http://h'}", "names are unique"},
       }) {
    const auto config = ParseConfig("n.yaml", absl::StrCat("remote_write: [", c.item, "]"));
    ASSERT_FALSE(config.ok()) << c.item;
    EXPECT_THAT(std::string(config.status().message()),
                AllOf(HasSubstr(c.says), HasSubstr("n.yaml:1:"), Not(HasSubstr("hunter2"))))
        << c.item;
  }
}

// What people copy from docs/operations.md is a configuration.
TEST(ConfigTest, TheExampleOfGettingPagedIsRead) {
  std::ifstream file(std::string(FORESHOCK_SOURCE_DIR) + "/docs/operations.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  const size_t begin = document.find("```yaml\ndata_directory:");
  ASSERT_NE(begin, std::string::npos);
  const std::string example =
      document.substr(begin + 8, document.find("```", begin + 8) - begin - 8);
  ASSERT_OK_AND_ASSIGN(const Config config, ParseConfig("operations.md", example));
  EXPECT_EQ(config.notifiers.size(), 4u);
}

constexpr char kHash[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(TokensTest, ReadsNamesHashesRolesAndRuns) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<security::TokenGrant> tokens,
      ParseTokens("tokens.yaml", absl::StrCat(R"(
tokens:
  - name: trainer
    sha256: )",
                                              kHash, R"(
    roles: [push, read]
    match: ['run=~"exp-.*"', run!=exp-9]
  - {name: ops, sha256: )",
                                              std::string(64, 'a'), R"(, roles: [admin]}
)")));
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].name, "trainer");
  EXPECT_EQ(security::ToHex(tokens[0].hash), kHash);
  EXPECT_THAT(tokens[0].roles, ElementsAre(security::Role::kPush, security::Role::kRead));
  EXPECT_TRUE(tokens[0].AllowsRun("exp-1"));
  EXPECT_FALSE(tokens[0].AllowsRun("exp-9"));
  EXPECT_TRUE(tokens[1].AllowsRun("exp-9"));
}

TEST(TokensTest, EveryMistakeHasItsPlace) {
  const auto entry = [](const std::string& sha, const std::string& rest) {
    return absl::StrCat("tokens:\n- {name: a, sha256: ", sha, ", ", rest, "}\n");
  };
  const struct {
    std::string text;
    const char* message;
  } kCases[] = {
      {"", "t.yaml:1:1: "},
      {"tokens: [{name: a}]", "t.yaml:1:10: "},
      {entry("fst_secret", "roles: [read]"), "t.yaml:2:21: this is no SHA-256"},
      {entry(std::string(63, 'a'), "roles: [read]"), "t.yaml:2:21: this is no SHA-256"},
      {entry(kHash, "roles: []"), "a token needs at least one role"},
      {entry(kHash, "roles: [reed]"), "reed"},
      {entry(kHash, "roles: [read], match: [run=x]"), "match is for tokens with the role push"},
      {entry(kHash, "roles: [push], match: [team=x]"), "'team' is not known before a push"},
      {entry(kHash, "roles: [push], match: ['run=~(']"), "missing"},
      {entry(kHash, "roles: [push], nonsense: 1"), "nonsense"},
      {absl::StrCat("tokens:\n- {name: 'a b', sha256: ", kHash, ", roles: [read]}\n"),
       "t.yaml:2:10: a token's name has 1 to 64"},
      {absl::StrCat("tokens:\n- {name: a, sha256: ", kHash,
                    ", roles: [read]}\n- {name: a, sha256: ", kHash, ", roles: [read]}\n"),
       "t.yaml:3:10: two tokens are called 'a'"}};
  for (const auto& test : kCases) {
    EXPECT_THAT(ParseTokens("t.yaml", test.text),
                support::StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr(test.message), Not(HasSubstr("secret")))))
        << test.text;
  }
}

TEST(ConfigTest, AnOpenPortHasToBeMeant) {
  Config config;
  config.http.listen = "127.0.0.1:1";
  ASSERT_OK_AND_ASSIGN(std::string open, CheckExposure(config));
  EXPECT_EQ(open, "");
  config.grpc_listen = "0.0.0.0:1";
  EXPECT_THAT(CheckExposure(config),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("grpc.listen 0.0.0.0:1 can be reached"),
                                      HasSubstr("there is no TLS"), HasSubstr("--insecure"),
                                      Not(HasSubstr("http.listen")))));
  config.access.tokens_file = "tokens.yaml";
  EXPECT_THAT(CheckExposure(config),
              support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in the clear")));
  config.tls.cert_file = "cert.pem";
  EXPECT_OK(CheckExposure(config));
  config.access.tokens_file = "";
  EXPECT_THAT(CheckExposure(config), support::StatusIs(absl::StatusCode::kInvalidArgument,
                                                       HasSubstr("nor client certificates")));
  config.tls.grpc_client_cert = true;
  EXPECT_OK(CheckExposure(config));
  config.http.listen = ":2";
  EXPECT_THAT(CheckExposure(config),
              support::StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("http.listen :2"), Not(HasSubstr("grpc.listen")))));
  config.access.insecure = true;
  ASSERT_OK_AND_ASSIGN(open, CheckExposure(config));
  EXPECT_THAT(open, HasSubstr("http.listen :2"));
}

TEST(ConfigTest, ReadsTheLimitsOfClients) {
  ASSERT_OK_AND_ASSIGN(const Config config,
                       ParseConfig("c.yaml",
                                   "limits: {client_streams_max: 9, client_runs_max: 3, "
                                   "client_bytes_per_second_max: 2MiB}"));
  EXPECT_EQ(config.ingest.limits.client_streams_max, 9u);
  EXPECT_EQ(config.ingest.limits.client_runs_max, 3u);
  EXPECT_EQ(config.ingest.limits.client_bytes_per_second_max, 2u << 20);
}

// docs/config.md shows every key in one yaml block; it must be what the code writes for defaults.
TEST(ConfigTest, TheDocumentShowsEveryKeyWithItsDefault) {
  std::ifstream file(std::string(FORESHOCK_SOURCE_DIR) + "/docs/config.md");
  ASSERT_TRUE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  Config config;
  config.http.listen = std::string(kDefaultHttpListen);
  config.store.directory = "/var/lib/foreshock";
  for (absl::string_view line : absl::StrSplit(FormatConfig(config), '\n')) {
    if (line.empty() || absl::EndsWith(line, ":")) continue;
    const std::string key(line.substr(0, line.find(':') + 1));
    EXPECT_THAT(text.str(), HasSubstr(key)) << "docs/config.md does not mention it";
  }
}

}  // namespace
}  // namespace foreshock::config
