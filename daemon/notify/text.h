// The words of messages. Every notifier takes its words here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/notify/notifier.h"

namespace foreshock::notify {

// A message describes at most so many alerts, the most severe, and counts the others.
inline constexpr size_t kAlertsShown = 5;

// "FIRING critical exp-42 Delta2EntropyFalls at step 460 in layers 1, 2:
// attn.delta2.entropy_ratio_l1 0.61, baseline 0.78 (-21.8 %); probable fault
// low_precision_attention; last healthy step 400, roll back to checkpoint step-400; runbook
// https://..."
// `end_reason`: EndReason.
std::string AlertLine(const v1::Alert& alert, MessageKind kind, const std::string& end_reason = "");

// "critical: low_precision_attention in run exp-42, layers 1, 2, since step 440 (and 2 more)": at
// most `bytes_max` bytes, whole characters.
std::string Headline(const Message& message, size_t bytes_max);

// What someone who is woken at night needs of an alert, as (label, text): what, where, since when,
// value against baseline, probable fault, last healthy step, what to do, runbook, page. No text is
// empty.
std::vector<std::pair<std::string, std::string>> Facts(const v1::Alert& alert,
                                                       const std::string& external_url);

// "layers 0, 2, head 3, rank 5, 'loss'"; "" if the alert names no place.
std::string PlaceText(const v1::Alert& alert);

// The addresses of the page of the run and of the alert; "" without an external_url.
std::string RunUrl(const std::string& external_url, const std::string& run);
std::string AlertUrl(const std::string& external_url, const v1::Alert& alert);

// At most `bytes_max` bytes, cut between characters, with "..." where it was cut.
std::string Shorten(const std::string& text, size_t bytes_max);

}  // namespace foreshock::notify
