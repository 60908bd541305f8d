// A training rank outside the tree, with no daemon to talk to: its reports wait, it is never held
// up.
#include <cstdio>
#include <utility>

#include "foreshock/client.h"

int main() {
  auto client = foreshock::Client::Create({
      .target = "127.0.0.1:1",  // nothing listens on this port
      .run = "install-test",
      .launch_id = "launch-1",
  });
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  const auto loss = (*client)->DeclareScalar({.name = "loss", .unit = "nats"});
  if (!loss.ok()) return 1;
  for (int step = 0; step < 3; ++step) {
    foreshock::StepReport report(step);
    report.Tokens(512).Scalar(*loss, 1.0 / (step + 1));
    if (!(*client)->Push(std::move(report).Take()).ok()) return 1;
  }
  const absl::Status closed =
      (*client)->Close(foreshock::v1::OUTCOME_FINISHED, absl::Milliseconds(100));
  std::printf("%s\n", closed.ToString().c_str());
  return absl::IsDeadlineExceeded(closed) && (*client)->stats().queue_reports == 3 ? 0 : 1;
}
