// Which handler answers a method and a path. Internal to http/.
#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/http/server.h"

namespace foreshock::http::internal {

// Thread-compatible.
class Routes {
 public:
  void Add(absl::string_view method, absl::string_view path, HttpHandler handler);

  // Runs the handler, or answers 404 or 405; a handler's exception becomes a 500. Fills
  // `request.rest`. HEAD is answered as GET.
  HttpResponse Answer(HttpRequest request) const;

 private:
  using ByMethod = std::map<std::string, HttpHandler>;

  const ByMethod* Find(HttpRequest* request) const;

  std::map<std::string, ByMethod> exact_;
  std::map<std::string, ByMethod> prefixes_;  // without the '*'
};

}  // namespace foreshock::http::internal
