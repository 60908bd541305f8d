#include "client/cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/say.h"
#include "daemon/base/clock.h"

namespace foreshock::cli {
namespace {

constexpr absl::Duration kDrawEvery = absl::Milliseconds(100);
constexpr absl::Duration kLineEvery = absl::Seconds(5);
constexpr size_t kBarColumns = 30;

}  // namespace

Progress::Progress(std::string label, uint64_t total)
    : label_(std::move(label)),
      total_(std::max<uint64_t>(total, 1)),
      terminal_(stderr),
      next_line_(base::SteadyNow() + kLineEvery) {}

void Progress::Update(uint64_t done, const std::string& note) {
  base::MutexLock lock(&mutex_);
  done_ = std::min(done, total_);
  note_ = note;
  const absl::Time now = base::SteadyNow();
  if (terminal_.is_tty()) {
    if (now < next_draw_) return;
    next_draw_ = now + kDrawEvery;
    DrawLocked();
  } else if (now >= next_line_) {
    next_line_ = now + kLineEvery;
    SayError("%s: %3.0f %%, %s\n", label_,
             100.0 * static_cast<double>(done_) / static_cast<double>(total_), note_);
  }
}

void Progress::Print(const std::string& text) {
  base::MutexLock lock(&mutex_);
  const bool shown = shown_;
  ClearLocked();
  SayLines(text);
  std::fflush(stdout);
  if (shown) DrawLocked();
}

void Progress::Finish() {
  base::MutexLock lock(&mutex_);
  ClearLocked();
}

void Progress::DrawLocked() {
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const size_t full = static_cast<size_t>(share * kBarColumns);
  std::string bar;
  for (size_t i = 0; i < kBarColumns; ++i) bar += i < full ? "━" : "╌";
  const std::string line = absl::StrFormat("%s %s %3.0f %%  %s", label_,
                                           terminal_.Paint(Style::kCyan, bar), share * 100, note_);
  // A line that wraps could not be drawn over.
  const std::string shown = Fit(Printable(line), static_cast<size_t>(terminal_.columns()) - 1);
  std::fprintf(stderr, "\r\033[K%s", terminal_.Encode(shown).c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::ClearLocked() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace foreshock::cli
