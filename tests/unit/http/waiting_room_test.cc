#include "daemon/http/waiting_room.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::http::internal {
namespace {

constexpr size_t kThreads = 3;

int NextOf(WaitingRoom* room) {
  const auto guest = room->Next();
  return guest.has_value() ? guest->fd : -1;
}

TEST(WaitingRoomTest, WhoIsServedLeastComesFirstAndThenWhoWaitsLongest) {
  WaitingRoom room(10, kThreads);
  for (int fd : {1, 2, 3}) EXPECT_FALSE(room.Enter({fd, "crowd"}));
  EXPECT_EQ(NextOf(&room), 1);
  EXPECT_FALSE(room.Enter({4, "one"}));
  EXPECT_EQ(NextOf(&room), 4);
  EXPECT_EQ(NextOf(&room), 2);
}

TEST(WaitingRoomTest, OneAddressDoesNotGetTheLastThread) {
  WaitingRoom room(10, kThreads);
  for (int fd : {1, 2, 3, 4}) EXPECT_FALSE(room.Enter({fd, "crowd"}));
  EXPECT_EQ(NextOf(&room), 1);
  EXPECT_EQ(NextOf(&room), 2);
  EXPECT_TRUE(room.Wanted("crowd"));   // it waits for its own threads
  EXPECT_FALSE(room.Wanted("other"));  // whose thread it could not have
  int next = 0;
  std::thread third([&] { next = NextOf(&room); });
  EXPECT_FALSE(room.Enter({5, "probe"}));
  third.join();
  EXPECT_EQ(next, 5);
  room.Leave("crowd");
  EXPECT_EQ(NextOf(&room), 3);
}

TEST(WaitingRoomTest, ALoneThreadServesEverybody) {
  WaitingRoom room(10, 1);
  EXPECT_FALSE(room.Enter({1, "a"}));
  EXPECT_EQ(NextOf(&room), 1);
  EXPECT_FALSE(room.Wanted("a"));
  EXPECT_FALSE(room.Enter({2, "a"}));
  EXPECT_TRUE(room.Wanted("a"));
  room.Leave("a");
  EXPECT_EQ(NextOf(&room), 2);
}

TEST(WaitingRoomTest, WhenItIsFullTheCrowdGoesAndNobodyElse) {
  WaitingRoom room(3, kThreads);
  EXPECT_FALSE(room.Enter({1, "crowd"}));
  EXPECT_FALSE(room.Enter({2, "crowd"}));
  EXPECT_FALSE(room.Enter({3, "one"}));
  EXPECT_EQ(room.Enter({4, "crowd"})->fd, 4);  // the newest of them, which is itself
  EXPECT_EQ(room.Enter({5, "other"})->fd, 2);
  EXPECT_EQ(room.Enter({6, "other"})->fd, 6);
  EXPECT_EQ(room.Enter({7, "new"})->fd, 7);  // there is no crowd
  for (int fd : {1, 3, 5}) EXPECT_EQ(NextOf(&room), fd);
}

TEST(WaitingRoomTest, CloseLetsAllThatWaitGo) {
  WaitingRoom room(10, kThreads);
  for (int fd : {1, 2, 3}) EXPECT_FALSE(room.Enter({fd, "crowd"}));
  EXPECT_EQ(NextOf(&room), 1);
  EXPECT_EQ(NextOf(&room), 2);
  room.Close();
  EXPECT_EQ(NextOf(&room), 3);
  EXPECT_EQ(NextOf(&room), -1);
}

}  // namespace
}  // namespace foreshock::http::internal
