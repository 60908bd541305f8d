#include "proxy/json.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace foreshock::proxy {
namespace {

constexpr int kDepthMax = 64;

template <typename Json>
absl::StatusOr<Json> Parse(absl::string_view file, absl::string_view text) {
  std::vector<absl::flat_hash_set<std::string>> names;
  std::string wrong;
  const auto watch = [&](int depth, typename Json::parse_event_t event, Json& value) {
    using Event = typename Json::parse_event_t;
    if (depth > kDepthMax && wrong.empty()) wrong = absl::StrCat("nested deeper than ", kDepthMax);
    if (event == Event::object_start) names.emplace_back();
    if (event == Event::object_end) names.pop_back();
    if (event == Event::key) {
      const auto name = value.template get<std::string>();
      if (!names.back().insert(name).second && wrong.empty()) {
        wrong = absl::StrCat("the name '", name, "' comes twice in one object");
      }
    }
    return true;
  };
  try {
    Json value = Json::parse(text.begin(), text.end(), watch);
    if (wrong.empty()) return value;
  } catch (const nlohmann::json::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": byte ", error.byte, ": not JSON: ", error.what()));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": not JSON: ", error.what()));
  }
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", wrong));
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view file, absl::string_view text) {
  return Parse<nlohmann::json>(file, text);
}

absl::StatusOr<nlohmann::ordered_json> ParseOrderedJson(absl::string_view file,
                                                        absl::string_view text) {
  return Parse<nlohmann::ordered_json>(file, text);
}

}  // namespace foreshock::proxy
