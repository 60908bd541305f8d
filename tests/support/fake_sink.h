// A ReportSink that tests steer: it keeps what it is given and acknowledges when it is told to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/check.h"
#include "daemon/base/mutex.h"
#include "daemon/base/worker_pool.h"
#include "daemon/ingest/sink.h"

namespace foreshock::support {

// Thread-safe.
class FakeSink final : public ingest::ReportSink {
 public:
  struct Settings {
    bool commit_at_once = true;                             // else on Commit()
    absl::Status open = {};                                 // what Open answers
    uint64_t last_committed_seq = 0;                        // told in the HelloAck
    absl::Status submit = {};                               // what Submit of a report answers
    int submit_refusals = -1;                               // ... this many times; -1: always
    std::function<void(const v1::Report&)> on_submit = {};  // on the submitting thread, may block
  };

  void Set(Settings settings) {
    base::MutexLock lock(&mutex_);
    settings_ = std::move(settings);
  }

  // Acknowledges everything that was taken, stream by stream, and from now on at once.
  void Commit() {
    std::vector<std::pair<ingest::PushStream::AckFn, v1::Ack>> due;
    {
      base::MutexLock lock(&mutex_);
      settings_.commit_at_once = true;
      for (const std::shared_ptr<State>& state : open_) {
        if (state->pending) due.emplace_back(state->on_ack, std::exchange(state->ack, {}));
        state->pending = false;
      }
    }
    for (const auto& each : due) OnWriter([each] { each.first(each.second); });
  }

  // As a sink that drains: every open stream must end.
  void EndAll(const absl::Status& status) {
    std::vector<ingest::PushStream::EndFn> ends;
    {
      base::MutexLock lock(&mutex_);
      for (const std::shared_ptr<State>& state : open_) ends.push_back(state->on_end);
    }
    for (const ingest::PushStream::EndFn& end : ends) OnWriter([end, status] { end(status); });
  }

  std::vector<v1::Hello> hellos() const {
    base::MutexLock lock(&mutex_);
    return hellos_;
  }
  std::vector<v1::Report> reports() const {
    base::MutexLock lock(&mutex_);
    return reports_;
  }
  std::vector<v1::Goodbye> goodbyes() const {
    base::MutexLock lock(&mutex_);
    return goodbyes_;
  }
  int refusals() const {
    base::MutexLock lock(&mutex_);
    return refusals_;
  }
  size_t open_streams() const {
    base::MutexLock lock(&mutex_);
    return open_.size();
  }

  // Until `condition` holds; false after ten seconds.
  bool Await(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000; ++i) {
      if (condition()) return true;
      base::MutexLock lock(&mutex_);
      changed_.WaitFor(&mutex_, absl::Milliseconds(10));
    }
    return condition();
  }

  absl::StatusOr<std::unique_ptr<ingest::PushStream>> Open(
      const v1::Hello& hello, ingest::PushStream::AckFn on_ack,
      ingest::PushStream::EndFn on_end) override {
    base::MutexLock lock(&mutex_);
    hellos_.push_back(hello);
    changed_.NotifyAll();
    if (!settings_.open.ok()) return settings_.open;
    auto state = std::make_shared<State>();
    state->on_ack = std::move(on_ack);
    state->on_end = std::move(on_end);
    state->hello_ack.set_attempt(1);
    state->hello_ack.set_last_committed_seq(settings_.last_committed_seq);
    open_.push_back(state);
    return std::make_unique<Stream>(this, std::move(state));
  }

 private:
  struct State {
    v1::HelloAck hello_ack;
    ingest::PushStream::AckFn on_ack;
    ingest::PushStream::EndFn on_end;
    v1::Ack ack;           // not yet sent
    bool pending = false;  // there is one to send
  };

  class Stream final : public ingest::PushStream {
   public:
    Stream(FakeSink* sink, std::shared_ptr<State> state) : sink_(sink), state_(std::move(state)) {}
    ~Stream() override {
      base::MutexLock lock(&sink_->mutex_);
      std::erase(sink_->open_, state_);
      sink_->changed_.NotifyAll();
    }
    const v1::HelloAck& hello_ack() const override { return state_->hello_ack; }
    absl::Status Submit(const v1::Report& report, const model::StreamNames& names,
                        std::vector<v1::Rejection> rejections) override {
      std::function<void(const v1::Report&)> on_submit;
      {
        base::MutexLock lock(&sink_->mutex_);
        on_submit = sink_->settings_.on_submit;
      }
      if (on_submit) on_submit(report);
      return sink_->Take(state_.get(), [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
        FakeSink::Settings& settings = sink_->settings_;
        if (!settings.submit.ok() && settings.submit_refusals != 0) {
          ++sink_->refusals_;
          if (settings.submit_refusals > 0) --settings.submit_refusals;
          return settings.submit;
        }
        sink_->reports_.push_back(report);
        if (report.seq() <= settings.last_committed_seq) {
          state_->ack.set_duplicates(state_->ack.duplicates() + 1);
        }
        state_->ack.set_seq(report.seq());
        for (const v1::Rejection& rejection : rejections) *state_->ack.add_rejections() = rejection;
        return absl::OkStatus();
      });
    }
    absl::Status Submit(const v1::Goodbye& goodbye) override {
      return sink_->Take(state_.get(), [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
        sink_->goodbyes_.push_back(goodbye);
        return absl::OkStatus();
      });
    }

   private:
    FakeSink* const sink_;
    const std::shared_ptr<State> state_;
  };

  template <typename TakeFn>
  absl::Status Take(State* state, TakeFn take) {
    v1::Ack ack;
    ingest::PushStream::AckFn on_ack;
    {
      base::MutexLock lock(&mutex_);
      const absl::Status status = take();
      changed_.NotifyAll();
      if (!status.ok()) return status;
      state->pending = true;
      if (!settings_.commit_at_once) return absl::OkStatus();
      state->pending = false;
      ack = std::exchange(state->ack, {});
      on_ack = state->on_ack;
    }
    OnWriter([on_ack, ack] { on_ack(ack); });
    return absl::OkStatus();
  }

  void OnWriter(std::function<void()> call) { FORESHOCK_CHECK(writer_.TryRun(std::move(call))); }

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  Settings settings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<State>> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Hello> hellos_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Report> reports_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Goodbye> goodbyes_ ABSL_GUARDED_BY(mutex_);
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  base::WorkerPool writer_{
      {.threads = 1, .tasks_max = 1u << 20}};  // last: ends before the rest goes
};

}  // namespace foreshock::support
