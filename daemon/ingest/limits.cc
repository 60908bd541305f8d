#include "daemon/ingest/limits.h"

namespace foreshock::ingest {

v1::Limits ToProto(const IngestLimits& limits) {
  v1::Limits out;
  out.set_message_bytes_max(limits.message_bytes_max);
  out.set_summaries_per_report_max(limits.summaries_per_report_max);
  out.set_scalars_per_stream_max(limits.scalars_per_stream_max);
  out.set_tensors_per_stream_max(limits.tensors_per_stream_max);
  return out;
}

}  // namespace foreshock::ingest
