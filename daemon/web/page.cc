#include "daemon/web/page.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/web/assets.h"

namespace foreshock::web {
namespace {

using internal::Asset;
using internal::Assets;

constexpr const char* kViews[] = {"/",       "/runs",    "/run",   "/attention", "/router",
                                  "/alerts", "/compare", "/alert", "/rules",     "/daemon"};

constexpr absl::string_view kNotBuilt =
    "This foreshockd was built without its page: esbuild or chart.js was missing then\n"
    "(deploy/apt-packages.txt names the packages; configuring the build says it too).\n"
    "\n"
    "The same is to be had as JSON, for example /api/v1/runs and /api/v1/alerts?state=firing,\n"
    "and in a terminal: foreshock runs, foreshock alerts, foreshock query.\n";

constexpr absl::string_view kNotFound =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<title>Foreshock: no such page</title></head><body><h1>There is no page at this address</h1>"
    "<p>Perhaps it is one of an older version. Start from <a href=\"/runs\">the runs</a>, "
    "<a href=\"/alerts\">the alerts</a> or <a href=\"/daemon\">the daemon's health</a>.</p>"
    "</body></html>\n";

// Only what this server hands out itself is loaded, run or asked, and nobody frames it. Styles are
// set through the object model, which is not what 'unsafe-inline' is about.
http::HttpResponse Page(const Asset& asset) {
  return {.content_type = std::string(asset.content_type),
          .body = std::string(asset.content),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
                       "data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Opener-Policy", "same-origin"}}};
}

http::HttpResponse NotFound(const http::HttpRequest& request) {
  if (absl::StartsWith(request.path, "/api/") || absl::StartsWith(request.path, "/-/")) {
    return http::ErrorResponse(404, "NOT_FOUND",
                               absl::StrCat("no page at '", request.path,
                                            "'; docs/api.md lists what is below /api/v1/ and /-/"));
  }
  http::HttpResponse response =
      Page({.name = "", .content_type = "text/html; charset=utf-8", .content = kNotFound});
  response.status = 404;
  return response;
}

}  // namespace

void AddPageRoutes(http::HttpServer* server) {
  const absl::Span<const Asset> assets = Assets();
  for (const Asset& asset : assets) {
    if (asset.name == "index.html") {
      for (const char* view : kViews) {
        server->Handle("GET", view, [asset](const http::HttpRequest&) { return Page(asset); });
      }
      continue;
    }
    // index.html names them with a hash of their content.
    server->Handle("GET", absl::StrCat("/web/", asset.name), [asset](const http::HttpRequest&) {
      http::HttpResponse response = Page(asset);
      response.headers.emplace_back("Cache-Control", "public, max-age=31536000, immutable");
      return response;
    });
  }
  if (assets.empty()) {
    for (const char* view : kViews) {
      server->Handle("GET", view, [](const http::HttpRequest&) {
        return http::HttpResponse{.body = std::string(kNotBuilt)};
      });
    }
  }
  for (const char* method : {"GET", "POST", "PUT", "PATCH", "DELETE"}) {
    server->Handle(method, "/*", NotFound);
  }
}

}  // namespace foreshock::web
