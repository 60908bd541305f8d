// The page people look at, under / of the HTTP port. It is a program of the browser's that asks
// /api/v1 for everything; the daemon only hands out its three files.
//
//   AddPageRoutes(&http_server);
#pragma once

#include "daemon/http/server.h"

namespace foreshock::web {

// GET (and HEAD) /, the path of every view, and the files below /web/. Any other path that is not
// below /api/ or /-/ answers 404 with a page that says where to go. Where the page was not built a
// plain text says so.
void AddPageRoutes(http::HttpServer* server);

}  // namespace foreshock::web
