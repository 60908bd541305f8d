// The sentences of an alert: what moved, where, against what, what it probably is, what to do.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "daemon/rules/rule.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::rules {

// Fills summary, description and runbook from the annotations, or with plain sentences where there
// are none. Placeholders: {{run}} {{rule}} {{fault}} {{severity}} {{indicator}} {{layers}} {{rank}}
// {{unit}} {{value}} {{baseline}} {{step}} {{last_healthy_step}} {{checkpoint}}; one without a
// value becomes "unknown".
// Of an alert that is over they speak in the past: what was, and what was advised.
// `measure` is MeasureText of the rule whose value the alert shows. `sentence` says instead what a
// rule without an indicator has found; it stands in the summary, or behind the summary of the
// annotations in the description.
void WriteTexts(const Annotations& annotations, absl::string_view measure,
                absl::string_view sentence, absl::string_view confidence, v1::Alert* alert);

// Instead of these, of an alert that ends because its rule is not there any more.
void WriteEnd(absl::string_view why, v1::Alert* alert);

// Puts it behind the description.
void AppendSentence(absl::string_view sentence, v1::Alert* alert);

// "attn.delta2.relative_norm / train.lr", "norm(train.a, train.b)"; "" without an indicator.
std::string MeasureText(const Rule& rule);

// "layer 2", "layers 0, 2", "all layers"; "" without layers.
std::string LayersText(const v1::Alert& alert);

// The first {{...}} of `text` that is no placeholder; "" if there is none.
std::string UnknownPlaceholder(absl::string_view text);
std::string PlaceholderNames();

// With six significant digits.
std::string NumberText(double value);
// "1, 2, 3", at most eight of them: "1, 2, 3, 4, 5, 6, 7, 8 and 4 more". The alert's fields have
// all.
std::string SomeText(absl::Span<const int32_t> numbers);
// "rank 3", "ranks 3, 7".
std::string RanksText(absl::Span<const uint32_t> ranks);

}  // namespace foreshock::rules
