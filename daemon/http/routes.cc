#include "daemon/http/routes.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "daemon/base/check.h"
#include "daemon/base/log.h"

namespace foreshock::http::internal {
namespace {

HttpResponse HandlerFailed(const HttpRequest& request, const char* what) {
  base::LogEvery("http.handler", base::LogLevel::kError, "http", "a handler failed",
                 {{"method", request.method}, {"path", request.path}, {"what", what}});
  return ErrorResponse(500, "INTERNAL", "the daemon could not answer; its log says why");
}

}  // namespace

void Routes::Add(absl::string_view method, absl::string_view path, HttpHandler handler) {
  FORESHOCK_CHECK(handler != nullptr && absl::StartsWith(path, "/"));
  auto& table = absl::ConsumeSuffix(&path, "*") ? prefixes_ : exact_;
  const bool added =
      table[std::string(path)].emplace(std::string(method), std::move(handler)).second;
  FORESHOCK_CHECK(added);  // a route is registered once
}

const Routes::ByMethod* Routes::Find(HttpRequest* request) const {
  if (const auto it = exact_.find(request->path); it != exact_.end()) return &it->second;
  const ByMethod* found = nullptr;
  for (const auto& [prefix, methods] : prefixes_) {  // sorted: a longer match comes later
    if (request->path.size() > prefix.size() && absl::StartsWith(request->path, prefix)) {
      request->rest = request->path.substr(prefix.size());
      found = &methods;
    }
  }
  return found;
}

HttpResponse Routes::Answer(HttpRequest request) const {
  if (request.method == "HEAD") request.method = "GET";
  const ByMethod* methods = Find(&request);
  if (methods == nullptr) {
    std::vector<std::string> pages;
    for (const auto& entry : exact_) pages.push_back(entry.first);
    return ErrorResponse(
        404, "NOT_FOUND",
        absl::StrCat("no page at '", request.path, "'; there are ", absl::StrJoin(pages, ", ")));
  }
  const auto handler = methods->find(request.method);
  if (handler == methods->end()) {
    std::vector<std::string> allowed;
    for (const auto& entry : *methods) {
      allowed.push_back(entry.first);
      if (entry.first == "GET") allowed.push_back("HEAD");
    }
    const std::string list = absl::StrJoin(allowed, ", ");
    HttpResponse response =
        ErrorResponse(405, "UNIMPLEMENTED",
                      absl::StrCat(request.method, " on '", request.path, "': allowed are ", list));
    response.headers.emplace_back("Allow", list);
    return response;
  }
  try {
    return handler->second(request);
  } catch (const std::exception& error) {
    return HandlerFailed(request, error.what());
  } catch (...) {
    return HandlerFailed(request, "unknown exception");
  }
}

}  // namespace foreshock::http::internal
