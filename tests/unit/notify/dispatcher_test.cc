#include "daemon/notify/dispatcher.h"

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace foreshock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Recorder final : public Notifier {
 public:
  explicit Recorder(std::string name = "recorder") : name_(std::move(name)) {}
  absl::string_view name() const override { return name_; }
  absl::Status Send(const v1::Alert& alert, NotificationKind kind) override {
    if (!failure.ok()) return failure;
    sent.push_back(
        absl::StrCat(kind == NotificationKind::kFiring ? "firing " : "resolved ", alert.id()));
    return absl::OkStatus();
  }

  absl::Status failure;
  std::vector<std::string> sent;

 private:
  std::string name_;
};

model::AlertRow Row(const std::string& id, v1::AlertState state,
                    const std::string& severity = "warning") {
  model::AlertRow row;
  row.mutable_alert()->set_id(id);
  row.mutable_alert()->set_state(state);
  row.mutable_alert()->set_severity(severity);
  return row;
}

TEST(DispatcherTest, TellsFiringAndResolvedOnceEach) {
  Recorder recorder;
  Dispatcher dispatcher({{.notifier = &recorder}});
  EXPECT_THAT(dispatcher.Dispatch({Row("a", v1::ALERT_STATE_PENDING)}), IsEmpty());
  EXPECT_THAT(recorder.sent, IsEmpty());
  std::vector<model::AlertRow> rows = dispatcher.Dispatch({Row("a", v1::ALERT_STATE_FIRING)});
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_TRUE(rows[0].notified_firing());
  EXPECT_FALSE(rows[0].notified_resolved());
  EXPECT_THAT(dispatcher.Dispatch(rows), IsEmpty());  // evidence changed, still firing
  rows[0].mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
  rows = dispatcher.Dispatch(rows);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_TRUE(rows[0].notified_resolved());
  EXPECT_THAT(dispatcher.Dispatch(rows), IsEmpty());
  EXPECT_THAT(recorder.sent, ElementsAre("firing a", "resolved a"));
  EXPECT_EQ(dispatcher.counts().at({"recorder", "sent"}), 2u);
  EXPECT_EQ(dispatcher.counts().at({"recorder", "repeated"}), 2u);
}

TEST(DispatcherTest, ARestartTellsNothingTwice) {
  Recorder recorder;
  model::AlertRow stored = Row("a", v1::ALERT_STATE_FIRING);
  stored.set_notified_firing(true);
  Dispatcher after_restart({{.notifier = &recorder}});
  EXPECT_THAT(after_restart.Dispatch({stored}), IsEmpty());
  EXPECT_THAT(recorder.sent, IsEmpty());
  // Committed as firing, and the process died before anyone was told.
  EXPECT_THAT(after_restart.Dispatch({Row("b", v1::ALERT_STATE_FIRING)}), SizeIs(1));
  EXPECT_THAT(recorder.sent, ElementsAre("firing b"));
}

TEST(DispatcherTest, ResolvedIsNotToldToWhomFiringWasNot) {
  Recorder recorder;
  Dispatcher dispatcher({{.notifier = &recorder}});
  EXPECT_THAT(dispatcher.Dispatch({Row("a", v1::ALERT_STATE_RESOLVED)}), IsEmpty());
  EXPECT_THAT(recorder.sent, IsEmpty());
}

TEST(DispatcherTest, FiltersBySeverity) {
  struct Case {
    Severity min;
    std::vector<std::string> sent;
  };
  for (const Case& c : {Case{Severity::kInfo, {"firing i", "firing w", "firing c", "firing odd"}},
                        Case{Severity::kWarning, {"firing w", "firing c", "firing odd"}},
                        Case{Severity::kCritical, {"firing c", "firing odd"}}}) {
    Recorder recorder;
    Dispatcher dispatcher({{.notifier = &recorder, .severity_min = c.min}});
    // A filtered alert counts as told, so that nobody asks again for ever.
    EXPECT_THAT(dispatcher.Dispatch({Row("i", v1::ALERT_STATE_FIRING, "info"),
                                     Row("w", v1::ALERT_STATE_FIRING, "warning"),
                                     Row("c", v1::ALERT_STATE_FIRING, "critical"),
                                     Row("odd", v1::ALERT_STATE_FIRING, "urgent")}),
                SizeIs(4));
    EXPECT_EQ(recorder.sent, c.sent);
  }
}

TEST(DispatcherTest, AFailureIsTriedAgainOnlyWhereItFailed) {
  Recorder good("good"), bad("bad");
  Dispatcher dispatcher({{.notifier = &good}, {.notifier = &bad}});
  bad.failure = absl::UnavailableError("connection refused");
  const std::vector<model::AlertRow> rows = {Row("a", v1::ALERT_STATE_FIRING)};
  EXPECT_THAT(dispatcher.Dispatch(rows), IsEmpty());
  EXPECT_THAT(dispatcher.Dispatch(rows), IsEmpty());
  bad.failure = absl::OkStatus();
  EXPECT_THAT(dispatcher.Dispatch(rows), SizeIs(1));
  EXPECT_THAT(good.sent, ElementsAre("firing a"));
  EXPECT_THAT(bad.sent, ElementsAre("firing a"));
  EXPECT_EQ(dispatcher.counts().at({"bad", "failed"}), 2u);
}

TEST(DispatcherTest, AnAlertThatBecameGraverIsToldOnceMoreToThoseWhoWantIt) {
  Recorder all("all"), pager("pager"), broken("broken");
  Dispatcher dispatcher({{.notifier = &all},
                         {.notifier = &pager, .severity_min = Severity::kCritical},
                         {.notifier = &broken}});
  broken.failure = absl::UnavailableError("connection refused");
  // The warning is told to one and not to all: that must not swallow the critical one.
  EXPECT_THAT(dispatcher.Dispatch({Row("a", v1::ALERT_STATE_FIRING, "warning")}), IsEmpty());
  broken.failure = absl::OkStatus();
  std::vector<model::AlertRow> rows =
      dispatcher.Dispatch({Row("a", v1::ALERT_STATE_FIRING, "critical")});
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(dispatcher.Dispatch(rows), IsEmpty());
  EXPECT_THAT(all.sent, ElementsAre("firing a", "firing a"));
  EXPECT_THAT(pager.sent, ElementsAre("firing a"));
  EXPECT_THAT(broken.sent, ElementsAre("firing a"));
  rows[0].mutable_alert()->set_state(v1::ALERT_STATE_RESOLVED);
  EXPECT_THAT(dispatcher.Dispatch(rows), SizeIs(1));
  EXPECT_EQ(pager.sent.back(), "resolved a");
}

TEST(DispatcherTest, TheEndGoesToThoseWhoWereToldTheBeginning) {
  Recorder good("good"), bad("bad");
  Dispatcher dispatcher({{.notifier = &good}, {.notifier = &bad}});
  bad.failure = absl::UnavailableError("connection refused");
  EXPECT_THAT(dispatcher.Dispatch({Row("a", v1::ALERT_STATE_FIRING)}), IsEmpty());
  bad.failure = absl::OkStatus();
  const std::vector<model::AlertRow> rows =
      dispatcher.Dispatch({Row("a", v1::ALERT_STATE_RESOLVED)});
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_TRUE(rows[0].notified_resolved());
  EXPECT_THAT(good.sent, ElementsAre("firing a", "resolved a"));
  EXPECT_THAT(bad.sent, IsEmpty());
}

TEST(DispatcherTest, WithoutRoutesEverythingCountsAsTold) {
  Dispatcher dispatcher({});
  EXPECT_THAT(dispatcher.Dispatch({Row("a", v1::ALERT_STATE_FIRING)}), SizeIs(1));
}

TEST(ParseSeverityTest, NamesWhatIsAllowed) {
  EXPECT_EQ(ParseSeverity("critical").value(), Severity::kCritical);
  EXPECT_THAT(ParseSeverity("page"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("info, warning, critical")));
}

}  // namespace
}  // namespace foreshock
