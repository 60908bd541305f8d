#include "daemon/store/key_codec.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace foreshock::store {
namespace {

constexpr uint32_t kU32s[] = {0, 1, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff};
constexpr int64_t kI64s[] = {
    std::numeric_limits<int64_t>::min(), -256, -1, 0, 1, 255, 256, int64_t{1} << 40,
    std::numeric_limits<int64_t>::max()};
constexpr uint64_t kU64s[] = {0, 1, 256, uint64_t{1} << 63, ~uint64_t{0}};

// All strings of up to three bytes that the escape treats differently.
std::vector<std::string> Strings() {
  std::vector<std::string> all = {""};
  size_t from = 0;
  for (int length = 1; length <= 3; ++length) {
    const size_t to = all.size();
    for (; from < to; ++from) {
      for (const char c : {'\x00', '\x01', '\x02', 'a', '\xfe', '\xff'}) {
        all.push_back(all[from] + c);
      }
    }
  }
  return all;
}

std::vector<model::SeriesKey> SeriesKeys() {
  std::vector<model::SeriesKey> all;
  for (const char* indicator : {"attn.a", "attn.a.b", "attn.b"}) {
    for (const int32_t layer : {std::numeric_limits<int32_t>::min(), -1, 0, 1, 300}) {
      for (const model::Unit unit :
           {model::Unit::kNone, model::Unit::kHead, model::Unit::kTensor}) {
        for (const int64_t id : {int64_t{-1}, int64_t{0}, int64_t{300}}) {
          for (const char* name : {"", "a", "ab"}) {
            all.push_back({indicator, layer, unit, id, name});
          }
        }
      }
    }
  }
  return all;
}

TEST(KeyCodecTest, HeadKeysComeBackAndSortAsTheirFields) {
  std::string last;
  for (const uint32_t run : kU32s) {
    for (const uint32_t attempt : kU32s) {
      for (const uint64_t seq : kU64s) {
        const HeadId id{run, attempt, seq};
        const std::string key = HeadKey(id);
        EXPECT_EQ(key.size(), 16u);
        EXPECT_LT(last, key);
        EXPECT_EQ(key.rfind(HeadPrefix(run, attempt), 0), 0u);
        HeadId decoded;
        ASSERT_TRUE(DecodeHeadKey(key, &decoded));
        EXPECT_EQ(decoded, id);
        last = key;
      }
    }
  }
}

TEST(KeyCodecTest, ChunkKeysComeBackAndSortByTheLastStepOfTheirWindow) {
  std::string last;
  for (const uint32_t series : kU32s) {
    for (const uint32_t attempt : kU32s) {
      for (const int64_t step : kI64s) {
        for (const uint8_t exponent : {0, 8, 20, 63}) {
          const ChunkId id{7, series, attempt, Window::Of(step, exponent)};
          const std::string key = ChunkKey(id);
          EXPECT_EQ(key.size(), 21u);
          EXPECT_EQ(key.rfind(ChunkPrefix(7, series, attempt), 0), 0u);
          ChunkId decoded;
          ASSERT_TRUE(DecodeChunkKey(key, &decoded));
          EXPECT_EQ(decoded, id);
          // One forward seek from a step finds the chunk that holds it, or the one after it.
          const int64_t end = id.window.last();
          EXPECT_GE(key, ChunkBoundary(7, series, attempt, step));
          EXPECT_GE(key, ChunkBoundary(7, series, attempt, end));
          if (end < std::numeric_limits<int64_t>::max()) {
            EXPECT_LT(key, ChunkBoundary(7, series, attempt, end + 1));
          }
          EXPECT_LT(last, ChunkBoundary(7, series, attempt, std::numeric_limits<int64_t>::min()));
        }
      }
      last = ChunkKey({7, series, attempt, Window::Of(kI64s[8], 63)});
    }
  }
}

TEST(KeyCodecTest, AChunkKeyWhoseWindowIsNoneIsRefused) {
  ChunkId id;
  std::string key = ChunkKey({1, 2, 3, Window::Of(256, 8)});
  ASSERT_TRUE(DecodeChunkKey(key, &id));
  key.back() = 9;  // [0, 512) ends at 511 too
  EXPECT_TRUE(DecodeChunkKey(key, &id));
  EXPECT_EQ(id.window.first, 0);
  key.back() = 10;
  EXPECT_FALSE(DecodeChunkKey(key, &id));
  key.back() = 64;
  EXPECT_FALSE(DecodeChunkKey(key, &id));
}

TEST(KeyCodecTest, ReportKeysComeBackAndSortByStepRankInstanceAndSeq) {
  std::vector<std::string> instances = Strings();
  std::sort(instances.begin(), instances.end());
  std::string last;
  for (const int64_t step : {int64_t{-1}, int64_t{0}, int64_t{300}}) {
    for (const uint32_t rank : {0u, 1u, 300u}) {
      for (const std::string& instance : instances) {
        for (const uint64_t seq : kU64s) {
          const ReportId id{7, 2, step, rank, instance, seq};
          const std::string key = ReportKey(id);
          EXPECT_LT(last, key);
          ReportId decoded;
          ASSERT_TRUE(DecodeReportKey(key, &decoded));
          EXPECT_EQ(decoded, id);
          last = key;
        }
      }
    }
  }
}

TEST(KeyCodecTest, SeriesKeysComeBackAndSortAsSeries) {
  std::vector<model::SeriesKey> all = SeriesKeys();
  std::sort(all.begin(), all.end());
  std::string last;
  for (const model::SeriesKey& series : all) {
    const std::string key = SeriesRowKey(7, series);
    EXPECT_LT(last, key);
    uint32_t run = 0;
    model::SeriesKey decoded;
    ASSERT_TRUE(DecodeSeriesRowKey(key, &run, &decoded));
    EXPECT_EQ(run, 7u);
    EXPECT_EQ(decoded, series);
    last = key;
  }
}

TEST(KeyCodecTest, StringsComeBackAndSortAsBytesWithTheShorterFirst) {
  std::vector<std::string> names = Strings();
  std::sort(names.begin(), names.end());  // compares as unsigned bytes
  std::string last;
  for (const std::string& name : names) {
    const std::string key = RunKey(name);
    EXPECT_LT(last, key);
    std::string decoded;
    ASSERT_TRUE(DecodeRunKey(key, &decoded));
    EXPECT_EQ(decoded, name);
    last = key;
  }
}

TEST(KeyCodecTest, AJudgingKeyIsItsRunAndKindAlone) {
  EXPECT_EQ(JudgingKey(0x01020304), "\x01\x02\x03\x04J");
}

TEST(KeyCodecTest, NoKeyIsAPrefixOfAnother) {
  std::vector<std::string> keys;
  for (const std::string& name : Strings()) {
    keys.push_back(RunKey(name));
    keys.push_back(AlertKey(1, name));
    keys.push_back(RankKey(1, 2, 3, name));
    keys.push_back(SeriesRowKey(1, {"a", 0, model::Unit::kTensor, 0, name}));
    keys.push_back(EventKey(1, 5, 1, 6, name, "b"));
    keys.push_back(EventKey(1, 5, 1, 6, "b", name));
  }
  keys.push_back(FormatKey());
  keys.push_back(SilencesKey());
  keys.push_back(AttemptKey(1, 2));
  keys.push_back(RetentionKey(1, 2));
  keys.push_back(CoactivationKey(1, 2, 3));
  keys.push_back(JudgingKey(1));
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (size_t i = 1; i < keys.size(); ++i) {
    EXPECT_NE(keys[i].substr(0, keys[i - 1].size()), keys[i - 1]);
  }
}

TEST(KeyCodecTest, DecodersRefuseEveryTruncationAndAByteTooMany) {
  const std::string head = HeadKey({1, 2, 3});
  const std::string chunk = ChunkKey({1, 2, 3, Window::Of(256, 8)});
  const std::string report = ReportKey({1, 2, 3, 4, std::string("a\0b", 3), 5});
  const std::string run = RunKey(std::string("a\0b", 3));
  const std::string series = SeriesRowKey(1, {"attn.a", 2, model::Unit::kTensor, 3, "wq"});
  struct Case {
    const char* name;
    std::string key;
    bool (*decode)(absl::string_view);
  };
  const Case cases[] = {
      {"head", head,
       [](absl::string_view key) {
         HeadId id;
         return DecodeHeadKey(key, &id);
       }},
      {"chunk", chunk,
       [](absl::string_view key) {
         ChunkId id;
         return DecodeChunkKey(key, &id);
       }},
      {"report", report,
       [](absl::string_view key) {
         ReportId id;
         return DecodeReportKey(key, &id);
       }},
      {"run", run,
       [](absl::string_view key) {
         std::string name;
         return DecodeRunKey(key, &name);
       }},
      {"series", series,
       [](absl::string_view key) {
         uint32_t run_id = 0;
         model::SeriesKey id;
         return DecodeSeriesRowKey(key, &run_id, &id);
       }},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(c.decode(c.key)) << c.name;
    for (size_t length = 0; length < c.key.size(); ++length) {
      EXPECT_FALSE(c.decode(absl::string_view(c.key).substr(0, length))) << c.name << length;
    }
    for (const char extra : {'\x00', '\x01', '\xff'}) {
      EXPECT_FALSE(c.decode(c.key + extra)) << c.name;
    }
  }
}

TEST(KeyCodecTest, DecodersRefuseOtherKindsBadEscapesAndUnknownUnits) {
  std::string name;
  EXPECT_FALSE(DecodeRunKey(std::string("\0\0\0\1R\0\1", 7), &name));   // of run 1
  EXPECT_FALSE(DecodeRunKey(std::string("\0\0\0\0Ra\0\2", 8), &name));  // 00 02
  model::SeriesKey series{"a", 0, model::Unit::kHead, 0, ""};
  std::string key = SeriesRowKey(1, series);
  const size_t unit_at = 5 + 3 + 4;
  uint32_t run = 0;
  for (const char unit : {'\x00', '\x07', '\xff'}) {
    key[unit_at] = unit;
    EXPECT_FALSE(DecodeSeriesRowKey(key, &run, &series)) << int{unit};
  }
}

TEST(KeyCodecTest, AScanByPrefixCoversExactlyItsKeys) {
  for (const uint32_t run : {1u, 255u, 0xffffffu}) {
    const std::string begin = RunPrefix(run);
    const std::string end = PrefixEnd(begin);
    EXPECT_LE(begin, HeadKey({run, 0, 0}));
    EXPECT_GT(end, HeadKey({run, ~0u, ~uint64_t{0}}));
    EXPECT_LE(end, HeadKey({run + 1, 0, 0}));
  }
  const std::string prefix = SeriesPrefix(1, "attn.");
  EXPECT_THAT(SeriesRowKey(1, {"attn.a", 0, model::Unit::kNone, 0, ""}),
              ::testing::StartsWith(prefix));
  EXPECT_LT(SeriesRowKey(1, {"attn", 9, model::Unit::kNone, 0, ""}), prefix);
  EXPECT_GE(SeriesRowKey(1, {"attn/", 0, model::Unit::kNone, 0, ""}), PrefixEnd(prefix));
  EXPECT_EQ(PrefixEnd(std::string("a\xff\xff", 3)), "b");
  EXPECT_EQ(PrefixEnd("\xff\xff"), "");
}

}  // namespace
}  // namespace foreshock::store
