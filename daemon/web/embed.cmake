# cmake -D INDEX=index.html -D BUNDLE=DIR -D OUTPUT=assets.cc -P embed.cmake
#   Writes DIR/main.js, DIR/style.css and the HTML as Assets() of assets.h. @SCRIPT_HASH@ and
#   @STYLE_HASH@ in the HTML become hashes of the files, so that a browser may keep them for ever.
file(READ ${BUNDLE}/main.js script)
file(READ ${BUNDLE}/style.css style)
file(READ ${INDEX} page)
string(SHA256 SCRIPT_HASH "${script}")
string(SHA256 STYLE_HASH "${style}")
string(SUBSTRING ${SCRIPT_HASH} 0 16 SCRIPT_HASH)
string(SUBSTRING ${STYLE_HASH} 0 16 STYLE_HASH)
string(CONFIGURE "${page}" page @ONLY)
file(WRITE ${OUTPUT} "// Made by daemon/web/embed.cmake.
#include \"daemon/web/assets.h\"

#if defined(__clang__)
#pragma clang diagnostic ignored \"-Woverlength-strings\"
#endif

namespace foreshock::web::internal {
namespace {

const Asset kAssets[] = {
    {\"index.html\", \"text/html; charset=utf-8\", R\"foreshock(${page})foreshock\"},
    {\"main.js\", \"text/javascript; charset=utf-8\", R\"foreshock(${script})foreshock\"},
    {\"style.css\", \"text/css; charset=utf-8\", R\"foreshock(${style})foreshock\"}};

}  // namespace

absl::Span<const Asset> Assets() { return kAssets; }

}  // namespace foreshock::web::internal
")
