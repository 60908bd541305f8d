#include "daemon/ingest/ingest_stats.h"

namespace foreshock::ingest {

IngestCounts IngestStats::Snapshot() const {
  const auto read = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
  IngestCounts out;
  out.streams_open = read(streams_open);
  out.streams_total = read(streams_total);
  out.reports = read(reports);
  out.reports_rejected = read(reports_rejected);
  out.summaries = read(summaries);
  out.bytes = read(bytes);
  out.bytes_in_flight = read(bytes_in_flight);
  out.duplicates = read(duplicates);
  out.submit_retries = read(submit_retries);
  for (size_t i = 0; i < kStatusCodes; ++i) out.summaries_rejected[i] = read(summaries_rejected[i]);
  for (size_t i = 0; i < kRefusals; ++i) out.refused[i] = read(refused[i]);
  return out;
}

}  // namespace foreshock::ingest
