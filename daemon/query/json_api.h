// /api/v1/...: the answers as JSON (docs/api.md).
//
//   AddJsonRoutes(&answers, &http_server);
#pragma once

#include "daemon/http/server.h"
#include "daemon/query/answers.h"

namespace foreshock::query {

// Points on one page: absent 10 000, at most 100 000; whoever wants more streams over gRPC.
inline constexpr int64_t kJsonPointsDefault = 10'000;
inline constexpr int64_t kJsonPointsMax = 100'000;

// `answers` outlives the server. All but the backtest, whose body is JSON, are GET (and HEAD) only.
void AddJsonRoutes(const Answers* answers, http::HttpServer* server);

}  // namespace foreshock::query
