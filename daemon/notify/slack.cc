#include "daemon/notify/slack.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/notify/text.h"

namespace foreshock::notify {
namespace {

using Json = nlohmann::json;

// Slack's limits are 3000 characters for a section and 50 blocks; escaping makes text longer.
constexpr size_t kTextMax = 2900;
constexpr size_t kFactMax = 500;
constexpr size_t kHeadlineMax = 300;

// Slack reads <...> as links and mentions.
std::string SlackEscaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

Json SectionOf(const std::string& text) {
  return {{"type", "section"}, {"text", {{"type", "mrkdwn"}, {"text", Shorten(text, kTextMax)}}}};
}

std::string FactsText(const v1::Alert& alert, const std::string& external_url) {
  std::string text;
  for (const auto& [label, fact] : Facts(alert, external_url)) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "*", label, ":* ",
                    SlackEscaped(Shorten(fact, kFactMax)));
  }
  return text;
}

}  // namespace

SendResult SlackNotifier::Send(const Message& message) {
  const std::string sign = message.kind == MessageKind::kResolved       ? ":white_check_mark: "
                           : message.kind == MessageKind::kAcknowledged ? ":eyes: "
                                                                        : ":rotating_light: ";
  const std::string headline = SlackEscaped(Headline(message, kHeadlineMax));
  Json blocks = Json::array();
  blocks.push_back(SectionOf(absl::StrCat(sign, "*", headline, "*")));
  if (message.kind == MessageKind::kFiring) {
    for (size_t i = 0; i < std::min(message.alerts.size(), kAlertsShown); ++i) {
      blocks.push_back(SectionOf(FactsText(message.alerts[i]->alert(), options_.external_url)));
    }
    if (message.alerts.size() > kAlertsShown) {
      blocks.push_back(
          SectionOf(absl::StrCat("... and ", message.alerts.size() - kAlertsShown, " more")));
    }
  }
  const Json json = {{"text", absl::StrCat(sign, headline)}, {"blocks", std::move(blocks)}};
  return ResultOf(poster_->Post(options_.url, {"Content-Type: application/json"},
                                json.dump(-1, ' ', false, Json::error_handler_t::replace)),
                  *poster_);
}

}  // namespace foreshock::notify
