#include "daemon/backtest/capture_steps.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/status_macros.h"
#include "daemon/capture/reader.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/stream.h"
#include "daemon/pipeline/run_state.h"
#include "daemon/pipeline/shard_report.h"
#include "daemon/rules/rule.h"

namespace foreshock::backtest {
namespace {

constexpr size_t kReasonsMax = 5;

// One run being rebuilt from its messages. The run's own evaluator has no rules: judging is up to
// the sink.
class Rebuild {
 public:
  explicit Rebuild(StepSink* sink) : sink_(sink) {}

  absl::Status Take(v1::CaptureRecord record) {
    v1::PushRequest& message = *record.mutable_message();
    if (message.has_hello()) return Greet(record.stream(), message.hello());
    Stream& stream = streams_.at(record.stream());  // the reader has checked that it said Hello
    if (message.has_goodbye()) {
      FORESHOCK_RETURN_IF_ERROR(stream.checks->OnGoodbye(message.goodbye()));
      state_->Goodbye(stream.attempt, stream.reporter.sender.rank, stream.reporter.client_instance,
                      message.goodbye().outcome(), &changes_.batch);
      if (stream.attempt == attempt_) sink_->RankGone(stream.reporter.sender.rank);
    } else {
      FORESHOCK_RETURN_IF_ERROR(Add(&stream, message.mutable_report()));
    }
    state_->Settle(now_, pipeline::Budget(), &changes_);
    HandOn();
    return absl::OkStatus();
  }

  void Finish() {
    if (state_ == nullptr) return;
    state_->Settle(absl::InfiniteFuture(), pipeline::Budget(), &changes_);
    HandOn();
  }

  const CaptureTotals& totals() const { return totals_; }
  uint64_t steps() const { return steps_; }
  int64_t last_step() const { return last_step_; }

 private:
  struct Stream {
    std::unique_ptr<ingest::StreamState> checks;
    pipeline::Reporter reporter;
    uint32_t attempt = 0;
  };

  absl::Status Greet(uint32_t number, const v1::Hello& hello) {
    Stream stream;
    stream.checks = std::make_unique<ingest::StreamState>(ingest::IngestLimits(), &ingest_stats_);
    FORESHOCK_RETURN_IF_ERROR(stream.checks->OnHello(hello));
    if (state_ == nullptr) {
      run_ = hello.run();
      state_ = std::make_unique<pipeline::RunState>(run_, pipeline::RunState::Options(),
                                                    std::make_shared<rules::CompiledRules>(),
                                                    /*store=*/nullptr, &stats_);
    } else if (hello.run() != run_) {
      return absl::InvalidArgumentError(absl::StrCat("it holds the runs '", run_, "' and '",
                                                     hello.run(),
                                                     "'; a backtest takes one run a file"));
    }
    stream.reporter = {.sender = {.rank = hello.rank(),
                                  .coordinates = hello.coordinates(),
                                  .model = hello.model()},
                       .client_instance = hello.client_instance()};
    // Where a process has taken over a rank, the stream before it had ended; a capture does not
    // say.
    auto& holder = rank_holders_[{hello.launch_id(), hello.rank()}];
    if (holder != 0) state_->StreamEnded(streams_.at(holder - 1).attempt, hello.rank(), holder);
    holder = pipeline::StreamId{number} + 1;
    FORESHOCK_ASSIGN_OR_RETURN(const pipeline::Admitted admitted,
                               state_->Open(hello, holder, now_, &changes_));
    stream.attempt = admitted.attempt;
    stream.reporter.committed_seq = admitted.last_committed_seq;
    stream.reporter.snapshots = admitted.snapshots;
    HandOn();  // what the attempt before left open
    if (admitted.attempt > attempt_) {
      attempt_ = admitted.attempt;
      if (hello.has_model()) model_ = hello.model();
      world_size_ = hello.world_size();
      rules::AttemptStart start{.number = attempt_, .reached = reached_};
      if (hello.has_resume_step()) start.resume_step = hello.resume_step();
      sink_->BeginAttempt(run_, model_, start);
    }
    if (admitted.attempt == attempt_) {
      sink_->DeclarePlan(hello.rank(), world_size_,
                         std::vector<v1::PlanEntry>(hello.plan().begin(), hello.plan().end()));
    }
    streams_[number] = std::move(stream);
    return absl::OkStatus();
  }

  absl::Status Add(Stream* stream, v1::Report* report) {
    FORESHOCK_ASSIGN_OR_RETURN(ingest::StreamState::Checked checked,
                               stream->checks->OnReport(report));
    ++totals_.reports;
    MoveClock(absl::FromUnixNanos(report->time_unix_ns()));
    if (checked.report_stands) {
      const model::ShardReport shard = pipeline::SummariseReport(
          *report, stream->checks->names(), stream->reporter, &checked.rejections);
      state_->Add(stream->attempt, shard, now_, /*room=*/true, &changes_.batch);
    }
    totals_.rejected += checked.rejections.size();
    for (const v1::Rejection& rejection : checked.rejections) {
      if (totals_.reasons.size() < kReasonsMax) totals_.reasons.push_back(rejection.reason());
    }
    return absl::OkStatus();
  }

  // What the daemon does between two reports while time passes.
  void MoveClock(absl::Time now) {
    if (now <= now_) return;
    now_ = now;
    state_->Settle(now_, pipeline::Budget(), &changes_);
    HandOn();
    if (attempt_ > 0) sink_->Tick(absl::ToUnixNanos(now_));
  }

  // The steps that were judged: not the late ones, and only of the newest attempt.
  void HandOn() {
    for (const model::ClosedStep& step : std::exchange(changes_, {}).batch.steps) {
      if (step.row.late || step.row.attempt != attempt_) continue;
      ++steps_;
      last_step_ = step.row.step;
      reached_ = std::max(reached_.value_or(last_step_), last_step_);
      if (step.row.ranks < world_size_) {
        sink_->SetSilentRanks(state_->NewestSilentRanks());
      }
      sink_->OnStep(step);
    }
  }

  StepSink* const sink_;
  pipeline::PipelineStats stats_;
  ingest::IngestStats ingest_stats_;
  std::string run_;
  v1::ModelShape model_;
  std::unique_ptr<pipeline::RunState> state_;
  pipeline::Changes changes_;
  std::map<uint32_t, Stream> streams_;  // by number in the capture
  std::map<std::pair<std::string, uint32_t>, pipeline::StreamId>
      rank_holders_;  // by launch and rank; 0: none
  uint32_t attempt_ = 0;
  uint32_t world_size_ = 0;         // of the attempt
  std::optional<int64_t> reached_;  // the furthest step of any attempt so far
  absl::Time now_ = absl::UnixEpoch();
  CaptureTotals totals_;
  uint64_t steps_ = 0;
  int64_t last_step_ = -1;
};

}  // namespace

absl::StatusOr<CaptureTotals> ReadCaptureSteps(const std::string& path,
                                               const StepProgress& progress, StepSink* sink) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::unique_ptr<capture::CaptureReader> reader,
                             capture::CaptureReader::Open(path));
  Rebuild rebuild(sink);
  v1::CaptureRecord record;
  while (true) {
    FORESHOCK_ASSIGN_OR_RETURN(const bool more, reader->Next(&record));
    if (!more) break;
    const std::string place = absl::StrCat(path, ": record ", reader->progress().records,
                                           " (stream ", record.stream(), ")");
    FORESHOCK_RETURN_IF_ERROR(base::Annotate(rebuild.Take(std::move(record)), place));
    record.Clear();
    if (progress != nullptr) {
      progress(reader->progress().bytes_read, reader->progress().bytes_total, rebuild.last_step());
    }
  }
  rebuild.Finish();
  if (rebuild.steps() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no step of it ever closed (", rebuild.totals().reports,
                     " reports); a step closes when every rank has sent last_of_step"));
  }
  return rebuild.totals();
}

}  // namespace foreshock::backtest
