// The read API over real sockets, and its two faces side by side.
#include "daemon/query/service.h"

#include "daemon/query/json_api.h"
#include "foreshock/v1/query.grpc.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/http_client.h"
#include "tests/support/memory_store.h"
#include "tests/support/stored_run.h"

namespace foreshock::integration {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJson[] = "Content-Type: application/json\r\n";
constexpr char kBacktest[] = "/api/v1/rules/backtest";
constexpr char kOwnFile[] = R"({"run": "exp-1", "files": [{"name": "own.yaml"}]})";

class QueryServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { StartWith({}); }
  void TearDown() override { server_->Shutdown(); }

  void StartWith(query::QueryService::Options options) {
    if (server_ != nullptr) server_->Shutdown();
    server_.reset();
    support::StoreRun("exp-1", 100, store_.get());
    live_.status.set_version("0.1.0");
    live_.rules.emplace_back().set_name("Delta2EntropyFalls");
    live_.rule_files.emplace_back().set_text("groups: []");
    service_ = std::make_unique<query::QueryService>(options, &answers_);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_->grpc());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::QueryService::NewStub(channel_);
    http_ = std::make_unique<http::HttpServer>(http::HttpOptions{.listen = "127.0.0.1:0"});
    query::AddJsonRoutes(&answers_, http_.get());
    ASSERT_OK_AND_ASSIGN(http_address_, http_->Start());
  }

  static std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return context;
  }

  std::unique_ptr<store::Store> store_ = support::NewMemoryStore();
  support::FakeLiveState live_;
  query::Answers answers_{store_.get(), &live_, support::FakeBacktest, support::FakeExplain};
  std::unique_ptr<query::QueryService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::QueryService::Stub> stub_;
  std::unique_ptr<http::HttpServer> http_;
  std::string http_address_;
};

// The JSON of `target` must be the message that gRPC answers.
template <typename Response>
void ExpectSame(const std::string& address, const std::string& target, const Response& response) {
  const support::HttpReply reply = support::HttpGet(address, target);
  ASSERT_EQ(reply.status, 200) << target << reply.body;
  EXPECT_THAT(reply.headers, HasSubstr("content-type: application/json"));
  Response from_json;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(reply.body, &from_json).ok()) << target;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(from_json, response)) << target;
}

TEST_F(QueryServiceTest, BothFacesGiveTheSameAnswers) {
  {
    v1::ListRunsResponse response;
    ASSERT_TRUE(stub_->ListRuns(Context().get(), {}, &response).ok());
    ASSERT_EQ(response.runs_size(), 1);
    ExpectSame(http_address_, "/api/v1/runs", response);
  }
  {
    v1::GetRunRequest request;
    request.set_run("exp-1");
    v1::GetRunResponse response;
    ASSERT_TRUE(stub_->GetRun(Context().get(), request, &response).ok());
    ExpectSame(http_address_, "/api/v1/runs/exp-1", response);
  }
  {
    v1::ListIndicatorsResponse response;
    ASSERT_TRUE(stub_->ListIndicators(Context().get(), {}, &response).ok());
    ASSERT_GT(response.indicators_size(), 100);
    ExpectSame(http_address_, "/api/v1/indicators", response);
  }
  {
    v1::ListSeriesRequest request;
    request.mutable_selector()->set_run("exp-1");
    request.mutable_selector()->add_layers(0);
    request.mutable_selector()->add_layers(1);
    request.mutable_selector()->set_unit(v1::UNIT_EXPERT);
    request.mutable_selector()->add_unit_ids(2);
    v1::ListSeriesResponse response;
    ASSERT_TRUE(stub_->ListSeries(Context().get(), request, &response).ok());
    ASSERT_EQ(response.series_size(), 2);
    ExpectSame(http_address_, "/api/v1/series?run=exp-1&layer=0,1&unit=expert&unit_id=2", response);
  }
  {
    v1::ListStepsRequest request;
    request.set_run("exp-1");
    request.set_first_step(58);
    request.set_last_step(62);
    v1::ListStepsResponse response;
    ASSERT_TRUE(stub_->ListSteps(Context().get(), request, &response).ok());
    ASSERT_EQ(response.steps_size(), 5);
    ExpectSame(http_address_, "/api/v1/steps?run=exp-1&first_step=58&last_step=62", response);
  }
  {
    v1::ListAlertsRequest request;
    request.set_state(v1::ALERT_STATE_FIRING);
    v1::ListAlertsResponse response;
    ASSERT_TRUE(stub_->ListAlerts(Context().get(), request, &response).ok());
    ASSERT_EQ(response.alerts_size(), 1);
    ExpectSame(http_address_, "/api/v1/alerts?state=firing", response);
  }
  {
    v1::ListEventsRequest request;
    request.set_run("exp-1");
    v1::ListEventsResponse response;
    ASSERT_TRUE(stub_->ListEvents(Context().get(), request, &response).ok());
    ASSERT_EQ(response.events_size(), 2);
    ExpectSame(http_address_, "/api/v1/events?run=exp-1", response);
  }
  {
    v1::ListRulesResponse response;
    ASSERT_TRUE(stub_->ListRules(Context().get(), {}, &response).ok());
    ASSERT_EQ(response.rules_size(), 1);
    ExpectSame(http_address_, "/api/v1/rules", response);
    v1::ListRulesRequest request;
    request.set_files(true);
    ASSERT_TRUE(stub_->ListRules(Context().get(), request, &response).ok());
    ASSERT_EQ(response.files_size(), 1);
    ExpectSame(http_address_, "/api/v1/rules?files=1", response);
  }
  {
    v1::ListBandsRequest request;
    request.set_indicator("train.loss");
    v1::ListBandsResponse response;
    ASSERT_TRUE(stub_->ListBands(Context().get(), request, &response).ok());
    ASSERT_EQ(response.bands(0).indicator(), "train.loss");
    ExpectSame(http_address_, "/api/v1/bands?indicator=train.loss", response);
  }
  {
    v1::BacktestRulesRequest request;
    request.set_run("exp-1");
    request.add_files()->set_name("own.yaml");
    v1::BacktestRulesResponse response;
    ASSERT_TRUE(stub_->BacktestRules(Context().get(), request, &response).ok());
    EXPECT_THAT(response.notes(), ElementsAre("exp-1", "own.yaml"));
    const support::HttpReply reply =
        support::HttpCall(http_address_, "POST", kBacktest, kOwnFile, kJson);
    EXPECT_EQ(reply.status, 200);
    v1::BacktestRulesResponse from_json;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(reply.body, &from_json).ok());
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(from_json, response));
    EXPECT_EQ(support::HttpCall(http_address_, "POST", kBacktest, "{}", kJson).status, 400);
    EXPECT_EQ(support::HttpCall(http_address_, "POST", kBacktest, "{}").status, 400);
    EXPECT_EQ(support::HttpGet(http_address_, kBacktest).status, 405);
  }
  {
    v1::GetStatusResponse response;
    ASSERT_TRUE(stub_->GetStatus(Context().get(), {}, &response).ok());
    ASSERT_EQ(response.version(), "0.1.0");
    ExpectSame(http_address_, "/api/v1/status", response);
  }
}

TEST_F(QueryServiceTest, StreamsPointsInOrder) {
  store::StoreBatch batch;
  for (int64_t step = 80; step < 20'000; ++step) {
    batch.steps.push_back(support::StoredStep("exp-1", 2, step));
  }
  model::AttemptRow attempt;
  attempt.set_number(2);
  attempt.set_first_step(60);
  attempt.set_last_step(19'999);
  batch.attempts.push_back({"exp-1", attempt});
  ASSERT_OK(store_->Write(batch));
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run("exp-1");
  request.mutable_selector()->set_indicator("train.loss");
  const auto context = Context();
  const auto reader = stub_->QueryPoints(context.get(), request);
  int64_t expected = 0;
  for (v1::QueryPointsResponse response; reader->Read(&response);) {
    for (const v1::Point& point : response.points()) ASSERT_EQ(point.step(), expected++);
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(expected, 20'000);
}

TEST_F(QueryServiceTest, PointsAsJsonAreOneResultPerSeries) {
  const support::HttpReply reply =
      support::HttpGet(http_address_,
                       "/api/v1/points?run=exp-1&indicator=load.share&layer=1&unit_id=3"
                       "&first_step=20&last_step=20");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"results":[{"series":{"run":"exp-1","indicator":"load.share",)"
                        R"("unit":"UNIT_EXPERT","unit_id":"3","unit_name":"","layer":1},)"
                        R"("points":[{"step":"20","value":1.75,"attempt":1,)"
                        R"("flags":["QUALITY_FLAG_SAMPLED","QUALITY_FLAG_PARTIAL"]}],)"
                        R"("truncated":false,"buckets":[],"bucket_steps":"1","continuation":""}],)"
                        R"("truncated":false})"
                        "\n");
  const support::HttpReply cut =
      support::HttpGet(http_address_, "/api/v1/points?run=exp-1&limit=15");
  EXPECT_THAT(cut.body, HasSubstr("],\"truncated\":true}\n"));
  EXPECT_EQ(support::HttpGet(http_address_, "/api/v1/points?run=exp-1&indicator=train.lr").body,
            "{\"results\":[],\"truncated\":false}\n");
}

TEST_F(QueryServiceTest, ErrorsSayWhatIsAllowed) {
  struct Case {
    const char* target;
    int status;
    const char* message;
  };
  const Case cases[] = {
      {"/api/v1/runs/nope", 404, "exp-1"},
      {"/api/v1/points?run=nope", 404, "exp-1"},
      {"/api/v1/points", 400, "run: required"},
      {"/api/v1/points?run=exp-1&step=3", 400,
       "allowed are run, indicator, layer, unit, unit_id, unit_name, match, first_step, "
       "last_step, attempt, limit, buckets_max, continuation"},
      {"/api/v1/status?x=1", 400, "allowed are none"},
      {"/api/v1/points?run=exp-1&limit=0", 400, "an integer from 1 to 100000"},
      {"/api/v1/points?run=exp-1&limit=100001", 400, "an integer from 1 to 100000"},
      {"/api/v1/points?run=exp-1&first_step=-1", 400, "first_step"},
      {"/api/v1/points?run=exp-1&layer=1,x", 400, "'layer' is 'x'"},
      {"/api/v1/points?run=exp-1&attempt=9", 404, "there are 1, 2"},
      {"/api/v1/points?run=exp-1&run=exp-2", 400, "given 2 times"},
      {"/api/v1/series?run=exp-1&unit=heads", 400,
       "allowed are none, head, expert, projection, rank, tensor"},
      {"/api/v1/series?run=exp-1&indicator=load.shares", 400, "load.shares"},
      {"/api/v1/alerts?state=unspecified", 400, "allowed are pending, firing, resolved"},
      {"/api/v1/nope", 404, "/api/v1/nope"},
  };
  for (const Case& c : cases) {
    const support::HttpReply reply = support::HttpGet(http_address_, c.target);
    EXPECT_EQ(reply.status, c.status) << c.target;
    EXPECT_THAT(reply.body, AllOf(HasSubstr("{\"code\": \""), HasSubstr(c.message))) << c.target;
  }
  EXPECT_EQ(support::HttpCall(http_address_, "POST", "/api/v1/runs").status, 405);
  v1::GetRunRequest request;
  request.set_run("nope");
  v1::GetRunResponse response;
  const grpc::Status status = stub_->GetRun(Context().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("exp-1"));
  v1::QueryPointsRequest points;
  points.mutable_selector()->set_run("nope");
  const auto context = Context();
  EXPECT_EQ(stub_->QueryPoints(context.get(), points)->Finish().error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(QueryServiceTest, AReaderThatStopsReadingHoldsNothingUp) {
  StartWith({.threads = 1, .calls_max = 2});
  store::StoreBatch batch;
  for (int64_t step = 80; step < 100'000; ++step) {
    batch.steps.push_back(support::StoredStep("exp-1", 2, step));
  }
  model::AttemptRow attempt;
  attempt.set_number(2);
  attempt.set_first_step(60);
  attempt.set_last_step(99'999);
  batch.attempts.push_back({"exp-1", attempt});
  ASSERT_OK(store_->Write(batch));
  v1::QueryPointsRequest request;
  request.mutable_selector()->set_run("exp-1");
  const auto context = Context();
  const auto stalled = stub_->QueryPoints(context.get(), request);
  v1::QueryPointsResponse first;
  ASSERT_TRUE(stalled->Read(&first));
  // The only thread is free for others although the stream waits for its reader.
  v1::GetStatusResponse status;
  EXPECT_TRUE(stub_->GetStatus(Context().get(), {}, &status).ok());
  // A second stream takes the last place; a third call is refused, and let in when one has ended.
  const auto second_context = Context();
  const auto second = stub_->QueryPoints(second_context.get(), request);
  ASSERT_TRUE(second->Read(&first));
  EXPECT_EQ(stub_->GetStatus(Context().get(), {}, &status).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  context->TryCancel();
  EXPECT_EQ(stalled->Finish().error_code(), grpc::StatusCode::CANCELLED);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!stub_->GetStatus(Context().get(), {}, &status).ok()) {
    ASSERT_LT(absl::Now(), deadline) << "the cancelled stream kept its place";
  }
  second_context->TryCancel();
  second->Finish();
}

}  // namespace
}  // namespace foreshock::integration
