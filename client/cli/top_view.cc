#include "client/cli/top_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/alert_block.h"
#include "client/cli/format.h"
#include "client/cli/text.h"
#include "daemon/base/format_bytes.h"

namespace foreshock::cli {
namespace {

constexpr size_t kNameColumnsMax = 40;
constexpr double kMoved = 0.25;  // of the baseline: a change that is shown although nothing fires

std::string Dim(absl::string_view text) { return Painted(Style::kDim, text); }

Style AlertStyle(const v1::Alert& alert) {
  if (alert.state() == v1::ALERT_STATE_FIRING) return SeverityStyle(alert.severity());
  return alert.state() == v1::ALERT_STATE_RESOLVED ? Style::kGreen : Style::kPlain;
}

std::string StateText(v1::RunState state) {
  const Style style = state == v1::RUN_STATE_LIVE     ? Style::kGreen
                      : state == v1::RUN_STATE_FAILED ? Style::kRed
                      : state == v1::RUN_STATE_SILENT ? Style::kYellow
                                                      : Style::kPlain;
  return Painted(style, StateName(state));
}

std::string RateText(const std::optional<double>& rate) {
  if (!rate.has_value()) return "-";
  return *rate >= 100 ? absl::StrFormat("%.0f", *rate) : absl::StrFormat("%.1f", *rate);
}

// Of a run that has ended nothing is to be expected.
std::string StepRateText(const TopRun& run) {
  const bool goes_on =
      run.run.state() == v1::RUN_STATE_LIVE || run.run.state() == v1::RUN_STATE_SILENT;
  return goes_on ? RateText(run.steps_per_s) : "-";
}

uint32_t NewestAttempt(const v1::Run& run) {
  return run.attempts_size() == 0 ? 0 : run.attempts().rbegin()->number();
}

std::string LastStep(const v1::Run& run) {
  return run.has_last_step() ? absl::StrCat(run.last_step()) : "-";
}

// "+12 %"; "x15" from a fivefold on, for which per cents say little.
std::string ChangeText(double value, double baseline) {
  if (baseline == 0) return "";
  const double ratio = value / baseline;
  if (ratio >= 5) return absl::StrFormat("×%.0f", std::min(ratio, 999.0));
  return absl::StrFormat("%+.0f%%", std::max((ratio - 1) * 100, -999.0));
}

std::string CellText(const TopCell& cell) {
  if (!cell.value.has_value()) return Dim("-");
  std::string text = FormatValue(*cell.value);
  Style style = SeverityStyle(cell.severity);
  if (const std::optional<double> baseline = cell.baseline(); baseline.has_value()) {
    absl::StrAppend(&text, " ", PadLeft(ChangeText(*cell.value, *baseline), 5));
    const bool moved = std::abs(*cell.value - *baseline) > kMoved * std::abs(*baseline);
    if (style == Style::kPlain && moved) style = Style::kBold;
  } else {
    absl::StrAppend(&text, std::string(6, ' '));
  }
  return Painted(style, text);
}

std::string AlertName(const v1::Alert& alert) {
  return alert.fault().empty() || alert.fault() == "unknown" ? alert.rule() : alert.fault();
}

Style HealthStyle(NotifierMetrics::Health health) {
  return health == NotifierMetrics::Health::kGood      ? Style::kPlain
         : health == NotifierMetrics::Health::kTrouble ? Style::kYellow
                                                       : Style::kRedBold;
}

std::string NotifiersLine(const absl::StatusOr<DaemonMetrics>& metrics, absl::Time now) {
  if (!metrics.ok()) {
    return Painted(Style::kYellow,
                   Printable(absl::StrCat("notifiers: not known, ", metrics.status().message())));
  }
  std::string text;
  // Those in trouble first: the line may be cut.
  std::vector<NotifierMetrics> notifiers = metrics->notifiers;
  std::stable_sort(
      notifiers.begin(), notifiers.end(),
      [](const NotifierMetrics& a, const NotifierMetrics& b) { return a.health() > b.health(); });
  for (const NotifierMetrics& notifier : notifiers) {
    absl::StrAppend(
        &text, text.empty() ? "notifiers: " : "; ",
        Painted(HealthStyle(notifier.health()), Printable(NotifierText(notifier, now))));
  }
  if (text.empty()) text = Painted(Style::kYellow, "notifiers: none is configured");
  if (metrics->silences > 0) absl::StrAppend(&text, "; ", Plural(metrics->silences, "silence"));
  return text;
}

const char* const kHelpLines[] = {
    "foreshock top",
    "",
    "  up, down, k, j      move              enter, right, l   open the run or alert",
    "  page up, page down  move by a page    esc, left, h      back",
    "  home, end, g, G     first, last       ?                 this page",
    "                                        q                 quit",
    "",
    "Runs    STEP/S is what the daemon has seen between two looks. FIRING counts",
    "        warnings and critical alerts; INFO counts single indicators that moved,",
    "        which healthy runs have too. The curve is the loss over the newest",
    "        1024 steps.",
    "Layers  The newest value, as the mean over the layer's heads, and its change:",
    "        against the baseline of the alert that fires there, in the alert's",
    "        colour, else against the median over the newest 2048 steps without",
    "        their last quarter. A change of more than a quarter is bold.",
    "Alerts  Firing first, then the gravest, then the newest. SINCE is the step it",
    "        fired at, or began at while it is pending.",
};

constexpr char kKeysRuns[] = "↑↓ move  enter open  ? help  q quit";
constexpr char kKeysBelow[] = "↑↓ move  enter open  esc back  ? help  q quit";
constexpr char kKeysText[] = "↑↓ scroll  esc back  q quit";

}  // namespace

TopView::TopView(std::string run) {
  if (run.empty()) return;
  run_ = std::move(run);
  wanted_.run = run_;
  pages_.push_back(Page::kRun);
}

TopView::Lines TopView::Health(const TopNews& news, size_t columns) const {
  const TopData& data = *news.data;
  const v1::GetStatusResponse& status = data.status;
  Lines lines;
  if (news.trouble.empty()) {
    const std::string state = status.draining() ? Painted(Style::kYellow, "draining")
                              : status.ready()  ? Painted(Style::kGreen, "ready")
                                                : Painted(Style::kRed, "not ready");
    lines.push_back(absl::StrCat(
        Painted(Style::kBold,
                Printable(absl::StrCat("foreshockd ", status.version(), " at ", data.server))),
        "  ", state, ", up ",
        ShortDuration(data.at - absl::FromUnixNanos(status.started_unix_ns())), ", ",
        Plural(status.streams(), "stream"), ", ", base::FormatBytes(status.resident_bytes())));
  } else {
    const absl::Duration wait = std::max(absl::ZeroDuration(), news.retry_at - news.now);
    lines.push_back(
        Painted(Style::kRedBold,
                Printable(absl::StrCat(
                    "no answer from ", data.server, " for ",
                    absl::StrFormat("%.0f s", absl::ToDoubleSeconds(news.now - data.steady_at)),
                    ", again in ", absl::StrFormat("%.0f s", absl::ToDoubleSeconds(wait)), ": ",
                    news.trouble))));
  }
  std::string flow = absl::StrCat("in ", RateText(data.reports_per_s), " reports/s");
  if (data.metrics.ok()) {
    absl::StrAppend(&flow, ", ",
                    Painted(data.metrics->reports_refused > 0 ? Style::kYellow : Style::kPlain,
                            absl::StrCat(FormatCount(data.metrics->reports_refused), " refused")));
  }
  absl::StrAppend(&flow, ", ",
                  Painted(status.summaries_rejected() > 0 ? Style::kYellow : Style::kPlain,
                          absl::StrCat(FormatCount(status.summaries_rejected()), " rejected")));
  if (data.metrics.ok()) {
    absl::StrAppend(&flow, "; queue ", FormatCount(data.metrics->queue_items), ", ",
                    base::FormatBytes(data.metrics->queue_bytes));
  }
  absl::StrAppend(&flow, "; store ", base::FormatBytes(status.store_bytes()),
                  status.store_writable() ? "" : Painted(Style::kRedBold, " NOT WRITABLE"));
  lines.push_back(flow);
  lines.push_back(NotifiersLine(data.metrics, data.at));
  for (std::string& line : lines) line = Fit(line, columns);
  return lines;
}

TopView::Section TopView::Runs(const TopData& data, size_t columns) const {
  size_t longest = 3;
  for (const TopRun& run : data.runs) {
    longest = std::max(longest, DisplayWidth(Printable(run.run.name())));
  }
  // cursor 2, state 9, attempt 3, step 8, rate 6, firing 6, info 4, loss 8, and the gaps.
  constexpr size_t kFixed = 2 + 9 + 3 + 8 + 6 + 6 + 4 + 8 + 8;
  constexpr size_t kCurveMin = 10;
  const size_t room = columns > kFixed + kCurveMin + 10 ? columns - kFixed - kCurveMin : 10;
  const size_t name = std::min({longest, kNameColumnsMax, room});
  const size_t curve = std::min<size_t>(columns > kFixed + name ? columns - kFixed - name : 0, 64);
  const auto line = [&](absl::string_view run, absl::string_view state, absl::string_view attempt,
                        absl::string_view step, absl::string_view rate, absl::string_view firing,
                        absl::string_view info, absl::string_view loss, absl::string_view losses) {
    return absl::StrCat(PadRight(run, name), " ", PadRight(state, 9), " ", PadLeft(attempt, 3), " ",
                        PadLeft(step, 8), " ", PadLeft(rate, 6), " ", PadLeft(firing, 6), " ",
                        PadLeft(info, 4), " ", PadLeft(loss, 8), " ", PadRight(losses, curve));
  };
  Section section;
  section.title = absl::StrCat("runs");
  section.header = line("RUN", "STATE", "ATT", "STEP", "STEP/S", "FIRING", "INFO", "LOSS", "");
  section.nothing = "no runs yet; push one: foreshock replay FILE.fscap";
  for (const TopRun& run : data.runs) {
    section.rows.push_back(line(
        Printable(run.run.name()), StateText(run.run.state()), absl::StrCat(NewestAttempt(run.run)),
        LastStep(run.run), StepRateText(run), FiringText(run.firing), absl::StrCat(run.firing.info),
        run.loss.has_value() ? FormatValue(*run.loss) : "-",
        Painted(Style::kCyan, Sparkline(run.losses, curve))));
  }
  return section;
}

TopView::Section TopView::Alerts(const std::vector<v1::Alert>& alerts, bool with_run,
                                 size_t columns) const {
  // cursor 2, severity 8, state 8, step 8, and the gaps.
  constexpr size_t kFixed = 2 + 8 + 8 + 8 + 5;
  const size_t room = std::max<size_t>(columns, kFixed + 30) - kFixed;
  const size_t what = with_run ? room / 2 : room * 60 / 100;
  const size_t where = with_run ? room * 27 / 100 : room - what;
  const size_t run = with_run ? room - what - where : 0;
  const auto line = [&](absl::string_view severity, absl::string_view state, absl::string_view step,
                        absl::string_view name, absl::string_view place, absl::string_view of) {
    return absl::StrCat(PadRight(severity, 8), " ", PadRight(state, 8), " ", PadLeft(step, 8), " ",
                        PadRight(name, what), " ", PadRight(place, where), " ", PadRight(of, run));
  };
  Section section;
  uint64_t firing = 0;
  for (const v1::Alert& alert : alerts) {
    const bool fires = alert.state() == v1::ALERT_STATE_FIRING;
    firing += fires ? 1 : 0;
    const Style style = AlertStyle(alert);
    const int64_t step = alert.has_firing_step() ? alert.firing_step() : alert.pending_step();
    section.rows.push_back(line(
        Painted(style, Printable(alert.severity())), Painted(style, StateName(alert.state())),
        absl::StrCat(step), Painted(fires ? style : Style::kPlain, Printable(AlertName(alert))),
        Printable(FormatWhere(alert)), with_run ? Printable(alert.run()) : ""));
  }
  section.title = absl::StrCat("alerts, ", firing, " firing");
  section.header =
      line("SEVERITY", "STATE", "SINCE", "FAULT OR RULE", "WHERE", with_run ? "RUN" : "");
  section.nothing = "no alerts";
  return section;
}

TopView::Section TopView::Layers(const TopData& data, size_t columns) const {
  constexpr size_t kLayer = 5;
  constexpr size_t kCellMin = 12;  // "0.7432  -10%"
  std::vector<size_t> widths;      // of the cells that fit
  size_t used = 2 + kLayer;
  for (const Headline& column : data.columns) {
    const size_t width = std::max(kCellMin, DisplayWidth(column.title));
    if (used + 1 + width > columns) break;
    used += 1 + width;
    widths.push_back(width);
  }
  Section section;
  section.title = "layers";
  section.header = PadLeft("LAYER", kLayer);
  for (size_t c = 0; c < widths.size(); ++c) {
    absl::StrAppend(&section.header, " ",
                    PadLeft(absl::AsciiStrToUpper(data.columns[c].title), widths[c]));
  }
  section.nothing = "no indicator by layer yet";
  for (const TopLayer& layer : data.layers) {
    std::string row = PadLeft(absl::StrCat(layer.layer), kLayer);
    for (size_t c = 0; c < widths.size(); ++c) {
      absl::StrAppend(&row, " ", PadLeft(CellText(layer.cells[c]), widths[c]));
    }
    section.rows.push_back(std::move(row));
  }
  return section;
}

TopView::Lines TopView::RunHead(const TopData& data, size_t columns) const {
  const auto found = std::find_if(data.runs.begin(), data.runs.end(),
                                  [&](const TopRun& run) { return run.run.name() == run_; });
  if (found == data.runs.end()) {
    return {
        Painted(Style::kYellow, Fit(Printable(absl::StrCat("there is no run ", run_)), columns))};
  }
  const TopRun& top = *found;
  const v1::Run& run = top.run;
  std::string ranks;
  if (run.attempts_size() > 0) {
    const v1::Attempt& attempt = *run.attempts().rbegin();
    ranks = absl::StrCat(", ", attempt.ranks_connected(), " of ", attempt.world_size(), " ranks");
  }
  Lines lines;
  lines.push_back(absl::StrCat(
      Painted(Style::kBold, Fit(Printable(run.name()), std::max<size_t>(20, columns / 2))), "  ",
      StateText(run.state()), ", attempt ", NewestAttempt(run), ", step ", LastStep(run), ", ",
      StepRateText(top), " steps/s", ranks));
  const std::string loss = top.loss.has_value() ? FormatValue(*top.loss) : "-";
  lines.push_back(absl::StrCat(
      "loss ", loss, "  ",
      Painted(Style::kCyan,
              Sparkline(top.losses, std::min<size_t>(64, columns > 40 ? columns - 20 : 20)))));
  for (std::string& line : lines) line = Fit(line, columns);
  return lines;
}

TopView::Lines TopView::Stack(const Section& above, const Section& below, size_t rows,
                              size_t columns) {
  // Title, header and a blank line between: three and two lines of frame.
  const auto body = [](const Section& section) { return std::max<size_t>(1, section.rows.size()); };
  size_t upper = body(above);
  size_t lower = body(below);
  const bool bounded = rows != std::numeric_limits<size_t>::max();
  if (bounded) {
    const size_t room = rows > 7 ? rows - 5 : 2;
    const size_t half = (room + 1) / 2;
    upper = std::min(upper, std::max(half, room - std::min(room, lower)));
    lower = std::min(lower, room - std::min(room, upper));
  }
  Lines lines;
  const auto add = [&](const Section& section, size_t shown, size_t offset) {
    const size_t all = section.rows.size();
    size_t first = 0;
    const bool here = cursor_index_ >= offset && cursor_index_ < offset + all;
    const size_t at = here ? cursor_index_ - offset : 0;
    if (here && at >= shown) first = std::min(at - shown / 2, all - std::min(all, shown));
    const size_t last = std::min(all, first + shown);
    std::string title = absl::AsciiStrToUpper(section.title);
    if (last - first < all) absl::StrAppend(&title, ", ", first + 1, "-", last, " of ", all);
    lines.push_back(Painted(Style::kBold, Fit(title, columns)));
    if (all == 0) {
      lines.push_back(Dim(Fit(absl::StrCat("  ", section.nothing), columns)));
      return;
    }
    const std::string header = Fit(absl::StrCat("  ", section.header), columns);
    lines.push_back(Dim(absl::StripTrailingAsciiWhitespace(header)));
    for (size_t i = first; i < last; ++i) {
      const bool cursor = bounded && cursor_.has_value() && here && i == at;
      lines.push_back(
          Fit(absl::StrCat(cursor ? Painted(Style::kBold, "▸ ") : "  ", section.rows[i]), columns));
    }
    if (here) page_rows_ = std::max<size_t>(1, shown);
  };
  add(above, upper, 0);
  lines.push_back("");
  add(below, lower, above.rows.size());
  return lines;
}

TopView::Lines TopView::Scrolled(const Lines& lines, size_t rows) {
  if (rows >= lines.size()) {
    top_line_ = 0;
    return lines;
  }
  top_line_ = std::min(top_line_, lines.size() - rows);
  page_rows_ = rows;
  const auto first = lines.begin() + static_cast<std::ptrdiff_t>(top_line_);
  return Lines(first, first + static_cast<std::ptrdiff_t>(rows));
}

std::vector<std::string> TopView::Draw(const TopNews& news, TopSize size) {
  const size_t columns = std::max<size_t>(20, size.columns);
  const bool bounded = size.rows > 0;
  Lines lines;
  if (news.data == nullptr) {
    lines.push_back(Fit(Printable(news.trouble.empty() ? "asking the daemon ..."
                                                       : absl::StrCat("no answer: ", news.trouble)),
                        columns));
    if (bounded && lines.size() > size.rows) lines.resize(size.rows);
    return lines;
  }
  const TopData& data = *news.data;
  const Page page = pages_.back();
  lines = Health(news, columns);
  lines.push_back("");
  const char* keys = kKeysRuns;
  items_.clear();
  const auto rest = [&](size_t extra) {
    const size_t used = lines.size() + extra + 1;  // the line of keys
    return !bounded ? std::numeric_limits<size_t>::max() : size.rows > used ? size.rows - used : 0;
  };
  Lines body;
  if (page == Page::kRuns) {
    for (const TopRun& run : data.runs) items_.push_back({Item::Kind::kRun, run.run.name()});
    for (const v1::Alert& alert : data.alerts) items_.push_back({Item::Kind::kAlert, alert.id()});
    PlaceCursor();
    body = Stack(Runs(data, columns), Alerts(data.alerts, true, columns), rest(0), columns);
  } else if (page == Page::kRun) {
    keys = kKeysBelow;
    body = RunHead(data, columns);
    body.push_back("");
    const bool whole = data.run == run_;  // else the daemon has not been asked for it yet
    static const std::vector<v1::Alert> kNone;
    const std::vector<v1::Alert>& alerts = whole ? data.run_alerts : kNone;
    Section layers = whole ? Layers(data, columns) : Section{.title = "layers"};
    if (!whole) layers.nothing = "asking ...";
    for (size_t i = 0; i < layers.rows.size(); ++i) {
      items_.push_back({Item::Kind::kLayer, absl::StrCat(data.layers[i].layer)});
    }
    for (const v1::Alert& alert : alerts) items_.push_back({Item::Kind::kAlert, alert.id()});
    PlaceCursor();
    const Lines stack = Stack(layers, Alerts(alerts, false, columns), rest(body.size()), columns);
    body.insert(body.end(), stack.begin(), stack.end());
  } else if (page == Page::kAlert) {
    keys = kKeysText;
    for (const std::vector<v1::Alert>* alerts : {&data.alerts, &data.run_alerts}) {
      for (const v1::Alert& alert : *alerts) {
        if (alert.id() == alert_) alert_shown_ = alert;
      }
    }
    const Terminal terminal(true, true, static_cast<int>(columns));
    const Lines block =
        absl::StrSplit(PrintableLines(AlertBlock(alert_shown_, terminal)), '\n', absl::SkipEmpty());
    body = Scrolled(block, rest(0));
  } else {
    keys = kKeysText;
    body = Scrolled(Lines(std::begin(kHelpLines), std::end(kHelpLines)), rest(0));
  }
  wanted_.runs.clear();
  for (const TopRun& run : data.runs) {
    // All that could be on the screen, whatever the cursor does until the next look.
    const size_t index = static_cast<size_t>(&run - data.runs.data());
    const size_t at = page == Page::kRuns ? std::min(cursor_index_, data.runs.size()) : 0;
    if (index + kTopRunsFirst >= at && index < at + kTopRunsFirst) {
      wanted_.runs.push_back(run.run.name());
    }
  }
  for (std::string& line : body) lines.push_back(Fit(line, columns));
  if (!bounded) return lines;
  lines.resize(size.rows - 1);
  lines.push_back(Dim(Fit(keys, columns)));
  return lines;
}

// Where the item of the cursor is now; its old place if it has gone.
void TopView::PlaceCursor() {
  const auto found =
      cursor_.has_value() ? std::find(items_.begin(), items_.end(), *cursor_) : items_.end();
  if (found != items_.end()) cursor_index_ = static_cast<size_t>(found - items_.begin());
  if (items_.empty()) {
    cursor_.reset();
    cursor_index_ = 0;
    return;
  }
  cursor_index_ = std::min(cursor_index_, items_.size() - 1);
  cursor_ = items_[cursor_index_];
}

void TopView::Move(long by) {
  const auto moved = [by](size_t at, size_t end) {
    const long last = static_cast<long>(end) - 1;
    return static_cast<size_t>(std::clamp(static_cast<long>(at) + by, 0L, std::max(0L, last)));
  };
  if (pages_.back() == Page::kAlert || pages_.back() == Page::kHelp) {
    top_line_ = moved(top_line_, 1000);  // drawing stops at the last line
    return;
  }
  if (items_.empty()) return;
  cursor_index_ = moved(cursor_index_, items_.size());
  cursor_ = items_[cursor_index_];
}

void TopView::Open() {
  if (!cursor_.has_value() || cursor_->kind == Item::Kind::kLayer) return;
  if (pages_.back() != Page::kRuns && pages_.back() != Page::kRun) return;
  cursors_.push_back(*cursor_);
  if (cursor_->kind == Item::Kind::kRun) {
    run_ = cursor_->id;
    wanted_.run = run_;
    pages_.push_back(Page::kRun);
  } else {
    alert_ = cursor_->id;
    pages_.push_back(Page::kAlert);
  }
  cursor_.reset();
  cursor_index_ = 0;
  top_line_ = 0;
}

void TopView::Back() {
  if (pages_.size() == 1) return;
  if (pages_.back() == Page::kRun) wanted_.run.clear();
  pages_.pop_back();
  top_line_ = 0;
  cursor_.reset();
  cursor_index_ = 0;
  if (cursors_.empty()) return;
  cursor_ = cursors_.back();
  cursors_.pop_back();
}

bool TopView::Press(TopKey key) {
  const long page = static_cast<long>(page_rows_);
  constexpr long kFar = 1'000'000'000;
  switch (key) {
    case TopKey::kUp:
      Move(-1);
      break;
    case TopKey::kDown:
      Move(1);
      break;
    case TopKey::kPageUp:
      Move(-page);
      break;
    case TopKey::kPageDown:
      Move(page);
      break;
    case TopKey::kHome:
      Move(-kFar);
      break;
    case TopKey::kEnd:
      Move(kFar);
      break;
    case TopKey::kEnter:
      Open();
      break;
    case TopKey::kBack:
      Back();
      break;
    case TopKey::kHelp:
      if (pages_.back() == Page::kHelp) break;
      cursors_.push_back(cursor_.value_or(Item{}));
      pages_.push_back(Page::kHelp);
      top_line_ = 0;
      break;
    case TopKey::kQuit:
      return false;
  }
  return true;
}

}  // namespace foreshock::cli
