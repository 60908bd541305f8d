#include "daemon/query/service.h"

#include <atomic>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/check.h"
#include "daemon/base/worker_pool.h"
#include "daemon/security/grpc_caller.h"
#include "daemon/security/grpc_status.h"
#include "foreshock/v1/query.grpc.pb.h"

namespace foreshock::query {
namespace {

// How many calls are running. A call holds one place from its start to its end, and has at most one
// task in the pool, whose queue has room for all: so a call that was let in can always go on.
class Places {
 public:
  explicit Places(size_t max) : max_(max) {}
  bool Take() {
    if (taken_.fetch_add(1) < max_) return true;
    Give();
    return false;
  }
  void Give() { taken_.fetch_sub(1); }
  grpc::Status Refusal() const {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED,
            absl::StrCat("more than ", max_, " queries at once; try again")};
  }

 private:
  const size_t max_;
  std::atomic<size_t> taken_{0};
};

grpc::Status Stopping() { return {grpc::StatusCode::UNAVAILABLE, "the daemon is stopping"}; }

// Writes one response after the other, each made when the one before has left.
class PointsReactor final : public grpc::ServerWriteReactor<v1::QueryPointsResponse> {
 public:
  PointsReactor(const grpc::Status& admitted, const Answers* answers,
                const v1::QueryPointsRequest* request, base::WorkerPool* pool, Places* places)
      : answers_(answers), request_(request), pool_(pool), places_(places) {
    if (!admitted.ok()) {
      Finish(admitted);
      return;
    }
    holds_place_ = places_->Take();
    if (holds_place_) {
      Schedule();
    } else {
      Finish(places_->Refusal());
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      Schedule();
    } else {
      Finish({grpc::StatusCode::CANCELLED, "the reader went away"});
    }
  }
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override {
    if (holds_place_) places_->Give();
    delete this;
  }

 private:
  void Schedule() {
    if (!pool_->TryRun([this] { Step(); })) Finish(Stopping());
  }

  void Step() {
    if (cancelled_) {
      Finish({grpc::StatusCode::CANCELLED, "cancelled"});
      return;
    }
    if (stream_ == nullptr) {
      auto stream = answers_->QueryPoints(*request_);
      if (!stream.ok()) {
        Finish(security::ToGrpc(stream.status()));
        return;
      }
      stream_ = *std::move(stream);
    }
    auto next = stream_->Next();
    if (!next.ok()) {
      Finish(security::ToGrpc(next.status()));
    } else if (!next->has_value()) {
      Finish(grpc::Status::OK);
    } else {
      response_ = **std::move(next);
      StartWrite(&response_);
    }
  }

  const Answers* answers_;
  const v1::QueryPointsRequest* request_;  // lives as long as the call
  base::WorkerPool* pool_;
  Places* places_;
  bool holds_place_ = false;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<PointStream> stream_;
  v1::QueryPointsResponse response_;
};

}  // namespace

class QueryService::Impl final : public v1::QueryService::CallbackService {
 public:
  Impl(Options options, const Answers* answers, const security::AccessControl* access)
      : answers_(answers),
        access_(access),
        places_(options.calls_max),
        pool_({.threads = options.threads, .tasks_max = options.calls_max}) {
    FORESHOCK_CHECK(answers != nullptr && options.threads > 0 && options.calls_max > 0);
  }

  grpc::ServerUnaryReactor* ListRuns(grpc::CallbackServerContext* context,
                                     const v1::ListRunsRequest* request,
                                     v1::ListRunsResponse* response) override {
    return Answer(context, request, response, &Answers::ListRuns);
  }
  grpc::ServerUnaryReactor* GetRun(grpc::CallbackServerContext* context,
                                   const v1::GetRunRequest* request,
                                   v1::GetRunResponse* response) override {
    return Answer(context, request, response, &Answers::GetRun);
  }
  grpc::ServerUnaryReactor* ListIndicators(grpc::CallbackServerContext* context,
                                           const v1::ListIndicatorsRequest* request,
                                           v1::ListIndicatorsResponse* response) override {
    return Answer(context, request, response, &Answers::ListIndicators);
  }
  grpc::ServerUnaryReactor* ListSeries(grpc::CallbackServerContext* context,
                                       const v1::ListSeriesRequest* request,
                                       v1::ListSeriesResponse* response) override {
    return Answer(context, request, response, &Answers::ListSeries);
  }
  grpc::ServerWriteReactor<v1::QueryPointsResponse>* QueryPoints(
      grpc::CallbackServerContext* context, const v1::QueryPointsRequest* request) override {
    return new PointsReactor(security::Admit(access_, *context, security::Role::kRead), answers_,
                             request, &pool_, &places_);
  }
  grpc::ServerUnaryReactor* ListSteps(grpc::CallbackServerContext* context,
                                      const v1::ListStepsRequest* request,
                                      v1::ListStepsResponse* response) override {
    return Answer(context, request, response, &Answers::ListSteps);
  }
  grpc::ServerUnaryReactor* ListAlerts(grpc::CallbackServerContext* context,
                                       const v1::ListAlertsRequest* request,
                                       v1::ListAlertsResponse* response) override {
    return Answer(context, request, response, &Answers::ListAlerts);
  }
  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context,
                                       const v1::ListEventsRequest* request,
                                       v1::ListEventsResponse* response) override {
    return Answer(context, request, response, &Answers::ListEvents);
  }
  grpc::ServerUnaryReactor* ListSilences(grpc::CallbackServerContext* context,
                                         const v1::ListSilencesRequest* request,
                                         v1::ListSilencesResponse* response) override {
    return Answer(context, request, response, &Answers::ListSilences);
  }
  grpc::ServerUnaryReactor* ListRules(grpc::CallbackServerContext* context,
                                      const v1::ListRulesRequest* request,
                                      v1::ListRulesResponse* response) override {
    return Answer(context, request, response, &Answers::ListRules);
  }
  grpc::ServerUnaryReactor* ListBands(grpc::CallbackServerContext* context,
                                      const v1::ListBandsRequest* request,
                                      v1::ListBandsResponse* response) override {
    return Answer(context, request, response, &Answers::ListBands);
  }
  grpc::ServerUnaryReactor* BacktestRules(grpc::CallbackServerContext* context,
                                          const v1::BacktestRulesRequest* request,
                                          v1::BacktestRulesResponse* response) override {
    return Answer(context, request, response,
                  [context](const Answers& answers, const v1::BacktestRulesRequest& asked) {
                    return answers.BacktestRules(asked,
                                                 [context] { return context->IsCancelled(); });
                  });
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override {
    return Answer(context, request, response,
                  [context](const Answers& answers, const v1::ExplainRequest& asked) {
                    return answers.Explain(asked, [context] { return context->IsCancelled(); });
                  });
  }
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override {
    return Answer(context, request, response, &Answers::GetStatus);
  }

 private:
  // `function` takes the answers and the request.
  template <typename Request, typename Response, typename Function>
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Request* request,
                                   Response* response, Function function) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    if (grpc::Status admitted = security::Admit(access_, *context, security::Role::kRead);
        !admitted.ok()) {
      reactor->Finish(admitted);
      return reactor;
    }
    if (!places_.Take()) {
      reactor->Finish(places_.Refusal());
      return reactor;
    }
    const bool taken = pool_.TryRun([this, request, response, function, reactor] {
      absl::StatusOr<Response> answer = std::invoke(function, *answers_, *request);
      const grpc::Status end = security::ToGrpc(answer.status());
      if (answer.ok()) *response = *std::move(answer);
      places_.Give();  // before Finish: after it the server may be gone
      reactor->Finish(end);
    });
    if (!taken) {
      places_.Give();
      reactor->Finish(Stopping());
    }
    return reactor;
  }

  const Answers* const answers_;
  const security::AccessControl* const access_;
  Places places_;
  base::WorkerPool pool_;  // last: its tasks use the others
};

QueryService::QueryService(Options options, const Answers* answers,
                           const security::AccessControl* access)
    : impl_(std::make_unique<Impl>(options, answers, access)) {}

QueryService::~QueryService() = default;

grpc::Service* QueryService::grpc() { return impl_.get(); }

}  // namespace foreshock::query
