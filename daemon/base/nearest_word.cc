#include "daemon/base/nearest_word.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace foreshock::base {
namespace {

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

absl::string_view NearestWord(absl::string_view word, absl::Span<const std::string> known) {
  absl::string_view best;
  size_t best_distance = std::min<size_t>(3, word.size() / 3 + 1);
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance || (distance == best_distance && best.empty())) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string DidYouMean(absl::string_view word, absl::Span<const std::string> known) {
  const absl::string_view near = NearestWord(word, known);
  return near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?");
}

}  // namespace foreshock::base
