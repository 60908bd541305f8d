// A client and a daemon that it does or does not find.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "foreshock/client.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/client/fake_daemon.h"

namespace foreshock::client_internal {

inline constexpr absl::Duration kPatience = absl::Seconds(20);

class ClientTest : public ::testing::Test {
 protected:
  ClientOptions Options() const {
    ClientOptions options;
    options.target = daemon_.target();
    options.run = "run";
    options.launch_id = "launch";
    options.rank = 1;
    options.world_size = 2;
    options.backoff_min = absl::Milliseconds(5);
    options.backoff_max = absl::Milliseconds(20);
    return options;
  }
  // Every client declares its loss first.
  void MakeClient(ClientOptions options) {
    auto client = Client::Create(std::move(options));
    ASSERT_OK(client);
    client_ = *std::move(client);
    auto id = client_->DeclareScalar({.name = "loss", .unit = "nats"});
    ASSERT_OK(id);
    loss_ = *id;
  }
  absl::Status PushStep(int64_t step, size_t padding_bytes = 0) {
    StepReport report(step);
    report.Scalar(loss_, 1.0 / static_cast<double>(step + 1));
    if (padding_bytes > 0) {
      report.AddSummary()->mutable_router_gates()->mutable_scores()->set_data(
          std::string(padding_bytes, 'x'));
    }
    return client_->Push(std::move(report).Take());
  }
  void ExpectCommittedSteps(int64_t count) const {
    const auto committed = daemon_.committed();
    EXPECT_EQ(committed.size(), static_cast<size_t>(count));
    int64_t step = 0;
    for (const auto& [seq, report] : committed) {
      EXPECT_EQ(report.step(), step);
      ++step;
    }
    EXPECT_THAT(daemon_.faults(), ::testing::IsEmpty());
  }

  FakeDaemon daemon_;
  std::unique_ptr<Client> client_;
  uint32_t loss_ = 0;
};

}  // namespace foreshock::client_internal
