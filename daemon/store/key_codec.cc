#include "daemon/store/key_codec.h"

namespace foreshock::store {
namespace {

constexpr char kEscape = '\x00';
constexpr char kEscapedZero = '\xff';
constexpr char kEnd = '\x01';

class KeyWriter {
 public:
  KeyWriter& U8(uint8_t value) {
    key_.push_back(static_cast<char>(value));
    return *this;
  }
  KeyWriter& Kind(RowKind kind) { return U8(static_cast<uint8_t>(kind)); }
  KeyWriter& U32(uint32_t value) { return BigEndian(value, 4); }
  KeyWriter& U64(uint64_t value) { return BigEndian(value, 8); }
  KeyWriter& I32(int32_t value) { return U32(static_cast<uint32_t>(value) ^ (1u << 31)); }
  KeyWriter& I64(int64_t value) { return U64(static_cast<uint64_t>(value) ^ (uint64_t{1} << 63)); }
  // Writes `text` escaped but without its end: all strings that start with `text` start with this.
  KeyWriter& StringPrefix(absl::string_view text) {
    for (const char c : text) {
      key_.push_back(c);
      if (c == kEscape) key_.push_back(kEscapedZero);
    }
    return *this;
  }
  KeyWriter& String(absl::string_view text) {
    StringPrefix(text);
    key_.push_back(kEscape);
    key_.push_back(kEnd);
    return *this;
  }
  std::string Take() { return std::move(key_); }

 private:
  KeyWriter& BigEndian(uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
      key_.push_back(static_cast<char>(value >> shift));
    }
    return *this;
  }

  std::string key_;
};

class KeyReader {
 public:
  explicit KeyReader(absl::string_view key) : rest_(key) {}

  bool U8(uint8_t* value) {
    uint64_t wide = 0;
    if (!BigEndian(1, &wide)) return false;
    *value = static_cast<uint8_t>(wide);
    return true;
  }
  bool Kind(RowKind kind) {
    uint8_t value = 0;
    return U8(&value) && value == static_cast<uint8_t>(kind);
  }
  bool U32(uint32_t* value) {
    uint64_t wide = 0;
    if (!BigEndian(4, &wide)) return false;
    *value = static_cast<uint32_t>(wide);
    return true;
  }
  bool U64(uint64_t* value) { return BigEndian(8, value); }
  bool I32(int32_t* value) {
    uint32_t flipped = 0;
    if (!U32(&flipped)) return false;
    *value = static_cast<int32_t>(flipped ^ (1u << 31));
    return true;
  }
  bool I64(int64_t* value) {
    uint64_t flipped = 0;
    if (!U64(&flipped)) return false;
    *value = static_cast<int64_t>(flipped ^ (uint64_t{1} << 63));
    return true;
  }
  bool String(std::string* text) {
    text->clear();
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] != kEscape) {
        text->push_back(rest_[i]);
        continue;
      }
      if (++i == rest_.size()) return false;
      if (rest_[i] == kEnd) {
        rest_.remove_prefix(i + 1);
        return true;
      }
      if (rest_[i] != kEscapedZero) return false;
      text->push_back(kEscape);
    }
    return false;
  }
  bool AtEnd() const { return rest_.empty(); }

 private:
  bool BigEndian(size_t bytes, uint64_t* value) {
    if (rest_.size() < bytes) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      *value = *value << 8 | static_cast<uint8_t>(rest_[i]);
    }
    rest_.remove_prefix(bytes);
    return true;
  }

  absl::string_view rest_;
};

KeyWriter Row(uint32_t run, RowKind kind) { return KeyWriter().U32(run).Kind(kind); }

bool IsUnit(uint8_t value) {
  return value >= static_cast<uint8_t>(model::Unit::kNone) &&
         value <= static_cast<uint8_t>(model::Unit::kTensor);
}

}  // namespace

std::string FormatKey() { return Row(kStoreRun, RowKind::kFormat).Take(); }

std::string RunKey(absl::string_view name) {
  return Row(kStoreRun, RowKind::kRun).String(name).Take();
}

std::string SilencesKey() { return Row(kStoreRun, RowKind::kSilences).Take(); }

std::string AttemptKey(uint32_t run, uint32_t attempt) {
  return Row(run, RowKind::kAttempt).U32(attempt).Take();
}

std::string RankKey(uint32_t run, uint32_t attempt, uint32_t rank,
                    absl::string_view client_instance) {
  return Row(run, RowKind::kRank).U32(attempt).U32(rank).String(client_instance).Take();
}

std::string AlertKey(uint32_t run, absl::string_view alert_id) {
  return Row(run, RowKind::kAlert).String(alert_id).Take();
}

std::string EventKey(uint32_t run, int64_t step, uint32_t attempt, uint32_t kind,
                     absl::string_view name, absl::string_view detail) {
  KeyWriter key = Row(run, RowKind::kEvent);
  return key.I64(step).U32(attempt).U32(kind).String(name).String(detail).Take();
}

std::string CoactivationKey(uint32_t run, uint32_t attempt, uint32_t layer) {
  return Row(run, RowKind::kCoactivation).U32(attempt).U32(layer).Take();
}

std::string JudgingKey(uint32_t run) { return Row(run, RowKind::kJudging).Take(); }

std::string RetentionKey(uint32_t run, uint32_t attempt) {
  return Row(run, RowKind::kRetention).U32(attempt).Take();
}

std::string SeriesRowKey(uint32_t run, const model::SeriesKey& series) {
  return Row(run, RowKind::kSeries)
      .String(series.indicator)
      .I32(series.layer)
      .U8(static_cast<uint8_t>(series.unit))
      .I64(series.unit_id)
      .String(series.unit_name)
      .Take();
}

std::string ReportKey(const ReportId& id) {
  return KeyWriter()
      .U32(id.run)
      .U32(id.attempt)
      .I64(id.step)
      .U32(id.rank)
      .String(id.client_instance)
      .U64(id.seq)
      .Take();
}

std::string HeadKey(const HeadId& id) {
  return KeyWriter().U32(id.run).U32(id.attempt).U64(id.seq).Take();
}

std::string ChunkBoundary(uint32_t run, uint32_t series, uint32_t attempt, int64_t last) {
  return KeyWriter().U32(run).U32(series).U32(attempt).I64(last).Take();
}

std::string ChunkKey(const ChunkId& id) {
  std::string key = ChunkBoundary(id.run, id.series, id.attempt, id.window.last());
  key.push_back(static_cast<char>(id.window.exponent));
  return key;
}

bool DecodeRunOfKey(absl::string_view key, uint32_t* run) {
  KeyReader reader(key);
  return reader.U32(run) && !reader.AtEnd();
}

bool DecodeAttemptOfKey(absl::string_view key, uint32_t* attempt) {
  KeyReader reader(key);
  uint32_t run = 0;
  uint8_t kind = 0;
  return reader.U32(&run) && reader.U8(&kind) && reader.U32(attempt);
}

bool DecodeRunKey(absl::string_view key, std::string* name) {
  KeyReader reader(key);
  uint32_t run = 0;
  return reader.U32(&run) && run == kStoreRun && reader.Kind(RowKind::kRun) &&
         reader.String(name) && reader.AtEnd();
}

bool DecodeSeriesRowKey(absl::string_view key, uint32_t* run, model::SeriesKey* series) {
  KeyReader reader(key);
  uint8_t unit = 0;
  if (!(reader.U32(run) && reader.Kind(RowKind::kSeries) && reader.String(&series->indicator) &&
        reader.I32(&series->layer) && reader.U8(&unit) && reader.I64(&series->unit_id) &&
        reader.String(&series->unit_name) && reader.AtEnd() && IsUnit(unit))) {
    return false;
  }
  series->unit = static_cast<model::Unit>(unit);
  return true;
}

bool DecodeReportKey(absl::string_view key, ReportId* id) {
  KeyReader reader(key);
  return reader.U32(&id->run) && reader.U32(&id->attempt) && reader.I64(&id->step) &&
         reader.U32(&id->rank) && reader.String(&id->client_instance) && reader.U64(&id->seq) &&
         reader.AtEnd();
}

bool DecodeHeadKey(absl::string_view key, HeadId* id) {
  KeyReader reader(key);
  return reader.U32(&id->run) && reader.U32(&id->attempt) && reader.U64(&id->seq) && reader.AtEnd();
}

bool DecodeChunkKey(absl::string_view key, ChunkId* id) {
  KeyReader reader(key);
  int64_t last = 0;
  if (!(reader.U32(&id->run) && reader.U32(&id->series) && reader.U32(&id->attempt) &&
        reader.I64(&last) && reader.U8(&id->window.exponent) && reader.AtEnd() &&
        id->window.exponent <= Window::kExponentMax)) {
    return false;
  }
  id->window = Window::Of(last, id->window.exponent);
  return id->window.last() == last;
}

std::string RunPrefix(uint32_t run) { return KeyWriter().U32(run).Take(); }

std::string KindPrefix(uint32_t run, RowKind kind) { return Row(run, kind).Take(); }

std::string KindPrefix(uint32_t run, RowKind kind, uint32_t attempt) {
  return Row(run, kind).U32(attempt).Take();
}

std::string SeriesPrefix(uint32_t run, absl::string_view indicator_prefix) {
  return Row(run, RowKind::kSeries).StringPrefix(indicator_prefix).Take();
}

std::string OpenPrefix(uint32_t run, uint32_t attempt) {
  return KeyWriter().U32(run).U32(attempt).Take();
}

std::string OpenPrefix(uint32_t run, uint32_t attempt, int64_t step) {
  return KeyWriter().U32(run).U32(attempt).I64(step).Take();
}

std::string HeadPrefix(uint32_t run, uint32_t attempt) {
  return KeyWriter().U32(run).U32(attempt).Take();
}

std::string ChunkPrefix(uint32_t run, uint32_t series, uint32_t attempt) {
  return KeyWriter().U32(run).U32(series).U32(attempt).Take();
}

std::string PrefixEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<uint8_t>(prefix.back()) + 1);
  return prefix;
}

}  // namespace foreshock::store
