// The pages of `foreshock top` as lines of text, and what keys do to them. Draws nothing and asks
// nobody, so that a test can hold a frame against what it should be.
//
//   TopView view;
//   std::vector<std::string> lines = view.Draw(news, {.rows = 24, .columns = 80});
//   if (!view.Press(TopKey::kEnter)) return;   // quit
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/top_data.h"

namespace foreshock::cli {

enum class TopKey {
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kBack,
  kHelp,
  kQuit,
};

// The newest data, and whether the daemon still answers.
struct TopNews {
  std::shared_ptr<const TopData> data{};  // null before the first answer
  std::string trouble{};                  // why the newest look failed; empty: it did not
  absl::Time retry_at{};                  // with trouble; of SteadyNow(), as is `now`
  absl::Time now{};
};

struct TopSize {
  size_t rows = 24;  // 0: as many as there is something to show
  size_t columns = 80;
};

class TopView {
 public:
  // Begins on the page of `run`, or with all runs if it is empty.
  explicit TopView(std::string run = "");

  // At most size.rows lines of at most size.columns, painted and printable.
  std::vector<std::string> Draw(const TopNews& news, TopSize size);
  // False: the person wants to leave.
  bool Press(TopKey key);
  // What the pages show now.
  const TopWanted& wanted() const { return wanted_; }

 private:
  enum class Page { kRuns, kRun, kAlert, kHelp };
  // What the cursor can stand on.
  struct Item {
    enum class Kind { kRun, kLayer, kAlert };
    Kind kind = Kind::kRun;
    std::string id{};
    friend bool operator==(const Item&, const Item&) = default;
  };
  using Lines = std::vector<std::string>;
  struct Section {
    std::string title{};
    std::string header{};
    Lines rows{};
    std::string nothing{};  // said where there are no rows
  };

  Lines Health(const TopNews& news, size_t columns) const;
  Section Runs(const TopData& data, size_t columns) const;
  Section Layers(const TopData& data, size_t columns) const;
  Section Alerts(const std::vector<v1::Alert>& alerts, bool with_run, size_t columns) const;
  Lines RunHead(const TopData& data, size_t columns) const;
  // Two sections one above the other in `rows` lines, the one with the cursor scrolled to it.
  Lines Stack(const Section& above, const Section& below, size_t rows, size_t columns);
  Lines Scrolled(const Lines& lines, size_t rows);
  void Move(long by);
  void Open();
  void Back();
  void PlaceCursor();

  std::vector<Page> pages_{Page::kRuns};
  std::string run_;    // of kRun
  std::string alert_;  // id, of kAlert
  v1::Alert alert_shown_;
  std::vector<Item> items_;     // of the page last drawn, above to below
  std::vector<Item> cursors_;   // where the cursor stood on the pages below
  std::optional<Item> cursor_;  // on it; kept when the list moves
  size_t cursor_index_ = 0;
  size_t page_rows_ = 10;  // that a page key moves
  size_t top_line_ = 0;    // of kAlert and kHelp
  TopWanted wanted_;
};

}  // namespace foreshock::cli
