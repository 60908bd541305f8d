#include "daemon/config/config.h"

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ConfigTest, AnEmptyFileGivesTheDefaults) {
  ASSERT_OK_AND_ASSIGN(const Config config, ParseConfig("empty.yaml", ""));
  EXPECT_EQ(config.grpc_listen, "127.0.0.1:7317");
  EXPECT_EQ(config.http.listen, "127.0.0.1:7318");
  EXPECT_EQ(config.ingest.limits.message_bytes_max, 64u << 20);
  EXPECT_FALSE(config.reload_over_http);
  EXPECT_EQ(config.pipeline.sync_interval, absl::Seconds(1));
}

TEST(ConfigTest, ReadsEveryModule) {
  ASSERT_OK_AND_ASSIGN(const Config config, ParseConfig("full.yaml", R"(
data_directory: /var/lib/foreshock
grpc: {listen: "0.0.0.0:1", message_max: 8MiB, streams_max: 10}
http: {listen: "[::1]:2", threads: 2, reload: true}
store: {sync_interval: 250ms, block_cache: 32MiB, write_buffer: 4MiB, log_max: 64MiB, open_files_max: 64, open_points: 5000,
        precision: declared}
merge: {lateness: 5s, open_steps_max: 9, kept_steps: 3, bytes_max: 16MiB}
limits: {runs_max: 4, queue_bytes_max: 2MiB, snapshot_bytes_max: 3MiB}
metrics: {top_k: 2, series_max: 500, ended_runs_for: 10m}
rules: [a.yaml, b.yaml]
log_level: debug
shutdown_deadline: 3s
)"));
  EXPECT_EQ(config.store.directory, "/var/lib/foreshock");
  EXPECT_EQ(config.grpc_listen, "0.0.0.0:1");
  EXPECT_EQ(config.ingest.limits.streams_max, 10u);
  EXPECT_TRUE(config.reload_over_http);
  EXPECT_EQ(config.store.write_buffer_bytes, 4u << 20);
  EXPECT_EQ(config.store.open_points, 5000u);
  EXPECT_EQ(config.store.precision, Precision::kDeclared);
  EXPECT_EQ(config.pipeline.run.open_steps.lateness, absl::Seconds(5));
  EXPECT_EQ(config.pipeline.run.open_steps.kept_steps, 3);
  EXPECT_EQ(config.pipeline.run.snapshots.bytes_max, 3u << 20);
  EXPECT_EQ(config.snapshot.finished_stay, absl::Minutes(10));
  EXPECT_THAT(config.rules, ElementsAre("a.yaml", "b.yaml"));
  EXPECT_EQ(config.shutdown_deadline, absl::Seconds(3));
}

TEST(ConfigTest, ReportsEveryMistakeWithItsPlace) {
  EXPECT_THAT(
      ParseConfig("bad.yaml", "grcp:\n  listen: x\nhttp:\n  threads: 0\nlog_level: loud\n"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("bad.yaml:1:1"), HasSubstr("grcp"), HasSubstr("bad.yaml:4:12"),
                     HasSubstr("bad.yaml:5:12"), HasSubstr("debug"))));
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
  TempDir dir;
  EXPECT_THAT(LoadConfig(dir.File("none.yaml")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir.File("none.yaml"))));
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
}  // namespace foreshock
