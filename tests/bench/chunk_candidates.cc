// The candidates for the store's chunks, side by side on the points of captures: the numbers of
// docs/adr/0010-chunk-codec.md.
//
//   chunk_candidates [--declared] CAPTURE...
//
// --declared rounds the values to the catalogue's precision first. Chunks are those of a run that
// is over: dyadic windows of at most 1024 points. "alone" is the rows themselves, "stored" the
// table files of a RocksDB that was filled and compacted, with a key of 21 bytes and a checksum of
// 4 each. Times are processor time; flags and steps go through the same columns except for
// Gorilla's.
#include <zstd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/backtest/capture_steps.h"
#include "daemon/base/check.h"
#include "daemon/store/bit_stream.h"
#include "daemon/store/bytes.h"
#include "daemon/store/chunk_codec.h"
#include "daemon/store/int_column.h"
#include "daemon/store/rounding.h"
#include "daemon/store/row_codec.h"
#include "rocksdb/db.h"
#include "rocksdb/table.h"
#include "tests/support/temp_dir.h"

namespace foreshock::bench {
namespace {

constexpr size_t kPointsMax = 1024;

struct Chunk {
  std::string key;
  model::Storage storage = model::Storage::kF32;
  int64_t start = 0;
  std::vector<store::ChunkPoint> points;
};
using Column = std::vector<int64_t>;

class Collector : public backtest::StepSink {
 public:
  explicit Collector(bool declared) : declared_(declared) {}
  void BeginAttempt(const std::string&, const v1::ModelShape&,
                    const rules::AttemptStart&) override {}
  void OnStep(const model::ClosedStep& step) override {
    for (const model::Sample& sample : step.samples) {
      const std::string& id = sample.series.indicator;
      const double value =
          declared_ ? store::RoundTo(model::PrecisionOf(id), sample.value) : sample.value;
      series_[{sample.series, step.row.attempt}].push_back(
          {step.row.step, store::Kept(model::StorageOf(id), value), sample.flags});
    }
  }

  void AppendChunks(uint32_t run, std::vector<Chunk>* chunks) const {
    uint32_t number = 0;
    for (const auto& [series, points] : series_) {
      std::string key;
      for (const uint32_t part : {run, ++number, series.second}) PutBigEndian(part, 4, &key);
      Split(key, model::StorageOf(series.first.indicator), 0, 32, points, chunks);
    }
  }

 private:
  static void PutBigEndian(uint64_t value, int bytes, std::string* out) {
    for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
  }
  static void Split(const std::string& key, model::Storage storage, int64_t start, int exponent,
                    absl::Span<const store::ChunkPoint> points, std::vector<Chunk>* chunks) {
    if (points.empty()) return;
    if (points.size() > kPointsMax) {
      const int64_t middle = start + (int64_t{1} << (exponent - 1));
      size_t left = 0;
      while (left < points.size() && points[left].step < middle) ++left;
      Split(key, storage, start, exponent - 1, points.first(left), chunks);
      Split(key, storage, middle, exponent - 1, points.subspan(left), chunks);
      return;
    }
    Chunk chunk{key, storage, start, {points.begin(), points.end()}};
    PutBigEndian(static_cast<uint64_t>(start) ^ (uint64_t{1} << 63), 8, &chunk.key);
    PutBigEndian(static_cast<uint64_t>(exponent), 1, &chunk.key);
    chunks->push_back(std::move(chunk));
  }

  const bool declared_;
  std::map<std::pair<model::SeriesKey, uint32_t>, std::vector<store::ChunkPoint>> series_;
};

// What the others do with values: their bits as float32, or as doubles where one does not fit.
int WordBytes(const Chunk& chunk) {
  for (const store::ChunkPoint& point : chunk.points) {
    if (store::StoredAs(model::Storage::kF32, point.value) != model::Storage::kF32) return 8;
  }
  return 4;
}
uint64_t ToWord(int bytes, double value) {
  return bytes == 4 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                    : std::bit_cast<uint64_t>(value);
}
double FromWord(int bytes, uint64_t word) {
  return bytes == 4 ? std::bit_cast<float>(static_cast<uint32_t>(word))
                    : std::bit_cast<double>(word);
}

// Count, word size, steps and flags; then `values` adds the words.
std::string Frame(const Chunk& chunk, const std::function<void(int, std::string*)>& values) {
  std::string row;
  const int bytes = WordBytes(chunk);
  store::PutVarint(chunk.points.size(), &row);
  store::PutFixed(static_cast<uint64_t>(bytes), 1, &row);
  Column steps;
  Column flags;
  for (const store::ChunkPoint& point : chunk.points) {
    steps.push_back(point.step - chunk.start);
    flags.push_back(point.flags);
  }
  store::PutColumn(steps, &row);
  store::PutColumn(flags, &row);
  values(bytes, &row);
  return row;
}

void Unframe(absl::string_view row, int64_t start, std::vector<store::ChunkPoint>* points,
             const std::function<void(int, absl::string_view, std::vector<uint64_t>*)>& values) {
  uint64_t count = 0;
  uint64_t bytes = 0;
  FORESHOCK_CHECK(store::TakeVarint(store::kU32Max, &row, &count) &&
                  store::TakeFixed(1, &row, &bytes));
  Column steps(count);
  Column flags(count);
  FORESHOCK_CHECK(store::TakeColumn(&row, absl::MakeSpan(steps)) &&
                  store::TakeColumn(&row, absl::MakeSpan(flags)));
  std::vector<uint64_t> words(count);
  values(static_cast<int>(bytes), row, &words);
  for (size_t i = 0; i < count; ++i) {
    points->push_back({start + steps[i], FromWord(static_cast<int>(bytes), words[i]),
                       static_cast<uint32_t>(flags[i])});
  }
}

// (a) Gorilla: the difference of the differences of steps, XOR of values with a window of bits.
std::string EncodeGorilla(const Chunk& chunk) {
  std::string row;
  const int bytes = WordBytes(chunk);
  const int size_bits = bytes == 4 ? 5 : 6;
  store::PutVarint(chunk.points.size(), &row);
  store::PutFixed(static_cast<uint64_t>(bytes), 1, &row);
  Column flags;
  for (const store::ChunkPoint& point : chunk.points) flags.push_back(point.flags);
  store::PutColumn(flags, &row);
  store::BitWriter bits(&row);
  int64_t step = chunk.start;
  int64_t difference = 0;
  uint64_t word = 0;
  int leading = -1;
  int trailing = 0;
  for (const store::ChunkPoint& point : chunk.points) {
    const int64_t change = point.step - step - difference;
    difference += change;
    step = point.step;
    const uint64_t zigzag = store::ZigZag(change);
    if (zigzag == 0) {
      bits.Put(0, 1);
    } else {
      bits.Put(zigzag < 128 ? 1 : 3, 2);
      bits.Put(zigzag, zigzag < 128 ? 7 : 32);
    }
    const uint64_t next = ToWord(bytes, point.value);
    const uint64_t changed = word ^ next;
    word = next;
    bits.Put(changed != 0 ? 1 : 0, 1);
    if (changed == 0) continue;
    const int lead = std::countl_zero(changed) - (64 - 8 * bytes);
    const int trail = std::countr_zero(changed);
    const bool same_window = leading >= 0 && lead >= leading && trail >= trailing;
    bits.Put(same_window ? 0 : 1, 1);
    if (!same_window) {
      leading = lead;
      trailing = trail;
      bits.Put(static_cast<uint64_t>(leading), size_bits);
      bits.Put(static_cast<uint64_t>(8 * bytes - leading - trailing - 1), size_bits);
    }
    const int width = 8 * bytes - leading - trailing;
    bits.Put((changed >> trailing) & store::kU32Max, std::min(width, 32));
    if (width > 32) bits.Put(changed >> trailing >> 32, width - 32);
  }
  bits.Finish();
  return row;
}

uint64_t Take(int count, store::BitReader* bits) {
  const uint64_t value = bits->Peek() & ((uint64_t{1} << count) - 1);
  bits->Skip(count);
  return value;
}

void DecodeGorilla(const Chunk& chunk, absl::string_view row,
                   std::vector<store::ChunkPoint>* points) {
  uint64_t count = 0;
  uint64_t bytes = 0;
  FORESHOCK_CHECK(store::TakeVarint(store::kU32Max, &row, &count) &&
                  store::TakeFixed(1, &row, &bytes));
  Column flags(count);
  FORESHOCK_CHECK(store::TakeColumn(&row, absl::MakeSpan(flags)));
  const int size_bits = bytes == 4 ? 5 : 6;
  store::BitReader bits(row);
  int64_t step = chunk.start;
  int64_t difference = 0;
  uint64_t word = 0;
  int width = 0;
  int trailing = 0;
  for (size_t i = 0; i < count; ++i) {
    if (Take(1, &bits) != 0)
      difference += store::UnZigZag(Take(Take(1, &bits) != 0 ? 32 : 7, &bits));
    step += difference;
    if (Take(1, &bits) != 0) {
      if (Take(1, &bits) != 0) {
        const auto leading = static_cast<int>(Take(size_bits, &bits));
        width = static_cast<int>(Take(size_bits, &bits)) + 1;
        trailing = static_cast<int>(8 * bytes) - leading - width;
      }
      uint64_t changed = Take(std::min(width, 32), &bits);
      if (width > 32) changed |= Take(width - 32, &bits) << 32;
      word ^= changed << trailing;
    }
    points->push_back(
        {step, FromWord(static_cast<int>(bytes), word), static_cast<uint32_t>(flags[i])});
  }
}

// (b), (c) The bytes of the words, plane by plane.
std::string Planes(const Chunk& chunk, int bytes) {
  std::string planes(chunk.points.size() * static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < chunk.points.size(); ++i) {
    const uint64_t word = ToWord(bytes, chunk.points[i].value);
    for (int b = 0; b < bytes; ++b) {
      planes[static_cast<size_t>(b) * chunk.points.size() + i] = static_cast<char>(word >> (8 * b));
    }
  }
  return planes;
}

void FromPlanes(int bytes, absl::string_view planes, std::vector<uint64_t>* words) {
  for (size_t i = 0; i < words->size(); ++i) {
    for (int b = 0; b < bytes; ++b) {
      const auto byte = static_cast<uint8_t>(planes[static_cast<size_t>(b) * words->size() + i]);
      (*words)[i] |= static_cast<uint64_t>(byte) << (8 * b);
    }
  }
}

std::string EncodePlanes(const Chunk& chunk) {
  return Frame(chunk, [&](int bytes, std::string* row) { *row += Planes(chunk, bytes); });
}

void DecodePlanes(const Chunk& chunk, absl::string_view row,
                  std::vector<store::ChunkPoint>* points) {
  Unframe(row, chunk.start, points, FromPlanes);
}

std::string EncodeZstd(const Chunk& chunk) {
  return Frame(chunk, [&](int bytes, std::string* row) {
    const std::string planes = Planes(chunk, bytes);
    std::string packed(ZSTD_compressBound(planes.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), planes.data(), planes.size(), 3));
    *row += packed;
  });
}

void DecodeZstd(const Chunk& chunk, absl::string_view row, std::vector<store::ChunkPoint>* points) {
  Unframe(row, chunk.start, points,
          [](int bytes, absl::string_view in, std::vector<uint64_t>* words) {
            std::string planes(words->size() * static_cast<size_t>(bytes), '\0');
            FORESHOCK_CHECK(ZSTD_decompress(planes.data(), planes.size(), in.data(), in.size()) ==
                            planes.size());
            FromPlanes(bytes, planes, words);
          });
}

// (d) Differences of order-mapped bits, in blocks of 64 values of one width each.
constexpr size_t kBlock = 64;

std::string EncodeBlocks(const Chunk& chunk) {
  return Frame(chunk, [&](int bytes, std::string* row) {
    std::vector<uint64_t> residuals;
    uint64_t last = 0;
    for (const store::ChunkPoint& point : chunk.points) {
      const uint64_t word = ToWord(bytes, point.value);
      const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
      const uint64_t mapped = (word & sign) != 0 ? ~(word ^ sign) : word;
      residuals.push_back(store::ZigZag(static_cast<int64_t>(mapped - last)));
      last = mapped;
    }
    store::BitWriter bits(row);
    for (size_t begin = 0; begin < residuals.size(); begin += kBlock) {
      const auto block = absl::MakeSpan(residuals).subspan(begin, kBlock);
      uint64_t any = 0;
      for (const uint64_t residual : block) any |= residual;
      const int width = std::bit_width(any);
      bits.Put(static_cast<uint64_t>(width), 7);
      for (const uint64_t residual : block) {
        bits.Put(residual & store::kU32Max, std::min(width, 32));
        if (width > 32) bits.Put(residual >> 32, width - 32);
      }
    }
    bits.Finish();
  });
}

void DecodeBlocks(const Chunk& chunk, absl::string_view row,
                  std::vector<store::ChunkPoint>* points) {
  Unframe(row, chunk.start, points,
          [](int bytes, absl::string_view in, std::vector<uint64_t>* words) {
            store::BitReader bits(in);
            uint64_t mapped = 0;
            int width = 0;
            for (size_t i = 0; i < words->size(); ++i) {
              if (i % kBlock == 0) width = static_cast<int>(Take(7, &bits));
              uint64_t residual = Take(std::min(width, 32), &bits);
              if (width > 32) residual |= Take(width - 32, &bits) << 32;
              mapped += static_cast<uint64_t>(store::UnZigZag(residual));
              const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
              (*words)[i] = static_cast<int64_t>(mapped) < 0 ? (~mapped) | sign : mapped;
            }
          });
}

// (e) What the store does.
std::string EncodeOurs(const Chunk& chunk) {
  return store::EncodeChunk(chunk.storage, chunk.start, chunk.points);
}
void DecodeOurs(const Chunk& chunk, absl::string_view row, std::vector<store::ChunkPoint>* points) {
  FORESHOCK_CHECK(store::DecodeChunk(row, chunk.start, points));
}

struct Candidate {
  const char* name;
  std::string (*encode)(const Chunk&);
  void (*decode)(const Chunk&, absl::string_view, std::vector<store::ChunkPoint>*);
};
constexpr Candidate kCandidates[] = {
    {"(a) Gorilla XOR", EncodeGorilla, DecodeGorilla},
    {"(b) byte planes, zstd per chunk", EncodeZstd, DecodeZstd},
    {"(c) byte planes, zstd by block", EncodePlanes, DecodePlanes},
    {"(d) differences, blocks of 64", EncodeBlocks, DecodeBlocks},
    {"(e) fractions, predictor, Rice", EncodeOurs, DecodeOurs},
};

double StoredBytes(const std::vector<Chunk>& chunks, const std::vector<std::string>& rows) {
  support::TempDir directory;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kZSTD;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 16 << 10;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* raw = nullptr;
  FORESHOCK_CHECK(rocksdb::DB::Open(options, directory.File("db"), &raw).ok());
  const std::unique_ptr<rocksdb::DB> db(raw);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const uint64_t checksum = std::hash<std::string>()(rows[i]);  // as hard to compress as one
    std::string value = rows[i];
    store::PutFixed(checksum & store::kU32Max, 4, &value);
    FORESHOCK_CHECK(db->Put({}, chunks[i].key, value).ok());
  }
  FORESHOCK_CHECK(db->Flush({}).ok() && db->CompactRange({}, nullptr, nullptr).ok());
  uint64_t bytes = 0;
  FORESHOCK_CHECK(db->GetIntProperty("rocksdb.live-sst-files-size", &bytes));
  return static_cast<double>(bytes);
}

double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void Measure(const Candidate& candidate, const std::vector<Chunk>& chunks, double points) {
  std::vector<std::string> rows;
  const double begin = Seconds();
  for (const Chunk& chunk : chunks) rows.push_back(candidate.encode(chunk));
  const double encoded = Seconds();
  std::vector<store::ChunkPoint> back;
  constexpr int kRounds = 3;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < chunks.size(); ++i) {
      back.clear();
      candidate.decode(chunks[i], rows[i], &back);
    }
  }
  const double decoded = Seconds();
  double bytes = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    back.clear();
    candidate.decode(chunks[i], rows[i], &back);
    FORESHOCK_CHECK(back == chunks[i].points);
    bytes += static_cast<double>(rows[i].size());
  }
  std::printf("%-34s %6.3f %8.3f %8.1f %8.1f\n", candidate.name, bytes / points,
              StoredBytes(chunks, rows) / points, points / (encoded - begin) / 1e6,
              kRounds * points / (decoded - encoded) / 1e6);
}

void Main(int argc, char** argv) {
  const bool declared = argc > 1 && absl::string_view(argv[1]) == "--declared";
  std::vector<Chunk> chunks;
  for (int i = declared ? 2 : 1; i < argc; ++i) {
    Collector collector(declared);
    const auto totals = backtest::ReadCaptureSteps(argv[i], nullptr, &collector);
    if (!totals.ok()) std::fprintf(stderr, "%s\n", totals.status().ToString().c_str());
    collector.AppendChunks(static_cast<uint32_t>(i), &chunks);
  }
  double points = 0;
  for (const Chunk& chunk : chunks) points += static_cast<double>(chunk.points.size());
  std::printf("%.0f points in %zu chunks%s\n%-34s %6s %8s %8s %8s\n", points, chunks.size(),
              declared ? ", declared precision" : "", "bytes and million points/s", "alone",
              "stored", "encode", "decode");
  for (const Candidate& candidate : kCandidates) Measure(candidate, chunks, points);
}

}  // namespace
}  // namespace foreshock::bench

int main(int argc, char** argv) {
  foreshock::store::Main(argc, argv);
  return 0;
}
