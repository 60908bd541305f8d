// RankProgress against its plain form: the state of every rank of the world in one array.
#include "daemon/merge/rank_progress.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::merge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kBegin = absl::FromUnixSeconds(1'800'000'000);

class PlainProgress {
 public:
  explicit PlainProgress(uint32_t world_size) : ranks_(world_size) {}

  void Hear(uint32_t rank, absl::Time now) {
    ranks_[rank].spoke = true;
    ranks_[rank].heard = now;
    ranks_[rank].silent = false;
  }
  void Finished(uint32_t rank, int64_t through) {
    ranks_[rank].spoke = true;
    ranks_[rank].done = std::max(ranks_[rank].done, through);
  }
  void Gone(uint32_t rank) {
    ranks_[rank].spoke = true;
    ranks_[rank].silent = false;
    ranks_[rank].gone = true;
  }
  void Returns(uint32_t rank) {
    ranks_[rank].spoke = true;
    ranks_[rank].gone = false;
  }
  void GiveUpOn(int64_t step) {
    for (Rank& rank : ranks_) {
      if (rank.done < step && !rank.gone) rank.silent = true;
    }
  }

  bool AllLiveHaveFinished(int64_t step) const {
    return std::all_of(ranks_.begin(), ranks_.end(), [step](const Rank& rank) {
      return rank.gone || rank.silent || rank.done >= step;
    });
  }
  bool AnybodyIsBehind(int64_t step) const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [step](const Rank& rank) { return !rank.gone && rank.done < step; });
  }
  bool MostAreOnTheWay(int64_t step, absl::Time since) const {
    int more = 0;
    for (const Rank& rank : ranks_) {
      if (rank.gone) continue;
      if (rank.done >= step) --more;
      if (rank.done < step && rank.heard > since) ++more;
    }
    return more > 0;
  }
  std::vector<uint32_t> silent() const {
    return Where([](const Rank& rank) { return rank.silent; });
  }
  std::vector<uint32_t> hindmost() const {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (const Rank& rank : ranks_) {
      if (rank.gone) continue;
      least = std::min(least, rank.done);
      most = std::max(most, rank.done);
    }
    return Where(
        [&](const Rank& rank) { return !rank.gone && rank.done == least && least < most; });
  }
  size_t live() const {
    return Where([](const Rank& rank) { return rank.spoke && !rank.gone && !rank.silent; }).size();
  }
  size_t held() const {
    return Where([](const Rank& rank) { return rank.spoke; }).size();
  }

 private:
  struct Rank {
    int64_t done = -1;
    absl::Time heard = absl::InfinitePast();
    bool silent = false, gone = false, spoke = false;
  };
  template <typename Wanted>
  std::vector<uint32_t> Where(const Wanted& wanted) const {
    std::vector<uint32_t> numbers;
    for (uint32_t number = 0; number < ranks_.size(); ++number) {
      if (wanted(ranks_[number])) numbers.push_back(number);
    }
    return numbers;
  }

  std::vector<Rank> ranks_;
};

TEST(RankProgressTest, IsAsItsPlainForm) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const auto world = static_cast<uint32_t>(1 + random() % 6);
    RankProgress ranks(world);
    PlainProgress plain(world);
    int64_t given_up = -1;
    for (int i = 0; i < 40; ++i) {
      const auto rank = static_cast<uint32_t>(random() % world);
      const absl::Time now = kBegin + absl::Seconds(i);
      const int64_t step = given_up + static_cast<int64_t>(random() % 4);
      switch (random() % 8) {
        case 0:
          ranks.Gone(rank);
          plain.Gone(rank);
          break;
        case 1:
          ranks.Returns(rank);
          plain.Returns(rank);
          break;
        case 2:
          given_up = std::max(given_up, step);  // steps close in their order
          ranks.GiveUpOn(given_up);
          plain.GiveUpOn(given_up);
          break;
        default:
          ranks.Hear(rank, now);
          plain.Hear(rank, now);
          ranks.Finished(rank, step);
          plain.Finished(rank, step);
      }
      ASSERT_EQ(ranks.silent(), plain.silent()) << i;
      ASSERT_EQ(ranks.silent_count(), plain.silent().size()) << i;
      ASSERT_EQ(ranks.hindmost(), plain.hindmost()) << i;
      ASSERT_EQ(ranks.live(), plain.live()) << i;
      ASSERT_EQ(ranks.held(), plain.held()) << i;
      for (int64_t at = given_up; at < given_up + 5; ++at) {
        ASSERT_EQ(ranks.AllLiveHaveFinished(at), plain.AllLiveHaveFinished(at)) << i << ", " << at;
        ASSERT_EQ(ranks.AnybodyIsBehind(at), plain.AnybodyIsBehind(at)) << i << ", " << at;
        for (const int ago : {0, 1, 5}) {
          const absl::Time since = now - absl::Seconds(ago);
          ASSERT_EQ(ranks.MostAreOnTheWay(at, since), plain.MostAreOnTheWay(at, since))
              << i << ", " << at << ", " << ago;
        }
      }
    }
  }
}

TEST(RankProgressTest, RestoresWhoWasWhereAndWhoWasGone) {
  RankProgress ranks(3);
  ranks.Restore(0, 7, false);
  ranks.Restore(0, 9, false);
  ranks.Restore(1, 4, true);
  ranks.Restore(3, 1, false);  // not of this world
  EXPECT_EQ(ranks.held(), 2u);
  EXPECT_EQ(ranks.live(), 1u);
  EXPECT_FALSE(ranks.AllLiveHaveFinished(0)) << "rank 2";
  ranks.Finished(2, 9);
  EXPECT_TRUE(ranks.AllLiveHaveFinished(9));
  EXPECT_FALSE(ranks.AllLiveHaveFinished(10));
  EXPECT_THAT(ranks.hindmost(), IsEmpty());
  ranks.Returns(1);
  EXPECT_THAT(ranks.hindmost(), ElementsAre(1));
  EXPECT_FALSE(ranks.AllLiveHaveFinished(9));
}

}  // namespace
}  // namespace foreshock::merge
